# SPDX-License-Identifier: Apache-2.0
"""Formulas: what is one and what is not, how they are set, and that they can do no more than be looked at."""
import json

import pytest

import access
from chatpage import ChatPage, at
from fake import Gate

TEXT = f'[data-role="assistant"] {at("message-text")}'
SET = f"document.querySelectorAll('{TEXT} .formula math').length"
ATTRIBUTES = {"accent", "accentunder", "class", "columnalign", "columnlines", "columnspacing", "depth", "dir", "display",
              "displaystyle", "fence", "height", "linethickness", "lspace", "mathbackground", "mathcolor", "mathsize",
              "mathvariant", "maxsize", "minsize", "notation", "rowlines", "rowspacing", "rspace", "scriptlevel",
              "separator", "stretchy", "symmetric", "tabindex", "voffset", "width"}


def formulas(chat, fake, text):
    """What is set as a formula, by its glyphs: [(glyphs, whether it has its own line)]."""
    fake.answers = [[text]]
    chat.ask("go")
    chat.until("document.querySelectorAll('.formula.is-source').length === 0")
    last = "[...document.querySelectorAll('[data-role=assistant]')].at(-1)"
    return [tuple(f) for f in chat.js(f"""[...{last}.querySelectorAll('.formula')].map(
        f => [f.textContent.replace(/[\\s\\u2061-\\u2064]/g, ''), f.classList.contains('is-display')])""")]


@pytest.mark.parametrize("text, want", [
    ("It is $a^2 + b^2 = c^2$.", [("a2+b2=c2", False)]),
    ("With \\(x_1\\) and \\[\\frac{a}{b}\\]", [("x1", False), ("ab", True)]),
    ("$$\ne = mc^2\n$$", [("e=mc2", True)]),
    ("Lines that begin like lists:\n$$\n\\begin{aligned}\na &= b \\\\\n- c &= d\n\\end{aligned}\n$$\nAnd text.", [("a=b−c=d", True)]),
    ("- in a list: $x$\n- and $$y^2$$ here", [("x", False), ("y2", True)]),
    ("| a | b |\n|--|--|\n| $n$ | $\\sqrt{2}$ |", [("n", False), ("2", False)]),
    ("**bold $\\alpha$** and *$\\beta_1$* $a * b * c$", [("α", False), ("β1", False), ("a∗b∗c", False)]),
    ("$2$ and $n \\log n$, $\\sin x$, $ABC$, $(a, b)$", [("2", False), ("nlogn", False), ("sinx", False), ("ABC", False), ("(a,b)", False)]),
    ("> quoted $x > 1$", [("x>1", False)]),
    ("# Head $h$", [("h", False)]),
    ("$\\text{so it is}$", [("soitis", False)]),
])
def test_formulas_are_set(chat, fake, text, want):
    assert formulas(chat, fake, text) == want


@pytest.mark.parametrize("text", [
    "It costs $5 and then $10.", "From $5-$10, or US$ 6.", "between $3 and 4$ a piece", "I paid 5$ and got 3$ back.",
    "echo $HOME and $PATH", "`$a$` and ``$$b$$``", "```\n$$\nx\n$$\n```", "$foo$bar$", "$100", "$ x $", "a $$ b", "$$ and $$",
    "\\$a\\$", "the variable $name$ here", "\\[not a link\\](http://a.test)", "$5 or 6$", "\\(optional words\\)",
    "$a\n\nb$", "$$\na\n\nb\n$$", "50% of $1,000 is less than $2,000 of course",
])
def test_prose_stays_prose(chat, fake, text):
    assert formulas(chat, fake, text) == []
    assert "$" in chat.answer() or "(" in chat.answer() or "[" in chat.answer()


def test_the_library_comes_when_it_is_needed(chat, fake):
    fake.answers = [["No formula."], ["$x^2$"], ["$\\nosuchthing{x}$ and $x^2$"]]
    chat.ask("one")
    assert not any("katex" in url for url in chat.asked)
    chat.ask("two")
    chat.until(f"{SET} === 1")
    assert any("katex" in url for url in chat.asked)
    chat.ask("three")
    assert chat.js("document.querySelector('.formula.is-wrong code').textContent") == "\\nosuchthing{x}", "its source is shown"
    chat.reload()
    chat.until(f"{SET} === 3 - 1")


def test_it_grows_in_its_place(chat, fake):
    gate = Gate()
    fake.answers = [["Let $a^2", "$ be. Then\n\n$$\n\\frac{1}{", gate, "2}\n$$\n\nEnd."]]
    chat.send("go")
    chat.wait_text("Then")
    chat.until(f"{SET} === 1")
    chat.js(f"window.first = document.querySelector('{TEXT} .formula')")
    gate.open()
    chat.ended()
    chat.until(f"{SET} === 2")
    assert chat.js("first.isConnected"), "what stands is not made anew"


HOSTILE = [
    r"$\href{javascript:pwned=1}{x}$", r"$\url{http://evil.test}$", r"$\includegraphics{http://evil.test/x.png}$",
    r"$\htmlClass{button}{x}$ $\htmlId{composer}{x}$ $\htmlStyle{position:fixed;inset:0}{x}$ $\htmlData{a=b}{x}$",
    r"$\text{<img src=x onerror=pwned=1>}$", r"$<script>pwned=1</script>$", r"\(<img src=x onerror=pwned=1>\)",
    r"$$\text{</math><img src=x onerror=pwned=1>}$$", r"$x</annotation></semantics><script>pwned=1</script>$",
    r"$\def\a{\a\a}\a$", r"$\def\a#1{#1#1}\a{\a{\a{\a{\a{\a{\a{\a{x}}}}}}}}$", r"$\rule{1000em}{1000em}$",
    r"$\kern{-100em}\text{over the page}$", r"$\raisebox{-90em}{down}$ $\raisebox{90em}{up}$", r"$\hspace{-50em}x$",
    r"$$\hspace{5000em}x$$", r"$\color{url(http://evil.test)}x$", r"$\colorbox{red;position:fixed}{x}$", r"$\verb|<b onclick=pwned=1>|$",
    "$" + "{" * 1500 + "x" + "}" * 1500 + "$", "$" + r"\frac{1}{" * 300 + "x" + "}" * 300 + "$",
    "```formula-inline\n<img src=x onerror=pwned=1>\n```", "<code class='language-formula-inline'>x</code>",
    "<math><mtext><img src=x onerror=pwned=1></mtext></math>",
]


def test_hostile_formulas(chat, fake):
    fake.answers = [["\n\n".join(HOSTILE)]]
    chat.ask("attack")
    chat.until("document.querySelectorAll('.formula.is-source').length === 0")
    chat.js("new Promise(r => requestAnimationFrame(() => setTimeout(r, 30)))")
    assert chat.js("typeof pwned") == "undefined"
    names = set(chat.js(f"[...document.querySelectorAll('{TEXT} .formula, {TEXT} .formula *')].flatMap("
                        "e => [...e.attributes].map(a => a.name))"))
    assert names <= ATTRIBUTES, names - ATTRIBUTES
    tags = set(chat.js(f"[...document.querySelectorAll('{TEXT} .formula *')].map(e => e.localName)"))
    assert not tags & {"a", "img", "script", "annotation", "semantics", "style", "b", "span", "svg"}, tags
    values = chat.js(f"[...document.querySelectorAll('{TEXT} .formula *')].flatMap(e => [...e.attributes].map(a => a.value))")
    assert not [v for v in values if ":" in v or "url" in v or v.startswith("-5")], values
    assert chat.count(f"{TEXT} :not(.formula) > math") == 0, "only KaTeX's are there"
    # Nothing covers the page, and the conversation is no wider for it.
    assert access.too_wide(chat) == []
    assert chat.js("""[...document.querySelectorAll('.formula')].every(f => f.getBoundingClientRect().height < 1200 &&
        getComputedStyle(f).overflowX !== 'visible')""")
    for place in ("#composer", "#new-chat", "#model-name"):
        assert chat.js(f"""(r => document.querySelector('{place}').contains(document.elementFromPoint(
            r.left + r.width / 2, r.top + r.height / 2)))(document.querySelector('{place}').getBoundingClientRect())"""), place


def test_many_dollars_are_read_in_time(chat, fake):
    """Beginnings without ends, of which each asks for the rest of the text: with their square it would take minutes."""
    for piece in ("$a ", "\\(", "$$", "x $1"):
        fake.answers = [[piece * 20000]]
        chat.ask("go")
        assert len(chat.answer()) > 10000


FORMULAS = r"""The roots of $ax^2 + bx + c = 0$ are

$$x_{1,2} = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$$

and for a series of $n$ terms with $|q| < 1$

\[\sum_{k=0}^{\infty} q^k = \frac{1}{1-q}, \qquad \int_0^1 \left(\frac{x}{2}\right)^2 dx = \tfrac{1}{12}\]

$$\begin{pmatrix} \cos\varphi & -\sin\varphi \\ \sin\varphi & \cos\varphi \end{pmatrix} \vec{v} =
\begin{cases} 1 & \text{if } x > 0 \\ 0 & \text{else} \end{cases}$$

A book costs $5 or $10."""


@pytest.mark.parametrize("how", [{"scheme": "light"}, {"scheme": "dark"}, {"width": 390, "height": 844, "phone": True}])
def test_shots(profile, fake, how):
    chat = ChatPage(profile, fake.url, **how)
    fake.answers = [[FORMULAS]]
    chat.ask("Show me some formulas")
    chat.until(f"{SET} === 6")
    assert chat.js("document.querySelector('.is-display math').getAttribute('display')") == "block"
    assert access.violations(chat) == [] and access.too_wide(chat) == []
    chat.shot("formulas-" + how.get("scheme", "phone"))
    assert json.dumps(chat.answer()).count("$") == 2
