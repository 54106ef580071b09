# SPDX-License-Identifier: Apache-2.0
"""The dashboard: what it reads, draws and says; what it does when the server goes or asks for a key."""
import json
import pathlib
import re
import threading

import pytest
from rawhttp import LIMIT, get, post

import access
from measured import Measured

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIVE = "document.querySelector('#state').dataset.state === 'live'"
TABLE = """id => Object.fromEntries([...document.querySelectorAll(`#${id} tbody tr`)].map(
    r => [r.cells[0].innerText, [...r.cells].slice(1).map(c => c.innerText)]))"""


def dashboard(profile, fake, metrics=None, **how):
    fake.metrics = metrics or Measured()
    page = profile.page(f"{fake.url}/dashboard", **how)
    page.until(LIVE)
    return page


def tiles(page):
    return page.js("Object.fromEntries([...document.querySelectorAll('.tile')].map(t => "
                   "[t.querySelector('dt').innerText, t.querySelector('dd').innerText]))")


def numbers(page, chart):
    """A chart's table: series -> [now, least, mean, most]."""
    if not page.js(f"document.querySelector('#{chart} details').open"):
        page.click(f"#{chart} summary")
        page.until(f"document.querySelectorAll('#{chart} tbody tr').length > 0")
    return page.js(f"({TABLE})({chart!r})")


def near(shown, value):
    """A rate: the page's clock goes on while it asks."""
    assert abs(float(shown.split()[0]) - value) < 0.1 * value, shown


class Known(Measured):
    """The same every two seconds."""

    def step(self):
        self.gauges.update({"requests_running": 3, "requests_waiting": 7, 'kv_bytes{state="used"}': 512,
                            'kv_bytes{state="cached"}': 1024})
        self.made(246)
        self.steps(80, 2.5)
        self.blocks(30, 4, 3)
        self.blocks(10, 2, 0)
        self.counters["prompt_tokens_total"] += 1000
        self.counters['tokens_total{kind="cached"}'] += 250
        for value, times in ((0.15, 50), (0.3, 40), (0.7, 10)):
            self.observe("time_to_first_token_seconds", value, times)
        self.observe("inter_token_latency_seconds", 0.015, 10)
        self.observe("e2e_request_latency_seconds", 1.5, 4)


def test_the_numbers_are_right(profile, fake):
    page = dashboard(profile, fake, Known())
    page.pass_time(60)
    shown = tiles(page)
    near(shown.pop("Generated"), 123)
    near(shown.pop("Prompt"), 500)
    assert shown == {"First token p50": "200 ms", "Next token p50": "15 ms", "Running": "3", "Waiting": "7",
                     "Memory used": "25 %", "Cache hits": "25 %"}
    first = numbers(page, "first")
    # Half lie in 0.1 to 0.2 s, 90 % up to 0.5 s; the last hundredth is nine tenths of the way from 0.5 to 1 s.
    assert {name: row[0] for name, row in first.items()} == {"p50": "200 ms", "p90": "500 ms", "p99": "950 ms"}
    for shown in numbers(page, "made")["generated"]:
        near(shown, 123)
    assert numbers(page, "whole")["p50"][0] == "1.5 s"
    assert numbers(page, "kv") == {"in use": ["25 %"] * 4, "kept for reuse": ["50 %"] * 4}
    assert numbers(page, "batch")["in a step"] == ["2.5"] * 4
    # In 200 turns of answers 40 blocks with 140 proposals, 90 of them right.
    assert numbers(page, "tokens") == {"with proposals": ["3.25"] * 4, "in all steps": ["1.45"] * 4}
    assert numbers(page, "width") == {"with proposals": ["3.5"] * 4, "in all steps": ["0.7"] * 4}
    assert {name: row[0] for name, row in numbers(page, "right").items()} == {
        "all": "64 %", "1st": "75 %", "2nd": "75 %", "3rd": "75 %"}
    assert page.text("#proposer") == "Proposals: draft scripted-draft (dflash), lookup"
    assert page.js("new Set([...document.querySelectorAll('.card')].map(c => c.getBoundingClientRect().height)).size") == 1, \
        "open numbers move nothing"
    assert page.count("#first path.line") == 3 and page.count("#queue path.line") == 2
    assert page.text("#model") == "org/scripted-model"
    assert "p50 200 ms" in page.js("document.querySelector('#first-says').textContent")


def test_quiet_server_has_gaps_and_no_zeros(profile, fake):
    class Quiet(Measured):
        def step(self):
            pass
    page = dashboard(profile, fake, Quiet())
    page.pass_time(10)
    assert numbers(page, "first")["p50"] == ["–"] * 4
    assert tiles(page)["First token p50"] == "–" and tiles(page)["Generated"] == "0 tokens/s"
    assert page.js("document.querySelector('#first .empty').textContent") == "nothing in this time"


CARDS = "[...document.querySelectorAll('.card')].filter(c => c.offsetParent !== null).map(c => c.id)"
OF_PROPOSALS = {"tokens", "right", "width"}


@pytest.mark.parametrize("proposer, says", [
    (None, ""), ({"draft": "", "kind": "", "lookup": "on"}, "Proposals: lookup"),
    ({"draft": "mtp", "kind": "mtp", "lookup": "off"}, "Proposals: draft mtp"),
    ({"draft": "", "kind": "", "lookup": "off"}, ""),
])
def test_who_proposes(profile, fake, proposer, says):
    measured = Known()
    measured.proposer = proposer
    page = dashboard(profile, fake, measured)
    assert page.text("#proposer") == says
    shown = set(page.js(CARDS))
    assert len(shown - OF_PROPOSALS) == 9 and shown & OF_PROPOSALS == (OF_PROPOSALS if says else set())
    # Another start, with a draft: the charts come, as wide as the others.
    measured.proposer = {"draft": "late", "kind": "eagle3", "lookup": "off"}
    page.pass_time(4)
    assert set(page.js(CARDS)) >= OF_PROPOSALS
    assert page.js("new Set([...document.querySelectorAll('.plot')].map(p => p.getAttribute('viewBox'))).size") == 1


def test_block_size_where_nothing_is_proposed(profile, fake):
    class Plain(Known):
        def blocks(self, *_):
            pass
    page = dashboard(profile, fake, Plain())
    page.pass_time(10)
    assert numbers(page, "width") == {"with proposals": ["0"] * 4, "in all steps": ["0"] * 4}
    assert numbers(page, "tokens") == {"with proposals": ["–"] * 4, "in all steps": ["1"] * 4}
    assert numbers(page, "right")["all"] == ["–"] * 4


def test_a_late_answer_is_asked_for_again(profile, fake):
    held, asked = threading.Event(), threading.Event()

    def metrics():
        if not asked.is_set():
            asked.set()
            held.wait(LIMIT)
        return Measured().text()
    page = profile.page()
    page.on_every_page("""(set => { window.setTimeout = (then, ms, ...more) => set(then, ms === 10000 ? 200 : ms, ...more);
        })(setTimeout)""")  # ten seconds are too long for a test
    fake.metrics = metrics
    page.open(f"{fake.url}/dashboard")
    assert asked.wait(LIMIT)
    page.until(LIVE)
    held.set()


HISTORY = ("whimbrel:tokens_total{kind=\"generated\"}", "whimbrel:requests_running",
           *(f'whimbrel:time_to_first_token_seconds_bucket{{le="{limit}"}}' for limit in ("2", "2.5", "3", "+Inf")))


def hour(n, age=1):
    """Samples of a server that makes 50 tokens a second, and each 5 s has two first tokens between 2.5 and 3 s."""
    rows = [[1000 * (age + 5 * (n - 1 - i)), 250, int(i == 0), 0, 0, 2, 2] for i in range(n)]
    return {"step_s": 5, "columns": list(HISTORY), "rows": rows}


def test_it_opens_with_the_hour_that_the_server_kept(profile, fake):
    measured = Measured()
    measured.step, measured.counters['tokens_total{kind="generated"}'] = lambda: None, 250 * 720
    fake.history = hour(720)
    page = dashboard(profile, fake, measured)
    points = page.js("document.querySelector('#made path.line').getAttribute('d').split('L').length")
    assert 58 <= points <= 62, "five minutes of it are shown at first"
    page.js("(e => { e.value = '3600'; e.dispatchEvent(new Event('change')); })(document.querySelector('#span'))")
    points = page.js("document.querySelector('#made path.line').getAttribute('d').split('L').length")
    assert 715 <= points <= 720 and page.count("#made path.line") == 1
    assert "−60 min" in page.js("document.querySelector('#made .plot').textContent")
    assert numbers(page, "made")["generated"][2:] == ["50"] * 2
    low, high = (float(x.split()[0]) for x in numbers(page, "first")["p99"][1::2])
    assert 2.5 < low <= high <= 3, "percentiles come of the same buckets"
    page.shot("dashboard-hour")


def test_what_a_hidden_tab_missed_comes_from_the_server(profile, fake):
    measured = Known()
    page = dashboard(profile, fake, measured)
    page.pass_time(10)
    page.click("#pause")
    page.until("document.querySelector('#state').innerText === 'Paused'")
    made = measured.counters['tokens_total{kind="generated"}']
    page.pass_time(60)
    fake.history = hour(14)
    fake.history["rows"][0][1] = made + 250
    measured.made(250 * 14)
    before = page.js("document.querySelectorAll('#made path.line').length")
    page.click("#pause")
    page.until(LIVE)
    assert before == page.count("#made path.line") == 1, "there is no gap"


@pytest.mark.parametrize("history", [
    {}, {"columns": 5, "rows": []}, {"columns": ["a"], "rows": [[1]]}, {"columns": ["a", "}{"], "rows": [[1, 2, "x"]]},
    {"columns": list(HISTORY), "rows": [[1e300] * 7, [None] * 7]}, [1], "text",
])
def test_odd_history_is_left_out(profile, fake, history):
    fake.history = history
    page = dashboard(profile, fake, Known())
    page.pass_time(20)
    near(tiles(page)["Generated"], 123)
    assert page.count("#made path.line") == 1


def request(number, **more):
    return {"id": f"req_{number}", "client": "192.168.1.7", "route": "/v1/chat/completions", "state": "answering",
            "age_s": 12.34 + number, "prompt_tokens": 1200, "prompt_tokens_read": 1200, "cached_tokens": 0,
            "generated_tokens": 321, "choices": 1, **more}


def test_requests_that_run(profile, fake):
    fake.running = [request(1), request(2, state="reading", prompt_tokens_read=448, generated_tokens=0),
                    request(3, state="waiting", prompt_tokens_read=0, generated_tokens=0, age_s=700),
                    request(4, id="<img src=x onerror=alert(1)>", client="<b>", state="other")]
    page = dashboard(profile, fake)
    rows = page.js("[...document.querySelectorAll('#request-rows tr')].map(r => [...r.cells].map(c => c.innerText.trim()))")
    assert [r[0].split()[0] for r in rows][:1] + [r[0] for r in rows[2:]] == ["req_3",
        "req_2 /v1/chat/completions", "req_1 /v1/chat/completions"], "the oldest first"
    assert rows[0][1:] == ["192.168.1.7", "waiting", "11 min 40 s", "0 of 1,200", "0"]
    assert rows[2][1:] == ["192.168.1.7", "reading its prompt", "14.3 s", "448 of 1,200", "0"]
    assert page.js("document.querySelector('#request-rows progress').value") == 448
    assert rows[1][0].startswith("<img") and page.count("#requests img, #requests b") == 0
    assert page.js("document.querySelector('#no-requests').hidden")
    assert access.violations(page) == []
    page.shot("dashboard-requests", whole=True)
    fake.running = []
    page.pass_time(4)
    assert page.count("#request-rows tr") == 0 and not page.js("document.querySelector('#no-requests').hidden")
    fake.running = [request(i) for i in range(300)]
    page.pass_time(4)
    assert page.count("#request-rows tr") == 101
    fake.running = "no list"
    page.pass_time(4)
    assert page.count("#request-rows tr") == 0


def test_restart_of_the_server_is_no_negative_rate(profile, fake):
    page = dashboard(profile, fake, Known())
    page.pass_time(10)
    fake.metrics = Known()
    fake.metrics.started += 1
    page.pass_time(20)
    for shown in numbers(page, "made")["generated"]:
        near(shown, 123)
    assert page.count("#made path.line") == 2, "the line goes on over a restart"


def test_cursor_by_keyboard_and_pointer(profile, fake):
    page = dashboard(profile, fake)
    page.pass_time(60)
    page.js("document.querySelector('#made .plot').focus()")
    page.key("ArrowLeft")
    page.key("ArrowLeft")
    page.until("document.querySelectorAll('.cursor').length === document.querySelectorAll('.card').length")
    assert page.js("document.querySelector('#made .cursor + text').textContent").endswith("s ago")
    assert "seconds ago" in page.js("document.querySelector('#made-says').textContent")
    page.key("Escape")
    page.until("document.querySelectorAll('.cursor').length === 0")
    where = page.js("(r => [r.left + r.width / 2, r.top + 40])(document.querySelector('#first .plot').getBoundingClientRect())")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=where[0], y=where[1])
    page.until("document.querySelectorAll('.cursor').length > 0")


def test_time_span(profile, fake):
    page = dashboard(profile, fake)
    page.pass_time(80)
    points = page.js("document.querySelector('#made path.line').getAttribute('d').split('L').length")
    page.js("(e => { e.value = '60'; e.dispatchEvent(new Event('change')); })(document.querySelector('#span'))")
    fewer = page.js("document.querySelector('#made path.line').getAttribute('d').split('L').length")
    assert 25 <= fewer < points
    assert "−60 s" in page.js("document.querySelector('#made .plot').textContent")


def test_pause_and_hidden_ask_nothing(profile, fake):
    page = dashboard(profile, fake)
    page.click("#pause")
    page.until("document.querySelector('#state').innerText === 'Paused'")
    asked = fake.metrics_asked
    page.pass_time(60)
    assert fake.metrics_asked == asked
    page.click("#pause")
    page.until(LIVE)
    # Another tab in front hides this one.
    hidden = page.js("""(() => { Object.defineProperty(document, 'hidden', {value: true, configurable: true});
        document.dispatchEvent(new Event('visibilitychange')); return document.hidden; })()""")
    assert hidden
    asked = fake.metrics_asked
    page.pass_time(60)
    assert fake.metrics_asked == asked
    page.js("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.pass_time(4)
    assert fake.metrics_asked > asked


def test_says_that_the_server_loads_or_stops(profile, fake):
    measured = Measured()
    measured.state, measured.loaded = "loading", 0.4
    fake.metrics = measured
    page = profile.page(f"{fake.url}/dashboard")
    page.until("document.querySelector('#state').innerText === 'Loading 40 %'")
    measured.state = "draining"
    page.pass_time(4)
    assert page.text("#state") == "Stopping"


def test_server_gone_and_back(profile, fake):
    page = dashboard(profile, fake)
    page.pass_time(20)
    page.expect("ERR_EMPTY_RESPONSE", "ERR_CONNECTION")
    fake.gone = True
    page.pass_time(30)
    page.until("document.querySelector('#state').innerText === 'Server gone'")
    assert "does not answer" in page.text("#banner")
    assert page.count("#made path.line") == 1, "what was there is kept"
    page.shot("dashboard-gone")
    fake.gone = False
    page.pass_time(12)
    page.until(LIVE)
    assert page.js("document.querySelector('#banner').hidden")


@pytest.mark.parametrize("text, says", [
    ("<html>no metrics</html>", "has no whimbrel:"),
    ("x" * 100000 + "\n{{{\nwhimbrel:tokens_total{kind=\"generated\"} nonsense\n", "has no whimbrel:"),
])
def test_what_is_no_metrics(profile, fake, text, says):
    fake.metrics = text
    page = profile.page(f"{fake.url}/dashboard")
    page.until("!document.querySelector('#banner').hidden")
    assert says in page.text("#banner")


def test_odd_metrics_are_passed_over(profile, fake):
    known = Known()
    lines = ['whimbrel:requests_running{model="<img src=x onerror=alert(1)>\\"} 5"} 0', "whimbrel:requests_running NaN",
             'whimbrel:time_to_first_token_seconds_bucket{le="x"} 9', "whimbrel:prompt_tokens_total", "} {", "# TYPE",
             "whimbrel:requests_running 1e999999 5 5"]
    fake.metrics = lambda: known() + "\n".join(lines) + "\n"
    page = profile.page(f"{fake.url}/dashboard")
    page.until(LIVE)
    page.pass_time(20)
    assert tiles(page)["Running"] == "3" and tiles(page)["First token p50"] == "200 ms"
    assert page.count("img") == 0


def test_key_is_asked_for_and_kept(profile, fake):
    fake.key, fake.metrics = "sesame-1234567", Measured()
    page = profile.page(f"{fake.url}/dashboard")
    page.expect("401")
    page.until("!document.querySelector('#key-form').hidden")
    assert page.focused() == "key"
    assert access.violations(page) == []
    page.type("wrong")
    page.key("Enter")
    page.until("!document.querySelector('#key-wrong').hidden")
    page.type("sesame-1234567")
    page.key("Enter")
    page.until(LIVE)
    page.reload()
    page.until(LIVE)
    assert page.js("localStorage.length") == 0, "the key stays in the tab"
    assert "sesame" not in page.js("document.documentElement.outerHTML")


def test_behind_a_path_prefix(profile, fake):
    fake.metrics = Measured()
    page = profile.page(f"{fake.url}/some/prefix/dashboard")
    page.until(LIVE)
    # a tab may still come from the icon, where it waits between tests
    assert {r["path"] for r in fake.requests if not r["prefixed"]} <= {"/favicon.ico"}, "it asked outside its prefix"
    assert page.js("document.querySelector('.brand').href") == f"{fake.url}/some/prefix/"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_shot(profile, fake, scheme):
    page = dashboard(profile, fake, scheme=scheme)
    page.pass_time(150 if scheme == "light" else 60)
    page.click("#made summary")
    assert access.violations(page) == []
    stops, bad = access.tab_stops(page)
    assert bad == [] and len(stops) > 15, stops
    page.js("document.activeElement.blur(); scrollTo(0, 0)")
    page.shot(f"dashboard-{scheme}", whole=True)


def test_phone(profile, fake):
    page = dashboard(profile, fake, width=390, height=844, phone=True)
    page.pass_time(60)
    assert access.too_wide(page) == []
    assert access.small_targets(page) == []
    assert access.violations(page) == []
    page.shot("dashboard-phone", whole=True)
    page.device(320, 640, phone=True)
    assert access.too_wide(page) == []


def test_real_server(profile, real):
    page = profile.page(f"{real.url}/dashboard")
    page.until(LIVE)
    assert page.text("#model").startswith("SmolLM2") and tiles(page)["Memory used"].endswith("%")
    assert page.text("#proposer").endswith("lookup")
    held = post(real.port, "/metrics/history", {})
    assert held.status == 405
    kept = json.loads(get(real.port, "/metrics/history").text())
    source = (ROOT / "web" / "dashboard_series.js").read_text(encoding="utf-8")
    drawn = {n for n in re.findall(r'"(whimbrel:\w+)"', source.split("loading:")[0])}
    there = {re.sub("_(bucket|count|sum)$", "", c.split("{")[0]) for c in kept["columns"]}
    assert {re.sub("_(count|sum)$", "", n) for n in drawn} <= there, "a chart without a past"
    assert kept["rows"] and all(len(row) == 1 + len(kept["columns"]) for row in kept["rows"])
    answer = post(real.port, "/v1/completions", {"prompt": "The sea is", "max_tokens": 24, "ignore_eos": True})
    assert answer.status == 200
    page.until("[...document.querySelectorAll('.tile')].every(t => t.querySelector('dd').innerText !== '–')")
    assert float(numbers(page, "made")["generated"][3]) > 0
    assert numbers(page, "batch")["in a step"][3] == "1"


def test_every_name_is_a_metric_of_the_server(real):
    source = (ROOT / "web" / "dashboard_series.js").read_text(encoding="utf-8")
    names = set(re.findall(r'"((?:whimbrel:|process_)\w+)"', source))
    text = get(real.port, "/metrics").text()
    assert len(names) > 12
    assert [n for n in sorted(names) if not re.search(rf"^{n}(_bucket)?[ {{]", text, re.M)] == []
