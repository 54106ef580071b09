# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with a server, and what the page says and does."""
import pytest

from chatpage import ChatPage, at
from fake import Cut, End, Finish, Gate, Status, stream_error


def error(chat, kind):
    chat.until(f"""document.querySelector('{at("message-error")}')?.dataset.kind === '{kind}'""")
    return chat.text(at("message-error"))


def test_key_is_asked_for(profile, fake):
    fake.key = "sesame-1234567"
    chat = ChatPage(profile, fake.url)
    chat.expect("status of 401")
    chat.until(f"document.querySelector('{at('key-dialog')}').open")
    chat.type("wrong")
    chat.key("Enter")
    chat.until(f"document.querySelector('{at('key-dialog')}').open && document.querySelector('#key').value === ''")
    chat.type("sesame-1234567")
    chat.key("Enter")
    chat.until(f"document.querySelector('{at('model-name')}').innerText !== ''")
    fake.answers = [["Welcome."]]
    assert chat.ask("hello").strip() == "Welcome."
    assert chat.js("localStorage.getItem('whimbrel-key')") is None, "it is kept in the tab only"
    chat.reload()
    chat.until(f"document.querySelector('{at('model-name')}').innerText !== ''")
    # The dashboard is open to the same key.
    fake.metrics = "whimbrel:tokens_total{kind=\"generated\"} 1\n"
    chat.page.open(f"{fake.url}/dashboard")
    chat.until("document.querySelector('#state').dataset.state === 'live'")


def test_key_that_ran_out_in_a_chat(chat, fake):
    fake.answers = [["One."], ["Two."]]
    chat.ask("first")
    fake.key = "sesame-1234567"
    chat.expect("status of 401")
    chat.send("second")
    chat.until(f"document.querySelector('{at('key-dialog')}').open")
    chat.type("sesame-1234567")
    chat.key("Enter")
    chat.wait_state("done")
    assert chat.ended().strip() == "Two."


def test_context_is_full(chat, fake):
    fake.answers = [Status(400, "the prompt has 9000 tokens and this model's maximum context length is 2048 tokens",
                           code="context_length_exceeded")]
    chat.expect("status of 400")
    chat.ask("too long")
    told = error(chat, "context")
    assert "maximum context length" in told and "--ctx" in told
    chat.press("new-chat-context")
    chat.until("document.body.dataset.empty !== undefined")


@pytest.mark.parametrize("answer, kind, word", [
    (Status(429, "queue full", code="rate_limit_exceeded", kind="rate_limit_error", Retry_After="1"), "busy", "again"),
    (Status(503, "stopping", code="draining", kind="server_error"), "draining", "stopping"),
    (Status(500, "the step failed", kind="server_error"), "server", "the step failed"),
    (Status(400, "top_k: a number is expected"), "refused", "top_k"),
])
def test_refusals(chat, fake, answer, kind, word):
    fake.answers = [answer, ["Better now."]]
    chat.expect("status of")
    chat.ask("try")
    assert word in error(chat, kind)
    assert [chat.count(f'[data-role="assistant"] {at(name)}') for name in ("copy-message", "regenerate")] == [0, 0], \
        "there is nothing to copy, and Retry is there"
    chat.press("retry")
    chat.wait_state("done")
    assert chat.ended().strip() == "Better now." and chat.count(at("message-error")) == 0
    assert len(chat.shown()) == 2


def test_error_in_the_middle(chat, fake):
    fake.answers = [["Half of it", stream_error("the watchdog ended the step")]]
    chat.ask("go")
    assert "watchdog" in error(chat, "server") and "Half of it" in chat.answer()


def test_connection_lost(chat, fake):
    gate = Gate()
    fake.answers = [["Half of ", gate, Cut], ["it and the rest."]]
    chat.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
    chat.send("go")
    chat.wait_text("Half of")
    gate.open()
    chat.wait_state("lost")
    chat.ended()
    assert chat.answer().strip() == "Half of"
    assert "lost" in chat.text(at("message-note"))
    chat.press("continue")
    chat.wait_state("done")
    assert chat.ended().strip() == "Half of it and the rest."


def test_stream_that_just_ends(chat, fake):
    """No [DONE] and no finish, and the connection ends well: that is no answer, however it looks."""
    gate = Gate()
    fake.answers = [["Half", gate, End]]
    chat.send("go")
    chat.wait_text("Half")
    gate.open()
    chat.wait_state("lost")


def test_server_gone_and_back(chat, fake):
    fake.answers = [["One."], ["Two."]]
    chat.ask("first")
    chat.expect("ERR_EMPTY_RESPONSE", "ERR_CONNECTION")
    fake.gone = True
    chat.ask("second")
    error(chat, "gone")
    assert "does not answer" in chat.there("status-banner")
    chat.shot("chat-gone")
    fake.gone = False
    chat.press("try-now")
    chat.until("document.querySelector('#banner').hidden")
    chat.press("retry")
    chat.wait_state("done")
    assert chat.ended().strip() == "Two."


def test_an_old_error_under_a_new_banner(chat, fake):
    """What an error says of the server is said as of then, once the banner has other news."""
    chat.expect("ERR_EMPTY_RESPONSE", "ERR_CONNECTION", "status of 503")
    now, past = "does not answer", "The server did not answer then."
    fake.gone = True
    chat.send("hello")
    error(chat, "gone")
    chat.until("document.body.dataset.server === 'gone'")
    said = error(chat, "gone")
    assert past not in said and "Check that it runs" in said and now in chat.there("status-banner")
    fake.loading, fake.gone = 0.4, False
    chat.press("try-now")
    chat.until("document.body.dataset.server === 'loading'")
    assert now not in chat.there("status-banner")
    said = error(chat, "gone")
    assert past in said and "Check that it runs" not in said and now not in said
    fake.loading = None
    chat.until("document.body.dataset.server === 'ready'")
    assert past in error(chat, "gone")
    fake.gone = True  # again: the error and the banner agree
    chat.js("dispatchEvent(new Event('online'))")
    chat.until("document.body.dataset.server === 'gone'")
    assert past not in error(chat, "gone")


def test_comes_back_by_itself(profile, fake):
    chat = ChatPage(profile, fake.url)
    chat.expect("ERR_EMPTY_RESPONSE", "ERR_CONNECTION")
    fake.gone = True
    chat.js("dispatchEvent(new Event('online'))")
    chat.until("document.body.dataset.server === 'gone'")
    fake.gone = False
    chat.until("document.body.dataset.server === 'ready'")
    assert chat.js("document.querySelector('#banner').hidden")


def test_loading_shows_progress(profile, fake):
    fake.loading = 0.4
    chat = ChatPage(profile, fake.url)
    chat.expect("status of 503")
    assert chat.until("document.querySelector('#banner progress')?.value") == 0.4
    chat.write("wait for me")
    chat.key("Enter")
    assert fake.chats() == [] and chat.value("#composer") == "wait for me"
    fake.loading = None
    chat.until("document.body.dataset.server === 'ready'")
    chat.key("Enter")
    assert fake.wait_chats(1)
    chat.ended()


def test_storage_that_is_blocked(profile, fake):
    chat = ChatPage(profile, None)
    chat.on_every_page("IDBFactory.prototype.open = () => { throw new DOMException('blocked', 'SecurityError'); }")
    chat.open(fake.url)
    assert "not save" in chat.there("storage-note")
    fake.answers = [["Still works."]]
    assert chat.ask("hello").strip() == "Still works."


def test_storage_that_is_full(chat, fake):
    chat.js("""(put => { IDBObjectStore.prototype.put = function (...a) {
        if (this.name === 'messages') { throw new DOMException('full', 'QuotaExceededError'); }
        return put.apply(this, a); }; })(IDBObjectStore.prototype.put)""")
    fake.answers = [["Still shown."]]
    assert chat.ask("hello").strip() == "Still shown."
    assert "full" in chat.there("storage-note")


def test_finish_with_nothing(chat, fake):
    fake.answers = [[Finish("stop")]]
    chat.ask("say nothing")
    assert chat.state() == "done"
    chat.ask("next")
    assert [t["role"] for t in fake.chats()[1]["messages"]] == ["user", "user"]
