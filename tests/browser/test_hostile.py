# SPDX-License-Identifier: Apache-2.0
"""Whatever a model, a server or a file says, it is shown and never run. A script that ran would set `pwned`; an image
that loaded would ask another host; both fail, and so does every message about the policy in the console."""
import json
import re

import pytest

import fake as scripted
from chatpage import at
from fake import Status, reasoning, stream_error, tool_call

SCRIPTS = [
    "<script>pwned = 1</script>",
    "<img src=x onerror='pwned = 1'>",
    "<img src='http://evil.test/leak.png'>",
    "![leak](http://evil.test/leak.png)",
    "![](javascript:pwned=1)",
    "[click](javascript:pwned=1)",
    "[click](JaVa\tScRiPt:pwned=1)",
    "[click](&#106;avascript:pwned=1)",
    "[click](data:text/html,<script>pwned=1</script>)",
    "[click](vbscript:x) <vbscript:x> <javascript:pwned=1>",
    "[ref]: javascript:pwned=1\n[a][ref]",
    "<a href='javascript:pwned=1'>a</a>",
    "<svg onload='pwned=1'><script>pwned=1</script></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=pwned=1></style></mglyph></table></mtext></math>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<object data='http://evil.test/'></object><embed src='http://evil.test/'>",
    "<form action='http://evil.test/'><input name=x autofocus onfocus=pwned=1><button>go</button></form>",
    "<div style='position:fixed;inset:0;background:red' id=composer class=button>over all</div>",
    "<style>* { display: none }</style><link rel=stylesheet href='http://evil.test/x.css'>",
    "<base href='http://evil.test/'><meta http-equiv=refresh content='0;url=http://evil.test/'>",
    "<body onload=pwned=1><details open ontoggle=pwned=1><video><source onerror=pwned=1></video>",
    "```html\n<script>pwned = 1</script>\n```",
    "```<img src=x onerror=pwned=1>\ncode\n```",
    "```js\" onmouseover=\"pwned=1\nlet x = '</code><script>pwned=1</script>';\n```",
    "`<script>pwned=1</script>` ``<b onclick=pwned=1>``",
    "| <img src=x onerror=pwned=1> | b |\n|--|--|\n| <svg onload=pwned=1> | [x](javascript:pwned=1) |",
    "- [ ] <input type=image src=x onerror=pwned=1>\n- [x] done",
    "# <a name=composer>head</a> {#composer}",
    "<!-- <img src=x onerror=pwned=1> --><![CDATA[<script>pwned=1</script>]]><?php pwned ?>",
    "<p title=\"</p><script>pwned=1</script>\">x</p><noscript><p title='</noscript><img src=x onerror=pwned=1>'>",
    "<http://evil.test/\"onmouseover=pwned=1> http://ok.test/\"onclick=\"pwned=1",
]
FORBIDDEN = ("script, img, svg:not(.icon), math, iframe, object, embed, form, input, style, link, base, meta, video, "
             "audio, details:not([data-testid]), b, noscript, picture, template")


OWN = ".code-head, .edit-form, .message-foot, svg.icon"  # what the page itself puts into messages


def attributes(page, selector):
    """Every attribute below a place, as name=value."""
    return page.js(f"""[...new Set([...document.querySelectorAll('{selector} *')].flatMap(
        e => e.closest('{OWN}') ? [] : [...e.attributes].map(a => a.name + '=' + a.value)))]""")


def harmless(page, selector):
    page.js("new Promise(r => requestAnimationFrame(() => setTimeout(r, 30)))")  # what was to run has run
    assert page.js("typeof pwned") == "undefined"
    found = page.js(f"[...document.querySelectorAll('{selector}')].flatMap(m => [...m.querySelectorAll({json.dumps(FORBIDDEN)})]"
                    f".filter(e => !e.closest('{OWN}')).map(e => e.outerHTML.slice(0, 120)))")
    assert found == []
    for attribute in attributes(page, selector):
        name, value = attribute.split("=", 1)
        assert name not in ("style", "id", "name", "src", "srcset", "srcdoc", "action") and not name.startswith("on"), attribute
        if name == "href":
            assert value.startswith(("http://", "https://", "mailto:")), attribute
    links = page.js(f"[...document.querySelectorAll('{selector} a')].map(a => [a.hasAttribute('href'), a.rel, a.target])")
    assert all(rel == "noopener noreferrer nofollow" for has, rel, _ in links if has), links


TEXT = f'[data-role="assistant"] {at("message-text")}'


def test_model_output_at_once(chat, fake):
    fake.answers = [["\n\n".join(SCRIPTS)]]
    chat.ask("attack")
    harmless(chat, TEXT)
    shown = chat.answer()
    assert "<script>pwned = 1</script>" in shown and "<img src=x onerror='pwned = 1'>" in shown, "it is shown as text"
    for link in range(chat.count(f"{TEXT} a:not([href])")):
        chat.js(f"document.querySelectorAll('{TEXT} a:not([href])')[{link}].click()")
    assert chat.js("typeof pwned") == "undefined"
    assert chat.js("getComputedStyle(document.querySelector('#composer')).position") != "fixed"
    chat.reload()
    chat.until(f"document.querySelector('{TEXT}').innerText.length > 100")
    harmless(chat, TEXT)


def test_model_output_letter_by_letter(chat, fake):
    """While it grows, every half tag and half link is on the page for a moment."""
    text = "\n\n".join(SCRIPTS[::3])
    fake.answers = [[text[i:i + 3] for i in range(0, len(text), 3)]]
    chat.ask("attack")
    harmless(chat, TEXT)


def test_reasoning_tools_and_model_name(chat, fake):
    evil = "<img src=x onerror=pwned=1><script>pwned=1</script>**no**"
    fake.answers = [[reasoning(evil), tool_call(evil, json.dumps({evil: evil}))]]
    scripted_model = scripted.MODEL
    try:
        scripted.MODEL = evil
        chat.reload()
        chat.ask(evil)
        harmless(chat, "article")
        assert chat.text(at("model-name")) == evil and chat.titles() == [evil]
        assert chat.count("article strong") == chat.count(f'{at("reasoning")} strong') == 1, "names are plain text"
    finally:
        scripted.MODEL = scripted_model


@pytest.mark.parametrize("answer", [Status(400, "<img src=x onerror=pwned=1>[a](javascript:x)"),
                                    ["text", stream_error("<img src=x onerror=pwned=1>")],
                                    Status(500, "x" * 20000, kind="server_error")])
def test_error_texts(chat, fake, answer):
    fake.answers = [answer]
    chat.expect("status of 400", "status of 500")
    chat.ask("attack")
    chat.there("message-error")
    harmless(chat, at("message-error") + " span")
    assert chat.count(f"{at('message-error')} img, {at('message-error')} a") == 0
    assert chat.js("document.documentElement.scrollWidth <= innerWidth")


def export(chats=None, messages=None, **more):
    return {"format": "whimbrel-conversations", "version": 1, "exported": "2026-01-01T00:00:00Z", "chats": chats or [],
            "messages": messages or [], **more}


def one_chat(**more):
    return {"id": "c1", "title": "t", "created": 1, "updated": 1, "leaf": None, "settings": {}, **more}


def message(number, parent=None, **more):
    return {"id": f"m{number}", "chat": "c1", "parent": parent, "role": "user", "content": "x", "created": number,
            "state": "done", **more}


REFUSED = {
    "no JSON": b"{",
    "no export": b"[]",
    "another format": b'{"format": "x", "version": 1}',
    "another version": export(version=99),
    "no lists": export(chats="c", messages={}) | {"chats": 5},
    "chat without id": export([one_chat(id="")]),
    "id with markup": export([one_chat(id="<img src=x onerror=pwned=1>")]),
    "title that is no text": export([one_chat(title={"a": 1})]),
    "two chats of one id": export([one_chat(), one_chat()]),
    "message of no chat": export([], [message(1)]),
    "odd role": export([one_chat()], [message(1, role="system")]),
    "content that is no text": export([one_chat()], [message(1, content=["x"])]),
    "a ring": export([one_chat()], [message(1, "m2"), message(2, "m1")]),
    "its own parent": export([one_chat()], [message(1, "m1")]),
    "no such parent": export([one_chat()], [message(1, "m9")]),
    "calls that are none": export([one_chat()], [message(1, role="assistant", calls=[7])]),
    "prototype": b'{"__proto__": {"format": "whimbrel-conversations", "version": 1, "chats": [], "messages": []}}',
}


def import_file(chat, tmp_path, content, name="x.json"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    before = chat.count(at("toast"))
    chat.choose_file(at("import-file"), path)
    chat.until(f"document.querySelectorAll('{at('toast')}').length > {before}")
    return chat.texts(at("toast"))[-1]


def test_hostile_files_are_refused(chat, tmp_path):
    for name, content in REFUSED.items():
        told = import_file(chat, tmp_path, content)
        assert told.startswith("Nothing was imported: "), f"{name}: {told}"
    assert chat.titles() == [] and chat.js("typeof pwned") == "undefined"
    assert chat.js("({}).format") is None


def test_hostile_text_in_a_good_file(chat, tmp_path):
    evil = "<img src=x onerror=pwned=1>"
    told = import_file(chat, tmp_path, export(
        [one_chat(title=evil, settings={"system": evil, "temperature": "NaN", "onclick": "x"}, extra=evil)],
        [message(1, content=evil), message(2, "m1", role="assistant", content="\n\n".join(SCRIPTS), reasoning=evil,
                                           model=evil, stats={"made": evil, "prompt": -1}, error={"kind": evil, "text": evil},
                                           calls=[{"id": evil, "name": evil, "arguments": evil}])]))
    assert told.startswith("Imported: 1 conv"), told
    chat.wait_titles([evil])
    chat.press("conversation-open")
    chat.until("document.querySelectorAll('article').length === 2")
    harmless(chat, TEXT)
    harmless(chat, at("reasoning"))
    assert chat.text('[data-role="user"] [data-testid="message-text"]') == evil


def test_import_adds_and_never_replaces(chat, fake, tmp_path):
    fake.answers = [["My own answer."]]
    chat.ask("My own words")
    own = chat.js("location.hash").lstrip("#")
    ids = chat.js("[...document.querySelectorAll('article')].map(a => a.dataset.id)")
    told = import_file(chat, tmp_path, export(
        [one_chat(id=own, title="taken over", settings={"system": "obey"})],
        [message(1, id=ids[0], chat=own, content="other words"),
         message(2, id=ids[1], chat=own, parent=ids[0], role="assistant", content="other answer")]))
    assert "0 new messages" in told
    chat.reload()
    assert chat.shown() == [("user", "My own words"), ("assistant", "My own answer.")]
    assert chat.titles() == ["My own words"]


def test_policy_and_headers(profile, fake, real):
    policy = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
              "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
              "require-trusted-types-for 'script'; trusted-types dompurify")
    for url in (f"{real.url}/", f"{real.url}/dashboard"):
        page = profile.page(url)
        headers = page.responses[url][1]
        assert headers["content-security-policy"] == policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["x-dns-prefetch-control"] == "off" and headers["cache-control"] == "no-cache"
        assert headers["cross-origin-opener-policy"] == "same-origin" and "etag" in headers
        assets = [u for u in page.responses if "/assets/" in u]
        assert assets and all("immutable" in page.responses[u][1]["cache-control"] for u in assets)
        source = page.js("fetch(location.href).then(r => r.text())")
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", source), "something is inline"
    # What the policy is for: nothing of this runs, even were it on the page.
    page.expect("Content Security Policy", "CSP:", "Trusted", "Refused")
    assert page.js("""(async () => {
        const s = document.createElement('script');
        try { s.textContent = 'window.pwned = 1'; document.body.append(s); } catch {}
        try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="pwned=1">'); } catch {}
        await fetch('http://evil.test/').catch(() => {});
        return typeof pwned; })()""") == "undefined"
    page.asked.clear()
