// SPDX-License-Identifier: Apache-2.0
// Markdown to nodes: marked reads it, DOMPurify makes the nodes. Nothing else in the page turns text into markup, and
// the Content-Security-Policy lets nobody else (trusted-types dompurify).
import "./marked.js";
import "./purify_fix.js";
import "./purify.js";
import {formulaExtensions} from "./formula_text.js";

const {marked, DOMPurify} = globalThis;
marked.use({extensions: formulaExtensions});
const OPTIONS = {...marked.defaults, gfm: true, breaks: false, headerIds: false, mangle: false};
const MAX_TEXT = 200000; // a longer block is shown as it is

const COMMON = {ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
                ADD_URI_SAFE_ATTR: ["align", "start"],
                ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i};
const TEXT = {...COMMON,
    ALLOWED_TAGS: ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre",
                   "blockquote", "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td", "#text"],
    ALLOWED_ATTR: ["href", "title", "start", "align", "class"]};
// No attribute of these takes an address, so DOMPurify need not read their values as one.
const MATH_ATTRIBUTES = [
    "accent", "accentunder", "columnalign", "columnlines", "columnspacing", "depth", "display", "displaystyle", "fence", "height",
    "linethickness", "lspace", "mathbackground", "mathcolor", "mathsize", "mathvariant", "maxsize", "minsize", "notation",
    "rowlines", "rowspacing", "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width"];
const MATH = {...COMMON,
    ALLOWED_TAGS: ["math", "menclose", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom", "mroot", "mrow", "ms",
                   "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder",
                   "munderover", "#text"],
    ALLOWED_ATTR: MATH_ATTRIBUTES, ADD_URI_SAFE_ATTR: MATH_ATTRIBUTES};
const CODE = {...COMMON, ALLOWED_TAGS: ["span", "#text"], ALLOWED_ATTR: ["class"]};

// What finds its own direction. Lists and quotes do it for what is in them, so that signs and bars are on its side.
const DIRECTED = new Set(["P", "UL", "OL", "H1", "H2", "H3", "H4", "H5", "H6", "TD", "TH", "BLOCKQUOTE"]);
const DIRECTING = new Set(["LI", "BLOCKQUOTE"]);
let classes = null; // what class names the current call keeps

DOMPurify.addHook("uponSanitizeAttribute", (node, data) => {
    if (data.attrName === "class") {
        data.keepAttr = classes?.test(data.attrValue) ?? false;
    } else if (/^-(?:[3-9]|\d{2})/.test(data.attrValue)) {
        data.keepAttr = false; // a formula stays in its place
    }
});
DOMPurify.addHook("afterSanitizeAttributes", node => {
    if (node.nodeName === "A" && node.hasAttribute("href")) {
        node.setAttribute("rel", "noopener noreferrer nofollow");
        node.setAttribute("target", "_blank");
    } else if (DIRECTED.has(node.nodeName) && !(node.nodeName === "P" && DIRECTING.has(node.parentNode?.nodeName))) {
        node.setAttribute("dir", "auto");
    }
});

const escaped = text => text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const textToken = raw => ({type: "text", raw, text: escaped(raw), escaped: true});

// marked leaves text as it is after a tag like <script>; what it has escaped already stays the same.
const withoutTags = text => text.replace(/&(?!(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|\w+);)/g, "&amp;")
                                .replace(/</g, "&lt;").replace(/>/g, "&gt;");

// Raw HTML is shown as text; an image becomes a link, since to load it would tell its host about the chat; a check
// box becomes a sign.
function tame(tokens, isInline) {
    return tokens.map(token => {
        if (token.type === "html" || token.type === "tag") {
            const text = textToken(token.raw);
            return isInline ? text : {type: "paragraph", raw: token.raw, text: token.raw, tokens: [text]};
        }
        if (token.type === "image") {
            const label = /^!\[([^\]]+)\]/.exec(token.raw)?.[1] || token.href || "image";
            return !token.href ? textToken(token.raw) : {type: "link", raw: token.raw, href: token.href, title: null, text: label,
                    tokens: [textToken("\u{1F5BC} " + label)]};
        }
        if (token.type === "text" && isInline) {
            token.text = withoutTags(token.text);
            token.escaped = true;
        } else if (token.type === "list") {
            token.items.forEach(tameItem);
        } else if (token.type === "table") {
            for (const cell of [token.header, ...token.rows].flat()) {
                cell.tokens = tame(cell.tokens, true);
            }
        } else if (token.tokens) {
            token.tokens = tame(token.tokens, token.type !== "blockquote");
        }
        return token;
    });
}

function tameItem(item) {
    item.tokens = tame(item.tokens ?? [], false);
    if (item.task) {
        item.task = false;
        const sign = textToken(item.checked ? "\u2611 " : "\u2610 ");
        const first = item.tokens[0];
        if (first?.tokens) {
            first.tokens.unshift(sign);
        } else {
            item.tokens.unshift({...sign, tokens: [sign]});
        }
    }
}

function sanitized(html, config, classPattern) {
    classes = classPattern;
    return DOMPurify.sanitize(html, config);
}

export function plainNodes(text) {
    const fragment = document.createDocumentFragment();
    const p = document.createElement("p");
    p.className = "plain";
    p.dir = "auto";
    p.textContent = text;
    fragment.append(p);
    return fragment;
}

// Signs that begin an emphasis and are never ended: marked looks for the end of each in all of the text.
function isTangled(text) {
    const openers = text.match(/(?:^|[\s(])[*_]{1,3}(?=\S)/gm)?.length ?? 0;
    const closers = text.match(/[^\s*_][*_]{1,3}(?=[\s).,;:!?]|$)/gm)?.length ?? 0;
    return openers - closers > 200;
}

// A fragment. What marked cannot read (it recurses on deep nesting) is shown as it is.
export function markdownNodes(text) {
    if (text.length > MAX_TEXT || isTangled(text)) {
        return plainNodes(text);
    }
    try {
        const tokens = marked.lexer(text, OPTIONS);
        const tamed = Object.assign(tame(tokens, false), {links: tokens.links});
        return sanitized(marked.parser(tamed, OPTIONS), TEXT, /^language-[\w+#.-]+$/);
    } catch {
        return plainNodes(text);
    }
}

let highlighter = null; // a promise, once it is asked for

// Highlighted code as a fragment, or null where the language is not known. The library is large: it is loaded when
// the first block of code is complete.
export async function highlightNodes(code, language) {
    highlighter ??= import("./highlight.js").then(({default: hljs}) => {
        hljs.configure({hideUpgradeWarningAcceptNoSupportOrSecurityUpdates: true}); // Debian supports its 9.18
        return hljs;
    });
    try {
        const hljs = await highlighter;
        if (!hljs.getLanguage(language)) {
            return null;
        }
        const isOld = parseInt(hljs.versionString ?? "9", 10) < 11;
        const html = isOld ? hljs.highlight(language, code, true).value
                           : hljs.highlight(code, {language, ignoreIllegals: true}).value;
        return sanitized(html, CODE, /^(?:hljs-[\w-]+|[\w-]+_)(?: (?:hljs-[\w-]+|[\w-]+_))*$/);
    } catch {
        highlighter = null; // not loaded: the next block tries again
        return null;
    }
}

/* --- formulas --- */

const MOST_KEPT = 300;
const kept = new Map(); // source -> its nodes: a growing paragraph is read again and again
let katex;              // undefined: not loaded yet; null: it is not part of this build
let loading = null;

// Large, so it is loaded when the first formula comes.
function loadKatex() {
    loading ??= import("./katex.js").then(module => {
        katex = module.default;
        document.querySelectorAll(".formula.is-source").forEach(span => span.replaceWith(
            formulaNode(span.textContent, span.classList.contains("is-display"))));
    }, () => { loading = null; });
}

// What browsers leave out of MathML: columns have their sides by classes, and an arrow above a letter is one that
// stands by itself.
function forBrowsers(nodes) {
    for (const table of nodes.querySelectorAll("mtable[columnalign]")) {
        const sides = table.getAttribute("columnalign").split(/\s+/);
        for (const row of table.children) {
            [...row.children].forEach((cell, i) => {
                const side = sides[Math.min(i, sides.length - 1)];
                if (side === "left" || side === "right") {
                    cell.setAttribute("class", "is-" + side);
                }
            });
        }
    }
    for (const mark of nodes.querySelectorAll("mover > mo:last-child")) {
        if (mark.textContent === "\u20d7") {
            mark.textContent = "\u2192";
            mark.setAttribute("stretchy", "false");
        }
    }
    return nodes;
}

// As MathML, which every browser sets by itself: KaTeX's own form needs inline styles, which the policy forbids.
function mathNodes(tex, isDisplay) {
    const key = (isDisplay ? "d" : "i") + tex;
    if (!kept.has(key)) {
        if (kept.size >= MOST_KEPT) {
            kept.clear();
        }
        const html = katex.renderToString(tex, {output: "mathml", displayMode: isDisplay, throwOnError: true, trust: false,
                                                strict: "ignore", maxSize: 10, maxExpand: 500});
        const bare = html.replace(/<annotation encoding="application\/x-tex">[^<]*<\/annotation>|<\/?semantics>/g, "")
                         .replace(/^<span class="katex">|<\/span>$/g, "");
        kept.set(key, forBrowsers(sanitized(bare, MATH, null)));
    }
    return kept.get(key).cloneNode(true);
}

// A formula, or its source where it cannot be set (yet).
export function formulaNode(tex, isDisplay) {
    const span = document.createElement("span");
    span.className = isDisplay ? "formula is-display" : "formula";
    span.dir = "ltr";
    try {
        if (katex) {
            span.append(mathNodes(tex, isDisplay));
            return span;
        }
    } catch {
        span.classList.add("is-wrong"); // KaTeX does not know it
    }
    if (katex === undefined) {
        span.classList.add("is-source");
        loadKatex();
    }
    const code = document.createElement("code");
    code.textContent = tex;
    span.append(code);
    return span;
}
