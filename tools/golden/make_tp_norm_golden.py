# SPDX-License-Identifier: Apache-2.0
"""The norm of q and k over all ranks, by somebody else's kernel: split_qkv_tp_rmsnorm_rope of sgl-kernel-npu, as it is
published, under Triton's interpreter on the CPU. Not a word of it is kept here: --kernel names its file.

    git clone https://github.com/sgl-project/sgl-kernel-npu
    TRITON_INTERPRET=1 python make_tp_norm_golden.py --kernel \
        sgl-kernel-npu/python/sgl_kernel_npu/sgl_kernel_npu/norm/split_qkv_tp_rmsnorm_rope.py --out tests/data/tp_norm

Needs torch, triton and numpy of any recent version. Heads, widths, rotated part and eps are MiniMax-M2's. Two ranks are
two processes that all-reduce by gloo, each with half of the heads.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import types

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import triton

ROWS, HEADS, KV, D, ROTARY, THETA, EPS = 2, 48, 8, 128, 64, 5e6, 1e-6
POSITIONS = [3, 4097]


def load_kernel(path):
    """The module of the kernel. Its package is not installed: the one thing it takes from there is a count of cores.
    Blocks of 6 * 128 columns are no power of two, which only compilers for GPUs mind."""
    cores = types.ModuleType("sgl_kernel_npu.utils.triton_utils")
    cores.get_device_properties = lambda: (1, 1)
    for name in ("sgl_kernel_npu", "sgl_kernel_npu.utils"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[cores.__name__] = cores
    allow_any_width()
    spec = importlib.util.spec_from_file_location("kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def allow_any_width():
    import triton._utils
    import triton.language.core as core
    import triton.language.semantic as semantic

    def arange(self, start, end, *, ret_ty=None):
        ty = core.block_type(core.int32, [end - start])
        return self.tensor(self.builder.create_make_range(ty.to_ir(self.builder), start, end), ty)

    semantic.TritonSemantic.arange = arange
    triton._utils.is_power_of_two = lambda n: True


def inputs():
    """q, k and v side by side and the norms' weights, all of them BF16 numbers; cos and sin in F32."""
    rng = np.random.default_rng(18)
    scale = np.exp(rng.normal(0, 1, (1, HEADS + 2 * KV, 1)))  # heads differ: a head that counts twice shows
    qkv = (rng.normal(0, 1, (ROWS, HEADS + 2 * KV, D)) * scale).reshape(ROWS, -1)
    weights = 1 + 0.2 * rng.normal(0, 1, (HEADS + KV) * D)
    freqs = THETA ** (-np.arange(0, ROTARY, 2) / ROTARY)
    angles = np.array(POSITIONS)[:, None] * freqs
    bf16 = lambda x: torch.tensor(x).to(torch.bfloat16)
    return bf16(qkv), bf16(weights), torch.tensor(np.cos(angles)).float(), torch.tensor(np.sin(angles)).float()


def own_part(x, n, rank, world):
    """The columns of a rank: its n / world heads of D."""
    return x.reshape(*x.shape[:-1], n, D)[..., rank * n // world : (rank + 1) * n // world, :].flatten(-2)


def rank_run(rank, world, path, meeting, queue):
    if world > 1:
        dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world)
    kernel = load_kernel(path)
    qkv, weights, cos, sin = inputs()
    q, k, v = (part.float() for part in qkv.split([HEADS * D, KV * D, KV * D], dim=-1))
    q_w, k_w = (part.float() for part in weights.split([HEADS * D, KV * D]))
    own = torch.cat([own_part(q, HEADS, rank, world), own_part(k, KV, rank, world), own_part(v, KV, rank, world)], -1)
    out = kernel.split_qkv_tp_rmsnorm_rope(
        own.contiguous(), torch.cat([cos, cos], -1), torch.cat([sin, sin], -1), HEADS * D // world, KV * D // world, D,
        EPS, own_part(q_w, HEADS, rank, world).contiguous(), own_part(k_w, KV, rank, world).contiguous(), ROTARY, world,
        dist.group.WORLD if world > 1 else None)
    assert torch.equal(out[2], own_part(v, KV, rank, world)), "v is only copied"
    queue.put((rank, out[0].numpy(), out[1].numpy()))
    if world > 1:
        dist.barrier()


def outputs(path, world):
    """q and k of all ranks, heads in the order of the model."""
    context = mp.get_context("spawn")
    queue = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=rank_run, args=(r, world, path, os.path.join(folder, "meet"), queue))
                 for r in range(world)]
        for process in ranks:
            process.start()
        parts = sorted((queue.get(timeout=600) for _ in ranks), key=lambda part: part[0])
        for process in ranks:
            process.join()
    return [np.concatenate([part[i] for part in parts], axis=-1) for i in (1, 2)]


def exact():
    """The same in F64, to know the kernel's own distance from it."""
    qkv, weights, cos, sin = (x.double().numpy() for x in inputs())
    result = []
    for at, n, w_at in ((0, HEADS, 0), (HEADS, KV, HEADS)):
        x = qkv[:, at * D : (at + n) * D]
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weights[w_at * D : (w_at + n) * D]
        y = y.reshape(ROWS, n, D).copy()
        lo, hi = y[..., : ROTARY // 2].copy(), y[..., ROTARY // 2 : ROTARY].copy()
        c, s = cos[:, None], sin[:, None]
        y[..., : ROTARY // 2], y[..., ROTARY // 2 : ROTARY] = lo * c - hi * s, hi * c + lo * s
        result.append(y.reshape(ROWS, -1))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET") != "1":
        sys.exit("set TRITON_INTERPRET=1: there is no such accelerator here")
    os.makedirs(args.out, exist_ok=True)
    qkv, weights, cos, sin = inputs()
    with open(os.path.join(args.out, "in.bin"), "wb") as file:
        for part in (qkv, weights):
            file.write(part.view(torch.int16).numpy().astype("<i2").tobytes())
        file.write(torch.cat([cos, sin], -1).numpy().astype("<f4").tobytes())
    truth = exact()
    for world in (1, 2):
        out = outputs(args.kernel, world)
        off = max(np.abs(a - b).max() for a, b in zip(out, truth))
        print(f"{world} rank(s): largest difference from F64 {off:.3g}, largest value {np.abs(out[0]).max():.3g}")
        np.concatenate(out, -1).astype("<f4").tofile(os.path.join(args.out, f"out{world}.bin"))
    print(f"triton {triton.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
