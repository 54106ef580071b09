// SPDX-License-Identifier: Apache-2.0
// The box to write in. Enter sends and Shift-Enter breaks the line; on touch screens Enter breaks it; while an input
// method composes, Enter belongs to it.
import {Attachments} from "./attachments.js";
import {$, isTouch} from "./util.js";

export const isComposing = event => event.isComposing || event.keyCode === 229;

// Whether this key sends what is in a text box.
export function isSendKey(event) {
    return event.key === "Enter" && !event.shiftKey && !event.altKey && !isComposing(event) &&
           (event.ctrlKey || event.metaKey || !isTouch());
}

const FITS_ITSELF = CSS.supports("field-sizing", "content"); // as the style sheet says

// As high as its text, up to what the style sheet allows.
export function fit(area) {
    if (!FITS_ITSELF) {
        area.style.height = "auto";
        area.style.height = `${area.scrollHeight + 2}px`;
    }
}

export class Composer {
    #area = $("composer");
    #chatId;
    #attached;

    // onSend(text, files) returns whether it was taken; onEditLast: arrow up in the empty box; chatId(): whose draft it
    // is; room(): see Attachments.
    constructor({onSend, onStop, onEditLast, chatId, room}) {
        this.#chatId = chatId;
        this.#attached = new Attachments({
            key: () => this.#draftKey(), room, onChange: () => this.#show(), focus: () => this.focus(),
            insert: text => { this.set(this.#area.value + text); this.focus(); },
        });
        const area = this.#area;
        const send = () => {
            const text = area.value;
            const {files} = this.#attached;
            if (this.#hasSomething() && document.body.dataset.running === undefined) {
                this.set("");
                this.#attached.files = [];
                if (!onSend(text.trim() === "" ? "" : text, files)) {
                    this.set(text);
                    this.#attached.files = files;
                }
            }
        };
        area.addEventListener("input", () => { fit(area); this.#keepDraft(); this.#show(); });
        area.addEventListener("keydown", event => {
            if (isSendKey(event)) {
                event.preventDefault();
                send();
            } else if (event.key === "ArrowUp" && area.value === "" && !isComposing(event)) {
                event.preventDefault();
                onEditLast();
            } else if ((event.key === "PageUp" || event.key === "PageDown") && area.scrollHeight <= area.clientHeight + 2) {
                event.preventDefault();
                const box = $("scroller");
                box.scrollBy({top: (event.key === "PageUp" ? -0.9 : 0.9) * box.clientHeight});
            }
        });
        $("composer-form").addEventListener("submit", event => { event.preventDefault(); send(); });
        $("stop").addEventListener("click", onStop);
        this.#show();
    }

    set(text) {
        this.#area.value = text;
        fit(this.#area);
        this.#keepDraft();
        this.#show();
    }

    // What was written but not sent in this chat comes back.
    open() {
        let draft = "";
        try {
            draft = sessionStorage.getItem(this.#draftKey()) ?? "";
        } catch {
            // blocked: no drafts
        }
        this.set(draft);
        this.#attached.show();
    }

    #draftKey() {
        return "draft-" + (this.#chatId() ?? "new");
    }

    focus() {
        if (!isTouch()) {
            this.#area.focus();
        }
    }

    #keepDraft() {
        try {
            if (this.#area.value === "") {
                sessionStorage.removeItem(this.#draftKey());
            } else {
                sessionStorage.setItem(this.#draftKey(), this.#area.value);
            }
        } catch {
            // full or blocked: the box itself still has it
        }
    }

    #hasSomething() {
        return this.#area.value.trim() !== "" || this.#attached.files.length > 0;
    }

    #show() {
        $("send").disabled = !this.#hasSomething();
    }
}
