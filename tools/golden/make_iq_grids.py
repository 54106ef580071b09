# SPDX-License-Identifier: Apache-2.0
"""Write src/tensor/iq_grids.h: the code books of GGUF's IQ2 and IQ3 types, as the gguf package has them.

Usage: python tools/golden/make_iq_grids.py src/tensor/iq_grids.h
Needs: pip install gguf numpy
"""

import pathlib
import sys

import numpy as np
from gguf import quants

# type -> its magnitudes in order, and the bits of a place among them
BOOKS = {
    "IQ2_XXS": ([8, 25, 43], 2),
    "IQ2_XS": ([8, 25, 43], 2),
    "IQ2_S": ([8, 25, 43], 2),
    "IQ3_XXS": ([4, 12, 20, 28, 36, 44, 52, 62], 3),
    "IQ3_S": ([1, 3, 5, 7, 9, 11, 13, 15], 3),
}


def words(name):
    magnitudes, bits = BOOKS[name]
    kind = getattr(quants, name)
    kind.init_grid()
    places = np.searchsorted(magnitudes, kind.grid.reshape(kind.grid.shape[-2:]))
    return [sum(int(p) << bits * i for i, p in enumerate(entry)) for entry in places]


def main():
    out = ["/* SPDX-License-Identifier: Apache-2.0 */",
           "/* Written by tools/golden/make_iq_grids.py with gguf; do not edit. Code books: an entry of",
           " * IQ2 is eight places among three magnitudes, 2 bits each; one of IQ3 four among eight, 3",
           " * bits each; the first in the lowest bits. */",
           "#ifndef WHIM_TENSOR_IQ_GRIDS_H", "#define WHIM_TENSOR_IQ_GRIDS_H", "", "#include <stdint.h>"]
    for name in BOOKS:
        entries = words(name)
        out += ["", f"static const uint16_t whim_{name.lower()}_grid[{len(entries)}] = {{"]
        for i in range(0, len(entries), 12):
            out.append("    " + ", ".join(f"0x{e:04x}" for e in entries[i:i + 12]) + ",")
        out.append("};")
    out += ["", "#endif", ""]
    pathlib.Path(sys.argv[1]).write_text("\n".join(out), encoding="ascii")


if __name__ == "__main__":
    main()
