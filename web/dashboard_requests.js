// SPDX-License-Identifier: Apache-2.0
// The table of requests that are answered or wait (/requests).
import {element} from "./dashboard_chart.js";

const MAX_ROWS = 100;
const WORDS = {waiting: "waiting", reading: "reading its prompt", answering: "answering"};
const count = value => (Number.isFinite(value) ? value.toLocaleString("en") : "–");

function age(seconds) {
    return seconds < 120 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

function row(request) {
    const read = `${count(request.prompt_tokens_read)} of ${count(request.prompt_tokens)}`;
    const share = element("progress", {max: Math.max(request.prompt_tokens, 1), value: request.prompt_tokens_read,
                                       "aria-label": "Prompt read"});
    return element("tr", {}, element("th", {scope: "row"}, String(request.id), " ", element("small", {}, String(request.route))),
        element("td", {}, String(request.client)), element("td", {}, WORDS[request.state] ?? "–"),
        element("td", {class: "number"}, age(Number(request.age_s) || 0)),
        element("td", {class: "number"}, read, " ", request.state === "reading" ? share : ""),
        element("td", {class: "number"}, count(request.generated_tokens)));
}

export function showRequests(list, body, none) {
    const sorted = [...list].sort((a, b) => b.age_s - a.age_s);
    const rows = sorted.slice(0, MAX_ROWS).map(row);
    if (sorted.length > MAX_ROWS) {
        rows.push(element("tr", {}, element("td", {colspan: "6"}, `and ${count(sorted.length - MAX_ROWS)} more`)));
    }
    body.replaceChildren(...rows);
    none.hidden = rows.length > 0;
    body.closest(".scroll").hidden = rows.length === 0;
}
