// SPDX-License-Identifier: Apache-2.0
// A conversation is a tree: an edit or another answer is a sibling, and what is shown is the way to one leaf. No
// message ever changes its parent, so what two tabs add simply meets.
import {fileTurn} from "./attachments.js";

const byAge = (a, b) => a.created - b.created || (a.id < b.id ? -1 : 1);

export class Thread {
    messages = new Map();
    #children = new Map();

    constructor(chat, messages = []) {
        this.chat = chat;
        messages.forEach(message => this.add(message));
    }

    // Adds it, or takes its newer form.
    add(message) {
        const known = this.messages.get(message.id);
        if (known !== undefined) {
            Object.assign(known, message);
            return known;
        }
        this.messages.set(message.id, message);
        const siblings = this.#children.get(message.parent) ?? [];
        siblings.push(message);
        siblings.sort(byAge);
        this.#children.set(message.parent, siblings);
        return message;
    }

    childrenOf(id) {
        return this.#children.get(id) ?? [];
    }

    siblingsOf(message) {
        return this.childrenOf(message.parent);
    }

    // The newest leaf at or below a message (null: of all).
    leafBelow(id) {
        let at = id;
        for (let children; (children = this.childrenOf(at)).length > 0;) {
            at = children[children.length - 1].id;
        }
        return at;
    }

    // From the first message to the leaf that the chat shows.
    path() {
        const path = [];
        let at = this.messages.has(this.chat.leaf) ? this.chat.leaf : this.leafBelow(null);
        for (; at !== null && this.messages.has(at) && path.length < this.messages.size; at = path[0].parent) {
            path.unshift(this.messages.get(at));
        }
        return path;
    }

    // What the model is sent for an answer below `parent` (null: the first turn).
    turnsTo(parent) {
        const turns = [];
        for (let at = parent; at !== null && this.messages.has(at); at = this.messages.get(at).parent) {
            const turn = asTurn(this.messages.get(at));
            if (turn !== null) {
                turns.unshift(turn);
            }
        }
        return turns;
    }
}

// A message in the API's form, or null: an answer that failed before its first word is not part of the talk.
export function asTurn(message) {
    if (message.role === "tool") {
        return {role: "tool", tool_call_id: message.callId, content: message.content};
    }
    if (message.role === "user") {
        const texts = [...(message.files ?? []).map(fileTurn), ...(message.content === "" ? [] : [message.content])];
        return {role: "user", content: message.files?.length ? texts.map(text => ({type: "text", text})) : message.content};
    }
    if (!message.content && !message.calls?.length) {
        return null;
    }
    const turn = {role: "assistant", content: message.content};
    if (message.reasoning) {
        turn.reasoning_content = message.reasoning;
    }
    if (message.calls?.length) {
        turn.tool_calls = message.calls.map(call => ({
            id: call.id, type: "function", function: {name: call.name, arguments: call.arguments}}));
    }
    return turn;
}

// A title from the first words.
export function titleOf(text) {
    const line = text.trim().replace(/\s+/g, " ");
    const letters = Array.from(line);
    return letters.length > 60 ? letters.slice(0, 59).join("") + "\u2026" : line || "New chat";
}
