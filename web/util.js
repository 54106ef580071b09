// SPDX-License-Identifier: Apache-2.0
// Small things that every module uses. No text of a model, a server or a file ever becomes markup here: strings are
// text nodes and attributes, set one by one.

export const $ = id => document.getElementById(id);

// el("button", {class: "x", type: "button", onclick: f}, "text", node): an element. Functions become listeners.
export function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
        if (typeof value === "function") {
            node.addEventListener(name.slice(2), value);
        } else if (value === true) {
            node.setAttribute(name, "");
        } else if (value !== false && value !== undefined && value !== null) {
            node.setAttribute(name, value);
        }
    }
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
}

// One of the symbols of index.html.
export function icon(name) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    const use = document.createElementNS(space, "use");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    use.setAttribute("href", "#i-" + name);
    svg.append(use);
    return svg;
}

export function iconButton(name, label, onclick, props = {}) {
    return el("button", {class: "icon-button", type: "button", "aria-label": label, title: label, onclick, ...props},
              icon(name));
}

// crypto.randomUUID is missing on plain http in a LAN; getRandomValues is not.
export function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    return Array.from(bytes, b => b.toString(16).padStart(2, "0")).join("");
}

// So is navigator.clipboard. Whether it worked.
export async function copyText(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        const area = el("textarea", {class: "off-screen", readonly: true, "aria-hidden": "true"});
        const focused = document.activeElement;
        area.value = text;
        (document.querySelector("dialog[open]") ?? document.body).append(area);
        area.select();
        const copied = document.execCommand("copy");
        area.remove();
        focused?.focus?.();
        return copied;
    }
}

// A button that says for a moment that it copied.
export function copyButton(label, textOf, props = {}) {
    const button = iconButton("copy", label, async () => {
        const copied = await copyText(textOf());
        button.replaceChildren(icon(copied ? "check" : "alert"));
        announce(copied ? "Copied" : "The browser refused to copy");
        setTimeout(() => button.replaceChildren(icon("copy")), 1500);
    }, props);
    return button;
}

// For screen readers: said once, when it matters.
export function announce(text) {
    const region = $("announcer");
    region.textContent = "";
    requestAnimationFrame(() => { region.textContent = text; });
}

// A short notice at the bottom; for news that must not be missed use the banner.
export function toast(text, isError = false) {
    const note = el("div", {class: isError ? "toast is-error" : "toast", role: isError ? "alert" : "status",
                            "data-testid": "toast"}, text);
    $("toasts").append(note);
    setTimeout(() => note.remove(), isError ? 12000 : 4000);
}

// A question with two answers; resolves to whether it was confirmed.
export function confirmed(text, action) {
    return new Promise(resolve => {
        const dialog = el("dialog", {class: "dialog small", "data-testid": "confirm"});
        const close = value => { dialog.close(); dialog.remove(); resolve(value); };
        dialog.addEventListener("cancel", event => { event.preventDefault(); close(false); });
        dialog.append(el("p", {}, text),
                      el("div", {class: "dialog-actions"},
                         el("button", {type: "button", class: "button", onclick: () => close(false)}, "Cancel"),
                         el("button", {type: "button", class: "button is-danger", "data-testid": "confirm-ok",
                                       onclick: () => close(true)}, action)));
        document.body.append(dialog);
        dialog.showModal();
    });
}

export const isTouch = () => matchMedia("(pointer: coarse)").matches;
export const count = n => n.toLocaleString("en");
