// SPDX-License-Identifier: Apache-2.0
// Text files beside a message: chosen, dropped, or pasted (a long text counts as one). They go to the model as parts of
// the message, so they must fit into its context; what does not, or is no text, is refused with a reason.
import {countTokens} from "./api.js";
import {$, count, el, icon, iconButton, toast} from "./util.js";

const MAX_FILES = 20;
const MAX_BYTES = 4 << 20;
const LONG_PASTE = 4000; // characters

// The text of a file; throws an Error that says why there is none.
async function textOf(file) {
    if (file.size > MAX_BYTES) {
        throw new Error(`${file.name} is larger than ${MAX_BYTES >> 20} MiB, more than a model reads`);
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    const isWide = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
    const code = !isWide ? "utf-8" : bytes[0] === 0xff ? "utf-16le" : "utf-16be";
    let text = "";
    try {
        text = new TextDecoder(code, {fatal: true}).decode(bytes);
    } catch {
        text = "\0";
    }
    if (text.includes("\0")) {
        throw new Error(`${file.name} is not a text file (UTF-8); pictures, PDFs and archives cannot be read here`);
    }
    if (text.trim() === "") {
        throw new Error(`${file.name} is empty`);
    }
    return text;
}

// As the model gets it: its name, and the text between fences that it does not contain.
export function fileTurn({name, text}) {
    const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map(run => run.length));
    const fence = "`".repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
}

// What can be seen of a file in a message or beside the box. onShow opens it; onRemove: it can be taken away.
export function chip(file, onShow, onRemove = null) {
    const size = file.tokens === undefined ? `${count(file.text.length)} characters` : `${count(file.tokens)} tokens`;
    return el("li", {class: "chip", "data-testid": "chip"},
        el("button", {type: "button", class: "chip-open", title: "Show " + file.name, onclick: onShow, "data-testid": "chip-open"},
           icon("file"), el("span", {class: "chip-name", dir: "auto"}, file.name), el("small", {}, size)),
        onRemove && iconButton("close", "Remove " + file.name, onRemove, {"data-testid": "chip-remove"}));
}

// The text of a file in a dialog. onInsert: it is not sent yet, and may become part of the message's own text.
export function showFile(file, onInsert = null) {
    $("file-title").textContent = file.name;
    $("file-text").textContent = file.text;
    $("file-insert").hidden = onInsert === null;
    $("file-insert").onclick = () => { $("file-dialog").close(); onInsert(); };
    $("file-dialog").showModal();
    $("file-title").focus();
}

export class Attachments {
    #files = new Map(); // by draft: files of messages that are not sent yet
    #hooks;

    // key(): whose draft it is; room(): tokens that are left in the context, or Infinity; insert(text): into the box;
    // onChange: there are others now.
    constructor(hooks) {
        this.#hooks = hooks;
        $("attach").addEventListener("click", () => $("attach-file").click());
        $("attach-file").addEventListener("change", event => {
            this.addFiles([...event.target.files]);
            event.target.value = "";
        });
        $("composer").addEventListener("paste", event => this.#paste(event));
        this.#listenToDrops();
    }

    get files() {
        return this.#files.get(this.#hooks.key()) ?? [];
    }

    set files(files) {
        this.#files.set(this.#hooks.key(), files);
        this.show();
    }

    async addFiles(files) {
        for (const file of files) {
            try {
                await this.add(file.name || "File", await textOf(file));
            } catch (error) {
                toast(`Not attached: ${error.message}.`, true);
            }
        }
        this.#hooks.focus();
    }

    // Throws an Error that says why not.
    async add(name, text) {
        const key = this.#hooks.key();
        if (this.files.length >= MAX_FILES) {
            throw new Error(`a message has at most ${MAX_FILES} files`);
        }
        const file = {name: name.slice(0, 200), text};
        this.files = [...this.files, file];
        const tokens = await countTokens(text).catch(() => undefined); // without a number the server is who refuses
        const files = this.#files.get(key) ?? [];
        const others = files.reduce((sum, one) => sum + (one.tokens ?? 0), 0);
        const room = this.#hooks.room() - others;
        const fits = tokens === undefined || tokens < room;
        this.#files.set(key, files.flatMap(one => one !== file ? [one] : fits ? [Object.assign(file, {tokens})] : []));
        this.show();
        if (!fits) {
            throw new Error(`${file.name} has ${count(tokens)} tokens, and the context has room for ` +
                            `${count(Math.max(room, 0))}`);
        }
    }

    show() {
        const files = this.files;
        const without = file => files.filter(one => one !== file);
        $("attachments").hidden = files.length === 0;
        $("attachments").replaceChildren(...files.map(file => chip(file,
            () => showFile(file, () => { this.files = without(file); this.#hooks.insert(file.text); }),
            () => { this.files = without(file); this.#hooks.focus(); })));
        this.#hooks.onChange();
    }

    #paste(event) {
        const text = event.clipboardData.getData("text/plain");
        const files = [...event.clipboardData.files];
        if (text === "" && files.length > 0) {
            event.preventDefault();
            this.addFiles(files);
        } else if (text.length > LONG_PASTE) {
            event.preventDefault();
            const n = this.files.filter(file => file.name.startsWith("Pasted text")).length;
            this.add(n === 0 ? "Pasted text" : `Pasted text ${n + 1}`, text)
                .catch(error => toast(`Not attached: ${error.message}.`, true));
        }
    }

    // Anywhere on the page; files that are dropped elsewhere would be opened in its place.
    #listenToDrops() {
        const hasFiles = event => event.dataTransfer?.types.includes("Files") && document.querySelector("dialog[open]") === null;
        let depth = 0;
        const mark = () => document.body.toggleAttribute("data-drop", depth > 0);
        addEventListener("dragenter", event => { if (hasFiles(event)) { depth++; mark(); } });
        addEventListener("dragleave", event => { if (hasFiles(event)) { depth = Math.max(0, depth - 1); mark(); } });
        addEventListener("dragover", event => hasFiles(event) && event.preventDefault());
        addEventListener("drop", event => {
            depth = 0;
            mark();
            if (hasFiles(event)) {
                event.preventDefault();
                this.addFiles([...event.dataTransfer.files]);
            }
        });
    }
}
