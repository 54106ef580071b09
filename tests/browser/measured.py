# SPDX-License-Identifier: Apache-2.0
"""A made-up server as /metrics shows it: each call is two seconds later, and the numbers are known."""
import bisect
import math
import random

LIMITS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 600, math.inf]
NAMES = ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds")


class Measured:
    def __init__(self, seed=1):
        self.rng = random.Random(seed)
        self.polls = 0
        self.started = 1000
        self.state, self.loaded = "ready", 1
        self.counters = {'tokens_total{kind="generated"}': 1000000, 'tokens_total{kind="cached"}': 1000000,
                         "prompt_tokens_total": 3000000, "step_sequences_sum": 0, "step_sequences_count": 0,
                         'proposed_tokens_total{result="right"}': 0, 'proposed_tokens_total{result="wrong"}': 0,
                         "proposal_block_tokens_sum": 0, "proposal_block_tokens_count": 0,
                         **{f'proposed_tokens_right_total{{position="{i}"}}': 0 for i in range(15)}}
        self.proposer = {"draft": "scripted-draft", "kind": "dflash", "lookup": "on"}  # None: nobody proposes
        self.gauges = {"requests_running": 0, "requests_waiting": 0, 'kv_bytes{state="used"}': 0,
                       'kv_bytes{state="cached"}': 300, "kv_capacity_bytes": 2048}
        self.histograms = {name: [0] * len(LIMITS) for name in NAMES}

    def observe(self, name, value, times=1):
        self.histograms[name][bisect.bisect_left(LIMITS, value)] += times

    def made(self, tokens):
        self.counters['tokens_total{kind="generated"}'] += tokens

    def steps(self, number, sequences):
        if sequences:
            self.counters["step_sequences_count"] += number
            self.counters["step_sequences_sum"] += number * sequences

    def blocks(self, number, proposed, right):
        """Blocks of so many proposals each, of which the first so many were right."""
        self.counters['proposed_tokens_total{result="right"}'] += number * right
        self.counters['proposed_tokens_total{result="wrong"}'] += number * (proposed - right)
        self.counters["proposal_block_tokens_sum"] += number * (right + 1)
        self.counters["proposal_block_tokens_count"] += number
        for i in range(right):
            self.counters[f'proposed_tokens_right_total{{position="{i}"}}'] += number

    def step(self):
        """Two seconds of load that swells and ebbs, with a quiet stretch."""
        t, rng = self.polls, self.rng
        busy = 0 if 60 < t < 75 else max(0, 0.55 + 0.45 * math.sin(t / 14) + rng.gauss(0, 0.07))
        self.gauges["requests_running"] = running = round(24 * min(busy, 0.9))
        self.gauges["requests_waiting"] = max(0, round(30 * (busy - 0.8)))
        self.gauges['kv_bytes{state="used"}'] = round(1700 * min(busy, 1))
        self.gauges['kv_bytes{state="cached"}'] = min(2048, 300 + 5 * t)
        self.made(round(2 * running * rng.uniform(22, 26)))
        self.steps(50, running * rng.uniform(0.9, 1))
        for _ in range(50 if 0 < running < 16 else 0):
            self.blocks(max(1, running // 2), 3, min(3, int(rng.expovariate(0.6))))
        prompt = round(running * rng.uniform(80, 400))
        self.counters["prompt_tokens_total"] += prompt
        self.counters['tokens_total{kind="cached"}'] += round(prompt * (0.4 + 0.3 * math.sin(t / 20)))
        for _ in range(running // 3):
            self.observe("time_to_first_token_seconds", 0.12 * math.exp(rng.gauss(busy, 0.6)))
            self.observe("e2e_request_latency_seconds", 4 * math.exp(rng.gauss(busy, 0.5)))
        for _ in range(running * 5):
            self.observe("inter_token_latency_seconds", 0.03 * math.exp(rng.gauss(busy / 2, 0.3)))

    def text(self):
        lines = ["# HELP whimbrel:build_info 1, with the version.", "# TYPE whimbrel:build_info gauge",
                 'whimbrel:build_info{version="0.0.0"} 1', f"process_start_time_seconds {self.started}",
                 'whimbrel:model_info{model="org/scripted-model",isa="none"} 1',
                 f"whimbrel:load_progress_ratio {self.loaded}"]
        if self.proposer:
            labels = ",".join(f'{name}="{value}"' for name, value in self.proposer.items())
            lines.append(f"whimbrel:proposer_info{{{labels}}} 1")
        lines += [f'whimbrel:state{{state="{s}"}} {int(s == self.state)}' for s in ("loading", "ready", "draining")]
        lines += [f"whimbrel:{name} {value}" for name, value in {**self.counters, **self.gauges}.items()]
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
