// SPDX-License-Identifier: Apache-2.0
// The dashboard's page: asks /metrics every two seconds while it is in view, and draws.
import {Chart, element} from "./dashboard_chart.js";
import {readHistory} from "./dashboard_history.js";
import {showRequests} from "./dashboard_requests.js";
import {CHARTS, TILES, add, addHistory, percent, read, states} from "./dashboard_series.js";

const POLL_MS = 2000;
const MAX_WAIT_MS = 10000;
const GAP_S = 7; // longer than between two looks
const KEY_PLACE = "whimbrel-key"; // these two as the chat page has them
const THEME_PLACE = "whimbrel-theme";

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
    const newest = shown[shown.length - 1];
    charts.forEach(chart => (chart.card.hidden = chart.what.proposals === true && !newest?.proposer));
    charts.forEach(chart => chart.measure());
    charts.forEach((chart, i) => chart.show(
        shown.map(state => ({time: state.time, first: state.restart, values: state.values[i]})), from, to));
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
    by("proposer").textContent = state.proposer;
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
    by("grid").hidden = by("tiles").hidden = by("requests").hidden = true;
    by("key").focus();
}

const clock = () => performance.now() / 1000;

function get(path) {
    const headers = key ? {Authorization: `Bearer ${key}`} : {};
    // With a reason of its own: an AbortError is one who stopped asking, and asks no more.
    const late = setTimeout(abort => abort.abort(new DOMException("late", "TimeoutError")), MAX_WAIT_MS, asking);
    return fetch(path, {headers, signal: asking.signal, cache: "no-store"}).finally(() => clearTimeout(late));
}

// What is there beside the numbers: a server that lacks it, or is not ready, is no failure.
async function getAside(path) {
    const answer = await get(path);
    return answer.ok ? answer.json().catch(() => ({})) : {};
}

async function ask() {
    asking = new AbortController();
    const answer = await get("metrics");
    if (answer.status === 401) {
        askForKey(key !== "");
        return false;
    }
    if (!answer.ok) {
        throw new Error(`the server answers ${answer.status} to /metrics`);
    }
    const now = read(await answer.text(), clock());
    // At the first look, and after a while in which nobody looked.
    if (states.length === 0 || now.time - states[states.length - 1].time > GAP_S) {
        const history = readHistory(await getAside("metrics/history"));
        addHistory(history, clock(), now.time);
    }
    add(now);
    const {data} = now.loading ? {} : await getAside("requests");
    showRequests(Array.isArray(data) ? data : [], by("request-rows"), by("no-requests"));
    return true;
}

function gone(error) {
    failures++;
    const wait = Math.min(MAX_WAIT_MS, 1000 * 2 ** (failures - 1));
    const isGone = error instanceof TypeError || error.name === "TimeoutError";
    const why = isGone ? "The server does not answer" : `The dashboard stopped: ${error.message}`;
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
    by("grid").hidden = by("tiles").hidden = by("requests").hidden = false;
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
