# SPDX-License-Identifier: Apache-2.0
"""The holes that are known of DOMPurify 2.4.1, which is Debian 12's, against the way in which the page uses it. Three
walls stand: HTML of a model is text for marked and never reaches DOMPurify; what reaches it is held to lists of tags
without styles, raw text and templates; and its answer is a fragment that nobody turns into text and reads again."""
import json

from chatpage import at
from fake import tool_call
from test_hostile import harmless

TEXT = f'[data-role="assistant"] {at("message-text")}'
EVIL = "<img src=x onerror=pwned=1>"
SWITCH = f'<style><a id="</style>{EVIL}">'

# Each breaks out of some version: by the number and a word of what it is about.
HOLES = {
    "CVE-2024-47875, deep nests": "<div>" * 506 + f"<table><caption><svg><title><table><caption></caption></table></title>{SWITCH}",
    "CVE-2024-45801, depth of templates": "<template>" * 255 + f"<math><mi><b>{SWITCH}",
    "CVE-2025-26791, templates in raw text": f"<math><annotation-xml encoding='text/html'><style>${{</style>}}{SWITCH}",
    "CVE-2025-15599, text areas": f"<textarea><p id='</textarea>{EVIL}'>",
    "raw text of XML": f"<svg><xmp><p id='</xmp>{EVIL}'></xmp></svg><noembed><p id='</noembed>{EVIL}'>",
    "forms that end twice": f"<form><math><mtext></form><form><mglyph><style></math>{EVIL}",
    "comments in MathML": f"<math><mtext><table><mglyph><style><!--</style>{EVIL}--></style>",
    "CDATA in SVG": f"<svg></p><style><![CDATA[</style>{EVIL}]]></style></svg>",
    "names that hide properties": f"<form><input name=attributes><input name=nodeName><input name=parentNode></form>{EVIL}",
    "custom elements": f"<x-y is=a onclick=pwned=1>{EVIL}</x-y><font-face onload=pwned=1>",
    "names of addresses": "<a href='java\u0001script:pwned=1'>a</a><a href='\u00a0javascript:pwned=1'>b</a><a xlink:href='javascript:pwned=1'>c</a>",
    "attributes that name files": "<a ping=http://evil.test/ href=https://a.test>a</a><p background=http://evil.test/ style=x:y>b</p>",
    "processing instructions": f"<?xml-stylesheet ><style></style>{EVIL}?>",
    "declared namespaces": f"<math><mi xmlns='http://www.w3.org/1999/xhtml'><style>{EVIL}</style></mi></math>",
}

# What is sanitised as the page does it, with each of its lists, and what in the result is on none of them.
SANITISE = """(holes => {
    const found = [];
    for (const config of window.configs) {
        for (const [name, html] of holes) {
            const fragment = window.realSanitize.call(DOMPurify, html, config);
            const all = document.createTreeWalker(fragment, NodeFilter.SHOW_ALL & ~NodeFilter.SHOW_TEXT);
            for (let node = all.nextNode(); node !== null; node = all.nextNode()) {
                const tag = node.nodeName.toLowerCase();
                if (node.nodeType !== 1 || !config.ALLOWED_TAGS.includes(tag)) {
                    found.push(name + ': ' + tag);
                }
                for (const a of node.attributes ?? []) {
                    const own = ['rel', 'target', 'dir', 'tabindex'].includes(a.name);
                    const address = a.name === 'href' && !/^(https?|mailto):/i.test(a.value);
                    if ((!own && !config.ALLOWED_ATTR.includes(a.name)) || address) {
                        found.push(name + ': ' + tag + ' ' + a.name + '=' + a.value);
                    }
                }
            }
        }
    }
    return found;
})"""


def test_known_holes_as_an_answer(chat, fake):
    """From a model, through everything."""
    fake.answers = [["\n\n".join(HOLES.values())]]
    chat.ask("attack")
    harmless(chat, TEXT)
    assert EVIL in chat.answer(), "it is shown as text"


def test_known_holes_in_the_sanitiser(chat, fake):
    """With the lists of the page, without marked before it."""
    chat.expect("Content Security Policy", "CSP:")  # of what the sanitiser reads in a document of its own
    assert chat.js("""(() => {
        window.configs = [];
        window.realSanitize = DOMPurify.sanitize;
        DOMPurify.sanitize = (html, config) => {
            if (!window.configs.includes(config)) window.configs.push(config);
            return window.realSanitize.call(DOMPurify, html, config);
        };
        return DOMPurify.isSupported; })()""") is True
    fake.answers = [["Text, $x^2$\n\n```js\nlet x = 'y';\n```\n"]]
    chat.ask("go")
    chat.until("document.querySelectorAll('.formula math').length === 1")
    chat.until("window.configs.length >= 2")
    tags = [set(t) for t in chat.js("window.configs.map(c => c.ALLOWED_TAGS)")]
    assert all(chat.js("window.configs.map(c => c.RETURN_DOM_FRAGMENT === true)")), "an answer that is text is read again"
    raw = {"style", "script", "template", "textarea", "title", "noscript", "noembed", "noframes", "iframe", "xmp", "svg",
           "annotation-xml", "mglyph", "form", "input", "select", "plaintext", "img", "foreignobject"}
    assert not any(t & raw for t in tags), "the holes need these"
    found = chat.js(f"{SANITISE}({json.dumps(list(HOLES.items()))})")
    assert found == []
    assert chat.js("typeof pwned") == "undefined"


def test_no_prototype_is_polluted(chat, fake):
    """CVE-2024-48910 and CVE-2024-45801 begin with a prototype that somebody else has changed."""
    evil = '{"__proto__": {"ALLOWED_TAGS": ["img"], "__depth": -1}, "constructor": {"prototype": {"polluted": 1}}}'
    fake.answers = [[tool_call("f", evil), "\n\n```json\n" + evil + "\n```\n"]]
    chat.ask(evil)
    assert chat.js("[({}).ALLOWED_TAGS, ({}).__depth, ({}).polluted].every(x => x === undefined)")
