// SPDX-License-Identifier: Apache-2.0
// The list of conversations, newest first, in groups of days.
import {$, confirmed, el, iconButton} from "./util.js";

const DAY = 86400000;

function groupOf(time) {
    const midnight = new Date().setHours(0, 0, 0, 0);
    return time >= midnight ? "Today" : time >= midnight - DAY ? "Yesterday"
         : time >= midnight - 6 * DAY ? "This week" : "Earlier";
}

export class Sidebar {
    #store;
    #hooks; // current(), isRunning(id), open(id), onDelete(id)
    #chats = [];

    constructor(store, hooks) {
        this.#store = store;
        this.#hooks = hooks;
        $("search").addEventListener("input", () => this.draw());
        $("menu").addEventListener("click", () => this.toggle(true));
        $("backdrop").addEventListener("click", () => this.toggle(false));
        $("close-menu").addEventListener("click", () => this.toggle(false));
    }

    // On narrow screens the list lies over the page.
    toggle(isOpen) {
        document.body.toggleAttribute("data-menu", isOpen);
        $("menu").setAttribute("aria-expanded", String(isOpen));
        $("main").inert = isOpen;
        if (isOpen) {
            $("new-chat").focus();
        } else if ($("sidebar").contains(document.activeElement) && $("menu").offsetParent !== null) {
            $("menu").focus();
        }
    }

    async refresh() {
        this.#chats = await this.#store.chats();
        this.draw();
    }

    draw() {
        const words = $("search").value.trim().toLowerCase();
        const list = $("conversations");
        const focused = document.activeElement?.closest?.("#conversations [data-id]")?.dataset.id;
        const nodes = [];
        let group = "";
        for (const chat of this.#chats) {
            if (words !== "" && !chat.title.toLowerCase().includes(words)) {
                continue;
            }
            if (groupOf(chat.updated) !== group) {
                group = groupOf(chat.updated);
                nodes.push(el("li", {class: "group"}, group));
            }
            nodes.push(this.#item(chat));
        }
        if (nodes.length === 0) {
            nodes.push(el("li", {class: "nothing"}, words === "" ? "No conversations yet" : "Nothing found"));
        }
        list.replaceChildren(...nodes);
        $("search-row").hidden = this.#chats.length < 8;
        if (focused !== undefined) {
            list.querySelector(`[data-id="${focused}"] a`)?.focus();
        }
    }

    #item(chat) {
        const isCurrent = chat.id === this.#hooks.current();
        const link = el("a", {href: "#" + chat.id, dir: "auto", title: chat.title, "data-testid": "conversation-open",
                              "aria-current": isCurrent ? "page" : null, onclick: () => this.toggle(false)}, chat.title);
        return el("li", {class: "conversation", "data-id": chat.id, "data-testid": "conversation",
                         "data-running": this.#hooks.isRunning(chat.id)}, link,
                  iconButton("edit", "Rename " + chat.title, () => this.#rename(chat, link), {"data-testid": "rename"}),
                  iconButton("trash", "Delete " + chat.title, () => this.#delete(chat), {"data-testid": "delete"}));
    }

    #rename(chat, link) {
        const box = el("input", {class: "rename-box", dir: "auto", maxlength: 200, "aria-label": "Title", "data-testid": "rename-box"});
        let isOver = false;
        const end = async keep => {
            if (!isOver) {
                isOver = true;
                if (keep && box.value.trim() !== "") {
                    await this.#store.changeChat(chat.id, {title: box.value.trim()});
                    this.#hooks.onRename(chat.id, box.value.trim());
                }
                this.refresh();
            }
        };
        box.value = chat.title;
        box.addEventListener("blur", () => end(true));
        box.addEventListener("keydown", event => {
            if (event.key === "Enter" && !event.isComposing) {
                end(true);
            } else if (event.key === "Escape") {
                event.stopPropagation();
                end(false);
            }
        });
        link.replaceWith(box);
        box.select();
    }

    async #delete(chat) {
        if (await confirmed(`Delete \u201c${chat.title}\u201d? This cannot be undone.`, "Delete")) {
            this.#hooks.onDelete(chat.id);
            await this.#store.deleteChat(chat.id);
            this.refresh();
        }
    }
}
