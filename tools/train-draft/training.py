# SPDX-License-Identifier: Apache-2.0
"""Trains a draft on texts that the target wrote. Stops and goes on at any time."""

import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import dflash

# Block widths by how often they are trained, and how fast a slot's weight falls with its place.
# A draft runs narrower than it was trained, not wider.
WIDTHS = {4: 0.55, 6: 0.25, 3: 0.1, 2: 0.1}
FALL = 3.0
WHOLE_HEAD = 8       # every so many-th step scores the whole vocabulary, others the frequent tokens
LOSS_ROWS = 32768    # rows of logits at once
WARMUP, LAST_LR, CLIP = 0.03, 0.02, 1.0


def batches(lengths, tokens_each, epoch, seed):
    """Lists of rows of nearly one length, in random order; the same for the same epoch."""
    rng = np.random.default_rng((seed, epoch))
    order, out = rng.permutation(len(lengths)), []
    for i in range(0, len(order), 4096):
        part = sorted(order[i:i + 4096], key=lambda r: lengths[r])
        batch, longest = [], 0
        for r in part:
            longest = max(longest, lengths[r])
            if batch and longest * (len(batch) + 1) > tokens_each:
                out.append(batch)
                batch, longest = [], lengths[r]
            batch.append(r)
        out.append(batch)
    return [out[i] for i in rng.permutation(len(out))]


def padded(texts, rows, device):
    """tokens [b, T], length of each and of its prompt."""
    width = max(len(texts[r]["tokens"]) for r in rows)
    ids = np.zeros((len(rows), width), np.int64)
    for i, r in enumerate(rows):
        ids[i, :len(texts[r]["tokens"])] = texts[r]["tokens"]
    end = torch.tensor([len(texts[r]["tokens"]) for r in rows])
    first = torch.tensor([texts[r]["prompt"] for r in rows])
    return torch.from_numpy(ids).to(device), end.to(device), first.to(device)


def labels_of(tokens, start, end, width):
    """Tokens at start + 1 ... start + width - 1, [b, A, width - 1]; -1 where the text has ended."""
    at = start[..., None] + torch.arange(1, width, device=start.device)
    ids = tokens.gather(1, at.flatten(1).clamp(max=tokens.shape[1] - 1)).view(at.shape)
    return ids.masked_fill(at >= end[:, None, None], -1)


class Trainer:
    def __init__(self, target, draft, texts, frequent, minutes, lr, batch_tokens, seed=1):
        self.target, self.draft, self.texts = target, draft, texts
        self.minutes, self.lr, self.batch_tokens, self.seed = minutes, lr, batch_tokens, seed
        self.lengths = np.array([len(t["tokens"]) for t in texts])
        self.answers = self.lengths - [t["prompt"] for t in texts]
        decay = [p for p in draft.parameters() if p.dim() > 1]
        other = [p for p in draft.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.01}, {"params": other, "weight_decay": 0.0}],
            lr=lr, betas=(0.9, 0.95), fused=target.device != "cpu")
        self.heads = {}
        for name, ids in (("frequent", frequent), ("all", torch.arange(target.vocab))):
            ids = ids.to(target.device)
            place = torch.full((target.vocab + 1,), -1, device=target.device)   # [-1]: no label
            place[ids] = torch.arange(len(ids), device=target.device)
            self.heads[name] = target.head[ids], place
        self.epoch = self.at = self.step = 0
        self.spent = 0.0

    def save(self, path):
        torch.save({"draft": self.draft.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "epoch": self.epoch, "at": self.at, "step": self.step, "spent": self.spent},
                   path + ".part")
        os.replace(path + ".part", path)

    def load(self, path):
        state = torch.load(path, map_location=self.target.device)
        self.draft.load_state_dict(state["draft"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.at, self.step, self.spent = (
            state[k] for k in ("epoch", "at", "step", "spent"))

    def rate(self):
        done = min(self.spent / (60 * self.minutes), 1.0)
        fall = LAST_LR + (1 - LAST_LR) * (1 + math.cos(math.pi * done)) / 2
        return self.lr * min(done / WARMUP, 1.0) * fall

    def loss(self, z, labels, weight, head):
        """Backward through the head in parts; returns z's gradient, the loss, and hits by slot."""
        rows, place = self.heads[head]
        goal = place[labels]
        known = goal >= 0
        total = (weight * known).sum()
        flat_z = z.detach()[known].requires_grad_()
        flat_goal, flat_weight = goal[known], weight.expand_as(labels)[known]
        hits, summed = torch.zeros_like(goal, dtype=torch.bool), 0.0
        hit = torch.empty_like(flat_goal, dtype=torch.bool)
        for i in range(0, len(flat_goal), LOSS_ROWS):
            part = slice(i, i + LOSS_ROWS)
            logits = F.linear(flat_z[part].to(rows.dtype), rows).float()
            each = F.cross_entropy(logits, flat_goal[part], reduction="none")
            loss = (each * flat_weight[part]).sum() / total
            loss.backward()
            summed += loss.detach()
            hit[part] = logits.detach().argmax(dim=-1) == flat_goal[part]
        hits[known] = hit
        gradient = torch.zeros_like(z)
        gradient[known] = flat_z.grad.to(z.dtype)
        return gradient, summed, hits

    def one(self, rows, rng):
        """One step; returns the loss and how often each slot and all before it were right."""
        t, c = self.target, self.draft.config
        tokens, end, first = padded(self.texts, rows, t.device)
        width = int(rng.choice(list(WIDTHS), p=list(WIDTHS.values())))
        n = max(1, int(self.answers[rows].mean()) // 2)
        chance = torch.from_numpy(rng.random((len(rows), n), np.float32)).to(t.device)
        start = first[:, None] + (chance * (end - first - 1)[:, None]).long()
        with torch.autocast(torch.device(t.device).type, torch.bfloat16):
            features, _ = t.read(tokens, c.target_layers, to_end=False)
            anchors = tokens.gather(1, start)
            embedded = dflash.embed_blocks(t.embedding, anchors, c.mask_token, width)
            z = self.draft(embedded, start, self.draft.context(features))[:, :, 1:]
        labels = labels_of(tokens, start, end, width)
        weight = torch.exp(-torch.arange(width - 1, device=t.device) / FALL)
        head = "all" if self.step % WHOLE_HEAD == 0 else "frequent"
        gradient, loss, hits = self.loss(z, labels, weight, head)
        z.backward(gradient)
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, hits.cumprod(-1).sum((0, 1)), (labels >= 0).sum((0, 1))

    def run(self, checkpoint, stop_at, every=60.0):
        """Until the schedule's end or the time `stop_at`; True at the schedule's end."""
        kept = told = begun = time.time()
        before, seen, losses = self.spent, {}, []
        while True:
            plan = batches(self.lengths, self.batch_tokens, self.epoch, self.seed)
            for self.at in range(self.at, len(plan)):
                rng = np.random.default_rng((self.seed, self.epoch, self.at))
                loss, right, of = self.one(plan[self.at], rng)
                losses.append(loss)
                seen.setdefault(len(of) + 1, []).append((right, of))
                self.step += 1
                if self.step % 16 == 0:      # now and then, wait for the GPU and look at the clock
                    torch.stack(losses).mean().item()
                now = time.time()
                self.spent = before + now - begun
                over = self.spent >= 60 * self.minutes
                if now - told > 10 or over:
                    self.tell(losses, seen)
                    told, seen, losses = now, {}, []
                if now - kept > every or over or now > stop_at:
                    kept = now
                    self.at += 1
                    self.save(checkpoint)
                    self.at -= 1
                if over or now > stop_at:
                    return over
            self.epoch, self.at = self.epoch + 1, 0

    def tell(self, losses, seen):
        line = f"epoch {self.epoch} step {self.step} {self.spent:.0f} s lr {self.rate():.1e} "
        line += f"loss {torch.stack(losses).float().mean().item():.3f}"
        for width in sorted(seen):
            right, of = (sum(part) for part in zip(*seen[width]))
            shares = (right / of.clamp(min=1)).tolist()
            line += f"  {width}: " + " ".join(f"{x:.3f}" for x in shares)
        print(line, flush=True)
