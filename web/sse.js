// SPDX-License-Identifier: Apache-2.0
// Server-sent events from pieces of text that may be cut anywhere, between CR and LF too.

export class EventParser {
    #rest = "";
    #data = [];
    #afterCr = false;

    // The data of the events that this piece completes.
    push(piece) {
        const events = [];
        if (this.#afterCr && piece.startsWith("\n")) {
            piece = piece.slice(1);
        }
        if (piece !== "") {
            this.#afterCr = piece.endsWith("\r");
        }
        const lines = (this.#rest + piece).split(/\r\n|\r|\n/);
        this.#rest = lines.pop();
        for (const line of lines) {
            if (line === "") {
                if (this.#data.length > 0) {
                    events.push(this.#data.join("\n"));
                    this.#data = [];
                }
            } else if (line === "data" || line.startsWith("data:")) {
                this.#data.push(line.slice(5).replace(/^ /, ""));
            } // comments (": keep-alive") and other fields mean nothing here
        }
        return events;
    }
}
