# SPDX-License-Identifier: Apache-2.0
"""A llama GGUF file run bit by bit as "Numerics" in DESIGN.md says, in numpy.

Why: int8 inputs make a model chaotic. Noise in the last bit flips one rounding, that flips others,
and thirty layers on log-probabilities differ by a few hundredths, as much as the narrowing itself
costs. An imitation is a sharp reference only when it takes the same steps in the same order.
`narrow = False` leaves the int8 inputs out: then it must agree closely with transformers, which
shows that it is the same model.

A fused multiply-add is done in float64 and rounded twice, which is wrong in about one case of 2^29.
"""

import numpy as np
from gguf import GGUFReader, GGMLQuantizationType as Type

import tiny_gguf

LANES = 16
SEGMENT = 512
F32, F64 = np.float32, np.float64


def fma(a, b, c):
    return (np.multiply(a, b, dtype=F64) + c).astype(F32)


def exp(x):
    """The engine's own expf: 2^n times a polynomial; its constants are part of the numerics."""
    magic = F32(float.fromhex("0x1.8p23"))

    def c(text):
        return F32(float.fromhex(text))
    x = np.clip(np.asarray(x, F32), F32(-104), F32(89))
    shifted = fma(x, c("0x1.715476p+0"), magic)
    n = shifted - magic
    r = fma(n, c("0x1.05c61p-29"), fma(n, c("-0x1.62e43p-1"), x))
    q = c("0x1.6a4002p-10")
    for k in ("0x1.1239ecp-7", "0x1.5558bep-5", "0x1.555492p-3", "0x1.fffffcp-2"):
        q = fma(q, r, c(k))
    head = F32(1) + r
    y = head + fma(q, r * r, (F32(1) - head) + r)
    return np.ldexp(y, n.astype(np.int32))


def round_bf16(x):
    """The nearest BF16 value, half to even, as F32."""
    u = np.ascontiguousarray(x, F32).view(np.uint32)
    return ((u + 0x7FFF + (u >> 16 & 1)) & 0xFFFF0000).view(F32)


def fold(lanes):
    """Sum of the last axis, 16 long, in halves."""
    half = LANES // 2
    while half:
        lanes = lanes[..., :half] + lanes[..., half:2 * half]
        half //= 2
    return lanes[..., 0]


def rmsnorm(x, w, eps):
    lanes = np.zeros(x.shape[:-1] + (LANES,), F32)
    for i in range(0, x.shape[-1], LANES):
        lanes = fma(x[..., i:i + LANES], x[..., i:i + LANES], lanes)
    mean = fold(lanes) / F32(x.shape[-1])
    return x * (F32(1) / np.sqrt(mean + F32(eps)))[..., None] * w


def rotate(x, cos, sin):
    """x [rows, heads, d]; the halves of a head are a pair."""
    h = x.shape[-1] // 2
    lo, hi, cos, sin = x[..., :h], x[..., h:], cos[:, None], sin[:, None]
    return np.concatenate([fma(lo, cos, -(hi * sin)), fma(hi, cos, lo * sin)], axis=-1)


class Matrix:
    """A Q4_1 or Q8_0 matrix: integers [group, 32, n], scale d and minimum m [group, n]."""

    def __init__(self, tensor, heads=None):
        k, n = (int(v) for v in tensor.shape)
        raw = np.array(tensor.data, np.uint8).reshape(n, k // 32, -1)
        if heads is not None:   # undo the converter's order of rows, see tiny_gguf.unpermute
            d = n // heads
            raw = raw.reshape(heads, d // 2, 2, *raw.shape[1:]).swapaxes(1, 2).reshape(raw.shape)

        def half(at):
            return np.ascontiguousarray(raw[..., at:at + 2]).view(np.float16)[..., 0].T.astype(F32)
        self.d, self.m = half(0), None
        if tensor.tensor_type == Type.Q4_1:
            self.m = half(2)
            q = np.concatenate([raw[..., 4:] & 15, raw[..., 4:] >> 4], axis=-1)
        else:
            assert tensor.tensor_type == Type.Q8_0
            q = np.ascontiguousarray(raw[..., 2:]).view(np.int8)
        self.q = np.ascontiguousarray(q.transpose(1, 2, 0), dtype=F32)

    def row(self, i):
        out = self.q[:, :, i] * self.d[:, None, i]
        return (out if self.m is None else out + self.m[:, None, i]).reshape(-1)

    def plain(self):
        w = self.q * self.d[:, None]
        return (w if self.m is None else w + self.m[:, None]).reshape(-1, self.q.shape[2])

    def times(self, x, narrow):
        """x [rows, k] -> [rows, n]; the integer dots are exact as floats."""
        if not narrow:
            return x @ self.plain()
        b = x.reshape(len(x), -1, 32)
        s = np.abs(b).max(axis=-1) / F32(127)
        inv = np.where(s > 0, F32(1) / np.where(s > 0, s, F32(1)), F32(0))
        a = np.rint(b * inv[..., None])
        acc = np.zeros((len(x), self.q.shape[2]), F32)
        for g in range(len(self.q)):
            acc = fma(a[:, g] @ self.q[g], s[:, g, None] * self.d[g], acc)
            if self.m is not None:
                acc = fma(self.m[g], (s[:, g] * a[:, g].sum(axis=-1))[:, None], acc)
        return acc


def attend_segment(q, k, v, hidden, stored):
    """(max, sum, out) of a segment: q [head, row, d], k, v [head, key, d], hidden [row, key]."""
    scores = np.zeros(q.shape[:2] + (k.shape[1],), F32)
    for i in range(q.shape[2]):
        scores = fma(q[:, :, None, i], k[:, None, :, i], scores)
    scores[:, hidden] = -np.inf
    top = scores.max(axis=-1)
    p = np.where(hidden, F32(0), exp(scores - np.where(np.isinf(top), F32(0), top)[..., None]))
    lanes, out, seen = np.zeros(p.shape[:2] + (LANES,), F32), np.zeros_like(q), stored(p)
    for j in range(k.shape[1]):
        lanes[..., j % LANES] += p[..., j]
        out = fma(seen[..., j, None], v[:, None, j], out)
    return top, fold(lanes), out


def attention(q, k, v, positions, stored):
    """q [row, n_head, d], k and v [key, n_kv, d]; all keys up to a row's own position.

    `stored` rounds as the cache does.
    """
    group = q.shape[1] // k.shape[1]
    q = stored(q * F32(1 / np.sqrt(q.shape[2]))).transpose(1, 0, 2)
    k, v = (np.repeat(t.transpose(1, 0, 2), group, axis=0) for t in (k, v))
    state = None
    for first in range(0, k.shape[1], SEGMENT):
        keys = np.arange(first, min(first + SEGMENT, k.shape[1]))
        hidden = keys[None] > positions[:, None]
        top, total, out = attend_segment(q, k[:, keys], v[:, keys], hidden, stored)
        if state is None:
            state = top, total, out
            continue
        peak = np.maximum(state[0], top)
        keep, take = exp(state[0] - peak), exp(np.where(np.isinf(top), F32(-200), top - peak))
        seen = ~np.isinf(top)   # a row without keys in the segment skips it
        state = (np.where(seen, peak, state[0]),
                 np.where(seen, fma(state[1], keep, total * take), state[1]),
                 np.where(seen[..., None], fma(state[2], keep[..., None], out * take[..., None]),
                          state[2]))
    return (state[2] / state[1][..., None]).transpose(1, 0, 2).reshape(q.shape[1], -1)


class Model:
    """`kv_type` ("f32", "bf16") and `narrow` may be changed between runs."""

    def __init__(self, path):
        reader = GGUFReader(path)
        tensors = {t.name: t for t in reader.tensors}
        field = {k: f.contents() for k, f in reader.fields.items() if k.startswith("llama.")}
        self.narrow, self.kv_type = True, "f32"
        self.n_layer = field["llama.block_count"]
        self.n_head, self.n_kv = (field["llama.attention.head_count" + s] for s in ("", "_kv"))
        self.eps = field["llama.attention.layer_norm_rms_epsilon"]
        d = field["llama.rope.dimension_count"]
        assert field["llama.embedding_length"] == self.n_head * d and "output.weight" not in tensors
        self.freqs = 1 / F64(field["llama.rope.freq_base"]) ** (np.arange(0, d, 2) / d)
        heads = {"attn_q": self.n_head, "attn_k": self.n_kv}
        self.layers = []
        for i in range(self.n_layer):
            layer = {p: Matrix(tensors[f"blk.{i}.{p}.weight"], heads.get(p))
                     for p in tiny_gguf.LINEARS}
            for p in ("attn_norm", "ffn_norm"):
                layer[p] = np.array(tensors[f"blk.{i}.{p}.weight"].data, F32)
            self.layers.append(layer)
        self.head = Matrix(tensors["token_embd.weight"])
        self.norm = np.array(tensors["output_norm.weight"].data, F32)

    def block(self, layer, x, past, cos, sin, positions):
        def times(part, rows):
            return layer[part].times(rows, self.narrow)

        y = rmsnorm(x, layer["attn_norm"], self.eps)
        q, k, v = (times(p, y).reshape(len(y), n, -1) for p, n in
                   (("attn_q", self.n_head), ("attn_k", self.n_kv), ("attn_v", self.n_kv)))
        stored = round_bf16 if self.kv_type == "bf16" else np.asarray
        q, k, v = rotate(q, cos, sin), stored(rotate(k, cos, sin)), stored(v)
        if past is not None:
            k, v = (np.concatenate(pair) for pair in zip(past, (k, v)))
        x = x + times("attn_output", attention(q, k, v, positions, stored))
        y = rmsnorm(x, layer["ffn_norm"], self.eps)
        gate = times("ffn_gate", y)
        y = gate / (F32(1) + exp(-gate)) * times("ffn_up", y)
        return x + times("ffn_down", y), (k, v)

    def logprobs(self, tokens, cache=None):
        """Log-softmax rows of the tokens after those in the cache (a list), which grows."""
        cache = cache if cache is not None else []
        start = len(cache[0][0]) if cache else 0
        positions = np.arange(start, start + len(tokens))
        angle = positions[:, None] * self.freqs
        cos, sin = np.cos(angle).astype(F32), np.sin(angle).astype(F32)
        x = np.stack([self.head.row(t) for t in tokens])
        past = cache if cache else [None] * self.n_layer
        new = []
        for layer, old in zip(self.layers, past):
            x, kv = self.block(layer, x, old, cos, sin, positions)
            new.append(kv)
        cache[:] = new
        logits = self.head.times(rmsnorm(x, self.norm, self.eps), self.narrow).astype(F64)
        top = logits.max(axis=-1, keepdims=True)
        return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))

    def greedy(self, tokens, steps):
        """Greedy ids and the rows that chose them."""
        cache, ids, rows = [], [], []
        last = list(tokens)
        for _ in range(steps):
            rows.append(self.logprobs(last, cache)[-1])
            last = [int(rows[-1].argmax())]
            ids += last
        return ids, np.stack(rows)
