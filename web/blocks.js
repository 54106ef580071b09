// SPDX-License-Identifier: Apache-2.0
// Cuts growing Markdown into blocks that can no longer change, so that only the last one is parsed again while an
// answer arrives. A cut is made where every reading of Markdown begins a new block: at a fence in the first column and
// after its end, and at an unindented line after a blank one unless it goes on with a list. A long list is cut between
// two of its items.

const FENCE = /^(`{3,}|~{3,})[ \t]*([^\n]*)$/;
const INNER_FENCE = /^(?:\s+|\s*(?:[-*+]|\d{1,9}[.)])\s+)(`{3,}|~{3,})/;
const LONG_LIST = 4000; // characters
const MARKER = /^(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;

const opens = fence => fence !== null && !(fence[1][0] === "`" && fence[2].includes("`"));

function closes(line, fence) {
    const text = line.trim();
    return text.length >= fence.length && text === fence[0].repeat(text.length);
}

export class Blocks {
    text = "";
    closed = []; // {kind: "text" | "code", start, end, goesOn, language, codeStart, codeEnd}
    #open = null;
    #at = 0; // the first line that was not looked at

    // More text; what came before must be its beginning.
    grow(text) {
        this.text = text;
        for (let end; (end = text.indexOf("\n", this.#at)) >= 0; this.#at = end + 1) {
            this.#line(text.slice(this.#at, end).replace(/\r$/, ""), this.#at, end + 1);
        }
    }

    // The block that may still change, or null.
    open() {
        const tail = this.text.slice(this.#at);
        if (this.#open?.kind === "code") {
            // The last line may be the beginning of the fence's end.
            const fence = this.#open.fence;
            const isEnd = tail !== "" && tail.trim() === fence[0].repeat(tail.trim().length);
            return {...this.#open, end: this.text.length, codeEnd: isEnd ? this.#at : this.text.length,
                    isClosed: closes(tail, fence)};
        }
        const fence = FENCE.exec(tail);
        if (opens(fence) && this.#open?.fence === undefined) {
            const before = this.#open === null ? [] : [{...this.#open, end: this.#at}];
            return before.length > 0 ? before[0] : null; // shown when its line is complete
        }
        if (this.#open === null) {
            return tail.trim() === "" ? null : {kind: "text", start: this.#at, end: this.text.length};
        }
        return {...this.#open, end: this.text.length};
    }

    #close(end) {
        if (this.#open !== null) {
            this.closed.push({...this.#open, end});
            this.#open = null;
        }
    }

    #line(line, start, end) {
        if (this.#open?.kind === "code") {
            if (closes(line, this.#open.fence)) {
                this.#open.codeEnd = start;
                this.#close(end);
            }
            return;
        }
        if (this.#open?.fence !== undefined) { // inside a list: the whole list is one block
            if (closes(line, this.#open.fence)) {
                this.#open.fence = undefined;
            }
            return;
        }
        const fence = FENCE.exec(line);
        if (opens(fence)) {
            this.#close(start);
            const language = fence[2].trim().split(/[\s{,]/)[0].toLowerCase();
            this.#open = {kind: "code", start, fence: fence[1], language, codeStart: end, codeEnd: end};
            return;
        }
        this.#textLine(line, start);
    }

    #textLine(line, start) {
        if (line.trim() === "") {
            if (this.#open !== null) {
                this.#open.blank = true;
            }
            return;
        }
        const isMarker = MARKER.test(line);
        if (this.#open?.blank && !/^\s/.test(line) && !(this.#open.inList && isMarker)) {
            this.#close(start);
        }
        // Of numbers only those that say where the list is: lists of nothing but 1. count on.
        const goesOn = isMarker && this.#open?.inList && start - this.#open.start > LONG_LIST && !/^[01]\D/.test(line);
        if (goesOn) {
            this.#close(start);
        }
        this.#open ??= {kind: "text", start, goesOn};
        this.#open.blank = false;
        this.#open.inList ||= isMarker;
        this.#open.fence = INNER_FENCE.exec(line)?.[1];
    }
}
