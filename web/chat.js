// SPDX-License-Identifier: Apache-2.0
// The open conversation: what is shown of it, and everything that can be done to it. Answers go on when another chat is
// opened, and are there when one comes back.
import {showFile} from "./attachments.js";
import {keepLeft} from "./leaving.js";
import {MessageView} from "./message_view.js";
import {Run} from "./run.js";
import {cleanSettings} from "./settings.js";
import {Thread, titleOf} from "./thread.js";
import {$, announce, newId, toast} from "./util.js";

const FOREIGN_MS = 10000; // an answer of another tab that was not saved for so long has ended

export class Chat {
    thread = null; // null: a new chat that has no message yet
    settings = {};
    #store;
    #hooks; // model(), onList(), onShow(), askKey(), follower, lookAtServer(), focus()
    #views = new Map();
    #runs = new Map(); // by chat id
    #actions;
    #foreign = 0;

    constructor(store, hooks) {
        this.#store = store;
        this.#hooks = hooks;
        this.#actions = {
            edit: (message, text) => this.#branch(message, text),
            regenerate: message => this.#answer(message.parent),
            retry: message => this.#retry(message),
            resume: message => this.#run(message, true),
            select: (message, step) => this.#select(message, step),
            giveResults: (message, results) => this.#giveResults(message, results),
            askKey: async message => { if (await hooks.askKey()) { this.#retry(message); } },
            newChat: () => this.open(null),
            focus: hooks.focus,
            showFile,
        };
    }

    get id() {
        return this.thread?.chat.id ?? null;
    }

    get running() {
        return this.#runs.get(this.id) ?? null;
    }

    isRunning(id) {
        return this.#runs.has(id);
    }

    // Show a chat, or with null an empty one. False when there is none of that id.
    async open(id) {
        const known = this.#runs.get(id)?.thread;
        const loaded = id === null || known ? null : await this.#store.load(id);
        if (id !== null && !known && loaded === null) {
            return false;
        }
        this.thread = known ?? (loaded && new Thread(loaded.chat, loaded.messages));
        this.settings = cleanSettings(this.thread ? this.thread.chat.settings : await this.#store.pref("settings"));
        this.#views.clear();
        $("messages").replaceChildren();
        this.show();
        this.#hooks.follower.toEnd();
        this.#hooks.onShow();
        return true;
    }

    // Something changed in another tab.
    async refresh() {
        const id = this.id;
        const loaded = id === null ? null : await this.#store.load(id);
        if (id === null || id !== this.id) {
            return;
        }
        if (loaded === null) {
            this.running?.stop();
            await this.open(null);
            toast("This conversation was deleted in another tab.");
            return;
        }
        const own = this.running?.message.id;
        loaded.messages.filter(message => message.id !== own).forEach(message => this.thread.add(message));
        // The branch that this tab shows stays, with what another tab added at its end.
        const leaf = this.thread.leafBelow(this.thread.chat.leaf);
        Object.assign(this.thread.chat, loaded.chat, {leaf});
        this.settings = cleanSettings(loaded.chat.settings);
        this.show();
        this.#hooks.onShow();
    }

    // A text and files that the user sends. Whether they were taken.
    send(text, files) {
        if (this.running !== null) {
            return false;
        }
        const path = this.thread?.path() ?? [];
        this.#say(path.length > 0 ? path[path.length - 1].id : null, text, files);
        return true;
    }

    stop() {
        this.running?.stop();
    }

    // The page is being left: the server stops at once, and the text is kept as stopped.
    leave() {
        for (const run of this.#runs.values()) {
            keepLeft({...run.message, state: "stopped"});
            run.stop();
        }
    }

    regenerateLast() {
        const last = this.thread?.path().at(-1);
        if (last?.role === "assistant" && this.running === null) {
            this.#answer(last.parent);
        }
    }

    editLast() {
        const last = this.thread?.path().filter(message => message.role === "user").at(-1);
        if (last !== undefined && this.running === null) {
            this.#views.get(last.id)?.edit();
        }
    }

    async setSettings(settings) {
        const {thread} = this;
        this.settings = settings;
        if (thread !== null) {
            thread.chat.settings = settings; // what is sent now goes by them already
        }
        await this.#store.setPref("settings", settings);
        if (thread !== null) {
            await this.#store.changeChat(thread.chat.id, {settings});
        }
    }

    /* --- growing the tree --- */

    #message(parent, role, content, more = {}) {
        return this.thread.add({id: newId(), chat: this.id, parent, role, content, created: Date.now(), state: "done", ...more});
    }

    #begin(text) {
        const now = Date.now();
        this.thread = new Thread({id: newId(), title: titleOf(text), created: now, updated: now, leaf: null,
                                  settings: this.settings});
        this.#hooks.onShow();
        return this.#store.addChat({...this.thread.chat});
    }

    async #say(parent, text, files = []) {
        const added = this.thread === null ? this.#begin(text.trim() === "" ? files[0].name : text) : null;
        const message = this.#message(parent, "user", text, files.length > 0 ? {files} : {});
        const answered = this.#answer(message.id, async () => {
            await added;
            await this.#store.putMessage(message);
        });
        this.#hooks.follower.toEnd();
        await answered;
    }

    #branch(message, text) {
        if (this.#runs.has(this.thread.chat.id)) {
            toast("Wait for the answer, or stop it.");
            return;
        }
        this.#say(message.parent, text, message.files);
    }

    async #giveResults(message, results) {
        let parent = message.id;
        const made = message.calls.map((call, i) => {
            const result = this.#message(parent, "tool", results[i], {callId: call.id, created: Date.now() + i});
            parent = result.id;
            return result;
        });
        await this.#answer(parent, async () => {
            for (const result of made) {
                await this.#store.putMessage(result);
            }
        });
    }

    // An answer that has nothing yet is asked for again in its place; another one gets a sibling.
    #retry(message) {
        return message.content === "" && !message.calls?.length ? this.#run(message, false) : this.#answer(message.parent);
    }

    async #answer(parent, before = async () => {}) {
        if (this.#runs.has(this.thread.chat.id)) {
            return;
        }
        const message = this.#message(parent, "assistant", "", {state: "streaming", touched: Date.now()});
        await this.#run(message, false, before);
    }

    async #run(message, continues, before = async () => {}) {
        const thread = this.thread;
        const id = thread.chat.id;
        if (this.#runs.has(id)) {
            return;
        }
        let isSaved = before();
        const run = new Run(thread, message, {
            save: record => (isSaved = isSaved.then(() => this.#store.putMessage(record))),
            grow: () => this.#views.get(message.id)?.grow("streaming"),
        });
        this.#runs.set(id, run);
        thread.chat.leaf = message.id;
        this.#touch(thread, isSaved);
        this.show();
        if (document.activeElement === document.body) {
            this.#hooks.focus(); // the button that began it is gone
        }
        await run.go(cleanSettings(thread.chat.settings), this.#hooks.model()?.id, continues);
        this.#runs.delete(id);
        await this.#touch(thread, isSaved);
        if (this.thread === thread) {
            this.show();
            this.#hooks.onShow();
            this.#tellEnd(message);
        }
    }

    #tellEnd(message) {
        announce(message.state === "error" ? "The answer failed: " + message.error.text
               : message.state === "stopped" ? "Answer stopped"
               : message.state === "repetition" ? "Answer ended: the model repeats itself" : "Answer complete: " + message.content.slice(0, 2000));
        if (message.error?.kind === "gone" || message.error?.kind === "loading" || message.state === "lost") {
            this.#hooks.lookAtServer();
        } else if (message.error?.kind === "key") {
            this.#actions.askKey(message);
        }
    }

    async #touch(thread, after = Promise.resolve()) {
        thread.chat.updated = Date.now();
        const {leaf, updated, id} = thread.chat;
        await after;
        await this.#store.changeChat(id, {leaf, updated});
        this.#hooks.onList();
    }

    async #select(message, step) {
        const siblings = this.thread.siblingsOf(message);
        const next = siblings[siblings.indexOf(message) + step];
        if (next !== undefined && this.running === null) {
            this.thread.chat.leaf = this.thread.leafBelow(next.id);
            await this.#store.changeChat(this.id, {leaf: this.thread.chat.leaf}); // a reload finds what is shown
            this.show();
            const view = this.#views.get(next.id);
            const name = step < 0 ? "branch-prev" : "branch-next";
            view?.element.querySelector(`[data-testid=${name}]:enabled, .branches button:enabled`)?.focus();
        }
    }

    /* --- showing it --- */

    #stateOf(message) {
        if (message.state !== "streaming" || this.running?.message === message) {
            return message.state;
        }
        const age = Date.now() - (message.touched ?? 0);
        if (age < FOREIGN_MS) { // another tab writes it; look again when it may have ended
            clearTimeout(this.#foreign);
            this.#foreign = setTimeout(() => this.show(), FOREIGN_MS - age + 100);
            return "streaming";
        }
        return "lost";
    }

    // Make the page show the path: views stay, new ones come, others go.
    show() {
        const path = this.thread?.path() ?? [];
        const list = $("messages");
        const isRunning = this.running !== null;
        document.body.toggleAttribute("data-running", isRunning);
        document.body.toggleAttribute("data-empty", path.length === 0);
        const wanted = new Set(path.map(message => message.id));
        for (const [id, view] of this.#views) {
            if (!wanted.has(id)) {
                view.element.remove();
                this.#views.delete(id);
            }
        }
        path.forEach((message, i) => {
            const siblings = this.thread.siblingsOf(message);
            let view = this.#views.get(message.id);
            if (view === undefined) {
                view = new MessageView(message, this.#actions);
                this.#views.set(message.id, view);
            }
            if (list.children[i] !== view.element) {
                list.insertBefore(view.element, list.children[i] ?? null);
            }
            view.update(message, {index: siblings.indexOf(message), total: siblings.length,
                                  isLast: i === path.length - 1, canAct: !isRunning}, this.#stateOf(message));
        });
        this.#hooks.follower.settle();
    }
}
