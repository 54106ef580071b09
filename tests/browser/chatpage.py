# SPDX-License-Identifier: Apache-2.0
"""The chat page as a person uses it. What its parts are called is in HOOKS.md."""
import json


def at(name):
    """The selector of a test id."""
    return f'[data-testid="{name}"]'


class ChatPage:
    def __init__(self, profile, url, **how):
        self.page = profile.page(**how)
        if url:
            self.open(url)

    def __getattr__(self, name):  # what a tab can do, the page can
        return getattr(self.page, name)

    def open(self, url):
        self.page.open(url)
        self.ready()

    def ready(self):
        self.page.until("document.body.dataset.ready !== undefined && document.body.dataset.server !== undefined")

    def reload(self):
        self.page.reload()
        self.ready()

    # --- talking ---

    def write(self, text):
        self.page.fill("#composer", text)

    def send(self, text):
        """Sends a message, and returns when it stands there."""
        before = self.page.count('[data-role="user"]')
        self.write(text)
        self.page.click("#send")
        self.page.until(f"document.querySelectorAll('[data-role=\"user\"]').length > {before}")

    def ended(self):
        self.page.until("document.body.dataset.running === undefined")
        return self.answer()

    def ask(self, text):
        """Sends a message and waits for the end of its answer: the text that is shown."""
        self.send(text)
        self.page.until("document.querySelector('#messages').lastElementChild.dataset.role === 'assistant'")
        return self.ended()

    def answer(self):
        """What is shown of the last answer."""
        shown = self.page.texts(f'[data-role="assistant"] {at("message-text")}')
        return shown[-1] if shown else None

    def state(self):
        return self.page.js("[...document.querySelectorAll('[data-role=\"assistant\"]')].at(-1)?.dataset.state")

    def wait_state(self, state):
        self.page.until(f"[...document.querySelectorAll('[data-role=\"assistant\"]')].at(-1)?.dataset.state === '{state}'")

    def shown(self):
        """The conversation: [(role, text)]."""
        return [tuple(x) for x in self.page.js(f"""[...document.querySelectorAll('article[data-role]')].map(
            m => [m.dataset.role, m.querySelector('{at("message-text")}').innerText.trim()])""")]

    def wait_text(self, text):
        """Until the last answer shows this text."""
        self.page.until(f"""[...document.querySelectorAll('[data-role="assistant"]')].at(-1)?.innerText.includes(
            {json.dumps(text)})""")

    def new_chat(self):
        self.press("new-chat")
        self.page.until("document.body.dataset.empty !== undefined")

    # --- parts ---

    def press(self, name, nth=-1):
        """A button by its test id; of several, the last."""
        self.page.click(at(name), nth)

    def there(self, name):
        self.page.until(f"[...document.querySelectorAll('{at(name)}')].some(e => e.checkVisibility())")
        return self.page.text(at(name))

    def titles(self):
        return self.page.texts(at("conversation-open"))

    def wait_titles(self, titles):
        self.page.until(f"""JSON.stringify([...document.querySelectorAll('{at("conversation-open")}')].map(
            e => e.innerText)) === JSON.stringify({json.dumps(titles)})""")

    def settings(self, **fields):
        """Opens the settings, fills fields, and saves."""
        self.press("settings")
        for name, value in fields.items():
            self.page.js(f"document.querySelector('{at('set-' + name)}').closest('details')?.setAttribute('open', '')")
            self.page.fill(at(f"set-{name}"), str(value))
        self.press("settings-save")
        self.page.until(f"!document.querySelector('{at('settings-dialog')}').open")
