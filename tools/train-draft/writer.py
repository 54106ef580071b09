# SPDX-License-Identifier: Apache-2.0
"""Has the target write: many sequences at once, each slot taken again as soon as its text ends."""

import collections
import time

import numpy as np
import torch

# How text is drawn. Rows of one kind lie together, so that each kind costs only its own work.
KINDS = ("greedy", "plain", "cut")     # cut: top_k 40, top_p 0.95, min_p 0.05
TOP_K, TOP_P, MIN_P = 40, 0.95, 0.05

Job = collections.namedtuple("Job", "tokens kind temperature name source")


def scores(x, head):
    """F32 logits; BF16 ones would tie."""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.mm(x, head.T, out_dtype=torch.float32)
    return x.float() @ head.float().T


def draw_plain(rows, temperature):
    rows = torch.softmax(rows / temperature[:, None], dim=-1)
    return (rows / torch.empty_like(rows).exponential_()).argmax(dim=-1)


def draw_cut(rows, temperature):
    top = rows.topk(TOP_K, dim=-1)
    p = torch.softmax(top.values / temperature[:, None], dim=-1)
    before = p.cumsum(dim=-1) - p
    p = p.masked_fill((before >= TOP_P) | (p < MIN_P * p[:, :1]), 0)
    pick = (p / torch.empty_like(p).exponential_()).argmax(dim=-1)
    return top.indices.gather(1, pick[:, None])[:, 0]


class Writer:
    """`slots` sequences at once, of at most `room` tokens each with `answer` after the prompt."""

    def __init__(self, target, slots, room, eos, answer):
        t, dev = target, target.device
        self.target, self.slots, self.room, self.answer = t, slots, room, answer
        shape = (t.depth, slots, t.kv_heads, room, t.head_dim)
        self.keys = torch.zeros(shape, device=dev, dtype=t.dtype)
        self.values = torch.zeros(shape, device=dev, dtype=t.dtype)
        self.text = torch.zeros((slots, room), device=dev, dtype=torch.long)
        self.pos, self.end, self.limit = (torch.zeros(slots, device=dev, dtype=torch.long)
                                          for _ in range(3))
        self.done = torch.ones(slots, device=dev, dtype=torch.bool)
        self.temperature = torch.ones(slots, device=dev)
        self.eos = torch.tensor(eos, device=dev)
        self.row = torch.arange(slots, device=dev)
        self.graph = None

    def attend(self, layer, q, k, v):
        t = self.target
        keys, values = self.keys[layer], self.values[layer]
        keys[self.row, :, self.pos] = k
        values[self.row, :, self.pos] = v
        q = (q * t.head_dim ** -0.5).unflatten(1, (t.kv_heads, -1))
        p = q @ keys.transpose(-1, -2)
        later = torch.arange(self.room, device=q.device) > self.pos[:, None]
        p = torch.softmax(p.masked_fill(later[:, None, None], -torch.inf), dim=-1)
        return (p @ values).flatten(1, 2)

    @torch.no_grad()
    def step(self):
        t = self.target
        x, turn = t.embedding[self.text[self.row, self.pos]], t.turn(self.pos)
        for i, layer in enumerate(t.layers):
            x = t.finish(layer, x, self.attend(i, *t.qkv(layer, x, turn)))
        rows = scores(t.rms(x, t.norm), t.head)
        a, b = self.first["plain"], self.first["cut"]
        drawn = torch.cat((rows[:a].argmax(dim=-1), draw_plain(rows[a:b], self.temperature[a:b]),
                           draw_cut(rows[b:], self.temperature[b:])))
        at = (self.pos + 1).clamp(max=self.room - 1)
        self.text[self.row, at] = torch.where(self.done, self.text[self.row, at], drawn)
        self.end.copy_(torch.where(self.done, self.end, at + 1))
        self.done |= torch.isin(drawn, self.eos) | (at + 1 >= self.limit)
        self.pos.copy_(torch.where(self.done, self.pos, at))

    def steps(self, n):
        """n steps; on a GPU they are recorded once and replayed."""
        if self.text.is_cuda and self.graph is None:
            self.step()     # libraries set themselves up before recording
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step()
            n -= 1
        for _ in range(n):
            self.graph.replay() if self.graph else self.step()

    @torch.no_grad()
    def put(self, slots, jobs):
        """Reads the prompts of new jobs, all but the last token, into their slots."""
        width = max(len(j.tokens) for j in jobs)
        ids = torch.zeros((len(jobs), width), dtype=torch.long)
        for i, j in enumerate(jobs):
            ids[i, :len(j.tokens)] = torch.from_numpy(np.asarray(j.tokens, np.int64))
        ids, n = ids.to(self.pos.device), [len(j.tokens) for j in jobs]
        at = torch.tensor(slots, device=ids.device)

        def keep(layer, k, v):
            self.keys[layer, at, :, :width] = k.transpose(1, 2)
            self.values[layer, at, :, :width] = v.transpose(1, 2)
        self.target.read(ids, keep_kv=keep)
        n = torch.tensor(n, device=ids.device)
        self.text[at, :width] = ids
        self.pos[at], self.end[at] = n - 1, n
        self.limit[at] = (n + self.answer).clamp(max=self.room)
        self.temperature[at] = torch.tensor([float(j.temperature) for j in jobs], device=ids.device)
        self.done[at] = False

    def spread(self, queues):
        """Gives each kind of job slots by its number of jobs, at least one."""
        total = sum(len(q) for q in queues.values())
        sizes = {k: max(1, self.slots * len(q) // total) if q else 0 for k, q in queues.items()}
        sizes[max(sizes, key=sizes.get)] += self.slots - sum(sizes.values())
        here, self.first, self.free = 0, {}, {}
        for kind in KINDS:
            self.first[kind], self.free[kind] = here, list(range(here, here + sizes[kind]))
            here += sizes[kind]

    def harvest(self, running):
        finished = [s for s, d in enumerate(self.done.tolist()) if d and s in running]
        if not finished:
            return
        at = torch.tensor(finished, device=self.done.device)
        for s, row, end in zip(finished, self.text[at].cpu().numpy(), self.end[at].tolist()):
            job = running.pop(s)
            self.free[job.kind].append(s)
            yield {"tokens": row[:end].astype(np.int32), "prompt": len(job.tokens), "job": job.name,
                   "temperature": job.temperature, "source": job.source}

    def write(self, jobs, seconds, every=16):
        """Yields texts as they end; begins none after `seconds`, but ends those begun."""
        queues = {k: collections.deque(j for j in jobs if j.kind == k) for k in KINDS}
        self.spread(queues)
        running, begun, made = {}, time.time(), 0
        told = begun
        while True:
            new = []
            for kind, queue in queues.items():
                while queue and self.free[kind] and time.time() - begun < seconds:
                    new.append((self.free[kind].pop(), queue.popleft()))
            new.sort(key=lambda pair: len(pair[1].tokens))
            for i in range(0, len(new), 256):
                self.put(*zip(*new[i:i + 256]))
            running.update(new)
            if not running:
                return
            self.steps(every)
            for text in self.harvest(running):
                made += len(text["tokens"]) - text["prompt"]
                yield text
            if time.time() - told > 10:
                told = time.time()
                print(f"wrote {made} tokens, {made / (told - begun):.0f} a second, "
                      f"{len(running)} running", flush=True)
