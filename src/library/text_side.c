/* SPDX-License-Identifier: Apache-2.0 */
/* A model's text side, from its files. */
#include "library/text_side.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/ends.h"

#include <string.h>

enum { MAX_TEMPLATE_BYTES = 4 << 20, MAX_ARGS_BYTES = 1 << 20 };

static whim_err template_read(whim_text_side *side, const whim_text_files *files, whim_diag *diag)
{
    whim_str name = {0};
    char *text = NULL;
    int64_t n = 0;
    const char *source = whim_tokenizer_template(side->tok, NULL);
    if (files->chat_template != NULL) {
        WHIM_TRY(whim_file_read_all(files->chat_template, MAX_TEMPLATE_BYTES, &text, &n, diag));
        whim_str_append(&name, files->chat_template);
        source = text;
    } else if (source != NULL) {
        n = (int64_t)strlen(source);
        whim_str_printf(&name, "%s: chat template", files->model);
    } else {
        return WHIM_ERR_OK;
    }
    whim_err err = whim_template_compile(source, n, whim_str_text(&name), &side->tmpl, diag);
    side->format = whim_chat_format_detect(side->tmpl, source, side->tok);
    whim_free(text);
    whim_str_deinit(&name);
    return err;
}

/* Whether a token's text is part of what stands around reasoning. */
static bool is_of_think(const whim_text_side *side, const char *token, int64_t n)
{
    enum { LEAST = 3 }; /* shorter ones stand in any text */
    const whim_think_words *words = whim_chat_format_think(&side->format);
    const char *const all[] = {words->open, words->close, words->says, words->ends[0],
                               words->ends[1]};
    bool found = false;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        found =
            found || (all[i] != NULL && memmem(all[i], strlen(all[i]), token, (size_t)n) != NULL);
    }
    return side->format.reasons && n >= LEAST && found;
}

/* Reasoning and calls are read out of the text, so it must hold their words. */
static void word_ids_find(whim_text_side *side)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t id = 0; id < whim_tokenizer_count(side->tok); id++) {
            int64_t n;
            const char *text = whim_tokenizer_bytes(side->tok, id, &n);
            if (!whim_tokenizer_is_special(side->tok, id) || side->n_word_id == WHIM_MAX_WORD_IDS) {
                continue;
            }
            const bool thinks = is_of_think(side, text, n);
            if (pass == 0 ? thinks : !thinks && whim_tool_words_have(side->format.tools, text, n)) {
                side->word_ids[side->n_word_id++] = id;
            }
        }
        side->n_think_id = pass == 0 ? side->n_word_id : side->n_think_id;
    }
}

whim_err whim_template_args_read(json_t **out, const char *text, whim_diag *diag)
{
    whim_diag why = {""};
    bool is_changed = false;
    const whim_json_limits limits = {
        .max_bytes = MAX_ARGS_BYTES, .max_depth = WHIM_JSON_DEPTH, .is_changed = &is_changed};
    whim_err err = whim_json_read(out, text, (int64_t)strlen(text), limits, &why);
    if (err == WHIM_ERR_NO_MEMORY) {
        return whim_fail(diag, err, "%s", why.text);
    }
    if (!json_is_object(*out)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "expected a JSON object such as {\"name\":true}%s%s",
                         err != WHIM_ERR_OK ? "; " : "", why.text);
    }
    return is_changed ? whim_fail(diag, WHIM_ERR_INVALID,
                                  "an integer is beyond 64 bits, or a number is not finite")
                      : WHIM_ERR_OK;
}

static whim_err side_read(whim_text_side *side, const whim_text_files *files, const char **field,
                          whim_diag *diag)
{
    *field = "";
    side->format = whim_chat_format_detect(NULL, NULL, NULL);
    if (!files->ids_only) {
        WHIM_TRY(whim_tokenizer_open(files->model, files->ckpt, &side->tok, diag));
        *field = files->chat_template != NULL ? "chat_template" : "";
        WHIM_TRY(template_read(side, files, diag));
        word_ids_find(side);
    }
    if (files->template_args != NULL) {
        *field = "template_args";
        WHIM_TRY(whim_template_args_read(&side->kwargs, files->template_args, diag));
    }
    *field = "";
    side->n_stop_id =
        whim_stop_ids(&files->ckpt->config, side->tok, side->stop_ids, WHIM_MAX_STOP_IDS);
    side->wishes = files->ckpt->generation;
    return side->wishes.refused == NULL
               ? WHIM_ERR_OK
               : whim_fail(diag, WHIM_ERR_CORRUPT, "%s", side->wishes.refused);
}

whim_err whim_text_side_read(whim_text_side *side, const whim_text_files *files, const char **field,
                             whim_diag *diag)
{
    *side = (whim_text_side){0};
    whim_err err = side_read(side, files, field, diag);
    if (err != WHIM_ERR_OK) {
        whim_text_side_close(side);
    }
    return err;
}

void whim_text_side_close(whim_text_side *side)
{
    whim_template_destroy(side->tmpl);
    whim_tokenizer_close(side->tok);
    json_decref(side->kwargs);
    *side = (whim_text_side){0};
}

whim_chat_model whim_text_side_chat(const whim_text_side *side)
{
    return (whim_chat_model){
        .tok = side->tok, .tmpl = side->tmpl, .format = side->format, .kwargs = side->kwargs};
}
