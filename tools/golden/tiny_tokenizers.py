# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers for make_tokenizer_golden.py; between them they use every option that is read."""
import random

MARK = "\u2581"


def alphabet():
    """The 256 characters of byte-level vocabularies, by byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = iter(range(0x100, 0x200))
    return [chr(b) if b in plain else chr(next(rest)) for b in range(256)]


def added(token_id, content, **flags):
    base = {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}
    return {**base, **flags}


def tokenizer(vocab, merges, **parts):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    model.update(parts.pop("model", {}))
    model["vocab"] = vocab
    model["merges"] = merges
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return {**base, **parts, "model": model}


def byte_level(extra=(), merges=(), **parts):
    vocab = {}
    for text in [*alphabet(), *extra]:
        vocab.setdefault(text, len(vocab))
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    parts.setdefault("decoder", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True})
    return tokenizer(vocab, [list(m) for m in merges], **parts)


MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r"), ("Ġw", "or"), ("l", "d"),
          ("Ġwor", "ld"), ("1", "2"), ("a", "a"), ("aa", "aa"), ("Ġ", "Ġ"), ("Ċ", "Ċ"), ("'", "s"), ("Ġ", "a"), ("Ġ", "he")]
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def chain(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def spaces_vocab():
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), MARK, *"abcdehlorstw,.!12"]
    merges = [(MARK, "w"), ("l", "l"), ("h", "e"), ("he", "ll"), ("hell", "o"), (MARK, "hello"), (MARK, MARK), ("o", "r")]
    vocab = {}
    for text in texts:
        vocab.setdefault(text, len(vocab))
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    return vocab, merges


LLAMA2_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}


def llama2(**parts):
    vocab, merges = spaces_vocab()
    parts.setdefault("decoder", LLAMA2_DECODER)
    parts.setdefault("added_tokens", [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")])
    model = {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True, **parts.pop("model", {})}
    return tokenizer(vocab, [f"{a} {b}" for a, b in merges], model=model, **parts)


def template(*names, after=()):
    table = {"<s>": 1, "</s>": 2}
    special = {n: {"id": n, "ids": [table[n]], "tokens": [n]} for n in (*names, *after)}
    parts = [{"SpecialToken": {"id": n, "type_id": 0}} for n in names] + [{"Sequence": {"id": "A", "type_id": 0}}]
    parts += [{"SpecialToken": {"id": n, "type_id": 0}} for n in after]
    return {"type": "TemplateProcessing", "single": parts, "pair": parts + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": special}


GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
FLAGS = ["<plain>", "<left>", "<right>", "<both>", "<word>", "<soft>", "<<plain>>", "Soft Word"]


def flags_tokenizer(**parts):
    made = byte_level(FLAGS, MERGES, pre_tokenizer=chain({"type": "ByteLevel", **{k: v for k, v in BYTES.items() if k != "type"}}))
    ids = made["model"]["vocab"]
    made["added_tokens"] = [
        added(ids["<plain>"], "<plain>"), added(ids["<left>"], "<left>", lstrip=True),
        added(ids["<right>"], "<right>", rstrip=True), added(ids["<both>"], "<both>", lstrip=True, rstrip=True),
        added(ids["<word>"], "<word>", single_word=True, special=False),
        added(ids["<soft>"], "<soft>", normalized=True, special=False), added(ids["<<plain>>"], "<<plain>>"),
        added(ids["Soft Word"], "Soft Word", normalized=True, special=False)]
    made.update(parts)
    return made


def normalizers(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def replace(content, **pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


TINY = {
    "llama3": byte_level(["hello world", " x", "<s>", "</s>"], MERGES, model={"ignore_merges": True},
                         pre_tokenizer=chain(split(GPT4), BYTES),
                         post_processor={"type": "Sequence", "processors": [
                             {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                             template("<s>")]}),
    "llama2": llama2(normalizer=normalizers({"type": "Prepend", "prepend": MARK}, replace(MARK, String=" ")),
                     post_processor=template("<s>", after=("</s>",))),
    "metaspace": llama2(pre_tokenizer={"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True},
                        decoder={"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}),
    "metaspace-first": llama2(pre_tokenizer={"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first",
                                             "split": False}),
    "unk": llama2(model={"byte_fallback": False, "fuse_unk": False},
                  normalizer=replace(MARK, String=" ")),
    "fuse-unk": llama2(model={"byte_fallback": False}, normalizer=replace(MARK, Regex=r"\s")),
    "prefix-space": byte_level([], MERGES, pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True,
                                                          "trim_offsets": True, "use_regex": True}),
    "digits": byte_level([], MERGES, pre_tokenizer=chain({"type": "Digits", "individual_digits": False},
                                                         {"type": "Punctuation", "behavior": "Contiguous"}, BYTES)),
    "whitespace": byte_level([], MERGES, pre_tokenizer=chain({"type": "Whitespace"}, BYTES)),
    "whitespace-split": byte_level([], MERGES, pre_tokenizer=chain({"type": "WhitespaceSplit"}, BYTES)),
    "flags": flags_tokenizer(),
    "flags-lower": flags_tokenizer(normalizer=normalizers({"type": "NFKC"}, {"type": "Lowercase"})),
    "strip": byte_level([], MERGES, normalizer=normalizers({"type": "Strip", "strip_left": True, "strip_right": False},
                                                           {"type": "NFD"}), pre_tokenizer=BYTES),
    "nfkd": byte_level([], MERGES, normalizer={"type": "NFKD"}, pre_tokenizer=BYTES),
    "interval": byte_level([], MERGES, pre_tokenizer=chain(split(r"\p{N}{1,3}+|\w{2}|\h+$|[[:alpha:]]\S"), BYTES)),
    "han": byte_level([], MERGES, pre_tokenizer=chain(split(r"\p{Han}+|\p{^Letter}|(?<=h)e", "Contiguous"), BYTES)),
    "deepseek": byte_level([], MERGES, pre_tokenizer=chain(
        split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
        split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
              r"\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES)),
    **{f"split-{b.lower()}{'-invert' if i else ''}": byte_level([], MERGES, pre_tokenizer=chain(
        split("l", b, i, kind), BYTES))
       for b, i, kind in [("Isolated", False, "String"), ("Removed", False, "String"), ("MergedWithPrevious", False, "Regex"),
                          ("MergedWithNext", False, "String"), ("Contiguous", False, "Regex"), ("Removed", True, "Regex"),
                          ("MergedWithNext", True, "Regex")]},
}


def tiny_texts(spec):
    rng = random.Random(7)
    parts = ["hello", " world", "hello world", " ", "  ", "\n", "\n\n", "a", "aaaa", "12", "1234567", "llll", "w", ",", "!",
             "'s", "é", "e\u0301", "漢字", "ー", "😀", "\u00a0", "\u180e", "x", "<s>", "</s>", "<unk>", "SOFT WORD", "ſ", "Ⅷ",
             "ﬁ", "ŷ", "\t", "cafe", "beef", "İ", "१", "_", "\u200d", *FLAGS]
    texts = ["", *parts]
    texts += ["".join(rng.choice(parts) for _ in range(rng.randrange(2, 9))) for _ in range(220)]
    return texts
