// SPDX-License-Identifier: Apache-2.0
// Export and import. An imported file may be anybody's: its size, version and every field are checked, unknown fields are
// dropped, and what passes is added to what is there, never put in its place.

export const FORMAT = "whimbrel-conversations";
const VERSION = 1;
const MAX_FILE = 64 << 20;
const MAX_CHATS = 10000;
const MAX_MESSAGES = 200000;
const MAX_TEXT = 4 << 20;
const ID = /^[0-9A-Za-z_-]{1,64}$/;
const ROLES = new Set(["user", "assistant", "tool"]);
const STATES = new Set(["done", "stopped", "lost", "length", "repetition", "error"]);

class Refused extends Error {}

function refuseUnless(condition, text) {
    if (!condition) {
        throw new Refused(text);
    }
}

const isObject = value => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value, what, most = MAX_TEXT) => {
    refuseUnless(typeof value === "string" && value.length <= most, `${what} is not a text of at most ${most} characters`);
    return value;
};
const id = (value, what) => {
    refuseUnless(typeof value === "string" && ID.test(value), `${what} is not an id`);
    return value;
};
const time = value => Number.isFinite(value) && value >= 0 && value < 1e14 ? value : 0;
const number = value => Number.isFinite(value) && value >= 0 ? value : undefined;

function readStats(stats) {
    return isObject(stats) ? {prompt: number(stats.prompt), cached: number(stats.cached), made: number(stats.made),
                              perSecond: number(stats.perSecond), firstMs: number(stats.firstMs)} : undefined;
}

function readMessage(value, what, chats) {
    refuseUnless(isObject(value), `${what} is not an object`);
    refuseUnless(ROLES.has(value.role), `${what} has a role other than user, assistant and tool`);
    const message = {
        id: id(value.id, `${what}.id`),
        chat: id(value.chat, `${what}.chat`),
        parent: value.parent === null ? null : id(value.parent, `${what}.parent`),
        role: value.role,
        content: text(value.content, `${what}.content`),
        created: time(value.created),
        state: STATES.has(value.state) ? value.state : "done",
    };
    refuseUnless(chats.has(message.chat), `${what} belongs to a chat that is not in the file`);
    if (value.reasoning !== undefined) {
        message.reasoning = text(value.reasoning, `${what}.reasoning`);
    }
    if (value.thoughtMs !== undefined) {
        message.thoughtMs = number(value.thoughtMs);
    }
    if (value.files !== undefined) {
        refuseUnless(Array.isArray(value.files) && value.files.length <= 100, `${what}.files is not a short list`);
        message.files = value.files.map(file => {
            refuseUnless(isObject(file), `${what}.files holds something else than files`);
            return {name: text(file.name, "a file's name", 500), text: text(file.text, "a file's text"), tokens: number(file.tokens)};
        });
    }
    if (value.callId !== undefined) {
        message.callId = text(value.callId, `${what}.callId`, 200);
    }
    if (value.model !== undefined) {
        message.model = text(value.model, `${what}.model`, 500);
    }
    if (value.calls !== undefined) {
        refuseUnless(Array.isArray(value.calls) && value.calls.length <= 100, `${what}.calls is not a short list`);
        message.calls = value.calls.map(call => {
            refuseUnless(isObject(call), `${what}.calls holds something else than calls`);
            return {id: text(call.id, "a call's id", 200), name: text(call.name, "a call's name", 500),
                    arguments: text(call.arguments, "a call's arguments")};
        });
    }
    message.stats = readStats(value.stats);
    return message;
}

function readChat(value, what, readSettings) {
    refuseUnless(isObject(value), `${what} is not an object`);
    return {
        id: id(value.id, `${what}.id`),
        title: text(value.title, `${what}.title`, 1000),
        created: time(value.created),
        updated: time(value.updated),
        leaf: value.leaf === null || value.leaf === undefined ? null : id(value.leaf, `${what}.leaf`),
        settings: readSettings(value.settings),
    };
}

// Every parent must be in the same chat, and no message may be its own ancestor.
function checkTree(messages) {
    const byId = new Map(messages.map(message => [message.id, message]));
    refuseUnless(byId.size === messages.length, "two messages have the same id");
    const isGood = new Set();
    for (const message of messages) {
        const way = new Set();
        let at = message;
        while (at !== undefined && !isGood.has(at.id)) {
            refuseUnless(!way.has(at.id), "the messages form a ring");
            way.add(at.id);
            const parent = at.parent === null ? undefined : byId.get(at.parent);
            refuseUnless(at.parent === null || parent?.chat === at.chat, "a message follows one that is not in its chat");
            at = parent;
        }
        way.forEach(one => isGood.add(one));
    }
}

// {chats, messages} of a file's text; throws an Error whose text says what is wrong.
export function readExport(source, readSettings) {
    let file;
    try {
        file = JSON.parse(source);
    } catch {
        throw new Refused("the file is not JSON");
    }
    refuseUnless(isObject(file) && file.format === FORMAT, "the file was not exported by this page");
    refuseUnless(file.version === VERSION,
                 `the file has version ${Number(file.version) || "?"}, and this page reads version ${VERSION}`);
    refuseUnless(Array.isArray(file.chats) && file.chats.length <= MAX_CHATS, "the file has no list of chats");
    refuseUnless(Array.isArray(file.messages) && file.messages.length <= MAX_MESSAGES, "the file has no list of messages");
    const chats = file.chats.map((chat, i) => readChat(chat, `chats[${i}]`, readSettings));
    const ids = new Set(chats.map(chat => chat.id));
    refuseUnless(ids.size === chats.length, "two chats have the same id");
    const messages = file.messages.map((message, i) => readMessage(message, `messages[${i}]`, ids));
    checkTree(messages);
    return {chats, messages};
}

export async function importFile(file, store, readSettings) {
    refuseUnless(file.size <= MAX_FILE, `the file is larger than ${MAX_FILE >> 20} MiB`);
    const {chats, messages} = readExport(await file.text(), readSettings);
    const added = await store.merge(chats, messages);
    refuseUnless(added >= 0, "the browser did not save it");
    return {chats: chats.length, added};
}

// The fields that import reads, and no others: what the page keeps for itself stays here.
export function exportText(chats, messages, readSettings) {
    const ids = new Set(chats.map(chat => chat.id));
    return JSON.stringify({
        format: FORMAT,
        version: VERSION,
        exported: new Date().toISOString(),
        chats: chats.map((chat, i) => readChat(chat, `chats[${i}]`, readSettings)),
        messages: messages.map((message, i) => readMessage(message, `messages[${i}]`, ids)),
    }, null, 1);
}

export function download(name, type, content) {
    const address = URL.createObjectURL(new Blob([content], {type}));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
}
