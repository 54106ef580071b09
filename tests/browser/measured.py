# SPDX-License-Identifier: Apache-2.0
"""A made-up server as /metrics shows it: each call is two seconds later, and the numbers are known."""
import bisect
import math
import random

LIMITS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 600, math.inf]
NAMES = ("time_to_first_token_seconds", "inter_token_latency_seconds", "request_duration_seconds")


class Measured:
    def __init__(self, seed=1):
        self.rng = random.Random(seed)
        self.polls = 0
        self.counters = {"generation_tokens_total": 1e6, "prompt_tokens_total": 3e6, "cached_tokens_total": 1e6}
        self.gauges = {"requests_running": 0, "requests_waiting": 0, "kv_pages_used": 0, "kv_pages_cached": 300,
                       "kv_pages_total": 2048}
        self.histograms = {name: [0] * len(LIMITS) for name in NAMES}

    def observe(self, name, value, times=1):
        self.histograms[name][bisect.bisect_left(LIMITS, value)] += times

    def step(self):
        """Two seconds of load that swells and ebbs, with a quiet stretch."""
        t, rng = self.polls, self.rng
        busy = 0 if 60 < t < 75 else max(0, 0.55 + 0.45 * math.sin(t / 14) + rng.gauss(0, 0.07))
        self.gauges["requests_running"] = running = round(24 * min(busy, 0.9))
        self.gauges["requests_waiting"] = max(0, round(30 * (busy - 0.8)))
        self.gauges["kv_pages_used"] = round(1700 * min(busy, 1))
        self.gauges["kv_pages_cached"] = min(2048, 300 + 5 * t)
        self.counters["generation_tokens_total"] += round(2 * running * rng.uniform(22, 26))
        prompt = round(running * rng.uniform(80, 400))
        self.counters["prompt_tokens_total"] += prompt
        self.counters["cached_tokens_total"] += round(prompt * (0.4 + 0.3 * math.sin(t / 20)))
        for _ in range(running // 3):
            self.observe("time_to_first_token_seconds", 0.12 * math.exp(rng.gauss(busy, 0.6)))
            self.observe("request_duration_seconds", 4 * math.exp(rng.gauss(busy, 0.5)))
        for _ in range(running * 5):
            self.observe("inter_token_latency_seconds", 0.03 * math.exp(rng.gauss(busy / 2, 0.3)))

    def text(self):
        lines = ['# HELP whimbrel:build_info the program', '# TYPE whimbrel:build_info gauge',
                 'whimbrel:build_info{version="0.0.0"} 1']
        for kind, values in (("counter", self.counters), ("gauge", self.gauges)):
            for name, value in values.items():
                lines += [f"# TYPE whimbrel:{name} {kind}", f"whimbrel:{name} {value}"]
        for name, counts in self.histograms.items():
            lines.append(f"# TYPE whimbrel:{name} histogram")
            total = 0
            for limit, count in zip(LIMITS, counts):
                total += count
                le = "+Inf" if limit == math.inf else limit
                lines.append(f'whimbrel:{name}_bucket{{le="{le}"}} {total}')
            lines += [f"whimbrel:{name}_sum 1.0", f"whimbrel:{name}_count {total}"]
        return "\n".join(lines) + "\n"

    def __call__(self):
        self.polls += 1
        self.step()
        return self.text()
