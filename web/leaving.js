// SPDX-License-Identifier: Apache-2.0
// Answers that were under way when the page was left. A database is too slow then; what is written here is there at
// once, and the next page moves it to the store.

const PLACE = "whimbrel-left-";

export function keepLeft(message) {
    try {
        localStorage.setItem(PLACE + message.id, JSON.stringify(message));
    } catch {
        // full or blocked: what was saved last remains
    }
}

export async function takeLeft(store) {
    let names = [];
    try {
        names = Object.keys(localStorage).filter(name => name.startsWith(PLACE));
    } catch {
        // blocked: there is nothing
    }
    for (const name of names) {
        try {
            const left = JSON.parse(localStorage.getItem(name));
            const known = (await store.load(left.chat))?.messages.find(message => message.id === left.id);
            if (!known || (known.touched ?? 0) <= (left.touched ?? 0)) { // another tab may have gone on with it
                await store.putMessage(left);
            }
        } catch {
            // not what this page wrote
        }
        localStorage.removeItem(name);
    }
}
