/* SPDX-License-Identifier: Apache-2.0 */
/* A small vocabulary for tests, as a tokenizer file: every byte (ids 0 to 255), the words asked
 * for, then the special tokens <|end|>, <|other|> and </think>, and <tool_call>, which is added but
 * not special. */
#ifndef WHIM_TESTS_SUPPORT_BYTE_VOCAB_H
#define WHIM_TESTS_SUPPORT_BYTE_VOCAB_H

#include "base/str.h"
#include "base/utf8.h"

#include <string.h>

/* A tokenizer file with the tokens a, b, c and the special <|end|> (id 3), and no others: most
 * texts it cannot write. */
#define ABC_VOCAB                                                                                  \
    "{\"added_tokens\":[{\"id\":3,\"content\":\"<|end|>\",\"single_word\":false,\"lstrip\":false," \
    "\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":null,"                \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"    \
    "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","    \
    "\"ignore_merges\":true,\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"c\":2}}}"

/* A token in the characters that stand for bytes in files of this kind. */
static inline void byte_vocab_token(whim_str *out, const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t byte = (uint8_t)bytes[i], shift = 0;
        bool hidden = false;
        for (int32_t b = 0; b <= byte; b++) {
            hidden = b < 33 || (b > 126 && b < 161) || b == 173;
            shift += hidden && b < byte;
        }
        char utf8[4];
        int32_t len = whim_utf8_encode(hidden ? 256 + shift : byte, utf8);
        if (byte == '"' || byte == '\\') {
            whim_str_append_char(out, '\\');
        }
        whim_str_append_n(out, utf8, len);
    }
}

static inline void byte_vocab_json(whim_str *json, const char *const *words, int32_t n_word)
{
    static const char *const added[] = {"<|end|>", "<|other|>", "</think>", "<tool_call>"};
    whim_str_append(json, "{\"added_tokens\":[");
    for (int32_t i = 0; i < 4; i++) {
        whim_str_printf(json,
                        "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                        "\"rstrip\":false,\"normalized\":false,\"special\":%s}",
                        i > 0 ? "," : "", 256 + n_word + i, added[i], i < 3 ? "true" : "false");
    }
    whim_str_append(json, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                          "\"add_prefix_space\":false,\"use_regex\":true},\"post_processor\":null,"
                          "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                          "\"ignore_merges\":true,\"merges\":[],\"vocab\":{");
    for (int32_t i = 0; i < 256 + n_word; i++) {
        char byte = (char)i;
        const char *bytes = i < 256 ? &byte : words[i - 256];
        whim_str_append(json, i > 0 ? ",\"" : "\"");
        byte_vocab_token(json, bytes, i < 256 ? 1 : (int64_t)strlen(bytes));
        whim_str_printf(json, "\":%d", i);
    }
    whim_str_append(json, "}}}");
}

#endif
