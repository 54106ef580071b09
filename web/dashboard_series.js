// SPDX-License-Identifier: Apache-2.0
// What the dashboard shows: which metrics it reads, the states of the server so far, and what each chart and tile
// makes of them.
import * as Prometheus from "./dashboard_metrics.js";

const KEEP_S = 3600;
const RATE_S = 6; // a rate is of so many seconds before its point
const PERCENTILE_S = 30; // a percentile is of what ended in so many seconds before its point

// What is read: a name, and the labels where only some of its lines are meant. Histograms are read whole.
const READ = {
    made: ["whimbrel:tokens_total", {kind: "generated"}],
    cached: ["whimbrel:tokens_total", {kind: "cached"}],
    prompt: ["whimbrel:prompt_tokens_total"],
    running: ["whimbrel:requests_running"],
    waiting: ["whimbrel:requests_waiting"],
    kvUsed: ["whimbrel:kv_bytes", {state: "used"}],
    kvCached: ["whimbrel:kv_bytes", {state: "cached"}],
    kvTotal: ["whimbrel:kv_capacity_bytes"],
    first: ["whimbrel:time_to_first_token_seconds"],
    between: ["whimbrel:inter_token_latency_seconds"],
    whole: ["whimbrel:e2e_request_latency_seconds"],
    batch: ["whimbrel:step_sequences_sum"],
    steps: ["whimbrel:step_sequences_count"],
    proposed: ["whimbrel:proposed_tokens_total"],
    right: ["whimbrel:proposed_tokens_total", {result: "right"}],
    blocks: ["whimbrel:proposal_block_tokens_count"],
    blockTokens: ["whimbrel:proposal_block_tokens_sum"],
    right0: ["whimbrel:proposed_tokens_right_total", {position: "0"}],
    right1: ["whimbrel:proposed_tokens_right_total", {position: "1"}],
    right2: ["whimbrel:proposed_tokens_right_total", {position: "2"}],
    loading: ["whimbrel:state", {state: "loading"}],
    draining: ["whimbrel:state", {state: "draining"}],
    loaded: ["whimbrel:load_progress_ratio"],
    started: ["process_start_time_seconds"],
};

const HISTOGRAMS = ["first", "between", "whole"];

const PERCENTILES = [{name: "p50", kind: "a", share: 0.5}, {name: "p90", kind: "b dashed", share: 0.9},
    {name: "p99", kind: "c dotted", share: 0.99}];

// --- numbers as words ---

function short(value) {
    if (value >= 1e6) {
        return `${+(value / 1e6).toFixed(1)}M`;
    }
    if (value >= 1e4) {
        return `${+(value / 1e3).toFixed(1)}k`;
    }
    return String(value >= 100 || Number.isInteger(value) ? Math.round(value) : +value.toPrecision(2));
}

// Small numbers whose fractions matter.
const fine = value => String(+value.toFixed(value < 10 ? 2 : 1));

// Seconds, in the unit that suits the largest number beside it.
function seconds(value, top) {
    if (top < 1) {
        return `${+(value * 1000).toPrecision(value < 0.01 ? 2 : 3)} ms`;
    }
    return top < 120 ? `${+value.toFixed(value < 10 ? 2 : 1)} s` : `${+(value / 60).toFixed(1)} min`;
}

export const percent = value => `${+value.toFixed(value < 10 && value > 0 ? 1 : 0)} %`;

// --- what is drawn ---

// A chart's `read(now, lately, window)` gives a value for each series: `now` is a state of the server, `lately` the one
// RATE_S before it, `window` the one PERCENTILE_S before it; null where there is none.
function rate(now, then, name) {
    const more = then === null || now[name] === null || then[name] === null ? -1 : now[name] - then[name];
    return more < 0 ? null : more / (now.time - then.time);
}

function percentiles(now, window, name) {
    const came = window === null ? null : Prometheus.between(window[name], now[name]);
    return PERCENTILES.map(({share}) => (came === null ? null : Prometheus.quantile(came, share)));
}

function ratio(part, whole) {
    return part === null || !whole ? null : Math.min(100, (100 * part) / whole);
}

// How much of one there was for each of another; null where there was none of that.
function each(now, then, part, whole) {
    const number = rate(now, then, whole);
    return number ? rate(now, then, part) / number : null;
}

// Tokens that are proposed for an answer: 0 where there are steps and none with proposals.
function blockSize(now, then) {
    return each(now, then, "proposed", "blocks") ?? (rate(now, then, "steps") ? 0 : null);
}

// More than one token of an answer comes of a step by proposals only.
function stepTokens(now, then) {
    const more = each(now, then, "right", "batch");
    return [each(now, then, "blockTokens", "blocks"), more === null ? null : 1 + more];
}

const latency = (id, title, note, name) => ({id, title, note, unit: seconds, least: 0.001, series: PERCENTILES,
    read: (now, lately, window) => percentiles(now, window, name)});

export const CHARTS = [
    {id: "made", title: "Generated", note: "tokens per second, of all answers together", unit: short, least: 1,
        series: [{name: "generated", kind: "a", area: true}], read: (now, lately) => [rate(now, lately, "made")]},
    {id: "prompt", title: "Prompts read", note: "tokens per second", unit: short, least: 1,
        series: [{name: "all", kind: "b", area: true}, {name: "from the cache", kind: "d"}],
        read: (now, lately) => [rate(now, lately, "prompt"), rate(now, lately, "cached")]},
    latency("first", "Time to first token", "from the request to the first token of its answer", "first"),
    latency("between", "Time between tokens", "from one token of an answer to the next", "between"),
    latency("whole", "Whole requests", "from the request to the end of its answer", "whole"),
    {id: "batch", title: "Batch size", note: "answers in one step of the model, on average", unit: short, least: 4,
        series: [{name: "in a step", kind: "a", area: true}],
        read: (now, lately) => [each(now, lately, "batch", "steps")]},
    {id: "queue", title: "Requests", note: "being answered, and waiting for their turn", unit: short, least: 4,
        series: [{name: "running", kind: "a", area: true}, {name: "waiting", kind: "b"}],
        read: now => [now.running, now.waiting]},
    {id: "kv", title: "Key and value memory", note: "share of the planned memory", unit: percent, most: 100,
        series: [{name: "in use", kind: "a", area: true}, {name: "kept for reuse", kind: "d"}],
        read: now => [ratio(now.kvUsed, now.kvTotal), ratio(now.kvCached, now.kvTotal)]},
    {id: "cache", title: "Cache hits", note: "share of prompt tokens already computed",
        unit: percent, most: 100, series: [{name: "from the cache", kind: "d", area: true}],
        read: (now, lately, window) => [ratio(rate(now, window, "cached"), rate(now, window, "prompt"))]},
    {id: "tokens", title: "Tokens per step", note: "tokens that an answer gains in one step",
        unit: fine, least: 2, proposals: true,
        series: [{name: "with proposals", kind: "a", area: true}, {name: "in all steps", kind: "b dashed"}],
        read: stepTokens},
    {id: "right", title: "Proposals that were right", note: "share of all, and of 1st, 2nd and 3rd tokens",
        unit: percent, most: 100, proposals: true,
        series: [{name: "all", kind: "a", area: true}, {name: "1st", kind: "b dashed"}, {name: "2nd", kind: "c dotted"},
            {name: "3rd", kind: "d"}],
        read: (now, lately, window) => [ratio(rate(now, window, "right"), rate(now, window, "proposed")),
            ...["right0", "right1", "right2"].map(name => ratio(rate(now, window, name), rate(now, window, "blocks")))]},
    {id: "width", title: "Block size", note: "tokens proposed for an answer in one step",
        unit: fine, least: 4, proposals: true,
        series: [{name: "with proposals", kind: "a", area: true}, {name: "in all steps", kind: "b dashed"}],
        read: (now, lately) => [blockSize(now, lately), each(now, lately, "proposed", "batch")]},
];

export const TILES = [
    ["Generated", last => [last("made", 0), short, "tokens/s"]],
    ["Prompt", last => [last("prompt", 0), short, "tokens/s"]],
    ["First token p50", last => [last("first", 0), seconds, ""]],
    ["Next token p50", last => [last("between", 0), seconds, ""]],
    ["Running", last => [last("queue", 0), short, ""]],
    ["Waiting", last => [last("queue", 1), short, ""]],
    ["Memory used", last => [last("kv", 0), percent, ""]],
    ["Cache hits", last => [last("cache", 0), percent, ""]],
];

// --- states of the server ---

export const states = []; // oldest first

// Who proposes tokens, in words; "" where nobody does.
function proposer(line) {
    const says = line === undefined ? new Map() : line.labels;
    const draft = says.get("draft") || "";
    const kind = says.get("kind") || "";
    const words = [draft === "" ? "" : `draft ${draft}${kind === "" || kind === draft ? "" : ` (${kind})`}`,
        says.get("lookup") === "on" ? "lookup" : ""].filter(word => word !== "");
    return words.length === 0 ? "" : `Proposals: ${words.join(", ")}`;
}

export const read = (text, time) => readFamilies(Prometheus.parse(text), time);

function readFamilies(families, time) {
    const state = {time};
    for (const [name, [long, labels]] of Object.entries(READ)) {
        state[name] = Prometheus.histogram(families, long) || Prometheus.sum(families, long, labels);
    }
    if (state.made === null) {
        throw new Error(`what /metrics gives has no ${READ.made[0]}`);
    }
    const model = families.get("whimbrel:model_info");
    state.model = model === undefined ? "" : model[0].labels.get("model") || "";
    state.proposer = proposer((families.get("whimbrel:proposer_info") || [])[0]);
    return state;
}

// The oldest state up to so many seconds before a state, not past a restart; at least the one before it.
function back(index, span) {
    let at = index;
    while (at > 0 && !states[at].restart && (at === index || states[index].time - states[at - 1].time <= span + 1)) {
        at--;
    }
    return at === index ? null : states[at];
}

// What the server kept, where this page has nothing yet: states without a start, which are of the process that told
// them. Ages are from `time` on; what comes after `until` is known better.
export function addHistory(moments, time, until) {
    const last = states.length === 0 ? -Infinity : states[states.length - 1].time;
    for (const {age, families} of moments) {
        const at = time - age;
        if (at > last + 1 && at < until - 0.5 && families.has(READ.made[0])) {
            add(readFamilies(families, at));
        }
    }
}

export function add(state) {
    const before = states[states.length - 1] || null;
    // Nothing that another process counted is set against what this one counts.
    const isOther = before !== null && state.started !== null && before.started !== null && state.started !== before.started;
    state.restart = before !== null && (isOther || state.made < before.made);
    states.push(state);
    const index = states.length - 1;
    state.values = CHARTS.map(chart => chart.read(state, back(index, RATE_S), back(index, PERCENTILE_S)));
    while (state.time - states[0].time > KEEP_S) {
        states.shift();
    }
    // Nobody looks back farther than that; an hour of histograms would be tens of megabytes.
    for (let at = index - 1; at >= 0 && states[at]?.first !== undefined; at--) {
        if (state.time - states[at].time > 3 * PERCENTILE_S) {
            HISTOGRAMS.forEach(name => delete states[at][name]);
        }
    }
}
