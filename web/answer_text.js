// SPDX-License-Identifier: Apache-2.0
// The text of an answer as nodes that grow. At most once a frame; only the last block is parsed again, and its nodes
// are changed where they differ, so that a selection stays.
import {Blocks} from "./blocks.js";
import {keepWordsOfCode, tableBox} from "./breaks.js";
import {formulaNode, highlightNodes, markdownNodes} from "./markdown.js";
import {copyButton, el} from "./util.js";

const MAX_HIGHLIGHT = 50000;
const PIECE = 4000;   // characters of code that are laid out together
const REST = 3;       // a draw is followed by so many times its own length of rest

// Make `node`'s children like those of `wanted`, keeping what is the same.
function morph(node, wanted) {
    let at = node.firstChild;
    for (let next = wanted.firstChild; next !== null;) {
        const following = next.nextSibling;
        if (at === null) {
            node.append(next);
        } else if (at.nodeType !== next.nodeType || at.nodeName !== next.nodeName || at.className !== next.className) {
            at.replaceWith(next);
            at = next.nextSibling;
        } else {
            morphOne(at, next);
            at = at.nextSibling;
        }
        next = following;
    }
    while (at !== null) {
        const following = at.nextSibling;
        at.remove();
        at = following;
    }
}

function morphOne(at, next) {
    if (at.nodeType === Node.TEXT_NODE) {
        setText(at, next.data);
        return;
    }
    if (at.classList.contains("code-frame")) {
        at.querySelector(".code-language").textContent = next.querySelector(".code-language").textContent;
        fillCode(at, next.querySelector("code").textContent);
        return;
    }
    for (const {name, value} of next.attributes) {
        if (at.getAttribute(name) !== value) {
            at.setAttribute(name, value);
        }
    }
    morph(at, next);
}

// Code lies in pieces of some hundred lines: only the last one is laid out again while it grows.
function fillCode(frame, code) {
    const inner = frame.querySelector("code");
    const shown = inner.textContent;
    if (!code.startsWith(shown)) {
        inner.replaceChildren();
    }
    let rest = code.slice(inner.textContent.length);
    while (rest !== "") {
        let piece = inner.lastChild;
        if (piece === null || piece.textContent.length > PIECE && piece.textContent.endsWith("\n")) {
            piece = inner.appendChild(el("span", {class: "lines"}, ""));
        }
        const room = Math.max(PIECE - piece.textContent.length, 0);
        const end = rest.indexOf("\n", room) + 1 || rest.length;
        (piece.firstChild ?? piece.appendChild(new Text(""))).appendData(rest.slice(0, end));
        rest = rest.slice(end);
    }
}

function setText(node, text) {
    if (text.startsWith(node.data)) {
        if (text.length > node.data.length) {
            node.appendData(text.slice(node.data.length));
        }
    } else {
        node.data = text;
    }
}

function isSelected(node) {
    const selection = getSelection();
    return !selection.isCollapsed && selection.rangeCount > 0 && selection.containsNode(node, true);
}

// A block of code with its language and a copy button.
function codeFrame(code, language) {
    const inner = el("code", {dir: "ltr", translate: "no"});
    const frame = el("div", {class: "code-frame", "data-testid": "code-block"},
              el("div", {class: "code-head"},
                 el("span", {class: "code-language"}, language),
                 copyButton("Copy code", () => inner.textContent, {"data-testid": "copy-code"})),
              el("pre", {tabindex: "0"}, inner));
    fillCode(frame, code);
    return frame;
}

async function highlight(frame, language) {
    const inner = frame.querySelector("code");
    const code = inner.textContent;
    if (language === "" || code.length > MAX_HIGHLIGHT) {
        return;
    }
    const nodes = await highlightNodes(code, language);
    if (nodes !== null && nodes.textContent === code && !isSelected(inner)) {
        inner.replaceChildren(nodes);
    }
}

export class AnswerText {
    #root;
    #blocks = new Blocks();
    #drawn = 0;    // closed blocks that have their final nodes
    #live = null;  // the node of the open block
    #frame = 0;
    #notBefore = 0;
    #text = "";
    #isDone = false;
    #caret = null; // the element at whose end it blinks

    constructor(root) {
        this.#root = root;
    }

    // The text so far, drawn with the next frame; `done`: nothing more comes, and it is drawn before this returns.
    set(text, {done = false} = {}) {
        if (this.#isDone && text === this.#text) {
            return;
        }
        if (this.#isDone || !text.startsWith(this.#text)) {
            this.#reset();
        }
        this.#text = text;
        if (done) {
            cancelAnimationFrame(this.#frame);
            this.#frame = 0;
            this.#draw(true);
        } else {
            this.#schedule();
        }
    }

    // With the next frame; after a costly draw (one huge paragraph) a later one, so that the page stays smooth.
    #schedule() {
        this.#frame ||= requestAnimationFrame(() => {
            this.#frame = 0;
            const start = performance.now();
            if (this.#isDone) {
                return;
            }
            if (start < this.#notBefore) {
                this.#schedule();
                return;
            }
            this.#draw(false);
            this.#notBefore = performance.now() + REST * (performance.now() - start);
            this.#root.dispatchEvent(new CustomEvent("drawn", {bubbles: true}));
        });
    }

    #reset() {
        this.#root.replaceChildren();
        this.#blocks = new Blocks();
        this.#drawn = 0;
        this.#live = null;
        this.#caret = null;
        this.#isDone = false;
    }

    #draw(done) {
        this.#blocks.grow(done ? this.#text + "\n" : this.#text); // the last line is complete, too
        const {closed} = this.#blocks;
        for (; this.#drawn < closed.length; this.#drawn++) {
            this.#show(closed[this.#drawn], true);
            this.#live = null;
        }
        const open = this.#blocks.open();
        if (open !== null) {
            this.#show(open, done);
        } else {
            this.#live?.remove();
            this.#live = null;
        }
        this.#isDone = done;
        this.#showCaret(!done);
    }

    // At the end of what is there, as a mark that the style sheet draws; no node, so a copy or a search never meets it.
    #showCaret(isShown) {
        let at = isShown ? this.#root.lastElementChild : null;
        while (at?.lastElementChild && !at.matches("p, h1, h2, h3, h4, h5, h6, .lines, td, th") &&
               (at.lastChild === at.lastElementChild || at.lastChild.data.trim() === "")) {
            at = at.lastElementChild;
        }
        if (this.#caret !== at) {
            this.#caret?.removeAttribute("data-caret");
            at?.setAttribute("data-caret", "");
            this.#caret = at;
        }
    }

    #show(block, isFinal) {
        if (this.#live !== null && this.#live.dataset.kind !== block.kind) {
            this.#live.remove();
            this.#live = null;
        }
        if (this.#live === null) {
            this.#live = el("div", {class: block.goesOn ? "block goes-on" : "block", "data-kind": block.kind});
            this.#root.append(this.#live);
        }
        const text = this.#blocks.text;
        if (block.kind === "code") {
            this.#showCode(block, text.slice(block.codeStart, block.codeEnd).replace(/\n$/, ""), isFinal);
        } else {
            this.#showText(text.slice(block.start, block.end), isFinal);
        }
    }

    #showCode(block, code, isFinal) {
        const live = this.#live;
        if (live.firstChild === null) {
            live.append(codeFrame(code, block.language));
        } else {
            fillCode(live, code);
        }
        if (isFinal) {
            highlight(live.firstChild, block.language);
        }
    }

    #showText(text, isFinal) {
        const nodes = markdownNodes(text);
        const languages = [];
        for (const pre of nodes.querySelectorAll("pre")) {
            const code = pre.querySelector("code") ?? pre;
            const language = /^language-(.+)$/.exec(code.className)?.[1].toLowerCase() ?? "";
            pre.replaceWith(codeFrame(code.textContent.replace(/\n$/, ""), language));
            languages.push(language);
        }
        for (const code of nodes.querySelectorAll(":not(pre, code) > code[class^=language-formula-]")) {
            code.replaceWith(formulaNode(code.textContent, code.className.endsWith("display")));
        }
        keepWordsOfCode(nodes);
        nodes.querySelectorAll("table").forEach(tableBox);
        for (const item of nodes.querySelectorAll("li")) {
            item.classList.toggle("task", /^\s*[\u2610\u2611] /.test(item.textContent)); // the box stands in place of the dot
        }
        morph(this.#live, nodes);
        if (isFinal) {
            this.#live.querySelectorAll(".code-frame").forEach((frame, i) => highlight(frame, languages[i]));
            for (const formula of this.#live.querySelectorAll(".formula.is-display")) {
                if (formula.scrollWidth > formula.clientWidth) {
                    formula.setAttribute("tabindex", "0"); // it scrolls: by keys, too
                }
            }
        }
    }
}
