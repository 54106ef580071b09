# SPDX-License-Identifier: Apache-2.0
"""For everyone: by keyboard alone, on a phone, enlarged, with a screen reader, in light and dark, on a LAN without TLS,
behind a path prefix, with long answers. Screenshots are left for people to look at."""
import pytest

import access
from chatpage import ChatPage, at
from fake import Gate, reasoning, tool_call

RICH = """Tides come from the pull of the moon and the sun.

## In short

1. The moon pulls the nearer water **more** than the earth.
2. Two bulges follow, one on each side.
   - Spring tides: sun and moon in line.
   - Neap tides: at right angles.

> The sea is never quite at rest.

| place | range | note |
|---|---:|---|
| Bay of Fundy | 16 m | the largest |
| Mediterranean | 0.3 m | hardly any |

```python
def height(t, m=2.4, s=1.1):
    \"\"\"Height of the tide at hour t.\"\"\"
    return m * cos(2 * pi * t / 12.42) + s * cos(2 * pi * t / 12)  # metres, from the mean level of the sea
```

See [the tables](https://example.org/tides) or use `height(6)`.
"""


def talk(profile, fake, **how):
    fake.thinking = True
    fake.answers = [[reasoning("The user asks about tides."), RICH], [tool_call("tide", '{"place": "Fundy"}')]]
    chat = ChatPage(profile, fake.url, **how)
    chat.ask("How do tides work? Please show me a table and a bit of code.")
    chat.until(f"document.querySelectorAll('{at('code-block')} [class^=hljs]').length > 2")
    return chat


def settled(chat):
    chat.js("new Promise(r => setTimeout(r, 350))")  # transitions end; a shot of half of one is of no use


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_and_shots(profile, fake, scheme):
    chat = ChatPage(profile, fake.url, scheme=scheme)
    settled(chat)
    chat.shot(f"chat-empty-{scheme}")
    assert access.violations(chat) == []
    chat.close()
    chat = talk(profile, fake, scheme=scheme)
    settled(chat)
    chat.js("document.querySelector('#scroller').scrollTop = 0")
    assert access.violations(chat) == []
    chat.shot(f"chat-{scheme}")
    chat.send("And in Fundy?")
    chat.there("tool-call")
    chat.ended()
    settled(chat)
    assert access.violations(chat) == []
    chat.shot(f"chat-tool-{scheme}")
    chat.press("settings")
    settled(chat)
    assert access.violations(chat) == []
    chat.shot(f"chat-settings-{scheme}")
    chat.key("Escape")
    chat.until(f"!document.querySelector('{at('settings-dialog')}').open")
    chat.js("document.activeElement.blur()")
    chat.key("?")
    chat.until(f"document.querySelector('{at('shortcuts-dialog')}').open")
    assert access.violations(chat) == []


def test_by_keyboard_alone(profile, fake):
    chat = ChatPage(profile, fake.url)
    assert chat.focused() == "composer", "writing can begin at once"
    fake.answers = [["One."], ["Two."], ["Three."]]
    chat.type("first")
    chat.key("Enter")
    chat.wait_text("One.")
    chat.ended()
    assert chat.focused() == "composer"
    stops, bad = access.tab_stops(chat)
    assert bad == []
    for name in ("New chat", "Settings", "Shortcuts", "Dashboard"):
        assert any(name in stop for stop in stops), f"{name} is not reached: {stops}"
    labels = chat.js("tabStops.map(e => e.ariaLabel || e.innerText)")
    for name in ("Copy message", "Edit and branch", "Regenerate"):
        assert any(name in (label or "") for label in labels), f"{name} is not reached: {labels}"
    # Regenerate with the keyboard, and back to the first version.
    chat.js("document.activeElement.blur()")
    chat.key("r")
    chat.wait_text("Two.")
    chat.ended()
    chat.js(f"document.querySelector('{at('branch-prev')}').focus()")
    chat.key("Enter")
    chat.wait_text("One.")
    chat.js("document.activeElement.blur()")
    chat.key("n")
    chat.until("document.body.dataset.empty !== undefined")
    chat.js("document.activeElement.blur()")
    chat.key("/")
    assert chat.focused() == "composer" and chat.value("#composer") == "", "the shortcut itself is not written"
    # A dialog takes the focus, keeps it, and gives it back.
    chat.js("document.querySelector('#open-settings').focus()")
    chat.key("Enter")
    chat.until(f"document.querySelector('{at('settings-dialog')}').contains(document.activeElement)")
    chat.key("Escape")
    chat.until("document.activeElement.id === 'open-settings'")


def test_screen_reader_is_told_once(chat, fake):
    gate = Gate()
    chat.js("""window.told = []; new MutationObserver(() => { const t = document.querySelector('#announcer').textContent;
        if (t) told.push(t); }).observe(document.querySelector('#announcer'), {childList: true, characterData: true, subtree: true})""")
    fake.answers = [[*(f"word{i} " for i in range(50)), gate, "end."]]
    chat.send("go")
    chat.wait_text("word49")
    assert chat.js("told") == [] and chat.js("document.querySelector('#messages').ariaLive") == "off"
    assert chat.js("[...document.querySelectorAll('article')].at(-1).getAttribute('aria-busy')") == "true"
    gate.open()
    chat.ended()
    chat.until("told.length > 0")
    assert len(chat.js("told")) == 1 and "word0" in chat.js("told[0]")


def test_phone(profile, fake):
    chat = talk(profile, fake, width=390, height=844, phone=True)
    settled(chat)
    assert access.too_wide(chat) == [], "only code and tables scroll sideways, in their own boxes"
    assert access.small_targets(chat) == []
    assert access.violations(chat) == []
    assert chat.js("parseFloat(getComputedStyle(document.querySelector('#composer')).fontSize)") >= 16
    chat.shot("chat-phone-end")
    chat.js("document.querySelector('#scroller').scrollTop = 0")
    settled(chat)
    chat.shot("chat-phone")
    chat.press("menu")
    chat.until("document.querySelector('#sidebar').contains(document.activeElement)")
    settled(chat)
    assert access.small_targets(chat) == [] and access.violations(chat) == []
    chat.shot("chat-phone-menu")
    chat.press("settings")
    settled(chat)
    assert access.too_wide(chat) == []
    chat.shot("chat-phone-settings")
    chat.press("settings-save")
    assert not chat.js("document.body.hasAttribute('data-menu')"), "the list does not lie under the settings"
    chat.until("document.activeElement.id === 'menu'")
    chat.media("dark")
    settled(chat)
    chat.shot("chat-phone-dark")
    chat.device(320, 568, phone=True)
    assert access.too_wide(chat) == []


def test_numbers_of_a_wide_table_keep_their_line(profile, fake):
    names = "one two three four five six seven eight nine".split()
    fake.answers = [["\n".join(["| place | " + " | ".join(names) + " |", "|---|" + "---:|" * 9,
                                "| Bay of Fundy |" + " 16.1 m |" * 9])]]
    chat = ChatPage(profile, fake.url, width=390, height=844, phone=True)
    chat.ask("A wide table, please")
    assert chat.count("td[align=right]") == 9
    lines = chat.js("""[...document.querySelectorAll('td[align=right]')].map(
        cell => (r => (r.selectNodeContents(cell), r.getClientRects().length))(document.createRange()))""")
    assert lines == [1] * 9 and access.too_wide(chat) == []


def test_long_headings_of_numbers_leave_room_for_words(profile, fake):
    fake.answers = [["| height | time | speed at the end | remark |\n|---:|---:|---:|---|\n"
                     "| 100 m | 4.52 s | 44.3 m/s | without air; really slower |"]]
    chat = ChatPage(profile, fake.url, width=390, height=844, phone=True)
    chat.ask("A table with a remark, please")
    assert chat.js("(b => b.scrollWidth - b.clientWidth)(document.querySelector('.table-box'))") == 0
    assert chat.js("document.querySelector('th:nth-child(3)').clientWidth < 120"), "the heading breaks"


def test_edges_of_a_long_line_of_code(profile, fake):
    """The edge where it goes on has a shade; at its end no letter touches the edge."""
    fake.answers = [["```text\n" + "0123456789" * 40 + "\n```"]]
    chat = ChatPage(profile, fake.url)
    chat.ask("A long line, please")
    settled(chat)
    pre = f"document.querySelector('{at('code-block')} pre')"
    left, right, top = chat.js(f"(r => [r.left, r.right, r.top])({pre}.getBoundingClientRect())")

    def shades():
        """Whether the left and the right edge are darker than the middle, above the line."""
        ground = chat.pixel((left + right) / 2, top + 1)
        return [chat.pixel(x, top + 1) != ground for x in (left + 1, right - 2)]

    assert shades() == [False, True]
    chat.js(f"{pre}.scrollLeft = 200")
    settled(chat)
    assert shades() == [True, True]
    chat.js(f"{pre}.scrollLeft = {pre}.scrollWidth")
    settled(chat)
    assert shades() == [True, False]
    text = f"(r => (r.selectNodeContents({pre}.querySelector('code').firstChild), r.getBoundingClientRect().right))(new Range())"
    assert 8 <= right - chat.js(text) <= 20


LONG_WORD = "0123456789abcdef" * 4
WORDS = f"""| option | what it does |
|---|---|
| `--max-step-tokens N` | how many tokens one step may have; longer prompts take several steps |
| `{LONG_WORD}` | https://example.org/{LONG_WORD}/{LONG_WORD} |

Or a command: `whimbrel run --grammar-regex yes --max-step-tokens 32 --repetition-detection --chat-template file`.
"""


def rows_of(chat, selector):
    """For each of these elements, how many lines it is on."""
    return chat.js(f"""[...document.querySelectorAll('{selector}')].map(
        e => new Set([...e.getClientRects()].map(r => Math.round(r.bottom))).size)""")


def test_long_words_and_code_in_a_table(profile, fake):
    fake.answers = [[WORDS]]
    chat = ChatPage(profile, fake.url)
    chat.ask("Long words in a table, please")
    assert chat.js("(b => b.scrollWidth - b.clientWidth)(document.querySelector('.table-box'))") == 0
    assert rows_of(chat, "td code")[0] == 1 and rows_of(chat, "td code")[1] > 1
    assert chat.texts("td code") == ["--max-step-tokens N", LONG_WORD], "what is copied has nothing more"
    assert chat.text("td a") == f"https://example.org/{LONG_WORD}/{LONG_WORD}"
    chat.device(390, 844, phone=True)
    assert rows_of(chat, "td code .word") == [1], "columns beside long words keep short ones"
    assert rows_of(chat, "p code")[0] > 2 and access.too_wide(chat) == []
    assert rows_of(chat, "p code .word") == [1] * 4, "an option does not end a line with its dashes"


def test_enlarged_twice(profile, fake):
    chat = talk(profile, fake, width=600, height=400)
    assert access.too_wide(chat) == []
    assert chat.js("(r => r.top >= 0 && r.bottom <= innerHeight + 1)(document.querySelector('#composer').getBoundingClientRect())")
    chat.shot("chat-200-percent")


def test_right_to_left_and_others(chat, fake):
    fake.answers = [["مرحبا بالعالم، هذا نص.\n\nEnglish again.\n\n日本語の文章。 🐦"]]
    chat.ask("שלום עולם")
    assert chat.js("getComputedStyle(document.querySelector('[data-role=user] [data-testid=message-text]')).direction") == "rtl"
    ways = chat.js("[...document.querySelectorAll('[data-role=assistant] [data-testid=message-text] p')].map("
                   "p => getComputedStyle(p).direction)")
    assert ways == ["rtl", "ltr", "ltr"]
    # Signs of lists and bars of quotes are on the side of their text, and inside; what was asked stays on its side.
    fake.answers = [["- عنصر أول\n\n- عنصر ثان\n\nEnglish.\n\n- one\n- two\n\n> اقتباس"]]
    chat.ask("שלום again")
    ways = chat.js("[...[...document.querySelectorAll('[data-role=assistant]')].at(-1).querySelectorAll('ul, blockquote')]"
                   ".map(e => getComputedStyle(e).direction)")
    assert ways == ["rtl", "ltr", "rtl"]
    assert chat.js("""(b => b.right - b.parentNode.getBoundingClientRect().right)(Object.assign(
        [...document.querySelectorAll('[data-role=user] .bubble')].at(-1).getBoundingClientRect(),
        {parentNode: [...document.querySelectorAll('[data-role=user]')].at(-1)}))""") == 0


# What the page does for each drawing of an answer: how much text came, how much was read as Markdown, how many nodes
# were made. Counted, not timed: [{came, read, made}].
COUNT_WORK = """(() => { const text = document.querySelector('[data-role=assistant] [data-testid=message-text]');
    let read = 0, made = 0, length = text.textContent.length;
    const lexer = marked.lexer;
    marked.lexer = (...a) => { read += a[0].length; return lexer(...a); };
    const changes = new MutationObserver(() => {});
    changes.observe(text, {childList: true, subtree: true});
    window.firstBlock = text.querySelector('p');
    window.work = [];
    text.addEventListener('drawn', () => {
        for (const change of changes.takeRecords()) for (const n of change.addedNodes)
            made += n.querySelectorAll ? n.querySelectorAll('*').length + 1 : 1;
        work.push({came: text.textContent.length - length, read, made});
        length = text.textContent.length;
        read = made = 0;
    }); })()"""


def long_answer(chat, fake, text):
    """An answer in pieces as tokens are, in 40 parts that wait for their turn; the work for each drawing."""
    pieces = [text[i:i + 24] for i in range(0, len(text), 24)]
    size = len(pieces) // 40 + 1
    gates = [Gate() for _ in range(0, len(pieces), size)]
    parts = [x for i, gate in enumerate(gates) for x in (gate, *pieces[i * size:(i + 1) * size])]
    fake.answers = [["First paragraph.\n\nSecond paragraph.\n\n", *parts, "The end."]]
    chat.send("long")
    chat.wait_text("Second paragraph.")
    chat.js(COUNT_WORK)
    for i, gate in enumerate(gates):
        gate.wait_reached()
        chat.until(f"work.length >= {i}")
        gate.open()
    chat.wait_text("The end.")
    chat.ended()
    assert chat.js("firstBlock.isConnected"), "the first block was drawn again"
    return list(enumerate(chat.js("work")))


def test_long_answer(chat, fake):
    """Ten thousand tokens: what is complete is never read or drawn again, so the work does not grow with the length."""
    paragraph = "The tide rises and falls twice a day, and nobody has ever stopped it from doing so. " * 2
    blocks = [f"{paragraph}\n\n" if i % 10 else f"```c\nint x{i} = {i};\n```\n\n" for i in range(300)]
    work = long_answer(chat, fake, "".join(blocks))
    longest = len(paragraph)
    for n, w in work:
        assert w["read"] <= 1.2 * w["came"] + 2 * longest, f"drawing {n} of {len(work)}: {w}"
        assert w["made"] <= w["came"] / 8 + 20, f"drawing {n} of {len(work)}: {w}"
    assert chat.count(at("code-block")) == 30
    assert chat.js("(s => s.scrollHeight - s.scrollTop - s.clientHeight < 60)(document.querySelector('#scroller'))")


def test_long_list(chat, fake):
    """One list of ten thousand tokens is drawn in parts, and still counts right."""
    items = [f"{i}. **Point {i}** of the list, with some more words to make it as long as such points are.\n"
             for i in range(1, 501)]
    work = long_answer(chat, fake, "".join(items) + "\n")
    for n, w in work:
        assert w["read"] <= 1.2 * w["came"] + 2 * 4200, f"drawing {n} of {len(work)}: {w}"
    lists = "[...document.querySelectorAll('[data-role=assistant] ol')]"
    assert chat.js(f"{lists}.flatMap(l => [...l.children].map((item, i) => l.start + i))") == list(range(1, 501))
    assert chat.js(f"{lists}.length") > 5


def test_reader_is_not_pulled_down(chat, fake):
    begin, end = Gate(), Gate()
    fake.answers = [["A line of text.\n\n" * 80, begin, "More text.\n\n" * 40, end, "Done."]]
    chat.send("go")
    begin.wait_reached()
    chat.until("document.querySelector('#scroller').scrollHeight > 2 * innerHeight")
    chat.until("(s => s.scrollHeight - s.scrollTop - s.clientHeight < 60)(document.querySelector('#scroller'))")
    chat.js("document.querySelector('#scroller').scrollTop = 200")
    chat.until("!document.querySelector('#to-end').hidden")
    begin.open()
    chat.wait_text("More text.")
    assert chat.js("document.querySelector('#scroller').scrollTop") == 200
    chat.click("#to-end")
    chat.until("document.querySelector('#to-end').hidden")
    end.open()
    chat.ended()


def test_selection_survives(chat, fake):
    gate = Gate()
    fake.answers = [["Select these words", gate, " and more come", "\n\nand more."]]
    chat.send("go")
    chat.wait_text("Select these words")
    chat.js("""(p => getSelection().setBaseAndExtent(p.firstChild, 7, p.firstChild, 18))(
        document.querySelector('[data-role=assistant] [data-testid=message-text] p'))""")
    gate.open()
    chat.ended()
    assert chat.js("getSelection().toString()") == "these words"


def test_on_a_lan_without_tls(profile, fake):
    chat = ChatPage(profile, fake.lan_url)
    assert chat.js("isSecureContext") is False and chat.js("typeof navigator.clipboard") == "undefined"
    fake.answers = [["```c\nint copied;\n```"]]
    chat.ask("code")
    chat.js("""document.addEventListener('copy', () => { window.copied = document.activeElement.value ??
        getSelection().toString(); })""")
    chat.press("copy-code")
    assert chat.until("window.copied").strip() == "int copied;"
    chat.until("[...document.querySelectorAll('#announcer')].some(e => e.textContent === 'Copied')")


def test_behind_a_path_prefix(profile, fake):
    chat = ChatPage(profile, f"{fake.url}/some/prefix/")
    fake.answers = [["```c\nint x;\n```"]]
    chat.ask("hello")
    chat.until(f"document.querySelectorAll('{at('code-block')} [class^=hljs]').length > 0")
    # a tab may still come from the icon, where it waits between tests
    assert {r["path"] for r in fake.requests if not r["prefixed"]} <= {"/favicon.ico"}, "it asked outside its prefix"
    assert chat.js("document.querySelector('a[href=dashboard]').href") == f"{fake.url}/some/prefix/dashboard"


def test_theme_is_kept(chat):
    chat.press("settings")
    chat.js(f"""(e => {{ e.value = 'dark'; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})(
        document.querySelector('{at("set-theme")}'))""")
    chat.reload()
    dark = "getComputedStyle(document.documentElement).colorScheme"
    assert chat.js(dark) == "dark"
    chat.page.open(chat.js("location.origin") + "/dashboard")
    chat.expect("404")
    assert chat.until(f"{dark} === 'dark'")
