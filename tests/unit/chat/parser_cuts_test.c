/* SPDX-License-Identifier: Apache-2.0 */
/* Generated answers, whole, cut off and damaged: where they are cut into pieces never matters, and
 * arguments begin valid JSON at every moment. */
#include <stdint.h>

#include "support/chat_rows.h"
#include "support/cmocka.h"

static uint64_t seed;

static uint32_t roll(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

#define PICK(list) ((list)[roll((uint32_t)COUNT(list))])

static const char *const values[] = {"1",
                                     "-0.5e+7",
                                     "true",
                                     "null",
                                     "\"x\"",
                                     "\"\\u00e9\\ud83d\\ude00\\n\\\\\"",
                                     "[]",
                                     "[1, [2]]",
                                     "{\"k\": {\"</tool_call>\": \"<\"}}",
                                     "\"é</parameter>\"",
                                     "{}",
                                     "[true,false]",
                                     "1e999"};
static const char *const plain_values[] = {
    "Oslo", "5", "True", "false",          "null",    "{\"a\": 1}", "[1, 2", "a\nb\n",
    "\n",   "",  "é😀",   "<b>\"q\"\\</b>", "</param", "\x01\x1f",   "12x",   " 7 "};
static const char *const keys[] = {"s", "i", "n", "b", "o", "a", "sn", "any", "é", "x y"};
static const char *const words[] = {
    "hi ", "\n",           "<",       "<tool", "</think>",      "ñ😀", " ", "{",
    "}",   "</tool_call>", "<think>", "\n\n",  "<parameter=s>", "a<b"};
static const char *const junk[] = {"", ",", "}", "\"", "<", "\\", "x", "\n", "<tool_call>", "{"};

static void make_arguments(whim_str *args)
{
    whim_str_append(args, "{");
    for (uint32_t i = 0, n = roll(4); i < n; i++) {
        whim_str_printf(args, "%s\"%s\":%s%s", i > 0 ? ", " : "", PICK(keys), roll(2) ? " " : "",
                        PICK(values));
    }
    whim_str_append(args, "}");
}

/* A few calls in the words of a form whose arguments are JSON. */
static void make_written(whim_str *out, const whim_tool_words *w)
{
    whim_str_append(out, w->written.call);
    for (uint32_t i = 0, n = 1 + roll(3); i < n; i++) {
        const char *quote = w->form == WHIM_TOOLS_OBJECT ? "\"" : "";
        whim_str_append(out, i > 0 ? w->written.between : "");
        whim_str_printf(out, "%s%s%s%s%s%s", w->written.function, quote, roll(4) ? "f" : "other",
                        quote, w->written.function_close, roll(3) ? "" : " ");
        make_arguments(out);
        whim_str_append(out, roll(9) ? w->written.function_end : "");
        whim_str_append(out, roll(3) ? "" : "\n");
    }
    whim_str_append(out, w->written.call_end);
}

static void make_hermes(whim_str *out)
{
    whim_str args = {0};
    make_arguments(&args);
    if (roll(4) == 0) {
        json_t *text = json_stringn(args.text, (size_t)args.len);
        char *dump = json_dumps(text, JSON_ENCODE_ANY | (roll(2) ? JSON_ENSURE_ASCII : 0));
        whim_str_clear(&args);
        whim_str_append(&args, dump);
        free(dump);
        json_decref(text);
    }
    const char *s = roll(2) ? "\n" : "";
    const char *name = roll(2) ? "f" : "g\\u00e9";
    if (roll(3)) {
        whim_str_printf(out, "<tool_call>%s{\"name\": \"%s\", \"arguments\": %s}%s</tool_call>", s,
                        name, args.text, s);
    } else {
        whim_str_printf(out, "<tool_call>%s{\"arguments\": %s, \"name\": \"%s\"}%s</tool_call>", s,
                        args.text, name, s);
    }
    whim_str_deinit(&args);
}

static void make_tags(whim_str *out, bool invoke)
{
    const char *s = roll(2) ? "\n" : "", *pad = invoke ? "" : s;
    whim_str_printf(out, invoke ? "<minimax:tool_call>%s" : "<tool_call>%s", s);
    for (uint32_t calls = invoke ? 1 + roll(2) : 1; calls > 0; calls--) {
        whim_str_printf(out, invoke ? "<invoke name=\"%s\">%s" : "<function=%s>%s",
                        roll(3) ? "f" : "other", s);
        for (uint32_t i = 0, n = roll(4); i < n; i++) {
            whim_str_printf(out, invoke ? "<parameter name=\"%s\">%s" : "<parameter=%s>%s",
                            PICK(keys), pad);
            whim_str_append(out, roll(2) ? PICK(values) : PICK(plain_values));
            whim_str_printf(out, "%s%s%s", pad, roll(8) ? "</parameter>" : "", s);
        }
        whim_str_printf(out, "%s%s", roll(8) ? (invoke ? "</invoke>" : "</function>") : "", s);
    }
    whim_str_append(out, invoke ? "</minimax:tool_call>" : "</tool_call>");
}

static void make_answer(whim_str *out, const whim_tool_words *form)
{
    if (roll(3) == 0) {
        whim_str_printf(out, "<think>\n%s\n</think>\n\n", PICK(words));
    }
    for (uint32_t i = 0, n = 1 + roll(4); i < n; i++) {
        if (roll(2)) {
            whim_str_append(out, PICK(words));
        }
        if (roll(3) && form->form != WHIM_TOOLS_TAGGED) {
            if (strcmp(form->name, "hermes") == 0) {
                make_hermes(out);
            } else {
                make_written(out, form);
            }
        } else if (roll(3)) {
            make_tags(out, strcmp(form->name, "invoke") == 0);
        }
        whim_str_append(out, roll(2) ? PICK(words) : "");
    }
    whim_str_append(out, "");
    switch (roll(4)) {
    case 0: /* cut */
        out->len = out->len == 0 ? 0 : roll((uint32_t)out->len);
        break;
    case 1: { /* damage: a piece goes, another comes */
        whim_str hurt = {0};
        int64_t at = out->len == 0 ? 0 : roll((uint32_t)out->len), gone = roll(4);
        gone = gone > out->len - at ? out->len - at : gone;
        whim_str_append_n(&hurt, out->text, at);
        whim_str_append(&hurt, PICK(junk));
        whim_str_append_n(&hurt, out->text + at + gone, out->len - at - gone);
        whim_str_deinit(out);
        *out = hurt;
        break;
    }
    default:
        break;
    }
}

static void compare(const whim_chat_parser_cfg *cfg, const whim_str *text, const chat_log *whole,
                    const int64_t *cuts, int64_t n_cut)
{
    chat_log log;
    assert_true(chat_log_parse(&log, cfg, whim_str_text(text), text->len, cuts, n_cut));
    if (log.wrong || log.text.len != whole->text.len ||
        memcmp(whim_str_text(&log.text), whim_str_text(&whole->text), (size_t)log.text.len) != 0) {
        fail_msg("[%.*s] cut first at %lld:\n%s\nwhole%s:\n%s", (int)text->len, text->text,
                 (long long)cuts[0], whim_str_text(&log.text), log.wrong ? " (wrong)" : "",
                 whim_str_text(&whole->text));
    }
    chat_log_deinit(&log);
}

static void cuts_do_not_matter(const char *form, int rounds)
{
    int64_t n_call = 0;
    rounds /= is_quick() ? 8 : 1;
    seed = 77 + (uint64_t)strlen(form);
    for (int round = 0; round < rounds; round++) {
        whim_chat_parser_cfg cfg = row_config(form, row_tools);
        cfg.starts_inside = roll(4) == 0;
        whim_str text = {0};
        chat_log whole;
        int64_t cuts[4096];
        cfg.tools = roll(4) ? row_tools : NULL;
        make_answer(&text, cfg.format.tools);
        assert_true(chat_log_parse(&whole, &cfg, whim_str_text(&text), text.len, NULL, 0));
        if (whole.wrong) {
            fail_msg("[%.*s]: %s", (int)text.len, text.text, whim_str_text(&whole.text));
        }
        n_call += whole.n_call;
        for (int64_t at = 0; at <= text.len; at += round % 5 == 0 ? 1 : 1 + roll(40)) {
            compare(&cfg, &text, &whole, &at, 1);
        }
        for (int i = 0; i < 3; i++) {
            int64_t n = 0;
            for (int64_t at = i == 0; at < text.len && n < (int64_t)COUNT(cuts);
                 at += 1 + (i == 0 ? 0 : roll(9))) {
                cuts[n++] = at;
            }
            compare(&cfg, &text, &whole, n > 0 ? cuts : &text.len, n);
        }
        chat_log_deinit(&whole);
        whim_str_deinit(&text);
    }
    assert_true(n_call > rounds / 10); /* the generator makes calls at all */
}

static void hermes_cuts(void **state)
{
    (void)state;
    cuts_do_not_matter("hermes", 1600);
}

static void xml_cuts(void **state)
{
    (void)state;
    cuts_do_not_matter("xml", 1600);
}

static void invoke_cuts(void **state)
{
    (void)state;
    cuts_do_not_matter("invoke", 1600);
}

static void json_cuts(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "llama3",         "calls-list",      "toolcall", "calls-args", "functionary",
        "deepseek",       "deepseek-fenced", "sections", "tool_calls", "tool_calls-lines",
        "bare",           "bare-list",       "actions",  "mcp",        "tool_call-list",
        "gigachat-roles", "fenced"};
    for (size_t i = 0; i < COUNT(forms); i++) {
        cuts_do_not_matter(forms[i], 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hermes_cuts),
        cmocka_unit_test(xml_cuts),
        cmocka_unit_test(invoke_cuts),
        cmocka_unit_test(json_cuts),
    };
    return cmocka_run_group_tests(tests, row_tools_load, row_tools_drop);
}
