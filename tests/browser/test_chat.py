# SPDX-License-Identifier: Apache-2.0
"""Talking: answers as they come, stop and continue, versions of messages, settings, tools, reasoning."""
import json

from chatpage import ChatPage, at
from fake import MODEL, Finish, Gate, Reading, Status, reasoning, tool_call


def test_an_answer(chat, fake):
    fake.answers = [["Hello ", "**bold** ", "and `code`.", "\n\n1. one\n2. two\n\n| a | b |\n|--|--|\n| 1 | 2 |\n"]]
    assert "Hello bold and code." in chat.ask("Say hello")
    body = fake.chats()[0]
    assert body["messages"] == [{"role": "user", "content": "Say hello"}] and body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    for field in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "tools"):
        assert field not in body, "an empty field is the model's own value and not sent"
    text = f'[data-role="assistant"] {at("message-text")}'
    assert [chat.count(f"{text} {tag}") for tag in ("strong", "code", "ol > li", "td")] == [1, 1, 2, 2]
    assert "34" in chat.text(at("stats")), "tokens come from usage, not from counting chunks"
    assert chat.text(at("model-name")) == MODEL
    assert chat.there("context").split("\n") == ["Context", "46 / 2,048"]
    assert "Say hello" in chat.js("document.title") and chat.titles() == ["Say hello"]


def test_turns_are_sent_back(chat, fake):
    fake.answers = [["First answer."], ["Second answer."]]
    chat.ask("one")
    chat.ask("two")
    assert fake.chats()[1]["messages"] == [
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "First answer."},
        {"role": "user", "content": "two"}]


def test_stop_keeps_the_text_and_continue_goes_on(chat, fake):
    gate = Gate()
    fake.answers = [["The sea ", "is ", gate, "never seen"], ["wide."]]
    chat.send("Tell me")
    chat.wait_text("The sea is")
    chat.press("stop")
    chat.wait_state("stopped")
    assert chat.answer().strip() == "The sea is" and chat.text(at("message-note"))
    chat.until("document.body.dataset.running === undefined")
    fake.wait_left()
    chat.press("continue")
    chat.wait_state("done")
    assert chat.ended().strip() == "The sea is wide."
    assert fake.chats()[1]["messages"][-1] == {"role": "assistant", "content": "The sea is "}


def test_escape_stops(chat, fake):
    gate = Gate()
    fake.answers = [["Some ", gate]]
    chat.send("Tell me")
    chat.wait_text("Some")
    chat.key("Escape")
    chat.wait_state("stopped")
    fake.wait_left()


def test_older_answers_are_not_gone_on_with(chat, fake):
    """To go on in the place of an older answer, or to ask for it again there, would hide the turns after it."""
    fake.answers = [["The sea ", Gate()], Status(500, "the step failed", kind="server_error"), ["Third."]]
    chat.expect("status of 500")
    chat.send("one")
    chat.wait_text("The sea")
    chat.press("stop")
    chat.wait_state("stopped")
    chat.ended()
    offered = """[...document.querySelectorAll('[data-role="assistant"]')].map(m => [...m.querySelectorAll('.button')].map(
        b => b.dataset.testid).join(' '))"""
    assert chat.js(offered) == ["continue"]
    chat.ask("two")
    assert chat.js(offered) == ["", "retry"]
    chat.ask("three")
    assert chat.js(offered) == ["", "", ""] and len(chat.shown()) == 6
    assert chat.count(at("message-note")) == chat.count(at("message-error")) == 1, "what happened is still said"


def test_regenerate_and_versions(chat, fake):
    fake.answers = [["Version A."], ["Version B."], ["Version C."]]
    chat.ask("Say")
    chat.press("regenerate")
    chat.wait_text("Version B.")
    chat.ended()
    assert chat.text(at("branch-count")) == "2/2"
    assert fake.chats()[1]["messages"] == fake.chats()[0]["messages"]
    chat.press("branch-prev")
    chat.wait_text("Version A.")
    assert chat.text(at("branch-count")) == "1/2"
    chat.ask("And then")
    assert [m["content"] for m in fake.chats()[2]["messages"]] == ["Say", "Version A.", "And then"]
    chat.press("branch-next", 0)
    chat.wait_text("Version B.")
    assert len(chat.shown()) == 2, "what followed belongs to the other version"


def test_edit_makes_a_branch(chat, fake):
    fake.answers = [["About cats."], ["About dogs."]]
    chat.ask("cats")
    chat.press("edit")
    chat.fill(at("edit-box"), "dogs")
    chat.press("edit-send")
    chat.wait_text("About dogs.")
    chat.ended()
    assert fake.chats()[1]["messages"] == [{"role": "user", "content": "dogs"}]
    assert chat.shown() == [("user", "dogs"), ("assistant", "About dogs.")]
    assert chat.text(at("branch-count")) == "2/2"
    chat.press("branch-prev")
    chat.wait_text("About cats.")
    assert chat.shown()[0] == ("user", "cats")
    chat.reload()
    assert chat.shown() == [("user", "cats"), ("assistant", "About cats.")], "the shown branch is kept"


def test_arrow_up_edits_the_last_message(chat, fake):
    fake.answers = [["Yes."]]
    chat.ask("first words")
    chat.js("document.querySelector('#composer').focus()")
    chat.key("ArrowUp")
    assert chat.until(f"document.querySelector('{at('edit-box')}')?.value") == "first words"
    chat.key("Escape")
    chat.until(f"document.querySelector('{at('edit-box')}') === null")


def test_input_method(chat, fake):
    chat.js("document.querySelector('#composer').focus()")
    chat.compose("にほ")
    chat.key("Enter", quiet=True, windowsVirtualKeyCode=229)
    chat.compose("日本")
    chat.key("Enter", quiet=True)
    assert fake.chats() == [] and chat.value("#composer") == "日本", "Enter belongs to the input method"
    chat.type("日本")
    chat.key("Enter")
    chat.ended()
    assert fake.wait_chats(1)[0]["messages"][0]["content"] == "日本"


def test_shift_enter_breaks_the_line(chat, fake):
    chat.write("one")
    chat.key("Shift+Enter")
    chat.type("two")
    assert chat.value("#composer") == "one\ntwo" and fake.chats() == []


def test_enter_on_touch_breaks_the_line(profile, fake):
    chat = ChatPage(profile, fake.url, width=390, height=844, phone=True)
    chat.write("one")
    chat.key("Enter")
    chat.type("two")
    assert chat.value("#composer") == "one\ntwo" and fake.chats() == []
    chat.click("#send")
    assert fake.wait_chats(1)[0]["messages"][0]["content"] == "one\ntwo"
    chat.ended()


def test_settings(chat, fake):
    chat.press("settings")
    assert chat.js(f"document.querySelector('{at('set-temperature')}').placeholder") == "0.25"
    chat.key("Escape")
    chat.settings(system="Be brief.", temperature="0.7", top_k="5", max_tokens="99", seed="4")
    chat.ask("hello")
    body = fake.chats()[0]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (body["temperature"], body["top_k"], body["max_tokens"], body["seed"]) == (0.7, 5, 99, 4)
    assert "top_p" not in body
    chat.reload()
    chat.settings(temperature="")
    chat.ask("again")
    assert "temperature" not in fake.chats()[1] and fake.chats()[1]["seed"] == 4


def test_wrong_settings_are_shown(chat):
    chat.press("settings")
    chat.fill(at("set-temperature"), "-3")
    chat.press("settings-save")
    assert chat.js(f"document.querySelector('{at('settings-dialog')}').open")
    assert chat.js(f"!document.querySelector('{at('set-temperature')}').validity.valid")


def test_reasoning_is_folded(chat, fake):
    gate = Gate()
    fake.thinking = True
    fake.answers = [[reasoning("Let me "), reasoning("think."), gate, "The answer."]]
    chat.send("Why?")
    gate.wait_reached()
    chat.there("reasoning")
    gate.open()
    chat.ended()
    fold = f"details{at('reasoning')}"
    assert chat.js(f"document.querySelector('{fold}').open") is False
    assert chat.answer().strip() == "The answer."
    chat.click(f"{fold} summary")
    assert "Let me think." in chat.text(fold)
    chat.reload()
    assert "Let me think." in chat.js(f"document.querySelector('{fold}').textContent")


def test_tool_calls(chat, fake):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    fake.answers = [[tool_call("weather", '{"ci'), {"tool_calls": [{"index": 0, "function": {"arguments": 'ty":"Oslo"}'}}]},
                     Finish("tool_calls")], ["It rains."]]
    chat.settings(tools=json.dumps(tools))
    chat.send("Weather in Oslo?")
    call = chat.there("tool-call")
    chat.ended()
    assert "weather" in call and "Oslo" in chat.text(at("tool-call"))
    assert fake.chats()[0]["tools"] == tools
    chat.fill(at("tool-result"), "rain, 8 degrees")
    chat.press("send-result")
    chat.wait_text("It rains.")
    chat.ended()
    turns = fake.chats()[1]["messages"]
    assert [t["role"] for t in turns] == ["user", "assistant", "tool"]
    assert turns[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}'}
    assert turns[2] == {"role": "tool", "tool_call_id": turns[1]["tool_calls"][0]["id"], "content": "rain, 8 degrees"}


def test_code_is_highlighted_and_copied(chat, fake):
    code = "def f(x):\n    return x + 1  # <b>no tag</b>\n"
    fake.answers = [["Here:\n\n```python\n", code, "```\n\nDone."]]
    chat.ask("code")
    chat.until(f"document.querySelectorAll('{at('code-block')} [class^=hljs]').length > 2")
    assert chat.count(f"{at('code-block')} b") == 0
    chat.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
                      browserContextId=chat.profile.id)
    chat.press("copy-code")
    assert chat.until("navigator.clipboard.readText()").strip() == code.strip()


def test_length_is_said(chat, fake):
    fake.answers = [["Cut of", Finish("length")]]
    chat.ask("go")
    assert chat.state() == "length" and chat.there("message-note")


def test_a_circle_is_said_and_another_answer_offered(chat, fake):
    fake.answers = [["la " * 20, Finish("length", stop_reason="repetition")], ["Paris."]]
    chat.ask("go")
    assert chat.state() == "repetition" and "repeating itself" in chat.there("message-note")
    assert chat.count(at("continue")) == 0, "it would go on repeating"
    assert chat.there("retry") == "Regenerate"
    chat.press("retry")
    chat.wait_text("Paris.")
    chat.wait_state("done")
    assert chat.there("branch-count") == "2/2"
    assert fake.chats()[-1]["messages"] == fake.chats()[-2]["messages"]


def test_stream_in_odd_pieces(chat, fake):
    """Events cut anywhere, CRLF, comments, letters of several bytes cut in the middle."""
    def chunk(text):
        return json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
                          ensure_ascii=False).encode()
    data = b": keep-alive\r\n\r\ndata: " + chunk("Größe ") + b"\r\n\r\nevent: x\r\ndata:" + chunk("日本 ") + \
        b"\n\n\n\nid: 7\ndata: " + chunk("🐦.") + b"\r\n\r\n"
    fake.answers = [[bytes([b]) for b in data]]
    assert chat.ask("odd").strip() == "Größe 日本 🐦."


def test_real_model(profile, real):
    chat = ChatPage(profile, real.url)
    chat.settings(max_tokens="12", temperature="0")
    first = chat.ask("Say hello")
    assert first.strip() and "tok" in chat.there("stats")
    assert chat.text(at("model-name")).startswith("SmolLM2")
    chat.ask("Once more")
    assert len(chat.shown()) == 4
    chat.settings(max_tokens="")
    chat.send("Write a long story about the sea, with many chapters.")
    chat.until("[...document.querySelectorAll('[data-role=\"assistant\"]')].at(-1)?.innerText.length > 40")
    chat.press("stop")
    chat.wait_state("stopped")
    real.wait_idle()
    assert real.health()["running"] == 0, "the server goes on after Stop"


def test_a_prompt_that_is_read_is_seen(chat, fake):
    first, second = Gate(), Gate()
    fake.answers = [[Reading(0, 4000), Reading(1024, 4000), first, Reading(4000, 4000), second, "Read."],
                    [Reading(3900, 4000, cache=3900), Gate()]]
    chat.send("A long prompt")
    chat.until(f"document.querySelector('{at('reading')}')?.innerText.includes('1,024 of 4,000 tokens')")
    assert fake.chats()[0]["return_progress"] is True
    assert chat.js(f"(p => [p.value, p.max])(document.querySelector('{at('reading')} progress'))") == [1024, 4000]
    chat.shot("chat-reading")
    first.open()
    chat.until(f"document.querySelector('{at('reading')}').hidden")
    second.open()
    assert chat.ended().strip() == "Read." and chat.js(f"document.querySelector('{at('reading')}').hidden")
    kept = chat.js("""new Promise(r => { const q = indexedDB.open('whimbrel'); q.onsuccess = () => {
        const all = q.result.transaction('messages').objectStore('messages').getAll();
        all.onsuccess = () => { q.result.close(); r(all.result.flatMap(Object.keys)); }; }; })""")
    assert "content" in kept and "progress" not in kept
    chat.send("Cached")
    chat.until("document.querySelectorAll('.is-waiting').length === 1")
    assert not chat.js(f"[...document.querySelectorAll('{at('reading')}')].some(e => e.checkVisibility())"), "a short wait"
    chat.press("stop")
    chat.wait_state("stopped")


def test_thoughts_are_markdown_and_timed(chat, fake):
    gate, later = Gate(), Gate()
    fake.answers = [[reasoning("First **this**, then `that`:\n\n1. one\n"), gate, reasoning("2. two"), "The answer.", later]]
    chat.send("think")
    chat.until(f"document.querySelectorAll('{at('reasoning')} strong').length === 1")
    summary = f"{at('reasoning')} summary"
    assert chat.text(summary) == "Thinking\u2026"
    chat.js("window.clock = performance.now.bind(performance); performance.now = () => clock() + 83400")
    gate.open()
    chat.wait_text("The answer.")
    told = chat.text(summary)
    assert told.startswith("Thought for 1 min 2") or told.startswith("Thought for 1 min 3"), told
    chat.js("performance.now = () => clock() + 990000")
    later.open()
    chat.ended()
    assert chat.text(summary) == told, "the answer's time is not thought"
    assert chat.count(f"{at('reasoning')} li") == 2
    chat.reload()
    assert chat.text(summary) == told


CARET = "[...document.querySelectorAll('[data-caret]')].map(e => e.localName + ':' + e.textContent.trim().slice(-5))"


def test_a_caret_where_the_answer_goes_on(chat, fake):
    gates = [Gate() for _ in range(4)]
    fake.answers = [["Some words", gates[0], "\n\n1. one\n2. two", gates[1], "\n\n```\ncode", gates[2], "\n```\n\n> quote", gates[3]]]
    chat.send("go")
    for gate, want in zip(gates, ("p:words", "li:two", "span:code", "p:quote")):
        chat.until(f"JSON.stringify({CARET}) === JSON.stringify(['{want}'])")
        gate.open()
    chat.ended()
    assert chat.js(CARET) == []


def test_the_demo_model_says_so(profile, fake):
    fake.demo = True
    chat = ChatPage(profile, fake.url)
    told = chat.there("demo")
    assert "demo model" in told and "make serve MODEL=" in told and "whimbrel serve auto" in told
    chat.shot("chat-demo")
    fake.demo = False
    chat.reload()
    assert not chat.js(f"document.querySelector('{at('demo')}').checkVisibility()")


def shown(selector):
    return f"getComputedStyle(document.querySelector('{selector}')).opacity"


def test_icons_of_what_was_asked_come_by_hover_and_focus(chat, fake):
    fake.answers = [["One."]]
    chat.ask("first")
    edit = shown("[data-role=user] [data-testid=edit]")
    chat.hover("#head")
    chat.until(f"{edit} === '0'")
    chat.hover("[data-role=user] .bubble")
    chat.until(f"{edit} === '1'")
    chat.hover("[data-role=assistant] .prose")
    chat.until(f"{edit} === '0'")
    chat.js("document.querySelector('[data-role=user] [data-testid=edit]').focus()")
    chat.until(f"{edit} === '1'")


def test_where_nothing_hovers_the_icons_are_there(profile, fake):
    chat = ChatPage(profile, fake.url, width=390, height=844, phone=True)
    fake.answers = [["One."]]
    chat.ask("first")
    assert chat.js(shown("[data-role=user] [data-testid=edit]")) == "1"


def test_icons_show_that_the_mouse_is_over_them(chat, fake):
    fake.answers = [["Code:\n\n```c\nint a;\n```\n"]]
    chat.ask("first")
    ground = "getComputedStyle(document.querySelector('{}')).backgroundColor"
    hover = chat.js("""(() => { const e = document.createElement('i'); e.style.background = 'var(--hover)'; document.body.append(e);
        const c = getComputedStyle(e).backgroundColor; e.remove(); return c; })()""")
    for icon in ("#attach", "#export-chat", "#open-settings", "#new-chat", at("copy-code"),
                 f"[data-role=assistant] {at('regenerate')}"):
        chat.hover("#composer")
        chat.until(f"{ground.format(icon)} !== '{hover}'")
        chat.hover(icon)
        chat.until(f"{ground.format(icon)} === '{hover}'")
    # those of a conversation are there only then, and make room for its name else
    rename = f"document.querySelector('{at('rename')}').checkVisibility()"
    chat.hover("#composer")
    chat.until(f"!{rename}")
    chat.hover(at("conversation-open"))
    chat.until(rename)

