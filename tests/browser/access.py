# SPDX-License-Identifier: Apache-2.0
"""Accessibility, by axe-core's rules and by own checks of what it leaves to people: sizes for fingers, the way of the
Tab key, a focus that is seen, nothing wider than the screen."""
import importlib.util
import json
import pathlib

# Found and not imported: its own code needs a package that is not here.
AXE = pathlib.Path(importlib.util.find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text(
    encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

VISIBLE = """const visible = e => { const r = e.getBoundingClientRect();
    return e.checkVisibility({visibilityProperty: true, opacityProperty: true}) && r.width > 1 && r.height > 1 &&
        r.right > 0 && r.left < document.documentElement.scrollWidth; };
const controls = () => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [tabindex="0"], [role=button]')]
    .filter(e => visible(e) && !e.disabled && e.type !== 'hidden');
const name = e => (e.id ? '#' + e.id : e.tagName.toLowerCase() + '.' + (e.getAttribute('class') || '')) + ' "' +
    (e.innerText || e.ariaLabel || e.value || '').slice(0, 30) + '"';"""


def violations(page, skip=()):
    """What axe finds, one line each."""
    found = page.isolated(f"""{AXE}
        axe.run(document, {{runOnly: {json.dumps(RULES)}, resultTypes: ['violations']}}).then(r => r.violations.flatMap(
            v => v.nodes.map(n => [v.id, v.help + ': ' + n.target.join(' ') + ' ' + (n.any[0] || {{}}).message])))""")
    return [f"{rule}: {what}" for rule, what in found if rule not in skip]


def small_targets(page, least=44):
    """Controls that a finger misses: under `least` px in a direction. Links inside running text are exempt."""
    return page.js(f"""(() => {{ {VISIBLE}
        return controls().filter(e => !(e.tagName === 'A' && e.closest('p, li, footer, .skip')))
            .map(e => [e, (e.closest('label') || e).getBoundingClientRect(), e.getBoundingClientRect()])
            .filter(([e, a, b]) => Math.max(a.width, b.width) < {least} - 0.5 || Math.max(a.height, b.height) < {least} - 0.5)
            .map(([e, a, b]) => name(e) + ` ${{Math.round(b.width)}}x${{Math.round(b.height)}}`); }})()""")


def too_wide(page):
    """What sticks out of the screen to the right, unless it can be scrolled in a box of its own."""
    return page.js(f"""(() => {{ {VISIBLE}
        if (document.documentElement.scrollWidth <= innerWidth) return [];
        return [...document.body.querySelectorAll('*')].filter(visible)
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(name).slice(0, 5)
            .concat('page ' + document.documentElement.scrollWidth + ' of ' + innerWidth); }})()""")


def tab_stops(page, most=60):
    """The things that Tab reaches from the start, in order; each must be seen and show that it has the focus."""
    page.js("window.tabStops = []; document.body.tabIndex = -1; document.body.focus(); "
            "document.body.removeAttribute('tabindex')")
    stops, bad = [], []
    for _ in range(most):
        page.key("Tab")
        at = page.js(f"""(() => {{ {VISIBLE}
            const e = document.activeElement;
            if (e === document.body || tabStops.includes(e)) return null;
            tabStops.push(e);
            const s = getComputedStyle(e), w = getComputedStyle(e.closest('label') || e.parentElement);
            const ring = c => (c.outlineStyle !== 'none' && parseFloat(c.outlineWidth) >= 1) || c.boxShadow !== 'none';
            return [name(e), visible(e), ring(s) || ring(w)]; }})()""")
        if at is None:
            break
        stops.append(at[0])
        if not at[1]:
            bad.append(f"{at[0]} has the focus and is not seen")
        elif not at[2]:
            bad.append(f"{at[0]} does not show that it has the focus")
    return stops, bad
