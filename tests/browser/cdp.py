# SPDX-License-Identifier: Apache-2.0
"""One Chromium, driven over a pipe with its own protocol (CDP): no driver program and no package between.

Chromium -> Profile (its own storage, as a private window) -> Page (a tab, see tab.py). One thread: events are read
while a call or a wait is under way. A new profile and a new tab cost much more than going somewhere in an old one, so
`Profile.clear` empties both for the next test.
"""
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

from tab import LIMIT, Page

FLAGS = [
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
    "--disable-extensions", "--disable-sync", "--disable-background-networking", "--disable-component-update",
    "--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
    "--disable-features=Translate,OptimizationHints,MediaRouter", "--password-store=basic", "--lang=en-US",
    # Headless it has no mouse, so that nothing would hover: 2 is hover, 4 a fine pointer. A phone's tab overrides that.
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",
    # It opens our own pages only, and in containers and as root there is no sandbox to be had.
    "--no-sandbox",
    # No name leads anywhere but one, which is a server on a LAN: plain http from another machine.
    "--host-resolver-rules=MAP lan.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]


def program():
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Chromium:
    def __init__(self, log):
        self.folder = tempfile.mkdtemp(prefix="browser-", dir=os.environ.get("TEST_TMP"))
        commands, self._out = os.pipe()
        self._in, replies = os.pipe()
        flags = FLAGS + [f"--user-data-dir={self.folder}/profile"]
        # The shell puts the two ends of the pipes where Chromium looks for them.
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "chromium", str(commands), str(replies), program(), *flags],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(commands, replies), start_new_session=True,
            env={**os.environ, "HOME": self.folder, "LANGUAGE": "en"})
        os.close(commands)
        os.close(replies)
        self._buffer, self._next, self._answers = b"", 0, {}
        self.pages = {}  # session -> Page
        self.version = self.call("Browser.getVersion")["product"]

    def send(self, method, session=None, **params):
        """Sends a command; its number is for `answered` and `take`."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._next

    def answered(self, number):
        return number in self._answers

    def take(self, number):
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(str(answer["error"]))
        return answer["result"]

    def call(self, method, session=None, **params):
        number = self.send(method, session, **params)
        end = time.monotonic() + LIMIT
        while not self.answered(number):
            self.read(end - time.monotonic(), f"no answer to {method}")
        return self.take(number)

    def read(self, seconds, why=None):
        """Takes in what has come, waiting up to so long for it; `why`: an error if nothing comes."""
        ready, _, _ = select.select([self._in], [], [], max(seconds, 0))
        if not ready:
            if why:
                raise TimeoutError(f"{why} within {LIMIT:.0f} s")
            return
        data = os.read(self._in, 1 << 20)
        if not data:
            raise RuntimeError("Chromium has ended; see its log")
        parts = (self._buffer + data).split(b"\0")
        self._buffer = parts.pop()
        for part in parts:
            message = json.loads(part)
            if "id" in message:
                self._answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].on_event(message["method"], message["params"])

    def profile(self):
        return Profile(self)

    def close(self):
        for fd in (self._out, self._in):
            os.close(fd)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Profile:
    """Storage of its own; tabs of one profile share it."""

    def __init__(self, browser):
        self.browser = browser
        self.id = browser.call("Target.createBrowserContext")["browserContextId"]
        self.downloads = tempfile.mkdtemp(dir=browser.folder)
        browser.call("Browser.setDownloadBehavior", behavior="allow", browserContextId=self.id,
                     downloadPath=self.downloads, eventsEnabled=False)
        self.pages, self.idle = [], []

    def page(self, url=None, **how):
        page = self.idle.pop() if self.idle else Page(self)
        self.pages.append(page)
        page.begin(**how)
        if url:
            page.open(url)
        return page

    def clear(self):
        """Forgets what the pages have stored, and keeps tabs that can be used again."""
        origins = {origin for page in self.pages for origin in page.origins}
        for page in self.pages:
            if page.is_spent or page.is_closed:
                page.close()
            else:
                page.leave()
                self.idle.append(page)
        self.pages = []
        if not self.idle:
            self.idle.append(Page(self))
        for origin in origins:
            self.idle[0].call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")

    def downloaded(self):
        """The content of the one file that was saved, waited for."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            names = [n for n in os.listdir(self.downloads) if not n.endswith((".crdownload", ".tmp"))]
            if names and not names[0].startswith("."):
                path = os.path.join(self.downloads, names[0])
                with open(path, "rb") as f:
                    data = f.read()
                if data:
                    os.unlink(path)
                    return names[0], data
            self.browser.read(0.02)
        raise TimeoutError("nothing was downloaded")

    def close(self):
        for page in self.pages + self.idle:
            self.browser.pages.pop(page.session, None)
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.id)
