// SPDX-License-Identifier: Apache-2.0
// Watches the server and tells it in the banner: loading with its progress, stopping, gone with the next attempt.
import {readiness} from "./api.js";
import {$, el} from "./util.js";

const CALM_MS = 20000;   // between looks while all is well and the page is visible
const LOADING_MS = 500;
const MAX_WAIT_S = 20;

export class Health {
    status = "unknown"; // ready, loading, draining, gone
    #onReady;
    #timer = 0;
    #failures = 0;
    #looking = false;

    // onReady: each time that the server has become ready.
    constructor(onReady) {
        this.#onReady = onReady;
        document.addEventListener("visibilitychange", () => document.hidden || this.look());
        addEventListener("online", () => this.look());
    }

    async look() {
        if (this.#looking) {
            return;
        }
        this.#looking = true;
        clearTimeout(this.#timer);
        const before = this.status;
        let wait = CALM_MS;
        try {
            const {status, progress} = await readiness();
            this.status = status;
            this.#failures = 0;
            if (status === "loading") {
                this.#loading(Number(progress) || 0);
                wait = LOADING_MS;
            } else if (status === "draining") {
                this.#tell("The server is stopping. What you write is kept; it can be sent when the server is back.");
                wait = 2000;
            } else {
                $("banner").hidden = true;
            }
        } catch {
            this.status = "gone";
            wait = 1000 * Math.min(2 ** this.#failures++, MAX_WAIT_S);
            this.#gone(wait / 1000);
        }
        this.#looking = false;
        this.#timer = setTimeout(() => document.hidden && this.status === "ready" || this.look(), wait);
        document.body.dataset.server = this.status;
        if (this.status === "ready" && before !== "ready") {
            await this.#onReady();
        }
    }

    #tell(...parts) {
        const banner = $("banner");
        const text = parts.map(part => part.textContent ?? part).join("");
        if (banner.hidden || banner.dataset.text !== text) { // said again only when it is news
            banner.dataset.text = text;
            banner.replaceChildren(...parts);
            banner.hidden = false;
        }
    }

    #loading(progress) {
        const banner = $("banner");
        let bar = banner.querySelector("progress");
        if (banner.hidden || bar === null) {
            bar = el("progress", {max: 1, "aria-label": "Loading the model"});
            this.#tell(el("span", {}, "The model is loading."), bar);
        }
        bar.value = progress;
    }

    #gone(seconds) {
        this.#tell(el("span", {}, `The server does not answer. Trying again in ${seconds} s.`),
                   el("button", {type: "button", class: "button", "data-testid": "try-now", onclick: () => this.look()},
                      "Try now"));
    }
}
