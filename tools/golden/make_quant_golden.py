# SPDX-License-Identifier: Apache-2.0
"""Write tests/unit/tensor/quant_golden.h: random blocks of every quantised GGUF type and the values
that the gguf package reads from them.

Usage: python tools/golden/make_quant_golden.py tests/unit/tensor/quant_golden.h
Needs: pip install gguf numpy
"""

import sys

import gguf
import numpy as np

# type -> byte offsets of the half-precision fields, which must not be random bit patterns
# (a random half may be a NaN or an infinity).
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
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
    out = ["/* SPDX-License-Identifier: Apache-2.0 */\n"
           "/* Written by tools/golden/make_quant_golden.py with gguf; do not edit. */\n"]
    rows = []
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
        out.append(c_array("uint8_t", f"golden_{name}_data", data, 16))
        out.append(c_array("uint32_t", f"golden_{name}_bits", bits, 8))
        rows.append(f"    {{WHIM_DTYPE_{name}, {values.size}, golden_{name}_data, "
                    f"sizeof(golden_{name}_data), golden_{name}_bits}},\n")
    out.append("static const struct golden {\n    whim_dtype dtype;\n    int64_t n;\n"
               "    const uint8_t *data;\n    size_t n_byte;\n    const uint32_t *bits;\n"
               "} golden_list[] = {\n" + "".join(rows) + "};\n")
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write("\n".join(out))


if __name__ == "__main__":
    main()
