# SPDX-License-Identifier: Apache-2.0
"""Prompts and texts: chat templates, tokens, and the files that hold them.

prompts.npz holds rendered prompts, text-NNN.npz what the target wrote after them. Rows of tokens
are stored flat, with the end of each.
"""

import glob
import json
import os

import numpy as np

FIELDS = ("prompt", "job", "temperature", "source")   # prompt: its length
HELD_OUT = 40       # every so many-th prompt is for the report only


def flat(rows):
    none = [np.zeros(0, np.int32)]
    return {"tokens": np.concatenate([np.asarray(r, np.int32) for r in rows] or none),
            "ends": np.cumsum([len(r) for r in rows], dtype=np.int64)}


def rows_of(tokens, ends):
    return np.split(tokens, ends[:-1]) if len(ends) else []


def gguf_tokenizer(path):
    """(tokenizer, chat template, ids that end an answer) of a GGUF file."""
    from gguf import GGUFReader
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
    fields = GGUFReader(path).fields
    pre = fields["tokenizer.ggml.pre"].contents()
    digits = pre_tokenizers.Digits(individual_digits=True)
    qwen = Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
                 r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    first = {"smollm": [digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
             "qwen2": [pre_tokenizers.Split(qwen, "isolated"),
                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]}
    if pre not in first:
        raise SystemExit(f"{path}: pre-tokenizer {pre}; this tool knows {', '.join(first)}. "
                         "Give the model as a Hugging Face folder.")
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence(first[pre])
    if pre == "qwen2":
        tok.normalizer = normalizers.NFC()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False)
                            for t, kind in zip(tokens, kinds) if kind == 3])
    return tok, fields["tokenizer.chat_template"].contents(), [
        fields["tokenizer.ggml.eos_token_id"].contents()]


def folder_tokenizer(path):
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(path, "tokenizer.json"))
    with open(os.path.join(path, "tokenizer_config.json"), encoding="utf-8") as f:
        config = json.load(f)
    beside = os.path.join(path, "chat_template.jinja")
    if os.path.exists(beside):
        with open(beside, encoding="utf-8") as f:
            config["chat_template"] = f.read()
    eos = config["eos_token"]
    return tok, config["chat_template"], [
        tok.token_to_id(eos if isinstance(eos, str) else eos["content"])]


def question_of(line):
    """The prompt in a line of JSON: a string, or one of the usual fields."""
    if isinstance(line, str):
        return line
    for key in ("prompt", "question", "instruction"):
        if line.get(key):
            more = (line.get("input") or "").strip()
            return line[key].strip() + ("\n\n" + more if more else "")
    raise SystemExit(f"a line without prompt, question or instruction: {str(line)[:80]}")


def make_prompts(model, files, out, longest):
    """Renders the prompts of JSON lines with the model's own chat template."""
    import jinja2.sandbox
    tok, template, eos = (folder_tokenizer if os.path.isdir(model) else gguf_tokenizer)(model)
    template = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True).from_string(template)

    def render(question):
        return template.render(messages=[{"role": "user", "content": question}],
                               add_generation_prompt=True, enable_thinking=False)

    head, tail = render("@question@").split("@question@")
    rows, source, seen = [], [], set()
    for file in files:
        with open(file, encoding="utf-8") as f:
            questions = [question_of(json.loads(line)) for line in f if line.strip()]
        name, kept = os.path.basename(file).split(".")[0], 0
        fresh = [q for q in dict.fromkeys(q.strip() for q in questions) if q not in seen]
        seen.update(fresh)
        for row in tok.encode_batch([render(q) for q in fresh], add_special_tokens=False):
            if len(row.ids) <= longest:
                rows.append(row.ids)
                source.append(name)
                kept += 1
        print(f"{file}: {kept} prompts of {len(questions)}")
    ends = {name: np.array(tok.encode(part, add_special_tokens=False).ids, np.int32)
            for name, part in (("head", head), ("tail", tail))}
    np.savez_compressed(out, **flat(rows), **ends, source=np.array(source), eos=np.array(eos))


def read_prompts(path):
    with np.load(path) as f:
        return (rows_of(f["tokens"], f["ends"]), f["source"].tolist(), f["eos"].tolist(),
                f["head"].tolist(), f["tail"].tolist())


def save_texts(work, texts):
    """One more text-NNN.npz; a text is a dict of tokens and FIELDS."""
    number = len(glob.glob(os.path.join(work, "text-*.npz")))
    path = os.path.join(work, f"text-{number:03d}.npz")
    np.savez(path + ".part", **flat([t["tokens"] for t in texts]),
             **{k: np.array([t[k] for t in texts]) for k in FIELDS})
    os.replace(path + ".part.npz", path)


def load_texts(work):
    out = []
    for path in sorted(glob.glob(os.path.join(work, "text-*.npz"))):
        with np.load(path) as f:
            columns = [rows_of(f["tokens"], f["ends"]), *(f[k].tolist() for k in FIELDS)]
            out += [dict(zip(("tokens", *FIELDS), row)) for row in zip(*columns)]
    return out


def held_out(text):
    """A job is PROMPT:SAMPLING; all answers to a prompt are on one side."""
    return int(text["job"].split(":")[0]) % HELD_OUT == 0
