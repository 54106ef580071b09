# SPDX-License-Identifier: Apache-2.0
"""Write tests/unit/tensor/quant_golden_*.h: random blocks of every quantised GGUF type and the values
that the gguf package reads from them.

Usage: python tools/golden/make_quant_golden.py tests/unit/tensor
Needs: pip install gguf numpy
"""

import pathlib
import sys

import gguf
import numpy as np

# type -> byte offsets of the half-precision fields, which must not be random bit patterns
# (a random half may be a NaN or an infinity).
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
}

# file -> its types
FILES = {
    "quant_golden_32.h": ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4"],
    "quant_golden_k234.h": ["Q2_K", "Q3_K", "Q4_K"],
    "quant_golden_k56.h": ["Q5_K", "Q6_K", "IQ4_XS"],
    "quant_golden_iq.h": ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"],
}


def random_blocks(rng, name, n_block, n_byte):
    blocks = rng.integers(0, 256, size=(n_block, n_byte), dtype=np.uint8)
    for offset in HALVES[name]:
        scales = (rng.normal(size=n_block) * 0.01).astype(np.float16)
        scales[-1] = np.float16(2e-6)  # a subnormal half
        blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(n_block, 2)
    if name == "MXFP4":
        blocks[:, 0] = [0, 1, 121, 255]  # both subnormal scales, a usual one, the largest
    return blocks


def c_array(kind, name, values, per_line):
    lines = [", ".join(values[i:i + per_line]) for i in range(0, len(values), per_line)]
    return f"static const {kind} {name}[] = {{\n    " + ",\n    ".join(lines) + ",\n};\n"


def main():
    rng = np.random.default_rng(20240607)
    arrays = {}
    for name in HALVES:
        qtype = gguf.GGMLQuantizationType[name]
        n_elem, n_byte = gguf.GGML_QUANT_SIZES[qtype]
        n_block = 2 if n_elem == 256 else 4
        blocks = random_blocks(rng, name, n_block, n_byte)
        with np.errstate(over="ignore"):
            values = gguf.quants.dequantize(blocks, qtype).astype(np.float32).reshape(-1)
        assert values.size == n_block * n_elem
        data = [f"0x{b:02x}" for b in blocks.reshape(-1)]
        bits = [f"0x{u:08x}" for u in values.view(np.uint32)]
        arrays[name] = [c_array("uint8_t", f"golden_{name}_data", data, 16),
                        c_array("uint32_t", f"golden_{name}_bits", bits, 8)]
    for file, names in FILES.items():
        out = ["/* SPDX-License-Identifier: Apache-2.0 */\n"
               "/* Written by tools/golden/make_quant_golden.py with gguf; do not edit. */\n"]
        out += [text for name in names for text in arrays.pop(name)]
        pathlib.Path(sys.argv[1], file).write_text("\n".join(out), encoding="ascii")
    assert not arrays, f"in no file: {list(arrays)}"


if __name__ == "__main__":
    main()
