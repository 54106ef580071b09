// SPDX-License-Identifier: Apache-2.0
// The server: relative addresses (a proxy may put it under a path), the key, and faults that say what to do.
import {EventParser} from "./sse.js";

const KEY = "whimbrel-key";

export class Fault extends Error {
    // kind: key, context, busy, loading, draining, gone, lost, refused, server
    constructor(kind, text, retryAfter = 0) {
        super(text);
        this.kind = kind;
        this.retryAfter = retryAfter;
    }
}

const where = path => new URL(path, document.baseURI);

function storage(kind) {
    try {
        return window[kind];
    } catch {
        return null; // blocked: the key then lives as long as the page
    }
}

let key = storage("sessionStorage")?.getItem(KEY) ?? storage("localStorage")?.getItem(KEY) ?? "";

export const hasKey = () => key !== "";

export function setKey(value, remember) {
    key = value;
    storage("sessionStorage")?.removeItem(KEY);
    storage("localStorage")?.removeItem(KEY);
    if (value !== "") {
        try {
            storage(remember ? "localStorage" : "sessionStorage")?.setItem(KEY, value);
        } catch {
            // full or blocked: it still works until the page is closed
        }
    }
}

const headers = extra => key === "" ? extra : {...extra, authorization: "Bearer " + key};

async function faultOf(response) {
    let error = {};
    try {
        error = (await response.json()).error ?? {};
    } catch {
        // a proxy's page; the status must do
    }
    const text = typeof error.message === "string" ? error.message : "";
    const wait = Number(response.headers.get("retry-after")) || 0;
    switch (response.status) {
    case 401:
        return new Fault("key", "This server asks for an API key, and the one sent is missing or wrong.");
    case 400:
        return error.code === "context_length_exceeded" ? new Fault("context", text) : new Fault("refused", text);
    case 413:
        return new Fault("refused", "The conversation is larger than the server accepts in one request. " + text);
    case 429:
    case 529:
        return new Fault("busy", "The server's queue is full.", wait);
    case 502:
    case 504:
        return new Fault("gone", "The proxy in front of the server cannot reach it.", wait);
    case 503:
        return error.code === "draining" ? new Fault("draining", "The server is stopping.", wait)
             : error.code === "model_loading" ? new Fault("loading", "The model is still loading.", wait)
             : new Fault("busy", text || "The server cannot answer now.", wait);
    default:
        return new Fault(response.status >= 500 ? "server" : "refused",
                         text || `The server answered ${response.status} without saying why.`);
    }
}

async function request(path, options) {
    let response;
    try {
        response = await fetch(where(path), {credentials: "same-origin", cache: "no-store", ...options});
    } catch (error) {
        if (options.signal?.aborted) {
            throw error;
        }
        throw new Fault("gone", "The server does not answer.");
    }
    return response;
}

// {status: "ready" | "loading" | "draining", progress}; throws a Fault when nobody answers.
export async function readiness() {
    const response = await request("readyz", {signal: AbortSignal.timeout(8000)}).catch(() => {
        throw new Fault("gone", "The server does not answer.");
    });
    try {
        const body = await response.json();
        if (typeof body.status === "string") {
            return body;
        }
    } catch {
        // not ours
    }
    throw new Fault("gone", "The server at this address is not whimbrel.");
}

// The entry of /v1/models.
export async function model() {
    const response = await request("v1/models", {headers: headers({})});
    if (!response.ok) {
        throw await faultOf(response);
    }
    return (await response.json()).data[0];
}

// How many tokens a text has.
export async function countTokens(text) {
    const response = await request("tokenize", {method: "POST", headers: headers({"content-type": "application/json"}),
                                                body: JSON.stringify({content: text})});
    if (!response.ok) {
        throw await faultOf(response);
    }
    return (await response.json()).count;
}

// The chunks of a chat completion. Ends after [DONE]; a stream that ends without it is a Fault "lost".
export async function* chat(body, signal) {
    const response = await request("v1/chat/completions", {
        method: "POST",
        headers: headers({"content-type": "application/json"}),
        body: JSON.stringify(body),
        signal,
    });
    if (!response.ok) {
        throw await faultOf(response);
    }
    const reader = response.body.getReader();
    const decoder = new TextDecoder("utf-8");
    const parser = new EventParser();
    try {
        for (;;) {
            let piece;
            try {
                piece = await reader.read();
            } catch (error) {
                throw signal.aborted ? error : new Fault("lost", "The connection to the server was lost.");
            }
            for (const data of parser.push(piece.done ? decoder.decode() + "\n\n"
                                                      : decoder.decode(piece.value, {stream: true}))) {
                if (data === "[DONE]") {
                    return;
                }
                const chunk = JSON.parse(data);
                if (chunk.error) {
                    throw new Fault("server", String(chunk.error.message ?? "The server stopped with an error."));
                }
                yield chunk;
            }
            if (piece.done) {
                throw new Fault("lost", "The connection to the server was lost.");
            }
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}
