# SPDX-License-Identifier: Apache-2.0
"""Weight matrices in every GGUF block type.

gguf-py quantises some types. For the others this file makes random blocks: every bit of the packed
quants and of the small scales is random, so that a decoder that drops or misplaces any of them is
found; only the half-precision scales of the block are chosen, for values of a sensible size.
"""

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

# Types made of random bits: byte offsets of the block's scale d and of its minimum's scale dmin
# (or None), the ratio dmin/d that centres the values on zero, and whether d may be negative.
RANDOM = {
    Type.Q2_K: (80, 82, 1.5, False),
    Type.Q3_K: (108, None, 0.0, True),
    Type.Q4_K: (0, 2, 7.5, False),
    Type.Q5_K: (0, 2, 15.5, False),
    Type.Q6_K: (208, None, 0.0, True),
    Type.IQ4_NL: (0, None, 0.0, True),
    Type.IQ4_XS: (0, None, 0.0, True),
    Type.IQ2_XXS: (0, None, 0.0, True),
    Type.IQ2_XS: (0, None, 0.0, True),
    Type.IQ2_S: (0, None, 0.0, True),
    Type.IQ3_XXS: (0, None, 0.0, True),
    Type.IQ3_S: (0, None, 0.0, True),
}


def put_half(blocks, offset, values):
    blocks[:, offset:offset + 2] = values.astype("<f2").reshape(-1, 1).view(np.uint8)


def random_blocks(rng, rows, cols, qtype, std):
    """Packed bytes [rows, bytes per row] whose decoded values have about the given deviation."""
    d_at, dmin_at, ratio, signed = RANDOM[qtype]
    per_block, size = GGML_QUANT_SIZES[qtype]
    n = rows * cols // per_block
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    spread = rng.uniform(0.7, 1.4, n)
    sign = np.where(rng.integers(0, 2, n) == 0, -1.0, 1.0) if signed else np.ones(n)

    def fill(unit):
        put_half(blocks, d_at, unit * spread * sign)
        if dmin_at is not None:
            put_half(blocks, dmin_at, unit * ratio * spread * rng.uniform(0.9, 1.1, n))
        return blocks.reshape(rows, cols // per_block * size)

    unit = 1.0 / 64.0
    got = float(dequantize(fill(unit), qtype).std())
    return fill(unit * std / got).copy()


def make_matrix(rng, rows, cols, qtype, std):
    """Returns the bytes to store; normal values where gguf-py can quantise, else random blocks."""
    if qtype in RANDOM:
        packed = random_blocks(rng, rows, cols, qtype, std)
    else:
        values = (rng.standard_normal((rows, cols)) * std).astype(np.float32)
        packed = quantize(values, qtype)
    got = dequantize(packed, qtype)
    assert got.shape == (rows, cols) and np.isfinite(got).all()
    assert 0.75 * std < got.std() < 1.35 * std, (qtype, std, got.std())
    assert abs(got.mean()) < 0.2 * std, (qtype, std, got.mean())
    return packed


def is_block_quantised(qtype):
    return GGML_QUANT_SIZES[qtype][0] > 1
