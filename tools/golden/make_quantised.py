# SPDX-License-Identifier: Apache-2.0
"""Small quantised checkpoints, one folder for each scheme, and the weights that they stand for (expected.bin, F32).

The codes are random; packing follows the published layouts, that of compressed-tensors by its own library where that is
installed (--check), GPTQ's and AWQ's as written down in the comments. tests/unit/weights/quantised/assemble_test.c reads them.
"""

import argparse
import json
import os

import numpy as np
import torch
from safetensors.torch import save_file

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "num_attention_heads": 2,
    "num_hidden_layers": 1, "vocab_size": 16, "intermediate_size": 16, "torch_dtype": "bfloat16",
}
NAME = "model.layers.0.mlp.up_proj"
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # nibble i of a word holds column AWQ_ORDER[i]


def pack(codes, bits, axis, order=None):
    """Codes to I32 words along an axis, the first in the lowest bits."""
    per = 32 // bits
    codes = np.moveaxis(codes.astype(np.uint64), axis, -1)
    pad = -codes.shape[-1] % per
    codes = np.concatenate([codes, np.zeros(codes.shape[:-1] + (pad,), np.uint64)], -1)
    codes = codes.reshape(codes.shape[:-1] + (-1, per))
    words = np.zeros(codes.shape[:-1], np.uint64)
    for i in range(per):
        words |= codes[..., order[i] if order else i] << np.uint64(bits * i)
    return torch.from_numpy(np.moveaxis(words.astype(np.uint32).view(np.int32), -1, axis).copy())


def floats(rng, shape, dtype):
    return torch.from_numpy(rng.uniform(0.002, 0.05, shape).astype(np.float32)).to(dtype)


def spread(scales, n, k, group_n, group_k):
    full = scales.float().numpy().repeat(group_n, 0).repeat(group_k, 1)
    return full[:n, :k]


def e4m3(rng, n, k):
    return torch.from_numpy(rng.normal(0, 60, (n, k)).astype(np.float32)).to(torch.float8_e4m3fn)


def fp8_tile(rng, n=136, k=256, tile=128, dtype=torch.bfloat16):
    codes = e4m3(rng, n, k)
    scales = floats(rng, (-(-n // tile), -(-k // tile)), dtype)
    quant = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [tile, tile],
             "modules_to_not_convert": ["gate", "lm_head", "up"]}
    return quant, {".weight": codes, ".weight_scale_inv": scales}, \
        codes.float().numpy() * spread(scales, n, k, tile, tile)


def fp8_partial(rng):
    return fp8_tile(rng, n=70, k=200, dtype=torch.float32)


def group(kind, bits, strategy, **more):
    return {"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*gate$"], "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": bits, "type": kind, "strategy": strategy, **more}}}}


def fp8_channel(rng, n=16, k=256):
    codes = e4m3(rng, n, k)
    scales = floats(rng, (n, 1), torch.float32)
    quant = group("float", 8, "channel") | {"format": "float-quantized"}
    return quant, {".weight": codes, ".weight_scale": scales}, codes.float().numpy() * scales.numpy()


def fp8_tensor(rng, n=16, k=256):
    codes = e4m3(rng, n, k)
    scale = floats(rng, (1,), torch.float32)
    return {"quant_method": "fp8", "activation_scheme": "static"}, \
        {".weight": codes, ".weight_scale": scale, ".input_scale": scale.clone()}, codes.float().numpy() * scale.numpy()


def int8_channel(rng, n=16, k=256):
    codes = rng.integers(-128, 128, (n, k)).astype(np.int8)
    scales = floats(rng, (n, 1), torch.bfloat16)
    quant = group("int", 8, "channel") | {"format": "int-quantized"}
    return quant, {".weight": torch.from_numpy(codes), ".weight_scale": scales}, codes * scales.float().numpy()


def int8_partial(rng):
    return int8_channel(rng, n=9, k=72)


def packed(rng, n=16, k=256, g=64, bits=4, asym=False, act=False):
    codes = rng.integers(0, 1 << bits, (n, k))
    scales = floats(rng, (n, k // g), torch.bfloat16)
    zeros = rng.integers(0, 1 << bits, (n, k // g)) if asym else np.full((n, k // g), 1 << (bits - 1))
    index = rng.permutation(k) // g if act else np.arange(k) // g
    tensors = {".weight_packed": pack(codes, bits, 1), ".weight_scale": scales,
               ".weight_shape": torch.tensor([n, k], dtype=torch.int64)}
    if asym:
        tensors[".weight_zero_point"] = pack(zeros, bits, 0)
    if act:
        tensors[".weight_g_idx"] = torch.from_numpy(index.astype(np.int32))
    quant = group("int", bits, "group", group_size=g) | {"format": "pack-quantized"}
    return quant, tensors, (codes - zeros[:, index]) * scales.float().numpy()[:, index]


def transposed(rng, method, n=16, k=256, g=128, bits=4, sym=False, act=False, v2=False, index=True):
    """[in, out]: GPTQ packs codes along k and zeros along n, AWQ both along n in its own order."""
    codes = rng.integers(0, 1 << bits, (k, n))
    groups = k // g
    scales = floats(rng, (groups, n), torch.float16)
    zeros = np.full((groups, n), 1 << (bits - 1)) if sym else rng.integers(1, 1 << bits, (groups, n))
    g_idx = rng.permutation(k) // g if act else np.arange(k) // g
    value = (codes - zeros[g_idx]) * scales.float().numpy()[g_idx]
    if method == "awq":
        quant = {"quant_method": "awq", "bits": 4, "group_size": g, "zero_point": True, "version": "gemm"}
        tensors = {".qweight": pack(codes, 4, 1, AWQ_ORDER), ".qzeros": pack(zeros, 4, 1, AWQ_ORDER)}
    else:
        quant = {"quant_method": "gptq", "bits": bits, "group_size": g, "desc_act": act, "sym": sym,
                 "checkpoint_format": "gptq_v2" if v2 else "gptq"}
        tensors = {".qweight": pack(codes, bits, 0), ".qzeros": pack(zeros - (0 if v2 else 1), bits, 1)}
        if index:
            tensors[".g_idx"] = torch.from_numpy(g_idx.astype(np.int32))
    tensors[".scales"] = scales
    return quant, tensors, value.T


SCHEMES = {
    "fp8-tile": fp8_tile,
    "fp8-partial": fp8_partial,
    "fp8-channel": fp8_channel,
    "fp8-tensor": fp8_tensor,
    "int8-channel": int8_channel,
    "int8-partial": int8_partial,
    "int4": packed,
    "int4-asym": lambda rng: packed(rng, n=20, asym=True),
    "int4-act": lambda rng: packed(rng, act=True),
    "int8-packed": lambda rng: packed(rng, bits=8),
    "gptq": lambda rng: transposed(rng, "gptq"),
    "gptq-sym": lambda rng: transposed(rng, "gptq", sym=True, index=False),
    "gptq-v2": lambda rng: transposed(rng, "gptq", g=32, v2=True),
    "gptq-act": lambda rng: transposed(rng, "gptq", act=True),
    "gptq-8bit": lambda rng: transposed(rng, "gptq", bits=8, sym=True),
    "awq": lambda rng: transposed(rng, "awq"),
}


def check(tensors, value):
    """What the library of compressed-tensors makes of the same tensors."""
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
    shape = torch.Size(tensors[".weight_shape"].tolist())
    codes = unpack_from_int32(tensors[".weight_packed"], 4, shape)
    scales = tensors[".weight_scale"].float()
    group_size = shape[1] // scales.shape[1]
    zeros = torch.zeros(shape, dtype=torch.int8)
    if ".weight_zero_point" in tensors:
        rows = unpack_from_int32(tensors[".weight_zero_point"], 4, torch.Size([shape[0], scales.shape[1]]), packed_dim=0)
        zeros = rows.repeat_interleave(group_size, 1)
    theirs = (codes.float() - zeros.float()) * scales.repeat_interleave(group_size, 1)
    assert np.array_equal(theirs.numpy(), value.astype(np.float32))


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--out", required=True)
    args.add_argument("--check", action="store_true", help="compare with the library of compressed-tensors")
    args = args.parse_args()
    for i, (name, make) in enumerate(SCHEMES.items()):
        quant, tensors, value = make(np.random.default_rng(100 + i))
        if args.check and name in ("int4", "int4-asym"):
            check(tensors, value)
        folder = os.path.join(args.out, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(CONFIG | {"quantization_config": quant}, f, indent=1)
            f.write("\n")
        save_file({NAME + key: tensor.contiguous() for key, tensor in tensors.items()},
                  os.path.join(folder, "model.safetensors"))
        np.ascontiguousarray(value, np.float32).tofile(os.path.join(folder, "expected.bin"))


if __name__ == "__main__":
    main()
