// SPDX-License-Identifier: Apache-2.0
// The dashboard: asks /metrics every two seconds while it is in view, keeps a quarter of an hour, and draws it.
import {Chart, element} from "./dashboard_chart.js";
import * as Prometheus from "./dashboard_metrics.js";

const POLL_MS = 2000;
const KEEP_S = 900;
const RATE_S = 6; // a rate is of so many seconds before its point
const PERCENTILE_S = 30; // a percentile is of what ended in so many seconds before its point
const MAX_WAIT_MS = 10000;
const KEY_PLACE = "whimbrel-key"; // these two as the chat page has them
const THEME_PLACE = "whimbrel-theme";

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
    loading: ["whimbrel:state", {state: "loading"}],
    draining: ["whimbrel:state", {state: "draining"}],
    loaded: ["whimbrel:load_progress_ratio"],
    started: ["process_start_time_seconds"],
};

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

// Seconds, in the unit that suits the largest number beside it.
function seconds(value, top) {
    if (top < 1) {
        return `${+(value * 1000).toPrecision(value < 0.01 ? 2 : 3)} ms`;
    }
    return top < 120 ? `${+value.toFixed(value < 10 ? 2 : 1)} s` : `${+(value / 60).toFixed(1)} min`;
}

const percent = value => `${+value.toFixed(value < 10 && value > 0 ? 1 : 0)} %`;

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

const latency = (id, title, note, name) => ({id, title, note, unit: seconds, least: 0.001, series: PERCENTILES,
    read: (now, lately, window) => percentiles(now, window, name)});

const CHARTS = [
    {id: "made", title: "Generated", note: "tokens per second, of all answers together", unit: short, least: 1,
        series: [{name: "generated", kind: "a", area: true}], read: (now, lately) => [rate(now, lately, "made")]},
    {id: "prompt", title: "Prompts read", note: "tokens per second", unit: short, least: 1,
        series: [{name: "all", kind: "b", area: true}, {name: "of them from the cache", kind: "d"}],
        read: (now, lately) => [rate(now, lately, "prompt"), rate(now, lately, "cached")]},
    latency("first", "Time to first token", "from the request to the first token of its answer", "first"),
    latency("between", "Time between tokens", "from one token of an answer to the next", "between"),
    latency("whole", "Whole requests", "from the request to the end of its answer", "whole"),
    {id: "batch", title: "Batch size", note: "answers in one step of the model, on average", unit: short, least: 4,
        series: [{name: "in a step", kind: "a", area: true}],
        read: (now, lately) => {
            const steps = rate(now, lately, "steps");
            return [steps ? rate(now, lately, "batch") / steps : null];
        }},
    {id: "queue", title: "Requests", note: "being answered, and waiting for their turn", unit: short, least: 4,
        series: [{name: "running", kind: "a", area: true}, {name: "waiting", kind: "b"}],
        read: now => [now.running, now.waiting]},
    {id: "kv", title: "Key and value memory", note: "share of what there is", unit: percent, most: 100,
        series: [{name: "in use", kind: "a", area: true}, {name: "kept for reuse", kind: "d"}],
        read: now => [ratio(now.kvUsed, now.kvTotal), ratio(now.kvCached, now.kvTotal)]},
    {id: "cache", title: "Cache hits", note: "share of prompt tokens that were known already",
        unit: percent, most: 100, series: [{name: "from the cache", kind: "d", area: true}],
        read: (now, lately, window) => [ratio(rate(now, window, "cached"), rate(now, window, "prompt"))]},
];

const TILES = [
    ["Generated", last => [last("made", 0), short, "tokens/s"]],
    ["Prompt", last => [last("prompt", 0), short, "tokens/s"]],
    ["First token", last => [last("first", 0), seconds, ""]],
    ["Next token", last => [last("between", 0), seconds, ""]],
    ["Running", last => [last("queue", 0), short, ""]],
    ["Waiting", last => [last("queue", 1), short, ""]],
    ["Memory used", last => [last("kv", 0), percent, ""]],
    ["Cache hits", last => [last("cache", 0), percent, ""]],
];

// --- states of the server ---

const states = []; // oldest first

function read(text, time) {
    const families = Prometheus.parse(text);
    const state = {time};
    for (const [name, [long, labels]] of Object.entries(READ)) {
        state[name] = Prometheus.histogram(families, long) || Prometheus.sum(families, long, labels);
    }
    if (state.made === null) {
        throw new Error(`what /metrics gives has no ${READ.made[0]}`);
    }
    const model = families.get("whimbrel:model_info");
    state.model = model === undefined ? "" : model[0].labels.get("model") || "";
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

function add(state) {
    const before = states[states.length - 1] || null;
    // Nothing that another process counted is set against what this one counts.
    state.restart = before !== null && (state.started !== before.started || state.made < before.made);
    states.push(state);
    const index = states.length - 1;
    state.values = CHARTS.map(chart => chart.read(state, back(index, RATE_S), back(index, PERCENTILE_S)));
    while (state.time - states[0].time > KEEP_S) {
        states.shift();
    }
}

// --- the page ---

const by = id => document.getElementById(id);
const charts = CHARTS.map(what => new Chart(what, time => charts.forEach(chart => chart.setCursor(time))));
const tiles = TILES.map(([name]) => {
    const value = element("dd", {}, "–");
    by("tiles").append(element("div", {class: "tile"}, element("dt", {}, name), value));
    return value;
});

function draw() {
    const to = states.length === 0 ? performance.now() / 1000 : states[states.length - 1].time;
    const from = to - Number(by("span").value);
    const shown = states.filter(state => state.time >= from);
    charts.forEach(chart => chart.measure());
    charts.forEach((chart, i) => chart.show(
        shown.map(state => ({time: state.time, first: state.restart, values: state.values[i]})), from, to));
    const newest = shown[shown.length - 1];
    const last = (id, series) =>
        (newest === undefined ? null : newest.values[CHARTS.findIndex(what => what.id === id)][series]);
    TILES.forEach(([, of], i) => {
        const [value, unit, after] = of(last);
        tiles[i].replaceChildren(value === null ? "–" : unit(value, value));
        if (value !== null && after) {
            tiles[i].append(" ", element("small", {}, after));
        }
    });
}

// What the server says of itself.
function tell(state) {
    by("model").textContent = state.model;
    if (state.loading) {
        say("waiting", `Loading ${percent(100 * state.loaded)}`);
    } else if (state.draining) {
        say("waiting", "Stopping");
    } else {
        say("live", "Live");
    }
}

function say(state, words) {
    by("state").dataset.state = state;
    if (by("state").textContent !== words) {
        by("state").textContent = words;
    }
}

function banner(words) {
    by("banner").hidden = words === "";
    if (by("banner").textContent !== words) {
        by("banner").textContent = words;
    }
}

// --- asking ---

let timer = 0;
let asking = null;
let failures = 0;
let paused = false;

// A browser may refuse to keep things; the key then lives as long as the page.
function stored(place) {
    try {
        return sessionStorage.getItem(place) ?? localStorage.getItem(place) ?? "";
    } catch {
        return "";
    }
}

let key = stored(KEY_PLACE);

function setKey(value, remember) {
    key = value;
    try {
        sessionStorage.removeItem(KEY_PLACE);
        localStorage.removeItem(KEY_PLACE);
        (remember ? localStorage : sessionStorage).setItem(KEY_PLACE, value);
    } catch {
        // not kept, but used
    }
}

function askForKey(wrong) {
    say("waiting", "Key needed");
    by("key-form").hidden = false;
    by("key-wrong").hidden = !wrong;
    by("grid").hidden = by("tiles").hidden = true;
    by("key").focus();
}

async function ask() {
    asking = new AbortController();
    const headers = key ? {Authorization: `Bearer ${key}`} : {};
    const signal = AbortSignal.any([asking.signal, AbortSignal.timeout(MAX_WAIT_MS)]);
    const answer = await fetch("metrics", {headers, signal, cache: "no-store"});
    if (answer.status === 401) {
        askForKey(key !== "");
        return false;
    }
    if (!answer.ok) {
        throw new Error(`the server answers ${answer.status} to /metrics`);
    }
    add(read(await answer.text(), performance.now() / 1000));
    return true;
}

function gone(error) {
    failures++;
    const wait = Math.min(MAX_WAIT_MS, 1000 * 2 ** (failures - 1));
    const isGone = error instanceof TypeError || error.name === "TimeoutError";
    const why = isGone ? "The server does not answer" : `The dashboard cannot go on: ${error.message}`;
    say("gone", isGone ? "Server gone" : "No numbers");
    banner(`${why}. Asking again every ${Math.round(wait / 1000)} s; the charts keep what they have.`);
    timer = setTimeout(poll, wait);
}

async function poll() {
    stop();
    if (paused || document.hidden) {
        return;
    }
    try {
        if (!(await ask())) {
            return;
        }
    } catch (error) {
        if (error.name !== "AbortError") {
            gone(error);
        }
        return;
    }
    failures = 0;
    banner("");
    tell(states[states.length - 1]);
    draw();
    timer = setTimeout(poll, POLL_MS);
}

function stop() {
    clearTimeout(timer);
    asking?.abort();
}

by("pause").addEventListener("click", () => {
    paused = !paused;
    by("pause").textContent = paused ? "Go on" : "Pause";
    if (paused) {
        stop();
        say("paused", "Paused");
    } else {
        poll();
    }
});
by("span").addEventListener("change", draw);
by("key-form").addEventListener("submit", event => {
    event.preventDefault();
    setKey(by("key").value.trim(), by("remember").checked);
    by("key").value = "";
    by("key-form").hidden = true;
    by("grid").hidden = by("tiles").hidden = false;
    poll();
});
document.addEventListener("visibilitychange", () => (document.hidden ? stop() : poll()));
new ResizeObserver(draw).observe(by("grid"));

const theme = stored(THEME_PLACE);
if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
}
by("grid").append(...charts.map(chart => chart.card));
draw();
poll();
