// SPDX-License-Identifier: Apache-2.0
// A chat's settings: the system prompt, sampling, tools. An empty field is the model's own value: it is shown as the
// placeholder and not sent. New chats begin with the settings that were saved last.
import {$, el} from "./util.js";

// Field of the request, label, limits, and what it does.
const NUMBERS = [
    ["temperature", "Temperature", 0, 10, 0.1, "0 always takes the likeliest token"],
    ["top_p", "Top p", 0, 1, 0.05, "the likeliest tokens, up to this probability"],
    ["top_k", "Top k", 0, 1000000, 1, "this many of the likeliest tokens; 0: all"],
    ["min_p", "Min p", 0, 1, 0.01, "drop tokens below this share of the best"],
    ["repetition_penalty", "Repetition penalty", 0.01, 10, 0.05, "1: off"],
    ["presence_penalty", "Presence penalty", -2, 2, 0.1, "0: off"],
    ["frequency_penalty", "Frequency penalty", -2, 2, 0.1, "0: off"],
    ["max_tokens", "Longest answer", 1, 10000000, 1, "in tokens"],
    ["seed", "Seed", 0, 9007199254740991, 1, "the same seed gives the same answer"],
];
const WHOLE = new Set(["top_k", "max_tokens", "seed"]);
const FIXED = {presence_penalty: 0, frequency_penalty: 0, max_tokens: "no limit", seed: "random"};
const MAX_TEXT = 1 << 20;

// What of a value (of the store, of a file) is a setting.
export function cleanSettings(value) {
    const settings = {};
    if (typeof value !== "object" || value === null) {
        return settings;
    }
    for (const name of ["system", "tools"]) {
        if (typeof value[name] === "string" && value[name].length <= MAX_TEXT && value[name] !== "") {
            settings[name] = value[name];
        }
    }
    if (value.thinking === "on" || value.thinking === "off") {
        settings.thinking = value.thinking;
    }
    for (const [name, , least, most] of NUMBERS) {
        const number = value[name];
        if (Number.isFinite(number) && number >= least && number <= most &&
            (!WHOLE.has(name) || Number.isInteger(number))) {
            settings[name] = number;
        }
    }
    return settings;
}

// The fields of a request; the system prompt is a turn and goes with the messages.
export function requestFields(settings) {
    const fields = {};
    for (const [name] of NUMBERS) {
        if (settings[name] !== undefined) {
            fields[name] = settings[name];
        }
    }
    if (settings.thinking !== undefined) {
        fields.chat_template_kwargs = {enable_thinking: settings.thinking === "on"};
    }
    const tools = settings.tools === undefined ? [] : parseTools(settings.tools);
    if (tools.length > 0) {
        fields.tools = tools;
    }
    return fields;
}

// A list of tools in the form of the API; throws an Error that says what is wrong.
function parseTools(source) {
    const tools = JSON.parse(source);
    if (!Array.isArray(tools)) {
        throw new Error("a list [...] of tools is expected");
    }
    return tools;
}

function numberRow([name, label, least, most, step, help]) {
    const field = el("input", {type: "number", id: "set-" + name, name, min: least, max: most, step: "any",
                               inputmode: step === 1 ? "numeric" : "decimal", autocomplete: "off",
                               "aria-describedby": "help-" + name, "data-testid": "set-" + name});
    return el("div", {class: "field"}, el("label", {for: "set-" + name}, label), field,
              el("small", {id: "help-" + name}, help));
}

// Puts the rows into the dialog, once.
export function buildSettings() {
    $("sampling-fields").append(...NUMBERS.map(numberRow));
}

const shown = value => typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value ?? "");

// Fill the dialog with a chat's settings and the model's own values.
export function showSettings(settings, model) {
    const about = model?.whimbrel ?? {};
    const own = {...FIXED, ...about.sampling};
    for (const [name] of NUMBERS) {
        const field = $("set-" + name);
        field.value = settings[name] ?? "";
        field.placeholder = shown(own[name]);
        field.setCustomValidity("");
    }
    $("set-system").value = settings.system ?? "";
    $("set-tools").value = settings.tools ?? "";
    $("set-tools").setCustomValidity("");
    $("set-thinking").value = settings.thinking ?? "";
    $("thinking-field").hidden = about.thinking_switch !== true;
}

// The settings that the dialog holds, or null: a field is wrong, and the browser shows which.
export function readSettings() {
    const settings = {system: $("set-system").value, tools: $("set-tools").value.trim(), thinking: $("set-thinking").value};
    const tools = $("set-tools");
    tools.setCustomValidity("");
    try {
        if (settings.tools !== "") {
            parseTools(settings.tools);
        }
    } catch (error) {
        tools.setCustomValidity("These tools are not JSON in the form of the API: " + error.message);
        tools.closest("details").open = true;
    }
    for (const [name, label] of NUMBERS) {
        const field = $("set-" + name);
        const number = field.valueAsNumber;
        field.setCustomValidity(WHOLE.has(name) && field.value !== "" && !Number.isInteger(number)
                                ? `${label} is a whole number` : "");
        if (field.value !== "") {
            settings[name] = number;
        }
    }
    return $("settings-form").reportValidity() ? cleanSettings(settings) : null;
}
