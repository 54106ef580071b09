// SPDX-License-Identifier: Apache-2.0
// Puts the page together: the store, the open chat, the list, dialogs, keys.
import {hasKey, model as fetchModel, setKey} from "./api.js";
import {Chat} from "./chat.js";
import {Composer} from "./composer.js";
import {Health} from "./health.js";
import {takeLeft} from "./leaving.js";
import {Follower} from "./scroll.js";
import {buildSettings, cleanSettings, readSettings, showSettings} from "./settings.js";
import {Sidebar} from "./sidebar.js";
import {Store} from "./store.js";
import {download, exportText, importFile} from "./transfer.js";
import {$, confirmed, count, toast} from "./util.js";

let model = null;

/* --- look --- */

function setTheme(theme) {
    if (theme === "light" || theme === "dark") {
        document.documentElement.dataset.theme = theme;
    } else {
        delete document.documentElement.dataset.theme;
    }
}

function keepTheme(theme) {
    setTheme(theme);
    try {
        localStorage.setItem("whimbrel-theme", theme);
    } catch {
        // not kept, but shown
    }
}

function storedTheme() {
    try {
        return localStorage.getItem("whimbrel-theme") ?? "auto";
    } catch {
        return "auto";
    }
}

setTheme(storedTheme());

/* --- the key --- */

let asking = null;

// One question at a time; resolves to whether a key was given.
function askKey() {
    asking ??= new Promise(resolve => {
        const dialog = $("key-dialog");
        $("key-text").textContent = hasKey() ? "The server did not accept the key. Enter another one."
                                             : "This server asks for an API key.";
        $("key").value = "";
        dialog.returnValue = "";
        dialog.showModal();
        dialog.addEventListener("close", () => {
            const isGiven = dialog.returnValue === "ok" && $("key").value.trim() !== "";
            if (isGiven) {
                setKey($("key").value.trim(), $("key-remember").checked);
                loadModel();
            }
            $("key").value = "";
            asking = null;
            resolve(isGiven);
        }, {once: true});
    });
    return asking;
}

$("key-form").addEventListener("submit", event => {
    event.preventDefault();
    $("key-dialog").close("ok");
});

async function loadModel() {
    try {
        model = await fetchModel();
        showHead();
    } catch (error) {
        if (error.kind === "key") {
            askKey();
        } else if (error.kind === "gone" || error.kind === "loading") {
            health.look();
        }
    }
}

/* --- parts --- */

buildSettings();
const health = new Health(loadModel);
const firstLook = health.look();
const follower = new Follower($("scroller"), $("to-end"));
const store = await Store.open(text => { $("storage-text").textContent = text; $("storage-note").hidden = false; },
                               () => { sidebar.refresh(); chat.refresh(); });
const chat = new Chat(store, {
    model: () => model,
    onList: () => sidebar.refresh(),
    onShow: () => { showHead(); showAddress(); sidebar.draw(); },
    askKey,
    follower,
    lookAtServer: () => health.look(),
    focus: () => composer.focus(),
});
const sidebar = new Sidebar(store, {
    current: () => chat.id,
    isRunning: id => chat.isRunning(id),
    onRename: (id, title) => { if (id === chat.id) { chat.thread.chat.title = title; showHead(); } },
    onDelete: id => { if (id === chat.id) { chat.stop(); openChat(null); } },
});
const composer = new Composer({
    onSend: (text, files) => {
        if (document.body.dataset.ready === undefined) {
            return false; // the chat that it belongs to is still being opened
        }
        if (health.status === "loading") {
            toast("The model is still loading; send again when it is ready.");
            return false;
        }
        return chat.send(text, files);
    },
    onStop: () => { chat.stop(); composer.focus(); },
    onEditLast: () => chat.editLast(),
    chatId: () => chat.id,
    room: () => model ? model.max_model_len - usedTokens() : Infinity,
});

// Which chat is open is in the address, so that a reload and the back button find it.
function showAddress() {
    const hash = chat.id === null ? "" : "#" + chat.id;
    if (location.hash !== hash) {
        history.pushState(null, "", hash || location.pathname + location.search);
    }
}

// Tokens of the open conversation, as its last answer was told.
function usedTokens() {
    const last = chat.thread?.path().filter(message => message.stats).at(-1)?.stats;
    return last ? (last.prompt ?? 0) + (last.made ?? 0) : 0;
}

function showHead() {
    const name = model?.display_name ?? model?.id ?? "";
    $("model-name").textContent = name;
    $("model-name").title = name;
    $("chat-title").textContent = chat.thread?.chat.title ?? "New chat";
    document.title = chat.thread ? chat.thread.chat.title + " \u00b7 whimbrel" : "whimbrel";
    const used = usedTokens();
    $("demo").hidden = model?.whimbrel?.demo !== true;
    const most = model?.max_model_len ?? 0;
    $("context").hidden = !(used > 0 && most > 0);
    $("context-count").textContent = `${count(used)} / ${count(most)}`;
    $("context").title = `${count(used)} of the ${count(most)} tokens that the model can read at once`;
    $("context").classList.toggle("is-full", used > 0.9 * most);
    $("export-chat").disabled = chat.thread === null;
}

async function openChat(id) {
    if (!await chat.open(id) && id !== null) {
        toast("There is no such conversation in this browser.");
        await chat.open(null);
    }
    if (document.body.dataset.ready !== undefined || $("composer").value === "") {
        composer.open();
    }
    composer.focus();
}

/* --- dialogs --- */

// The title has the focus at first: it says what this is, and no button looks chosen.
function openDialog(dialog) {
    dialog.showModal();
    dialog.querySelector("h2").focus();
}

// On phones they are opened from the list, which would lie under them.
function openShortcuts() {
    sidebar.toggle(false);
    openDialog($("shortcuts"));
}

function openSettings() {
    sidebar.toggle(false);
    showSettings(chat.settings, model);
    $("set-theme").value = storedTheme();
    $("store-place").textContent = location.origin;
    openDialog($("settings"));
}

$("settings-form").addEventListener("submit", event => {
    event.preventDefault();
    const settings = readSettings();
    if (settings !== null) {
        chat.setSettings(settings);
        $("settings").close();
    }
});
$("set-theme").addEventListener("change", event => keepTheme(event.target.value));
$("forget-key").addEventListener("click", () => { setKey("", false); toast("The key is forgotten."); });
$("open-settings").addEventListener("click", openSettings);
$("open-shortcuts").addEventListener("click", openShortcuts);
for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
}
for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", event => event.target === dialog && dialog.close()); // on its backdrop
}
$("storage-close").addEventListener("click", () => { $("storage-note").hidden = true; });

/* --- data --- */

const today = () => new Date().toISOString().slice(0, 10);

// A message that breaks the limits of an import cannot be exported.
function save(name, chats, messages) {
    try {
        download(`${name}-${today()}.json`, "application/json", exportText(chats, messages, cleanSettings));
    } catch (error) {
        toast(`Nothing was exported: ${error.message}.`, true);
    }
}

async function exportAll() {
    const {chats, messages} = await store.everything();
    save("whimbrel", chats, messages);
}

function exportChat() {
    const thread = chat.thread;
    save("whimbrel-chat", [thread.chat], [...thread.messages.values()]);
}

async function importChosen(event) {
    const file = event.target.files[0];
    event.target.value = "";
    if (file !== undefined) {
        try {
            const {chats, added} = await importFile(file, store, cleanSettings);
            toast(`Imported: ${count(chats)} conversations, ${count(added)} new messages.`);
            await sidebar.refresh();
            await chat.refresh();
        } catch (error) {
            toast(`Nothing was imported: ${error.message}.`, true);
        }
    }
}

$("export-all").addEventListener("click", exportAll);
$("export-chat").addEventListener("click", exportChat);
$("import").addEventListener("click", () => $("import-file").click());
$("import-file").addEventListener("change", importChosen);
$("delete-all").addEventListener("click", async () => {
    if (await confirmed("Delete all conversations in this browser? This cannot be undone.", "Delete all")) {
        chat.stop();
        await store.deleteAll();
        $("settings").close();
        await openChat(null);
        sidebar.refresh();
    }
});

/* --- keys --- */

const isTyping = target => target.closest?.("input, textarea, select, [contenteditable]") !== null;

document.addEventListener("keydown", event => {
    if (event.isComposing || document.querySelector("dialog[open]") !== null) {
        return;
    }
    if (event.key === "Escape") {
        if (document.body.hasAttribute("data-menu")) {
            sidebar.toggle(false);
        } else {
            chat.stop();
        }
    } else if ((event.ctrlKey || event.metaKey) && event.shiftKey && event.key.toLowerCase() === "o") {
        event.preventDefault();
        openChat(null);
    } else if (!isTyping(event.target) && !event.ctrlKey && !event.metaKey && !event.altKey) {
        const action = {"?": openShortcuts, "/": () => $("composer").focus(),
                        n: () => openChat(null), r: () => chat.regenerateLast(), s: openSettings}[event.key];
        if (action !== undefined) {
            event.preventDefault();
            action();
        }
    }
});

$("new-chat").addEventListener("click", () => { sidebar.toggle(false); openChat(null); });
for (const button of document.querySelectorAll("[data-prompt]")) {
    button.addEventListener("click", () => { composer.set(button.dataset.prompt); $("composer").focus(); });
}
addEventListener("popstate", () => {
    const id = location.hash.slice(1) || null;
    if (id !== chat.id) {
        openChat(id);
    }
});
addEventListener("pagehide", () => chat.leave());

await takeLeft(store);
await sidebar.refresh();
await openChat(location.hash.slice(1) || null);
// The model's own values are known by now, unless the server is slow or gone.
await Promise.race([firstLook, new Promise(resolve => setTimeout(resolve, 2000))]);
document.body.dataset.ready = "true";
