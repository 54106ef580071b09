// SPDX-License-Identifier: Apache-2.0
// One message: its text, reasoning, tool calls, what went wrong, numbers, and what can be done with it.
import {AnswerText} from "./answer_text.js";
import {chip} from "./attachments.js";
import {fit, isComposing, isSendKey} from "./composer.js";
import {copyButton, count, el, icon, iconButton} from "./util.js";

const NOTES = {
    stopped: "Stopped.",
    length: "The answer reached its token limit.",
    repetition: "The model was repeating itself, so the answer ends here.",
    lost: "The connection to the server was lost. The text so far is kept.",
};

const HELP = {
    key: "Enter the key, then try again.",
    context: "Start a new chat, edit an earlier message to make a shorter branch, or start the server with a larger --ctx.",
    busy: "Try again in a moment.",
    loading: "Try again when it is ready; the bar at the top shows its progress.",
    draining: "Try again when it is back.",
    gone: "Check that it runs (whimbrel serve, or make serve in its folder) and that this address is right, then try again.",
    refused: "Check the settings and the tools of this chat.",
    server: "Try again. If it happens again, look at the server's log.",
};

// What is said of a server that was not there, once the banner has other news of it.
const PAST = {
    gone: "The server did not answer then.",
    loading: "The model was still loading then.",
    draining: "The server was stopping then.",
};

const LONG_PROMPT = 256; // tokens, from which on one sees them being read

function spent(ms) {
    const seconds = Math.round(ms / 1000);
    return seconds < 1 ? "a moment" : seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function statsText(stats) {
    const parts = [`${count(stats.made)} tokens`];
    if (stats.perSecond > 0) {
        parts.push(`${stats.perSecond.toFixed(1)} tokens/s`);
    }
    if (stats.firstMs > 0) {
        parts.push(`first token ${(stats.firstMs / 1000).toFixed(2)} s`);
    }
    return parts.join(" \u00b7 ");
}

function pretty(json) {
    try {
        return JSON.stringify(JSON.parse(json), null, 2);
    } catch {
        return json;
    }
}

export class MessageView {
    #message;
    #actions; // what the page does: edit, regenerate, resume, select, giveResult, askKey
    #answer = null;
    #parts = {};
    #thoughts = null;
    #callsShown = "";

    constructor(message, actions) {
        this.#message = message;
        this.#actions = actions;
        const role = message.role;
        const name = {user: "You", assistant: "Assistant", tool: "Tool result"}[role];
        this.element = el("article", {class: "message is-" + role, "data-role": role, "data-id": message.id,
                                      "data-testid": "message", "aria-label": name, tabindex: "-1"});
        const parts = this.#parts;
        parts.reasoning = el("div", {class: "reasoning-slot"});
        parts.text = el("div", {class: role === "assistant" ? "prose" : "bubble", dir: "auto", "data-testid": "message-text"});
        parts.calls = el("div", {class: "calls"});
        parts.note = el("div", {class: "note-slot"});
        parts.foot = el("div", {class: "message-foot"});
        parts.files = el("ul", {class: "chips", "aria-label": "Files", hidden: true});
        parts.reading = el("div", {class: "reading", "data-testid": "reading", hidden: true});
        this.element.append(...role === "user" ? [parts.files] : [parts.reading, parts.reasoning], parts.text, parts.calls, parts.note, parts.foot);
        if (role === "assistant") {
            this.#answer = new AnswerText(parts.text);
        }
    }

    // Show the message as it is now. place: {index, total, isLast, canEdit}
    update(message, place, state) {
        this.#message = message;
        this.element.dataset.state = state;
        if (this.#answer === null) {
            this.#showPlain();
        } else {
            this.grow(state);
            this.#showCalls(place, state);
            this.#showNote(state, place.isLast);
        }
        this.#showFoot(place, state);
    }

    // More text came.
    grow(state) {
        const {content, reasoning} = this.#message;
        const isRunning = state === "streaming";
        this.#showReasoning(reasoning ?? "", isRunning && content === "");
        this.#answer.set(content, {done: !isRunning});
        const isWaiting = isRunning && content === "" && !reasoning;
        const isReading = isWaiting && this.#showReading(this.#message.progress);
        this.#parts.reading.hidden = !isReading;
        this.element.classList.toggle("is-waiting", isWaiting && !isReading);
        this.element.setAttribute("aria-busy", String(isRunning));
    }

    // How much of a prompt is read, where that takes a while; whether it is shown.
    #showReading(progress) {
        if (!(progress?.total - progress?.cache > LONG_PROMPT) || progress.processed >= progress.total) {
            return false;
        }
        const slot = this.#parts.reading;
        if (slot.firstChild === null) {
            slot.append(el("progress", {"aria-label": "Prompt read"}), el("span", {}));
        }
        slot.firstChild.max = progress.total;
        slot.firstChild.value = progress.processed;
        slot.lastChild.textContent = `Reading the prompt: ${count(progress.processed)} of ${count(progress.total)} tokens`;
        return true;
    }

    #showPlain() {
        const {files, content} = this.#message;
        if (files?.length && this.#parts.files.hidden) {
            this.#parts.files.hidden = false;
            this.#parts.files.append(...files.map(file => chip(file, () => this.#actions.showFile(file))));
        }
        this.#parts.text.hidden = content === "" && files?.length > 0;
        if (this.#parts.text.textContent !== this.#message.content) {
            this.#parts.text.textContent = this.#message.content;
        }
    }

    #showReasoning(text, isOpen) {
        const slot = this.#parts.reasoning;
        if (text === "") {
            slot.replaceChildren();
            this.#thoughts = null;
            return;
        }
        if (slot.firstChild === null) {
            const box = el("div", {class: "reasoning-text prose", dir: "auto"});
            slot.append(el("details", {class: "reasoning", "data-testid": "reasoning"},
                           el("summary", {}, icon("chevron"), el("span", {})), box));
            this.#thoughts = new AnswerText(box);
        }
        const {thoughtMs} = this.#message;
        slot.querySelector("summary span").textContent =
            isOpen ? "Thinking\u2026" : thoughtMs > 0 ? `Thought for ${spent(thoughtMs)}` : "Thoughts";
        slot.firstChild.classList.toggle("is-live", isOpen);
        this.#thoughts.set(text, {done: !isOpen});
    }

    #showCalls({isLast}, state) {
        const calls = this.#message.calls ?? [];
        const key = JSON.stringify([calls, isLast, state]);
        if (key === this.#callsShown) {
            return; // a result may be half written
        }
        this.#callsShown = key;
        const cards = calls.map(call =>
            el("details", {class: "call", "data-testid": "tool-call", open: true},
               el("summary", {}, icon("tool"), el("span", {}, "Calls "), el("code", {}, call.name)),
               el("pre", {tabindex: "0"}, el("code", {dir: "ltr"}, pretty(call.arguments)))));
        if (calls.length > 0 && isLast && state !== "streaming") {
            cards.push(this.#resultForm(calls));
        }
        this.#parts.calls.replaceChildren(...cards);
    }

    // This page runs no tools: the reader says what they gave.
    #resultForm(calls) {
        const boxes = calls.map(call => el("textarea", {rows: 2, class: "edit-box", "aria-label": "Result of " + call.name,
                                                        placeholder: "What " + call.name + " gave", "data-testid": "tool-result"}));
        return el("form", {class: "edit-form", onsubmit: event => {
            event.preventDefault();
            this.#actions.giveResults(this.#message, boxes.map(box => box.value));
        }}, ...boxes, el("div", {class: "edit-actions"},
                         el("button", {class: "button is-primary", "data-testid": "send-result"}, "Send result")));
    }

    // What goes on in its place is offered for the last message only: turns after it would be out of sight.
    #showNote(state, isLast) {
        const {error, content} = this.#message;
        const slot = this.#parts.note;
        const can = this.#actions;
        const button = (label, testid, action) => el("button", {type: "button", class: "button", "data-testid": testid,
                                                                 onclick: () => action(this.#message)}, label);
        if (state === "error" && error) {
            slot.replaceChildren(el("div", {class: "problem", role: "alert", "data-testid": "message-error", "data-kind": error.kind},
                el("p", {class: "now", dir: "auto"}, error.text), el("p", {class: "help now"}, HELP[error.kind] ?? ""),
                PAST[error.kind] ? el("p", {class: "past"}, PAST[error.kind]) : null,
                el("div", {class: "note-actions"},
                   error.kind === "key" ? button("Enter key", "enter-key", can.askKey) : null,
                   error.kind === "context" ? button("New chat", "new-chat-context", can.newChat) : null,
                   isLast || content !== "" ? button("Retry", "retry", can.retry) : null,
                   isLast && content !== "" ? button("Continue", "continue", can.resume) : null)));
        } else if (NOTES[state] !== undefined) {
            slot.replaceChildren(el("div", {class: "note", "data-testid": "message-note"}, el("span", {}, NOTES[state]),
                state === "lost" && (isLast || content !== "") ? button("Retry", "retry", can.retry) : null,
                state === "repetition" ? button("Regenerate", "retry", can.retry) // to go on would repeat it once more
                : isLast && content !== "" ? button("Continue", "continue", can.resume) : null));
        } else {
            slot.replaceChildren();
        }
    }

    #showFoot({index, total, isLast, canAct}, state) {
        const message = this.#message;
        const can = this.#actions;
        const foot = [];
        this.element.classList.toggle("is-last", isLast);
        if (total > 1) {
            foot.push(el("span", {class: "branches", role: "group", "aria-label": "Versions of this message"},
                iconButton("left", "Earlier version", () => can.select(message, -1),
                           {disabled: index === 0 || !canAct, "data-testid": "branch-prev"}),
                el("span", {"data-testid": "branch-count"}, `${index + 1}/${total}`),
                iconButton("right", "Later version", () => can.select(message, 1),
                           {disabled: index === total - 1 || !canAct, "data-testid": "branch-next"})));
        }
        if (state !== "streaming" && message.content !== "") {
            foot.push(copyButton("Copy message", () => message.content, {"data-testid": "copy-message"}));
        }
        if (message.role === "user") {
            foot.push(iconButton("edit", "Edit and branch", () => this.edit(), {disabled: !canAct, "data-testid": "edit"}));
        } else if (message.role === "assistant" && state !== "streaming" && !this.#parts.note.querySelector("[data-testid=retry]")) {
            foot.push(iconButton("redo", "Regenerate", () => can.regenerate(message),
                                 {disabled: !canAct, "data-testid": "regenerate"}));
        }
        if (message.stats?.made !== undefined && state !== "streaming") {
            const {prompt, cached} = message.stats;
            foot.push(el("span", {class: "stats", "data-testid": "stats",
                                  title: `prompt ${count(prompt ?? 0)} tokens, ${count(cached ?? 0)} of them cached` +
                                         (message.model ? `; ${message.model}` : "")}, statsText(message.stats)));
        }
        this.#parts.foot.replaceChildren(...foot);
    }

    // A box in place of the text; sending it makes a new branch.
    edit() {
        const {text, foot} = this.#parts;
        const box = el("textarea", {class: "edit-box", dir: "auto", "aria-label": "Edit the message", "data-testid": "edit-box"});
        const close = () => {
            form.remove();
            text.hidden = box.value === "" && this.#message.content === "";
            foot.hidden = false;
            this.#actions.focus();
        };
        const send = () => {
            if (box.value.trim() !== "" || this.#message.files?.length) {
                close();
                this.#actions.edit(this.#message, box.value);
            }
        };
        const form = el("form", {class: "edit-form", onsubmit: event => { event.preventDefault(); send(); }}, box,
            el("div", {class: "edit-actions"},
               el("button", {type: "button", class: "button", "data-testid": "edit-cancel", onclick: close}, "Cancel"),
               el("button", {class: "button is-primary", "data-testid": "edit-send"}, "Send")));
        box.value = this.#message.content;
        box.addEventListener("input", () => fit(box));
        box.addEventListener("keydown", event => {
            if (event.key === "Escape" && !isComposing(event)) {
                event.stopPropagation();
                close();
            } else if (isSendKey(event)) {
                event.preventDefault();
                send();
            }
        });
        text.hidden = foot.hidden = true;
        text.after(form);
        fit(box);
        box.focus();
    }
}
