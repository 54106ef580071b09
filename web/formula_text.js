// SPDX-License-Identifier: Apache-2.0
// Where formulas stand in Markdown: $..$, $$..$$, \(..\) and \[..\]. Dollars are money and shells' variables, too, so what
// reads like prose stays prose. Formulas become code with a class of their own, which answer_text.js replaces.

const MOST = 4000;   // characters of a formula
const WINDOW = 2000; // in which its beginning is looked for: marked asks at every token

const FUNCTIONS = new Set(("arccos arcsin arctan arg cos cosh cot csc deg det dim exp gcd inf ker lim log max min mod sec " +
                           "sin sinh sup tan tanh").split(" "));
const SMALL_WORDS = /(?:^|\s)(?:an|and|as|at|by|he|if|in|is|it|me|my|no|of|on|or|so|to|up|us|we)(?=\s|$)/;
const MATHS = /[\\^_=<>]/;

// Words beside each other without a sign of mathematics, or words that no formula has.
function isProse(tex) {
    const bare = tex.replace(/\\[a-zA-Z]+\*?(?:\s*\{[^{}]*\})?|[_^]\s*\{[^{}]*\}/g, " ");
    return SMALL_WORDS.test(bare) || (/^\d/.test(bare) && /\d\s+\d/.test(bare)) ||
           (bare.match(/(?<![A-Za-z])[A-Za-z]*[a-z][A-Za-z]*(?![A-Za-z])/g) ?? [])
               .some(word => word.length > 2 && !FUNCTIONS.has(word));
}

// What stands between the marks at the beginning of `source`, or null.
function between(source, open, close) {
    const end = source.slice(0, MOST + open.length).indexOf(close, open.length);
    const tex = end < 0 ? "" : source.slice(open.length, end);
    return tex.trim() === "" || /\n[ \t]*\n/.test(tex) ? null : {raw: source.slice(0, end + close.length), tex};
}

// A formula that `source` begins with: {raw, tex, isDisplay}, or undefined.
export function formulaAt(source) {
    if (source.startsWith("$$") || source.startsWith("\\[")) {
        const found = source[0] === "$" ? between(source, "$$", "$$") : between(source, "\\[", "\\]");
        const isLink = source[0] === "\\" && source[found?.raw.length] === "(";
        return found && !isLink && (MATHS.test(found.tex) || !isProse(found.tex)) ? {...found, isDisplay: true} : undefined;
    }
    if (source.startsWith("\\(")) {
        const found = between(source, "\\(", "\\)");
        return found && (MATHS.test(found.tex) || !isProse(found.tex)) ? {...found, isDisplay: false} : undefined;
    }
    const [raw, tex] = /^\$((?:\\[^\n]|[^\\$])+)\$(?![\dA-Za-z$])/.exec(source.slice(0, MOST)) ?? [];
    const isTight = raw !== undefined && !/^\s|\s$|\n[ \t]*\n/.test(tex);
    return isTight && !isProse(tex) ? {raw, tex, isDisplay: false} : undefined;
}

const place = /(?<![\dA-Za-z\\$])\$|\\[([]/;
const blockPlace = /(?<=\n {0,3})(?:\$\$|\\\[)/;
const escaped = text => text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const renderer = token => `<code class="language-formula-${token.isDisplay ? "display" : "inline"}">${escaped(token.tex)}</code>`;

// marked's extensions. A block has its lines to itself, so that a line in it that begins with - or = is no list or heading.
export const formulaExtensions = [
    {
        name: "formula", level: "inline", renderer,
        start: source => place.exec(source.slice(0, WINDOW))?.index,
        tokenizer: source => {
            const found = source[0] === "$" || source[0] === "\\" ? formulaAt(source) : undefined;
            return found && {type: "formula", ...found};
        },
    },
    {
        name: "formulaBlock", level: "block", renderer: token => `<p>${renderer(token)}</p>\n`,
        start: source => blockPlace.exec(source.slice(0, WINDOW))?.index,
        tokenizer: source => {
            const [indent] = /^ {0,3}(?=\$\$|\\\[)/.exec(source) ?? [];
            const found = indent === undefined ? undefined : formulaAt(source.slice(indent.length));
            const end = found && /^[ \t]*(?:\n|$)/.exec(source.slice(indent.length + found.raw.length));
            return end ? {type: "formulaBlock", ...found, raw: indent + found.raw + end[0]} : undefined;
        },
    },
];
