// SPDX-License-Identifier: Apache-2.0
// Follows a growing answer, but only while the reader is at its end; else a button leads there.

const NEAR = 48; // pixels that still count as the end

export class Follower {
    #box;
    #button;
    #follows = true;

    constructor(box, button) {
        this.#box = box;
        this.#button = button;
        box.addEventListener("scroll", () => this.#look(), {passive: true});
        box.addEventListener("drawn", () => this.settle());
        button.addEventListener("click", () => this.toEnd());
        new ResizeObserver(() => this.settle()).observe(box);
    }

    #look() {
        const {scrollTop, scrollHeight, clientHeight} = this.#box;
        this.#follows = scrollHeight - scrollTop - clientHeight < NEAR;
        this.#button.hidden = this.#follows;
    }

    // After something grew.
    settle() {
        if (this.#follows) {
            this.#box.scrollTop = this.#box.scrollHeight;
        }
        this.#look();
    }

    toEnd() {
        this.#follows = true;
        this.settle();
    }
}
