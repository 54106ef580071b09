# SPDX-License-Identifier: Apache-2.0
"""A tab of Chromium: going places, asking the page, doing what a person does, and what happened meanwhile."""
import base64
import json
import os
import time
import zlib

LIMIT = 60 * float(os.environ.get("SLOW", "1"))  # seconds for anything that should be quick
KEYS = {  # key -> (code, windowsVirtualKeyCode, text)
    "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""),
    "Backspace": ("Backspace", 8, ""),
    "ArrowUp": ("ArrowUp", 38, ""), "ArrowDown": ("ArrowDown", 40, ""), "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""), "Home": ("Home", 36, ""), "End": ("End", 35, ""), " ": ("Space", 32, " "),
}
MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class Page:
    def __init__(self, profile):
        self.profile, self.browser = profile, profile.browser
        target = self.browser.call("Target.createTarget", url="about:blank", browserContextId=profile.id)["targetId"]
        self.target = target
        self.session = self.browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.browser.pages[self.session] = self
        self.virtual, self.time_passed = False, False
        self.is_spent, self.is_closed = False, False  # spent: not as a new tab would be, whatever it shows
        self.forget()
        for domain in ("Page", "Runtime", "Log", "Network", "Audits", "DOM"):
            self.call(f"{domain}.enable")

    def forget(self):
        self.logged, self.asked, self.dialogs, self.expected = [], [], [], []
        self.responses = {}  # URL -> (status, headers)
        self.origins = set()

    def begin(self, width=1200, height=800, scheme="light", phone=False, reduced=False):
        self.forget()
        self.device(width, height, phone)
        self.media(scheme, reduced)
        self.to_front()

    def leave(self):
        """To a file of the same server, so that the process stays; without history and without what the tab stored."""
        self.js("location.href.startsWith('http') ? (location.href = '/favicon.ico') : 1")
        self.until("!location.href.startsWith('http') || location.pathname === '/favicon.ico'")
        self.js("location.href.startsWith('http') && sessionStorage.clear()")
        self.call("Page.resetNavigationHistory")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    # --- what happens by itself ---

    def on_event(self, method, p):
        if method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.logged.append(f"console {p['type']}: " + " ".join(
                str(a.get("value", a.get("description", ""))) for a in p["args"]))
        elif method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.logged.append(f"exception: {d.get('exception', {}).get('description', d['text'])}")
        elif method in ("Log.entryAdded", "Audits.issueAdded") and "/favicon.ico" in json.dumps(p):
            pass  # the browser's own page around a picture, where tabs wait between tests
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.logged.append(f"log {p['entry']['source']}: {p['entry']['text']} {p['entry'].get('url', '')}")
        elif method == "Audits.issueAdded" and p["issue"]["code"] == "ContentSecurityPolicyIssue":
            self.logged.append(f"CSP: {json.dumps(p['issue']['details'])[:300]}")
        elif method == "Network.requestWillBeSent":
            self.asked.append(p["request"]["url"])
        elif method == "Network.responseReceived":
            r = p["response"]
            self.responses[r["url"]] = (r["status"], {k.lower(): v for k, v in r["headers"].items()})
        elif method == "Emulation.virtualTimeBudgetExpired":
            self.time_passed = True
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(f"{p['type']}: {p['message']}")
            self.browser.send("Page.handleJavaScriptDialog", self.session, accept=True)

    def expect(self, *words):
        """What this test makes the browser log, so that it is no problem."""
        self.expected += words

    def problems(self):
        """All that a good page never does: errors in the console, broken policy, other hosts, dialogs."""
        self.browser.read(0)
        found = [line for line in self.logged if not any(word in line for word in self.expected)]
        found += [f"asked another host: {u}" for u in self.asked
                  if not u.startswith(("http://127.0.0.1:", "http://lan.test:", "data:", "blob:", "about:"))]
        return found + [f"a dialog opened: {d}" for d in self.dialogs]

    # --- going places ---

    def device(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone, maxTouchPoints=5 if phone else 1)

    def media(self, scheme="light", reduced=False):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}])

    def on_every_page(self, source):
        """A script that runs before a page's own."""
        self.is_spent = True
        self.call("Page.addScriptToEvaluateOnNewDocument", source=source)

    def open(self, url):
        self.origins.add("/".join(url.split("/")[:3]))
        self.js("window.before = true")
        self.call("Page.navigate", url=url)
        self.until("!window.before && document.readyState === 'complete'")

    def reload(self):
        self.js("window.before = true")
        self.call("Page.reload")
        self.until("!window.before && document.readyState === 'complete'")

    def pass_time(self, seconds):
        """Lets so much time pass for the page, in no time: its clock stands still while something is being fetched.
        From then on it stands still always, but for what this and `until` let pass."""
        self.virtual, self.is_spent, self.time_passed = True, True, False
        self.call("Emulation.setVirtualTimePolicy", policy="pauseIfNetworkFetchesPending", budget=seconds * 1000)
        end = time.monotonic() + LIMIT
        while not self.time_passed:
            self.browser.read(end - time.monotonic(), "time does not pass")

    def to_front(self):
        self.call("Page.bringToFront")

    def close(self):
        if not self.is_closed:
            self.is_closed = True
            self.browser.call("Target.closeTarget", targetId=self.target)

    # --- asking ---

    def js(self, expression, **how):
        number = self.browser.send("Runtime.evaluate", self.session, expression=expression, awaitPromise=True,
                                   returnByValue=True, userGesture=True, **how)
        end = time.monotonic() + LIMIT
        while not self.browser.answered(number):
            if time.monotonic() > end:
                raise TimeoutError(f"no answer within {LIMIT:.0f} s: {expression[-200:]}")
            self.browser.read(0.05)
            if self.virtual and not self.browser.answered(number):
                self.pass_time(0.02)
        answer = self.browser.take(number)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression[-200:]}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def isolated(self, source):
        """Runs a script in a world of its own: the page's policy and globals do not reach it."""
        frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        world = self.call("Page.createIsolatedWorld", frameId=frame)["executionContextId"]
        return self.js(source, contextId=world)

    def until(self, expression, seconds=LIMIT):
        """Waits for an expression to become true, and gives its value."""
        end = time.monotonic() + seconds
        while True:
            try:
                value = self.js(expression)
            except RuntimeError as error:  # a page that is just being left has no world to ask
                value = None
                if "context" not in str(error) and "navigated" not in str(error):
                    raise
            if value:
                return value
            if time.monotonic() > end:
                self.shot("timeout")
                raise AssertionError(f"never true: {expression}; logged: {self.logged[-3:]}; "
                                     f"page: {self.js('document.body.innerText.slice(0, 600)')!r}")
            if self.virtual:
                self.pass_time(0.02)
            self.browser.read(0.02)

    def count(self, selector):
        return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")

    def text(self, selector):
        return self.js(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText")

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")

    def value(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).value")

    def focused(self):
        return self.js("document.activeElement.id || document.activeElement.className || document.activeElement.tagName")

    # --- doing ---

    def click(self, selector, nth=0):
        """Clicks where the thing is; something in front of it is an error, as it would be for a person."""
        where = self.until(f"""(() => {{
            const all = [...document.querySelectorAll({json.dumps(selector)})];
            const e = all[{nth} < 0 ? all.length + {nth} : {nth}];
            if (!e || e.disabled) return null;
            const view = e.getBoundingClientRect();
            if (view.top < 0 || view.bottom > innerHeight) e.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const r = e.getClientRects()[0];
            if (!r || r.width === 0) return null;
            const x = r.left + r.width / 2, y = r.top + r.height / 2;
            const top = document.elementFromPoint(x, y);
            return top && (e.contains(top) || top.contains(e)) ? [x, y] : null;
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1,
                      buttons=1)

    def hover(self, selector):
        """The mouse goes there; nothing may lie in front of it."""
        x, y = self.until(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            const r = e && e.getBoundingClientRect();
            if (!r || r.width === 0) return null;
            const x = r.left + r.width / 2, y = r.top + r.height / 2, top = document.elementFromPoint(x, y);
            return top && e.contains(top) ? [x, y] : null;
        }})()""")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def key(self, combination, quiet=False, **more):
        """`Enter`, `Shift+Enter`, `Control+k`, `?`; quiet: no letter comes of it."""
        *held, key = combination.split("+") if combination != "+" else ["+"]
        code, number, text = KEYS.get(key, (f"Key{key.upper()}" if key.isalpha() else "", ord(key[0].upper()), key))
        modifiers = sum(MODIFIERS[h] for h in held)
        if quiet or modifiers & ~MODIFIERS["Shift"]:
            text = ""
        how = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers, **more}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **how)
        self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def fill(self, selector, text):
        """Puts text into a field in place of what is there, as typing would."""
        self.js(f"(e => {{ e.focus(); e.select && e.select(); }})(document.querySelector({json.dumps(selector)}))")
        if text:
            self.type(text)
        else:
            self.key("Backspace")

    def compose(self, text):
        """An input method's unfinished text at the cursor."""
        self.call("Input.imeSetComposition", text=text, selectionStart=len(text), selectionEnd=len(text))

    def choose_file(self, selector, *paths):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=list(map(str, paths)), nodeId=node)

    def pixel(self, x, y):
        """(red, green, blue) at a place of the view."""
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png",
                                         clip={"x": x, "y": y, "width": 1, "height": 1, "scale": 1})["data"])
        at, data = 8, b""
        while at < len(png):
            size, kind = int.from_bytes(png[at:at + 4], "big"), png[at + 4:at + 8]
            data += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
            at += 12 + size
        return tuple(zlib.decompress(data)[1:4])  # of the first pixel every filter leaves what it is

    def shot(self, name, whole=False):
        folder = os.environ.get("SHOTS", "build/test-logs/browser")
        os.makedirs(folder, exist_ok=True)
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(os.path.join(folder, f"{name}.png"), "wb") as f:
            f.write(base64.b64decode(data))
