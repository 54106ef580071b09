/* SPDX-License-Identifier: Apache-2.0 */
/* An answer for the parser of reasoning and calls: a byte of settings, a byte that decides the
 * cuts, the words of reasoning and which quarter of the forms is meant, then the text. The events
 * of the pieces must be those of the whole, and arguments begin valid JSON at every event. */
#include <stdint.h>

#include "support/chat_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static json_t *tools;
    static const char *const forms[4][4][4] = {
        {{"hermes", "xml", "invoke", "harmony"},
         {"llama3", "calls-list", "calls-args", "marked"},
         {"functionary", "deepseek", "toolcall", "dsml"},
         {"deepseek-fenced", "sections", "pairs-tight", "pairs"}},
        {{"python", "python-tags", "bare", "bare-list"},
         {"mcp", "params", "seed", "actions"},
         {"tool_calls", "tool_calls-lines", "calls-list-ids", "tool_call-list"},
         {"python", "python-tags", "params", "dsml-function"}},
        {{"cohere", "apertus", "llama4", "function_call"},
         {"gigachat", "functionary-v3", "solar", "functionary-v3"},
         {"cohere", "apertus", "llama4", "function_call"},
         {"gigachat", "functionary-v3", "solar", "functionary-v3"}},
        {{"functionary-v3", "functionary-v3", "functionary-v3", "functionary-v3"},
         {"apertus", "apertus", "apertus", "apertus"},
         {"llama4", "llama4", "llama4", "llama4"},
         {"solar", "solar", "solar", "solar"}}};
    int64_t cuts[256], n_cut = 0;
    if (n < 2) {
        return 0;
    }
    if (tools == NULL) {
        tools =
            json_loads("[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": "
                       "{\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, \"b\": {\"type\": "
                       "\"boolean\"}, \"o\": {\"type\": [\"object\", \"null\"]}}}}}]",
                       0, NULL);
    }
    const char *form = forms[data[1] >> 6][data[0] >> 6][data[0] & 3];
    const whim_tool_words *words = whim_tool_words_named(form);
    const whim_chat_parser_cfg cfg = {
        .format = {.tools = words,
                   .native_tools = true, /* harmony is a form of whole answers */
                   .reasons = (data[0] & 4) != 0,
                   .think = &whim_think_words_known[data[1] >> 4 & 3]},
        .starts_inside = (data[0] & 8) != 0,
        .starts_named = (data[0] & 8) == 0 && words->said != NULL,
        .parse_tools = (data[0] & 16) == 0,
        .tools = (data[0] & 32) == 0 ? tools : NULL};
    const char *text = (const char *)data + 2;
    const int64_t len = (int64_t)n - 2;
    uint64_t seed = data[1];
    for (int64_t at = 0; n_cut < 256;) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at += (int64_t)(seed >> 33) % (data[1] % 16 + 1);
        if (at >= len) {
            break;
        }
        cuts[n_cut++] = at;
    }
    chat_log whole, pieces;
    if (!chat_log_parse(&whole, &cfg, text, len, NULL, 0) ||
        !chat_log_parse(&pieces, &cfg, text, len, cuts, n_cut)) {
        abort();
    }
    if (whole.wrong || pieces.wrong || whole.text.len != pieces.text.len ||
        memcmp(whim_str_text(&whole.text), whim_str_text(&pieces.text), (size_t)whole.text.len) !=
            0) {
        abort();
    }
    chat_log_deinit(&whole);
    chat_log_deinit(&pieces);
    return 0;
}
