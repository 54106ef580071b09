# SPDX-License-Identifier: Apache-2.0
"""The tiny GGUF files: a llama file with every weight type but IQ2 and IQ3, one with these, and a split qwen3 file, tied.

The reference reads the written file back with gguf-py, dequantises, undoes the converter's row
permutation and puts the weights into transformers' own model. A second reference run narrows the
input of every product with a block-quantised weight to int8 in blocks of 32, as the engine does.
"""

import glob
import os

import numpy as np
import torch
from gguf import GGUFReader, GGUFWriter, GGMLQuantizationType as Type, TokenType
from gguf.quants import dequantize
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

import blocks
import reference

NOISE_RUNS = 6
CLOSE_ROW = 1e-3   # a row no further off than this saw no flipped rounding

LINEARS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
           "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
           "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}

# Types of a layer's matrices in the order of LINEARS. The llama file's attn_output (192 columns)
# and ffn_down (288) cannot hold blocks of 256.
TINY = {
    "llama-mixed-gguf": {
        "arch": "llama", "seed": 31, "vocab": 99, "heads": 4, "kv_heads": 2, "head_dim": 48,
        "hidden": 256, "ffn": 288, "eps": 1e-5, "theta": 500000.0,
        "embd": Type.Q6_K, "output": Type.Q5_1,
        "layers": [
            [Type.Q4_K, Type.F32, Type.BF16, Type.Q5_0, Type.Q2_K, Type.Q3_K, Type.Q4_1],
            [Type.IQ4_XS, Type.F16, Type.Q5_K, Type.IQ4_NL, Type.Q4_0, Type.Q8_0, Type.MXFP4],
        ],
    },
    "llama-iq-gguf": {
        "arch": "llama", "seed": 33, "vocab": 99, "heads": 4, "kv_heads": 2, "head_dim": 64,
        "hidden": 256, "ffn": 256, "eps": 1e-5, "theta": 500000.0,
        "embd": Type.IQ3_S, "output": Type.IQ2_S,
        "layers": [
            [Type.IQ2_XXS, Type.IQ3_XXS, Type.IQ2_XS, Type.IQ3_S, Type.IQ2_S, Type.IQ2_XXS,
             Type.IQ3_XXS],
        ],
    },
    "qwen3-mixed-gguf": {
        "arch": "qwen3", "seed": 32, "vocab": 103, "heads": 4, "kv_heads": 2, "head_dim": 64,
        "hidden": 256, "ffn": 256, "eps": 1e-6, "theta": 1000000.0,
        "embd": Type.Q4_K, "output": None,
        "layers": [
            [Type.Q6_K, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.MXFP4, Type.IQ4_NL, Type.Q3_K],
            [Type.Q5_K, Type.BF16, Type.Q4_0, Type.F16, Type.Q4_1, Type.Q5_0, Type.IQ4_XS],
        ],
    },
}
# What the llama file's rope_freqs.weight stands for.
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def rope_factors(spec):
    """The divisors of the frequencies that the converter writes for llama3 scaling."""
    d = spec["head_dim"]
    low = LLAMA3["original_max_position_embeddings"] / LLAMA3["low_freq_factor"]
    high = LLAMA3["original_max_position_embeddings"] / LLAMA3["high_freq_factor"]
    out = []
    for i in range(d // 2):
        wave = 2 * np.pi * spec["theta"] ** (2 * i / d)
        if wave < high:
            out.append(1.0)
        elif wave > low:
            out.append(LLAMA3["factor"])
        else:
            s = (LLAMA3["original_max_position_embeddings"] / wave - LLAMA3["low_freq_factor"]) / (
                LLAMA3["high_freq_factor"] - LLAMA3["low_freq_factor"])
            out.append(1.0 / ((1.0 - s) / LLAMA3["factor"] + s))
    assert 1.0 in out and LLAMA3["factor"] in out and any(1.0 < f < 8.0 for f in out)
    return np.array(out, dtype=np.float32)


def dummy_tokens(vocab):
    """Control tokens, the printable ASCII characters, the space symbol, and merges of the last."""
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    kinds = [TokenType.CONTROL] * 3
    tokens += [chr(c) for c in range(0x21, 0x7F)] + ["\u0120"]
    merges = [f"\u0120 {chr(ord('a') + i)}" for i in range(vocab - len(tokens))]
    tokens += [m.replace(" ", "") for m in merges]
    kinds += [TokenType.NORMAL] * (vocab - 3)
    assert len(tokens) == vocab and len(set(tokens)) == vocab
    return tokens, kinds, merges


def add_metadata(writer, name, spec):
    writer.add_name(name)
    writer.add_block_count(len(spec["layers"]))
    writer.add_context_length(512)
    writer.add_embedding_length(spec["hidden"])
    writer.add_feed_forward_length(spec["ffn"])
    writer.add_head_count(spec["heads"])
    writer.add_head_count_kv(spec["kv_heads"])
    writer.add_key_length(spec["head_dim"])
    writer.add_value_length(spec["head_dim"])
    writer.add_layer_norm_rms_eps(spec["eps"])
    writer.add_rope_freq_base(spec["theta"])
    writer.add_quantization_version(2)
    if spec["arch"] == "llama":     # the qwen3 file leaves both to the reader
        writer.add_vocab_size(spec["vocab"])
        writer.add_rope_dimension_count(spec["head_dim"])
    tokens, kinds, merges = dummy_tokens(spec["vocab"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm" if spec["arch"] == "llama" else "qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)


def tensor_list(spec):
    """(name, type, packed bytes or float values) of every tensor, in file order."""
    rng = np.random.default_rng(spec["seed"])
    hid, ffn, d = spec["hidden"], spec["ffn"], spec["head_dim"]
    nq, nkv = spec["heads"] * d, spec["kv_heads"] * d
    shape = {"attn_q": (nq, hid), "attn_k": (nkv, hid), "attn_v": (nkv, hid),
             "attn_output": (hid, nq), "ffn_gate": (ffn, hid), "ffn_up": (ffn, hid),
             "ffn_down": (hid, ffn)}
    gain = {"attn_q": 1.1, "attn_k": 1.1, "attn_output": 0.6, "ffn_down": 0.6}

    def matrix(name, rows, cols, qtype, std):
        return name, qtype, blocks.make_matrix(rng, rows, cols, qtype, std)

    def vector(name, n, low=0.5, high=1.5):
        return name, Type.F32, rng.uniform(low, high, n).astype(np.float32)

    out = [matrix("token_embd.weight", spec["vocab"], hid, spec["embd"],
                  0.1 if spec["output"] is None else 0.6)]
    if spec["arch"] == "llama":
        out.append(("rope_freqs.weight", Type.F32, rope_factors(spec)))
    for i, types in enumerate(spec["layers"]):
        p = f"blk.{i}."
        out.append(vector(p + "attn_norm.weight", hid))
        for (part, _), qtype in zip(LINEARS.items(), types):
            std = gain.get(part, 0.9) / np.sqrt(shape[part][1])
            out.append(matrix(f"{p}{part}.weight", *shape[part], qtype, std))
        if spec["arch"] == "qwen3":
            out.append(vector(p + "attn_q_norm.weight", d, 0.6, 1.7))
            out.append(vector(p + "attn_k_norm.weight", d, 0.6, 1.7))
        out.append(vector(p + "ffn_norm.weight", hid))
    last = vector("output_norm.weight", hid)
    if spec["output"] is None:      # else every token would predict itself for ever
        last = last[:2] + (last[2] * rng.choice(np.array([-1, 1], dtype=np.float32), hid),)
    out.append(last)
    if spec["output"] is not None:
        out.append(matrix("output.weight", spec["vocab"], hid, spec["output"],
                          2.0 / np.sqrt(hid)))
    return out


def write_file(folder, name, spec):
    """Writes model.gguf, or for qwen3 three shards of which the first holds metadata only."""
    os.makedirs(folder, exist_ok=True)
    tensors = tensor_list(spec)
    split = spec["arch"] == "qwen3"
    writer = GGUFWriter(os.path.join(folder, "model.gguf"), spec["arch"],
                        split_max_tensors=(len(tensors) + 1) // 2 if split else 0,
                        small_first_shard=split)
    if not split:   # a shard without the key has the default alignment, whatever shard 0 says
        writer.add_custom_alignment(64)
    add_metadata(writer, name, spec)
    for tensor, qtype, data in tensors:
        writer.add_tensor(tensor, data, raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_tensors(folder):
    """Tensor name -> (type, float32 values), from all files of the folder."""
    out = {}
    for file in sorted(glob.glob(os.path.join(folder, "*.gguf"))):
        for t in GGUFReader(file).tensors:
            values = np.array(dequantize(t.data, t.tensor_type), dtype=np.float32)
            out[t.name] = (t.tensor_type, values.reshape(tuple(int(n) for n in t.shape[::-1])))
    return out


def unpermute(values, heads):
    """File row 2i+s of a head is row s*d/2+i of the Hugging Face tensor."""
    rows, cols = values.shape
    d = rows // heads
    return values.reshape(heads, d // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols).copy()


def build_model(folder, spec):
    """The transformers model with the file's weights, and its linears that are block-quantised."""
    tied = spec["output"] is None
    kind, config = ((LlamaForCausalLM, LlamaConfig) if spec["arch"] == "llama"
                    else (Qwen3ForCausalLM, Qwen3Config))
    rope = dict(LLAMA3) if spec["arch"] == "llama" else {"rope_type": "default"}
    cfg = config(
        vocab_size=spec["vocab"], hidden_size=spec["hidden"], intermediate_size=spec["ffn"],
        num_hidden_layers=len(spec["layers"]), num_attention_heads=spec["heads"],
        num_key_value_heads=spec["kv_heads"], head_dim=spec["head_dim"], rms_norm_eps=spec["eps"],
        max_position_embeddings=512, tie_word_embeddings=tied,
        rope_parameters={**rope, "rope_theta": spec["theta"]}, attn_implementation="eager")
    model = kind(cfg).eval()
    state, quantised = {}, []
    files = read_tensors(folder)

    def take(gguf_name, hf_name, heads=None):
        qtype, values = files.pop(gguf_name)
        if heads is not None:
            values = unpermute(values, heads)
        state[hf_name + ".weight"] = torch.from_numpy(values)
        if blocks.is_block_quantised(qtype):
            quantised.append(hf_name)

    permuted = {"attn_q": spec["heads"], "attn_k": spec["kv_heads"]}
    take("token_embd.weight", "model.embed_tokens")
    for i in range(len(spec["layers"])):
        for part, hf in {**LINEARS, **NORMS}.items():
            if f"blk.{i}.{part}.weight" in files:
                take(f"blk.{i}.{part}.weight", f"model.layers.{i}.{hf}",
                     permuted.get(part) if spec["arch"] == "llama" else None)
    take("output_norm.weight", "model.norm")
    if tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
        quantised.append("lm_head")
    else:
        take("output.weight", "lm_head")
    if "rope_freqs.weight" in files:
        check_rope(model, spec, files.pop("rope_freqs.weight")[1])
    assert not files, f"tensors left over: {list(files)}"
    model.load_state_dict(state)
    return model, [n for n in quantised if n != "model.embed_tokens"]


def check_rope(model, spec, factors):
    plain = spec["theta"] ** (-np.arange(0, spec["head_dim"], 2) / spec["head_dim"])
    assert np.allclose(model.model.rotary_emb.inv_freq.numpy(), plain / factors, rtol=1e-5)


def narrow_int8(x):
    """Values as an int8 product sees them: blocks of 32 along K, scale absmax/127, ties to even."""
    b = x.reshape(*x.shape[:-1], -1, 32)
    scale = b.abs().amax(dim=-1, keepdim=True) / 127.0
    q = torch.where(scale > 0, torch.round(b / scale), torch.zeros_like(b))
    return (q * scale).reshape(x.shape)


class Int8Inputs:
    """Context: the named linears see narrowed inputs; with `noise`, slightly disturbed before."""

    def __init__(self, model, names, noise=0.0, seed=0):
        self.model, self.names, self.noise = model, set(names), noise
        self.generator = torch.Generator().manual_seed(seed)

    def hook(self, narrow):
        def run(_, args):
            x = args[0]
            if self.noise:
                x = x * (1 + self.noise * torch.randn(x.shape, generator=self.generator))
            return (narrow_int8(x) if narrow else x,)
        return run

    def __enter__(self):
        linears = {n: m for n, m in self.model.named_modules() if isinstance(m, torch.nn.Linear)}
        assert self.names <= set(linears)
        self.hooks = [m.register_forward_pre_hook(self.hook(n in self.names))
                      for n, m in linears.items()]
        return self.model

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()


def flip_tolerances(model, names, prompts, rows_q8):
    """What roundings that flip do, learned from runs with noise in the last bits of activations.

    One flip moves later activations enough to flip many more, so the largest difference is of the
    order of `gap` itself; the share of rows without any flip tells a right engine from a wrong one.
    """
    worst, rms, close = 0.0, 0.0, 1.0
    quiet = np.concatenate(rows_q8).astype(np.float64)
    for seed in range(NOISE_RUNS):
        with Int8Inputs(model, names, noise=1e-6, seed=seed):
            diff = np.abs(np.concatenate(reference.all_rows(model, prompts)) - quiet)
        worst = max(worst, float(diff.max()))
        rms = max(rms, float(np.sqrt((diff * diff).mean())))
        close = min(close, float((diff.max(axis=1) < CLOSE_ROW).mean()))
    return {"tolerance_q8": 2 * worst, "tolerance_q8_rms": 2 * rms,
            "close_row": CLOSE_ROW, "close_rows_share": close}


def make(out, name):
    """Makes one GGUF model's files and goldens; returns what golden.json says."""
    spec = TINY[name]
    folder = os.path.join(out, name)
    write_file(folder, name, spec)
    exact, names = build_model(folder, spec)
    narrow = build_model(folder, spec)[0]
    with Int8Inputs(narrow, names):
        # Greedy ids hold for both references, with a margin above what flipped roundings can do.
        prompts = reference.find_prompts([exact, narrow], spec["seed"] + 100, spec["vocab"], 0.06)
        rows_q8 = reference.all_rows(narrow, prompts)
    rows = reference.all_rows(exact, prompts)
    gap, rms = reference.max_gap(rows_q8, rows), reference.rms_gap(rows_q8, rows)
    near = [np.abs(a - b).max(axis=1) < CLOSE_ROW for a, b in zip(rows, rows_q8)]
    assert not np.concatenate(near).any(), "rows that do not feel the int8 narrowing"
    golden = {
        "name": name, "arch": spec["arch"], "vocab": spec["vocab"],
        "layers": len(spec["layers"]), "hidden": spec["hidden"], "gap": gap, "gap_rms": rms,
        "tolerance": 2 * gap, "tolerance_rms": 2 * rms,
        **flip_tolerances(exact, names, prompts, rows_q8),
        "min_margin": reference.greedy_margin(rows, prompts),
        "min_margin_q8": reference.greedy_margin(rows_q8, prompts), "prompts": prompts,
    }
    reference.write_bin(folder, "golden.bin", rows)
    reference.write_bin(folder, "golden_q8.bin", rows_q8)
    reference.write_json(folder, golden)
    return golden
