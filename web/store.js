// SPDX-License-Identifier: Apache-2.0
// Conversations in the browser's IndexedDB. Every message is a record of its own and a chat's record is changed field by
// field inside a transaction, so two tabs do not overwrite each other; they tell each other what changed. Where the
// browser keeps nothing (private mode, blocked, full), the page goes on in memory and says so.

// Step i brings a database of version i to version i + 1. Steps are never changed, only added.
const STEPS = [
    db => {
        db.createObjectStore("chats", {keyPath: "id"});
        db.createObjectStore("messages", {keyPath: "id"}).createIndex("chat", "chat");
    },
    // Settings used to be in each chat only; new chats begin with the last ones.
    db => db.createObjectStore("prefs"),
];

const result = request => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
});

function openDatabase(onGone) {
    return new Promise((resolve, reject) => {
        const request = indexedDB.open("whimbrel", STEPS.length);
        request.onupgradeneeded = event => {
            for (let version = event.oldVersion; version < STEPS.length; version++) {
                STEPS[version](request.result, request.transaction);
            }
        };
        request.onblocked = () => reject(new Error("another tab has an older version of this page open; close it"));
        request.onerror = () => reject(request.error);
        request.onsuccess = () => {
            const db = request.result;
            db.onversionchange = () => { db.close(); onGone("A newer version of this page is open in another tab."); };
            db.onclose = () => onGone("The browser closed its storage for conversations.");
            resolve(db);
        };
    });
}

// Why it did not work, and what to do.
function explained(error) {
    if (error?.name === "QuotaExceededError") {
        return "The browser's storage for this page is full: this conversation is not saved. Export it, or delete " +
               "old conversations.";
    }
    if (error?.name === "VersionError") {
        return "The conversations here were written by a newer version of whimbrel. They are left untouched; nothing " +
               "new is saved.";
    }
    return `This browser does not save conversations (${error?.message || error?.name || "storage is blocked"}; private ` +
           "windows do that). They are lost when the tab is closed: export what you want to keep.";
}

// The same few calls on maps, for when there is no database.
class Memory {
    #stores = {chats: new Map(), messages: new Map(), prefs: new Map()};

    async run(names, mode, work) {
        const stores = this.#stores;
        return work(name => ({
            get: async key => structuredClone(stores[name].get(key)),
            all: async () => structuredClone([...stores[name].values()]),
            ofChat: async chat => structuredClone([...stores[name].values()].filter(m => m.chat === chat)),
            put: async (value, key) => { stores[name].set(key ?? value.id, structuredClone(value)); },
            delete: async key => { stores[name].delete(key); },
            clear: async () => { stores[name].clear(); },
        }));
    }
}

class Database {
    #db;

    constructor(db) {
        this.#db = db;
    }

    async run(names, mode, work) {
        const transaction = this.#db.transaction(names, mode);
        const ended = new Promise((resolve, reject) => {
            transaction.oncomplete = resolve;
            transaction.onabort = () => reject(transaction.error ?? new Error("the transaction was ended"));
        });
        ended.catch(() => {});
        const value = await work(name => {
            const store = transaction.objectStore(name);
            return {
                get: key => result(store.get(key)),
                all: () => result(store.getAll()),
                ofChat: chat => result(store.index("chat").getAll(chat)),
                put: (record, key) => result(key === undefined ? store.put(record) : store.put(record, key)),
                delete: key => result(store.delete(key)),
                clear: () => result(store.clear()),
            };
        });
        await ended;
        return value;
    }
}

export class Store {
    isKept = false;
    #base = new Memory();
    #channel = typeof BroadcastChannel === "function" ? new BroadcastChannel("whimbrel") : null;
    #onProblem;
    #told = "";

    // onProblem(text): what the user must know. onChange(chatId or null): another tab changed it (null: anything).
    static async open(onProblem, onChange) {
        const store = new Store();
        store.#onProblem = onProblem;
        try {
            store.#base = new Database(await openDatabase(text => {
                store.isKept = false;
                onProblem(text + " Load the page anew.");
            }));
            store.isKept = true;
        } catch (error) {
            onProblem(explained(error));
        }
        if (store.#channel !== null) {
            store.#channel.onmessage = event => onChange(event.data?.chat ?? null);
        }
        return store;
    }

    // Whether it was saved. A failure is told once, and nothing is lost: the page still has what it shows.
    async #write(names, chat, work) {
        try {
            const done = await this.#base.run(names, "readwrite", work);
            this.#channel?.postMessage({chat});
            this.#told = "";
            return done !== false;
        } catch (error) {
            const text = explained(error);
            if (text !== this.#told) {
                this.#told = text;
                this.#onProblem(text);
            }
            return false;
        }
    }

    chats() {
        return this.#base.run(["chats"], "readonly", async at => {
            const chats = await at("chats").all();
            return chats.sort((a, b) => b.updated - a.updated || (a.id < b.id ? -1 : 1));
        });
    }

    // {chat, messages}, or null.
    load(id) {
        return this.#base.run(["chats", "messages"], "readonly", async at => {
            const chat = await at("chats").get(id);
            return chat === undefined ? null : {chat, messages: await at("messages").ofChat(id)};
        });
    }

    addChat(chat) {
        return this.#write(["chats"], chat.id, at => at("chats").put(chat));
    }

    // Changes these fields only. False when another tab deleted the chat.
    changeChat(id, fields) {
        return this.#write(["chats"], id, async at => {
            const chat = await at("chats").get(id);
            return chat === undefined ? false : at("chats").put({...chat, ...fields});
        });
    }

    putMessage(message) {
        return this.#write(["chats", "messages"], message.chat, async at => {
            const chat = await at("chats").get(message.chat);
            return chat === undefined ? false : at("messages").put(message);
        });
    }

    deleteChat(id) {
        return this.#write(["chats", "messages"], id, async at => {
            await at("chats").delete(id);
            for (const message of await at("messages").ofChat(id)) {
                await at("messages").delete(message.id);
            }
        });
    }

    deleteAll() {
        return this.#write(["chats", "messages"], null, async at => {
            await at("chats").clear();
            await at("messages").clear();
        });
    }

    // Adds what is not there; what is there stays as it is. The number of new messages, or -1.
    async merge(chats, messages) {
        let added = -1;
        await this.#write(["chats", "messages"], null, async at => {
            added = 0;
            for (const chat of chats) {
                if (await at("chats").get(chat.id) === undefined) {
                    await at("chats").put(chat);
                }
            }
            for (const message of messages) {
                if (await at("messages").get(message.id) === undefined) {
                    await at("messages").put(message);
                    added++;
                }
            }
        }).then(saved => { added = saved ? added : -1; });
        return added;
    }

    everything() {
        return this.#base.run(["chats", "messages"], "readonly", async at =>
            ({chats: await at("chats").all(), messages: await at("messages").all()}));
    }

    pref(name) {
        return this.#base.run(["prefs"], "readonly", at => at("prefs").get(name));
    }

    setPref(name, value) {
        return this.#write(["prefs"], "", at => at("prefs").put(value, name));
    }
}
