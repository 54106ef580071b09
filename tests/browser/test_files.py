# SPDX-License-Identifier: Apache-2.0
"""Text files beside a message: chosen, dropped, pasted; what is refused; what the model gets; what is kept."""
import json

import pytest

import access
from chatpage import ChatPage, at

NOTES = "first line\nsecond line with `code`\n"
CHIPS = f"#attachments {at('chip')}"


def drop(chat, name, text, kind="drop"):
    """A file let go over the page, as a person's file manager does it."""
    chat.js(f"""(() => {{ const data = new DataTransfer();
        data.items.add(new File([{json.dumps(text)}], {json.dumps(name)}, {{type: "text/plain"}}));
        for (const type of ["dragenter", "dragover", {json.dumps(kind)}])
            document.querySelector("#messages").dispatchEvent(
                new DragEvent(type, {{dataTransfer: data, bubbles: true, cancelable: true}}));
    }})()""")


def paste(chat, text, files=()):
    """What is on the clipboard; true when the page took it for itself."""
    return chat.js(f"""(() => {{ const data = new DataTransfer();
        data.setData("text/plain", {json.dumps(text)});
        for (const [name, text] of {json.dumps(list(files))}) data.items.add(new File([text], name));
        const event = new ClipboardEvent("paste", {{clipboardData: data, bubbles: true, cancelable: true}});
        document.querySelector("#composer").dispatchEvent(event);
        return event.defaultPrevented; }})()""")


def counted(chat, n):
    chat.until(f"[...document.querySelectorAll('{CHIPS} small')].filter(s => s.innerText.endsWith(' tokens')).length === {n}")


def test_a_chosen_file_goes_with_the_message(chat, fake, tmp_path):
    file = tmp_path / "notes.md"
    file.write_text(NOTES)
    chat.choose_file("#attach-file", file)
    counted(chat, 1)
    assert chat.text(CHIPS).split("\n")[0] == "notes.md"
    fake.answers = [["Read."], ["Again."], ["Edited."]]
    chat.ask("What is in it?")
    assert fake.chats()[0]["messages"] == [{"role": "user", "content": [
        {"type": "text", "text": "notes.md:\n```\nfirst line\nsecond line with `code`\n```"},
        {"type": "text", "text": "What is in it?"}]}]
    assert chat.count(CHIPS) == 0, "the box is empty again"
    assert chat.count(f'[data-role="user"] {at("chip")}') == 1
    # It stays: in the next turn, over a reload, in another version of the message, in an export.
    chat.reload()
    chat.ask("And now?")
    assert fake.chats()[1]["messages"][0] == fake.chats()[0]["messages"][0]
    chat.press("edit", 0)
    chat.fill(at("edit-box"), "What else?")
    chat.press("edit-send")
    chat.wait_text("Edited.")
    chat.ended()
    assert [part["text"][:8] for part in fake.chats()[2]["messages"][0]["content"]] == ["notes.md", "What els"]
    chat.click(f'[data-role="user"] {at("chip-open")}')
    assert chat.text(at("file-text")) == NOTES.rstrip("\n") or chat.text(at("file-text")) == NOTES
    assert chat.js("document.querySelector('#file-insert').hidden"), "what was sent stays as it was"
    assert access.violations(chat) == []


def test_dropped_and_without_a_word(chat, fake):
    drop(chat, "a.txt", "alpha", kind="dragleave")
    assert not chat.js("document.body.hasAttribute('data-drop')")
    drop(chat, "a.txt", "alpha ```` beta")
    drop(chat, "b.txt", "beta")
    counted(chat, 2)
    assert not chat.js("document.body.hasAttribute('data-drop') || document.querySelector('#send').disabled")
    chat.click("#send")
    chat.ended()
    assert [part["text"] for part in fake.wait_chats(1)[0]["messages"][0]["content"]] == [
        "a.txt:\n`````\nalpha ```` beta\n`````", "b.txt:\n```\nbeta\n```"]
    chat.wait_titles(["a.txt"])


def test_a_long_paste_is_a_file(chat, fake):
    fake.count_tokens = lambda text: 5
    assert not paste(chat, "a short text"), "it goes into the box"
    assert paste(chat, "word " * 2000)
    counted(chat, 1)
    assert chat.text(CHIPS).startswith("Pasted text") and chat.value("#composer") == ""
    assert paste(chat, "other " * 2000)
    counted(chat, 2)
    assert "Pasted text 2" in chat.texts(CHIPS)[1]
    # It can go into the message after all.
    chat.click(at("chip-open"))
    chat.press("file-insert")
    chat.until("document.querySelector('#composer').value.startsWith('word word')")
    assert chat.count(CHIPS) == 1
    chat.press("chip-remove")
    chat.until(f"document.querySelectorAll('{CHIPS}').length === 0")
    assert paste(chat, "", [("c.py", "print()")])
    counted(chat, 1)


@pytest.mark.parametrize("name, content, why", [
    ("photo.png", b"\x89PNG\r\n\x1a\n\0\0\0", "not a text file"), ("latin.txt", b"caf\xe9", "not a text file"),
    ("empty.txt", b" \n", "is empty"), ("huge.log", b"x" * (5 << 20), "larger than 4 MiB"),
])
def test_what_is_no_text_is_refused(chat, fake, tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    chat.choose_file("#attach-file", tmp_path / name)
    told = chat.there("toast")
    assert "Not attached" in told and name in told and why in told
    assert chat.count(CHIPS) == 0 and fake.chats() == []


def test_what_does_not_fit_is_refused_with_numbers(chat, fake):
    fake.count_tokens = lambda text: len(text)
    drop(chat, "fits.txt", "x" * 2000)
    counted(chat, 1)
    drop(chat, "more.txt", "y" * 100)
    told = chat.there("toast")
    assert "more.txt has 100 tokens" in told and "room for 48" in told
    chat.until(f"document.querySelectorAll('{CHIPS}').length === 1")
    chat.press("chip-remove")
    fake.answers = [["An answer."]]
    chat.ask("short")  # 46 tokens are in the chat then
    drop(chat, "again.txt", "z" * 2010)
    chat.until(f"[...document.querySelectorAll('{at('toast')}')].some(t => t.innerText.includes('room for 2,002'))")


def test_without_a_number_the_server_decides(chat, fake):
    fake.count_tokens = None
    chat.expect("status of 404")
    drop(chat, "a.txt", "alpha")
    chat.until(f"document.querySelector('{CHIPS} small')?.innerText === '5 characters'")
    chat.click("#send")
    chat.ended()
    assert "alpha" in fake.wait_chats(1)[0]["messages"][0]["content"][0]["text"]


def test_names_and_texts_are_only_shown(chat, fake):
    evil = "<img src=x onerror=pwned=1>"
    drop(chat, evil + ".txt", evil * 3)
    counted(chat, 1)
    chat.click(at("chip-open"))
    assert evil in chat.text("#file-title") and evil in chat.text(at("file-text"))
    chat.key("Escape")
    chat.click("#send")
    chat.ended()
    assert chat.js("typeof pwned") == "undefined" and chat.count("article img, #file-dialog img") == 0


def test_each_draft_has_its_own(chat, fake):
    fake.answers = [["One."]]
    chat.ask("first")
    drop(chat, "a.txt", "alpha")
    counted(chat, 1)
    chat.new_chat()
    assert chat.count(CHIPS) == 0
    chat.press("conversation-open")
    counted(chat, 1)


def test_export_and_import_keep_them(chat, fake):
    drop(chat, "a.txt", "alpha")
    counted(chat, 1)
    fake.answers = [["One."]]
    chat.ask("first")
    checks = chat.js("""(async () => { const {readExport} = await import([...document.querySelectorAll('link[rel=modulepreload]')]
        .map(l => l.href).find(h => h.includes('transfer')));
        const file = files => JSON.stringify({format: 'whimbrel-conversations', version: 1,
            chats: [{id: 'c', title: 't'}], messages: [{id: 'm', chat: 'c', parent: null, role: 'user', content: 'x', files}]});
        const told = files => { try { return readExport(file(files), () => ({})).messages[0].files; } catch (e) { return e.message; } };
        return [told([{name: 'a', text: 'b', tokens: 3, more: 1}]), told(5), told(['x']), told([{name: 1, text: 'x'}])]; })()""")
    assert checks[0] == [{"name": "a", "text": "b", "tokens": 3}]
    assert all(isinstance(why, str) for why in checks[1:]), checks


@pytest.mark.parametrize("how", [{"scheme": "light"}, {"scheme": "dark"}, {"width": 390, "height": 844, "phone": True}])
def test_shots(profile, fake, how):
    chat = ChatPage(profile, fake.url, **how)
    name = how.get("scheme", "phone")
    drop(chat, "measurements-of-the-last-summer-with-a-long-name.csv", "a,b\n1,2\n" * 40)
    drop(chat, "notes.md", NOTES)
    counted(chat, 2)
    fake.answers = [["It has two columns."]]
    chat.ask("What do these have in common?")
    drop(chat, "report.txt", "word " * 300)
    counted(chat, 1)
    chat.until("document.activeElement?.id === 'composer'" if name != "phone" else "true")
    assert access.violations(chat) == [] and access.too_wide(chat) == []
    assert name != "phone" or access.small_targets(chat) == []
    chat.shot(f"files-{name}")
