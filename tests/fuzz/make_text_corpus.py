#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed inputs of the tokenizer targets to tests/data/corpus/<target>/: small cuts of
tests/data/text/tiny, GGUF vocabularies of both kinds, and texts."""
import json
import pathlib

from make_corpus import ARRAY, BOOL, F32, I32, STRING, U32, gguf, model_keys, save

TINY = pathlib.Path(__file__).resolve().parent.parent / "data" / "text" / "tiny"
T = "tokenizer.ggml."


def write_tokenizer_json():
    for path in sorted(TINY.glob("*.json")):
        spec = json.loads(path.read_text())
        merged = {"".join(m) if isinstance(m, list) else m.replace(" ", "") for m in spec["model"]["merges"]}
        sides = {s for m in spec["model"]["merges"] for s in (m if isinstance(m, list) else m.split(" "))}
        added = {t["content"] for t in spec["added_tokens"]} | {"<s>", "</s>", "a", "<0x0A>", "<0xE4>"}
        keep = merged | sides | added
        spec["model"]["vocab"] = {t: i for t, i in spec["model"]["vocab"].items() if t in keep}
        save("tokenizer_json", path.stem, json.dumps(spec, ensure_ascii=False, separators=(",", ":")).encode())


def vocab(kind, tokens, types, **more):
    keys = [k for k in model_keys("llama") if not k[0].startswith(T)]
    keys += [(T + "model", STRING, kind), (T + "tokens", ARRAY, (STRING, tokens)),
             (T + "token_type", ARRAY, (I32, types))]
    keys += [(T + k, t, v) for k, (t, v) in more.items()]
    keys.append(("tokenizer.chat_template", STRING, "{{ messages }}"))
    return gguf(keys, [("token_embd.weight", (8, len(tokens)), 0, 32 * len(tokens))])


def write_gguf_vocab():
    tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xE4>", "\u2581", "h", "e", "he", "\u2581he", "[PAD0]"]
    save("gguf_vocab", "llama", vocab(
        "llama", tokens, [2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 5], scores=(ARRAY, (F32, [-float(i) for i in range(11)])),
        bos_token_id=(U32, 1), eos_token_id=(U32, 2), unknown_token_id=(U32, 0), add_space_prefix=(BOOL, True)))
    for pre in ("smollm", "qwen2", "llama-bpe", "minimax-m2", "deepseek-v3", "default"):
        save("gguf_vocab", pre, vocab(
            "gpt2", ["a", "b", "ab", "Ġ", "Ġa", "<end>", "<mark>"], [1, 1, 1, 1, 1, 3, 4],
            merges=(ARRAY, (STRING, ["a b", "Ġ a"])), pre=(STRING, pre), eos_token_id=(U32, 5), add_eos_token=(BOOL, True)))


def write_text():
    texts = ["hello <s> world", "  <l>\n<n>", "a word b wordy", "aaaaaaaaa <S> <N>", "e\u0301\u1112\u1161\u11ab\ufb01",
             "\U0001F468\u200D\U0001F469 1\ufe0f\u20e3", "\r\n \t\u00a0\u2003x'S", "<n>\u0338<n", "<s", ""]
    for i, text in enumerate(texts):
        for variant in range(3):
            save("text", f"{i}-{variant}", bytes([variant, 64 + i]) + text.encode())
    save("text", "invalid", b"\0\0ab\xff")


if __name__ == "__main__":
    write_tokenizer_json()
    write_gguf_vocab()
    write_text()
