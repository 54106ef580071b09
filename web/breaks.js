// SPDX-License-Identifier: Apache-2.0
// Where lines of an answer may break besides at blanks. Words in the cells of a table are never torn, so that narrow
// columns stay readable, and a box lets a wide table scroll sideways. Only a word so long (an address, a checksum) that
// it alone would make its table wide may break, after its signs and between its pieces. Code in a line keeps its words,
// so that no line ends in the dashes of an option.
import {el} from "./util.js";

const LONGEST = 24; // of the characters of a word that never breaks
const PIECE = 16;   // at most, of one that does
const LEAST = 6;    // before a break after a sign
const LONG_WORD = new RegExp(`(\\S{${LONGEST + 1},})`);
const letters = new Intl.Segmenter();

// The pieces of a long word: each but the last ends where the word may break.
function pieces(word) {
    const found = [];
    const signs = Array.from(letters.segment(word), s => s.segment);
    let from = 0;
    for (let i = 1; i + LEAST <= signs.length; i++) {
        if (i - from >= PIECE || i - from >= LEAST && /[^\p{L}\p{N}\p{M}]/u.test(signs[i - 1])) {
            found.push(signs.slice(from, i).join(""));
            from = i;
        }
    }
    return [...found, signs.slice(from).join("")];
}

// What is copied and searched stays the same.
function breakLongWords(node) {
    const parts = node.data.split(LONG_WORD);
    node.replaceWith(...parts.flatMap((part, i) =>
        i % 2 === 0 ? [part] : pieces(part).flatMap((piece, n) => n === 0 ? [piece] : [el("wbr"), piece])));
}

// In `nodes`, but not in blocks of code.
export function keepWordsOfCode(nodes) {
    for (const code of nodes.querySelectorAll("code:not(pre *, .formula *)")) {
        const parts = code.textContent.split(/(\S*-\S*)/);
        if (parts.length > 1) {
            code.replaceChildren(...parts.map((part, i) =>
                i % 2 === 0 || part.length > LONGEST ? part : el("span", {class: "word"}, part)));
        }
    }
}

export function tableBox(table) {
    const box = el("div", {class: "table-box", tabindex: "0", role: "region", "aria-label": "Table"});
    table.replaceWith(box);
    box.append(table);
    const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT, node =>
        LONG_WORD.test(node.data) && !node.parentElement.closest(".formula") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP);
    const found = [];
    while (texts.nextNode()) {
        found.push(texts.currentNode);
    }
    found.forEach(breakLongWords);
}
