# SPDX-License-Identifier: Apache-2.0
"""Conversations in the browser: kept over a reload, shared by tabs, renamed, deleted, exported and imported."""
import json

from chatpage import ChatPage, at
from fake import Gate
from test_hostile import import_file


def test_reload_keeps_the_conversation(chat, fake):
    fake.answers = [["# Title\n\n```c\nint x;\n```\n\nText **bold**."], ["Again."]]
    chat.ask("first")
    before = chat.shown()
    chat.reload()
    assert chat.shown() == before and chat.titles() == ["first"]
    assert chat.count(f'[data-role="assistant"] {at("code-block")}') == 1
    chat.ask("second")
    assert [t["content"] for t in fake.chats()[1]["messages"]][0] == "first"


def test_reload_in_the_middle_keeps_what_came(chat, fake):
    gate = Gate()
    fake.answers = [["What came ", gate, "never"]]
    chat.send("go")
    chat.wait_text("What came")
    chat.reload()
    fake.wait_left()
    chat.until("document.body.dataset.running === undefined")
    assert chat.shown()[0] == ("user", "go") and "What came" in chat.answer()


def test_of_two_copies_the_newer_is_kept(chat, fake):
    """A tab that was closed in the middle left its copy; another tab may have gone on with the answer since."""
    fake.answers = [["The whole answer."]]
    chat.ask("go")
    leave = """(({content, later}) => new Promise(done => { indexedDB.open('whimbrel').onsuccess = e => {
        e.target.result.transaction('messages').objectStore('messages').getAll().onsuccess = r => {
            const answer = r.target.result.find(m => m.role === 'assistant');
            localStorage.setItem('whimbrel-left-' + answer.id, JSON.stringify(
                {...answer, content, state: 'stopped', touched: answer.touched + later}));
            e.target.result.close();
            done(true); }; }; }))(%s)"""
    chat.js(leave % json.dumps({"content": "The whole", "later": -5}))
    chat.reload()
    assert (chat.answer().strip(), chat.state()) == ("The whole answer.", "done")
    assert chat.js("Object.keys(localStorage).some(name => name.startsWith('whimbrel-left-'))") is False
    chat.js(leave % json.dumps({"content": "The whole answer, and more", "later": 5}))
    chat.reload()
    assert (chat.answer().strip(), chat.state()) == ("The whole answer, and more", "stopped")


def test_draft_is_kept(chat):
    chat.write("half a thought")
    chat.reload()
    assert chat.value("#composer") == "half a thought"


def test_back_button(chat, fake):
    fake.answers = [["A."], ["B."]]
    chat.ask("one")
    chat.new_chat()
    chat.ask("two")
    chat.js("history.back()")
    chat.until("document.querySelector('#messages').innerText.trim() === ''")
    chat.js("history.back()")
    chat.wait_text("A.")
    assert chat.shown()[0] == ("user", "one")


def test_rename_and_delete(chat, fake):
    chat.ask("one")
    chat.js(f"document.querySelector('{at('rename')}').click()")
    chat.fill(at("rename-box"), "Better title")
    chat.key("Enter")
    chat.wait_titles(["Better title"])
    chat.reload()
    assert chat.titles() == ["Better title"]
    chat.js(f"document.querySelector('{at('delete')}').click()")
    chat.press("confirm-ok")
    chat.wait_titles([])
    chat.until("document.body.dataset.empty !== undefined")
    chat.reload()
    assert chat.titles() == []


def test_delete_all(chat, fake):
    chat.ask("one")
    chat.new_chat()
    chat.ask("two")
    chat.press("settings")
    chat.press("delete-all")
    chat.press("confirm-ok")
    chat.wait_titles([])
    chat.reload()
    assert chat.titles() == [] and chat.shown() == []


def test_export_and_import_again(chat, profile, browser, fake, tmp_path):
    fake.answers = [["Answer **one**."], ["Answer two."], ["Other."]]
    chat.ask("first")
    chat.ask("second")
    chat.press("regenerate")
    chat.wait_text("Other.")
    chat.ended()
    before = chat.shown()
    chat.press("settings")
    chat.press("export")
    name, data = profile.downloaded()
    assert name.startswith("whimbrel") and name.endswith(".json")
    file = json.loads(data)
    assert len(file["chats"]) == 1 and len(file["messages"]) == 5
    other = browser.profile()
    there = ChatPage(other, fake.url)
    assert "1 conv" in import_file(there, tmp_path, data)
    there.wait_titles(["first"])
    there.press("conversation-open")
    there.until("document.querySelectorAll('article').length === 4")
    assert there.shown() == before and there.text(at("branch-count")) == "2/2"
    assert "0 new messages" in import_file(there, tmp_path, data), "twice adds nothing"
    problems = there.problems()
    other.close()
    assert problems == []


def test_two_tabs(profile, fake):
    first, second = ChatPage(profile, fake.url), ChatPage(profile, fake.url)
    fake.answers = [["From the first."]]
    first.to_front()
    first.ask("one")
    second.wait_titles(["one"])
    second.to_front()
    second.press("conversation-open")
    second.wait_text("From the first.")
    # Both go on from the same message at the same time: neither loses anything.
    gate = Gate()
    fake.answers = [["Second says.", gate], ["First says."]]
    second.send("by second")
    second.wait_text("Second says.")
    first.to_front()
    first.ask("by first")
    gate.open()
    second.to_front()
    second.ended()
    first.to_front()
    first.reload()
    counts = first.js("""new Promise(done => { indexedDB.open('whimbrel').onsuccess = e => {
        e.target.result.transaction('messages').objectStore('messages').getAll().onsuccess =
            r => done(r.target.result.map(m => m.content).sort()); }; })""")
    assert counts == sorted(["one", "From the first.", "by second", "Second says.", "by first", "First says."])


def test_answer_of_another_tab_is_shown(profile, fake):
    first, second = ChatPage(profile, fake.url), ChatPage(profile, fake.url)
    fake.answers = [["Seen in both."]]
    first.to_front()
    first.ask("one")
    second.to_front()
    second.wait_titles(["one"])
    second.press("conversation-open")
    second.wait_text("Seen in both.")
    fake.answers = [["The next."]]
    first.to_front()
    first.ask("two")
    second.to_front()
    second.wait_text("The next.")


def test_deleted_in_another_tab(profile, fake):
    first, second = ChatPage(profile, fake.url), ChatPage(profile, fake.url)
    first.to_front()
    first.ask("one")
    second.to_front()
    second.wait_titles(["one"])
    second.js(f"document.querySelector('{at('delete')}').click()")
    second.press("confirm-ok")
    second.wait_titles([])
    first.to_front()
    first.wait_titles([])
    first.until("document.body.dataset.empty !== undefined")
