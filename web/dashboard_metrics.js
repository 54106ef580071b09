// SPDX-License-Identifier: Apache-2.0
// Reads Prometheus text, and the percentiles out of its histograms. What it reads is outside data: a line that is
// none is passed over, never believed.
const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})?\s+(\S+)(?:\s+-?\d+)?$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;
const MAX_TEXT = 4 << 20;

function number(word) {
    if (/^[+-]?inf$/i.test(word)) {
        return word[0] === "-" ? -Infinity : Infinity;
    }
    return /^[+-]?(\d|\.\d)/.test(word) ? Number(word) : NaN;
}

function labels(text) {
    const found = new Map();
    for (const [, name, value] of (text || "").matchAll(LABEL)) {
        found.set(name, value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c)));
    }
    return found;
}

// name -> [{labels, value}]
export function parse(text) {
    const families = new Map();
    for (const line of text.slice(0, MAX_TEXT).split("\n")) {
        const match = line[0] === "#" ? null : LINE.exec(line.trim());
        if (match === null) {
            continue;
        }
        const value = number(match[3]);
        if (Number.isNaN(value)) {
            continue;
        }
        if (!families.has(match[1])) {
            families.set(match[1], []);
        }
        families.get(match[1]).push({labels: labels(match[2]), value});
    }
    return families;
}

// The sum over the lines of a name, of those with these labels only; null where there is none.
export function sum(families, name, want = {}) {
    const lines = (families.get(name) || []).filter(line =>
        Object.entries(want).every(([label, value]) => line.labels.get(label) === value));
    return lines.length === 0 ? null : lines.reduce((total, line) => total + line.value, 0);
}

// A histogram as sorted [limit, number up to it], summed over all other labels; null where there is none.
export function histogram(families, name) {
    const limits = new Map();
    for (const line of families.get(`${name}_bucket`) || []) {
        const limit = number(line.labels.get("le") || "");
        if (!Number.isNaN(limit)) {
            limits.set(limit, (limits.get(limit) || 0) + line.value);
        }
    }
    return limits.size === 0 ? null : [...limits].sort((a, b) => a[0] - b[0]);
}

// What came between two states of a histogram; null where nothing did, or where they do not fit together (the server
// was started anew).
export function between(before, after) {
    if (!before || !after || before.length !== after.length) {
        return null;
    }
    const difference = after.map(([limit, count], i) => [limit, count - before[i][1]]);
    const same = after.every(([limit], i) => limit === before[i][0]);
    const total = difference[difference.length - 1][1];
    return same && total > 0 && difference.every(([, count]) => count >= 0) ? difference : null;
}

// The value below which a share of the histogram lies, as if each bucket were filled evenly.
export function quantile(buckets, share) {
    const wanted = share * buckets[buckets.length - 1][1];
    let low = 0;
    let below = 0;
    for (const [limit, count] of buckets) {
        if (count >= wanted && count > below) {
            return limit === Infinity ? low : low + (limit - low) * ((wanted - below) / (count - below));
        }
        low = limit;
        below = count;
    }
    return low;
}
