#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the splits that GGUF files name cut hard strings, by the `tokenizers` package: make_pre_golden.py > tests/data/text/pre_names.golden

Patterns are those of the models' own tokenizer.json, as far as they are published; where a GGUF's name stands for several
models, those of llama.cpp. A block is a line with names, then for each probe the bytes of its pieces. The first block has the
probes themselves, each byte as two digits."""
from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

PROBES = [
    "12345", "It'S a", "a\n\n  b", "e\u0301x", "fooBar's", "\u6f22\u5b57\u304b \u4e2dx", "1234567 12 1,000.50",
    "  leading, and trailing  ", "\ttab\r\n\r\nline \n x", "HTTPServer's XMLHttpRequest", "na\u00efve \u00dcber \u0394\u03b1 \u0416\u0436",
    "\uac00\ub098\ub2e4 \ud55c\uad6d\uc5b4", "\u0e44\u0e17\u0e22 \u0928\u092e\u0938\u094d\u0924\u0947 \u0631\u0642\u0645 \u0661\u0662\u0663", "\U0001f600\U0001f44d\U0001f3fd ok!",
    "path/to/file.c:12: error: `x' != \"y\"", "f(x)=x^2+$1~|<a>", "don't we'll I'd they're YOU'VE", "\u201cquoted\u201d\u2014dash\u2026 \u3002\uff0c\u3001",
    "    four\n\n\n\nnew", "a_b-c.d", "\u2160\u00bd\u00b2 \u0bf0", "\u0587\u10d0 \u1e9e \ua64b", "x  \n", "\u3000wide\u3000space\u00a0", "1 22 333 4444",
]
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def words(digits):
    return SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES


def cased(suffix, digits, tail="/", but=""):
    first = rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{but}]*[{LOWER}{but}]+{suffix}|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{but}]+[{LOWER}{but}]*{suffix}|"
    return first + digits + rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n{tail}]*|" + SPACES


CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
EAST = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + SPACES
MANY = ("[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
        "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+")
TWO_CASES = ("\u0041-\u005a\u0061-\u007a\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
             "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
             "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b"
             "\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
             "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
             "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d"
             "\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2"
             "\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17"
             "\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
             "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
SPLITS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2 phi-2 mpt olmo jais gigachat jina-es jina-de jina-v2-es jina-v2-de modern-bert a.x-4.0 mellum exaone4 trillion granite-docling "
    "jina-v1-en jina-v2-code roberta-bpe": [GPT2],
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "qwen2 deepseek-r1-qwen f2llmv2 kormo megrez stablelm2 hunyuan solar-open grok-2": [words(r"\p{N}")],
    "qwen35": [SUFFIX + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES],
    "laguna": [r"[^\n]+|[\n]+", words(r"\p{N}")],
    "seed-coder": [SUFFIX + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"],
    "bailingmoe bailingmoe2 llada-moe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "exaone-moe": [SUFFIX + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe glm4 chatglm-bpe": [words(r"\p{N}{1,3}")],
    "minicpm5": [r"\p{N}{1,3}", words(r"\p{N}+")],
    "jais-2": [SUFFIX + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|" +
               "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"],
    "gpt-4o llama4 kanana2 talkie granite-embed-multi-97m minimax-m2": [cased(SUFFIX + "?", r"\p{N}{1,3}")],
    "tiny_aya cohere2moe": [r"\d{1,3}(?=(?:\d{3})*\b)", cased(SUFFIX + "?", r"\p{N}{1,3}")],
    "youtu": ["[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + CJK,
              cased(SUFFIX + "?", r"\p{N}")],
    "tekken": [cased("", r"\p{N}")],
    "kimi-k2": [r"[\p{Han}]+|" + cased(SUFFIX + "?", r"\p{N}{1,3}", "", r"&&[^\p{Han}]")],
    "deepseek-llm": ["[\r\n]", r"\s?[" + TWO_CASES + "]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", EAST, r"\p{N}+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST, r"\p{N}"],
    "deepseek-v3 hunyuan-dense joyai-llm": [r"\p{N}{1,3}", CJK, DEEPSEEK],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", MANY, DEEPSEEK],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "bloom gpt3-finnish poro-chat": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
}

print("probes")
for probe in PROBES:
    print(probe.encode().hex())
for names, patterns in SPLITS.items():
    cut = Sequence([Split(Regex(p), "isolated") for p in patterns] + [ByteLevel(add_prefix_space=False, use_regex=False)])
    print(names)
    for probe in PROBES:
        print(" ".join(str(len(piece)) for piece, _ in cut.pre_tokenize_str(probe)))
