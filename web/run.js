// SPDX-License-Identifier: Apache-2.0
// One answer under way: asks the server, puts what comes into the message, and saves it now and then.
import {chat, Fault} from "./api.js";
import {requestFields} from "./settings.js";
import {asTurn} from "./thread.js";

const SAVE_MS = 2000;

export class Run {
    #controller = new AbortController();
    #save;
    #savedAt = 0;
    #startedAt = performance.now();
    #firstAt = 0;
    #thinkingAt = 0; // since when it thinks; 0: it does not

    // `save(message)` stores it; `grow()` is called when the message has more text.
    constructor(thread, message, {save, grow}) {
        this.thread = thread;
        this.message = message;
        this.#save = save;
        this.grow = grow;
    }

    stop() {
        this.#controller.abort();
    }

    #body(settings, modelId, continues) {
        const messages = this.thread.turnsTo(this.message.parent);
        if (settings.system) {
            messages.unshift({role: "system", content: settings.system});
        }
        if (continues) {
            messages.push(asTurn(this.message)); // a last turn of the assistant is gone on with
        }
        return {...(modelId ? {model: modelId} : {}), messages, stream: true, stream_options: {include_usage: true},
                return_timings: true, return_progress: true, ...requestFields(settings)};
    }

    // Resolves when the message has its final state. Throws nothing.
    async go(settings, modelId, continues) {
        const message = this.message;
        const before = continues ? message.stats?.made ?? 0 : 0;
        message.state = "streaming";
        message.error = undefined;
        if (!continues) {
            message.content = "";
            message.reasoning = undefined;
            message.calls = undefined;
            message.thoughtMs = undefined;
        }
        this.#keep(true);
        try {
            for await (const chunk of chat(this.#body(settings, modelId, continues), this.#controller.signal)) {
                this.#take(chunk, before);
            }
            message.state = ["length", "repetition"].includes(message.finish) ? message.finish : "done";
        } catch (error) {
            this.#fail(error);
        }
        delete message.finish;
        delete message.progress;
        this.#thoughtUntilNow();
        await this.#keep(true);
    }

    #fail(error) {
        const message = this.message;
        if (this.#controller.signal.aborted) {
            message.state = "stopped";
        } else if (error instanceof Fault && error.kind === "lost" && message.content !== "") {
            message.state = "lost";
        } else {
            message.state = "error";
            message.error = error instanceof Fault ? {kind: error.kind, text: error.message}
                                                   : {kind: "server", text: String(error?.message ?? error)};
        }
    }

    #take(chunk, before) {
        const message = this.message;
        const choice = chunk.choices?.[0];
        message.model = typeof chunk.model === "string" ? chunk.model : message.model;
        message.progress = chunk.prompt_progress ?? message.progress;
        if (choice !== undefined) {
            const {content, reasoning_content: reasoning, tool_calls: calls} = choice.delta ?? {};
            if (content || reasoning || calls) {
                this.#firstAt ||= performance.now();
                delete message.progress;
            }
            if (content || calls) {
                this.#thoughtUntilNow();
            } else if (reasoning) {
                this.#thinkingAt ||= performance.now();
            }
            message.content += content ?? "";
            if (reasoning) {
                message.reasoning = (message.reasoning ?? "") + reasoning;
            }
            (calls ?? []).forEach(call => this.#takeCall(call));
            message.finish = choice.stop_reason === "repetition" ? "repetition" : choice.finish_reason ?? message.finish;
            this.grow();
            this.#keep(false);
        }
        if (chunk.usage) {
            this.#takeUsage(chunk, before);
        }
    }

    // How long it thought, all stretches together.
    #thoughtUntilNow() {
        if (this.#thinkingAt > 0) {
            this.message.thoughtMs = (this.message.thoughtMs ?? 0) + performance.now() - this.#thinkingAt;
            this.#thinkingAt = 0;
        }
    }

    #takeCall(call) {
        const calls = this.message.calls ??= [];
        const known = calls[call.index] ??= {id: "", name: "", arguments: ""};
        known.id += call.id ?? "";
        known.name += call.function?.name ?? "";
        known.arguments += call.function?.arguments ?? "";
    }

    // The server's own times; a server without them leaves those that are seen from here.
    #takeUsage({usage, timings}, before) {
        const made = usage.completion_tokens;
        const seconds = (performance.now() - this.#firstAt) / 1000;
        this.message.stats = {
            prompt: usage.prompt_tokens,
            cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
            made: before + made,
            perSecond: timings?.tokens_per_second ?? (made > 1 && seconds > 0 ? (made - 1) / seconds : 0),
            firstMs: timings?.first_token_ms ?? (this.#firstAt ? this.#firstAt - this.#startedAt : 0),
        };
    }

    async #keep(now) {
        if (now || performance.now() - this.#savedAt > SAVE_MS) {
            this.#savedAt = performance.now();
            this.message.touched = Date.now();
            const {progress, ...kept} = this.message;
            await this.#save(kept);
        }
    }
}
