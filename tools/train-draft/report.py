# SPDX-License-Identifier: Apache-2.0
"""Tokens per verify of a draft on held-out text, walked along what the target wrote."""

import copy

import torch

import dflash
import training
from writer import scores

BLOCKS = (2, 3, 4, 6)
BATCH_TOKENS = 8192


@torch.no_grad()
def proposals(target, draft, texts, width, heads):
    """For each head (ids, or None for all): a list by text of accepted drafts [anchors].

    Anchor i of a text is its answer's i-th token.
    """
    lengths = [len(t["tokens"]) for t in texts]
    out = [[None] * len(texts) for _ in heads]
    head_rows = [target.head if ids is None else target.head[ids] for ids in heads]
    for rows in training.batches(lengths, BATCH_TOKENS, 0, 0):
        tokens, end, first = training.padded(texts, rows, target.device)
        n = int((end - first).max())
        start = first[:, None] + torch.arange(n, device=target.device)
        features, _ = target.read(tokens, draft.config.target_layers, to_end=False)
        anchors = tokens.gather(1, start.clamp(max=tokens.shape[1] - 1))
        embedded = dflash.embed_blocks(target.embedding, anchors, draft.config.mask_token, width)
        z = draft(embedded, start, draft.context(features))[:, :, 1:]
        labels = training.labels_of(tokens, start, end, width)
        flat = z.flatten(0, 2)
        for h, (ids, weights) in enumerate(zip(heads, head_rows)):
            best = torch.cat([scores(part, weights).argmax(-1) for part in flat.split(16384)])
            best = best if ids is None else ids[best]
            accepted = (best.view(labels.shape) == labels).cumprod(-1).sum(-1)
            for r, line, length in zip(rows, accepted.tolist(), (end - first).tolist()):
                out[h][r] = line[:length]
    return out


def per_verify(accepted):
    """Tokens after the first, over verifies, of all texts."""
    tokens = verifies = 0
    for line in accepted:
        at = 0
        while at < len(line) - 1:
            step = min(line[at] + 1, len(line) - 1 - at)
            at, tokens, verifies = at + step, tokens + step, verifies + 1
    return tokens / max(verifies, 1)


def rounded(draft, bits):
    """A copy with matrices rounded as ggml's Q8_0 or Q4_0: 32 along the input share a scale."""
    out = copy.deepcopy(draft)
    for p in out.parameters():
        if p.dim() < 2 or p.shape[-1] % 32:
            continue
        blocks = p.data.float().unflatten(-1, (-1, 32))
        if bits == 8:
            scale = blocks.abs().amax(-1, keepdim=True) / 127
        else:   # the largest of either sign becomes -8
            scale = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True)) / -8
        low, high = (-127, 127) if bits == 8 else (-8, 7)
        codes = (blocks / torch.where(scale == 0, 1, scale)).round().clamp(low, high)
        p.data = (codes * scale.half().float()).flatten(-2).to(p.dtype)
    return out


def sets_of(texts):
    """Rows of the report: name -> texts."""
    greedy = [t for t in texts if t["temperature"] == 0]
    sets = {"temperature 0": greedy}
    for source in sorted({t["source"] for t in greedy}):
        part = [t for t in greedy if t["source"] == source]
        if len(part) >= 20:
            sets[f"temperature 0, {source}"] = part
    sets["temperature 0.6 to 0.9"] = [t for t in texts if t["temperature"] > 0]
    return {k: v for k, v in sets.items() if v}


def tell(target, drafts, texts, frequent):
    """Markdown tables; drafts: name -> (draft, ids that it may propose or None)."""
    out = []
    for name, (draft, ids) in drafts.items():
        draft = draft.to(target.device, target.dtype)
        ids = None if ids is None else ids.to(target.device)
        blocks = " | ".join(f"block {b}" for b in BLOCKS)
        out += [f"{name}: tokens per verify", "", f"| text written at | texts | {blocks} |",
                "| --- " * (2 + len(BLOCKS)) + "|"]
        sets = sets_of(texts)
        whole = {b: proposals(target, draft, texts, b, [ids])[0] for b in BLOCKS}
        place = {id(t): i for i, t in enumerate(texts)}
        for row, part in sets.items():
            cells = [f"{per_verify([whole[b][place[id(t)]] for t in part]):.2f}" for b in BLOCKS]
            out.append(f"| {row} | {len(part)} | " + " | ".join(cells) + " |")
        counts = [n for n in (2048, 4096, 8192, 16384) if n < len(frequent)]
        heads = [frequent[:n].to(target.device) for n in counts] + [None]
        by_head = proposals(target, draft, texts, 4, heads)
        narrow = {bits: proposals(target, rounded(draft.float(), bits).to(target.dtype), texts, 4,
                                  [ids])[0] for bits in (8, 4)}
        columns = " | ".join([*map(str, counts), "all", "Q8_0", "Q4_0"])
        out += ["", "Block 4, by the tokens of the head, and with narrower weights:",
                "", f"| text written at | {columns} |", "| --- " * (4 + len(counts)) + "|"]
        for row in ("temperature 0", "temperature 0.6 to 0.9"):
            rows = [place[id(t)] for t in sets.get(row, [])]
            cells = [f"{per_verify([got[i] for i in rows]):.3f}"
                     for got in (*by_head, narrow[8], narrow[4])]
            out.append(f"| {row} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out)
