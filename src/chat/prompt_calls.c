/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as a template takes them: with short ids, one in a turn, or without a text beside them. */
#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "chat/prompt_impl.h"

#include <string.h>

enum { ID_LEN = 9 };

/* --- ids -------------------------------------------------------------------------------------- */

static void id_shorten(const char *id, int64_t number, char out[ID_LEN + 1])
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    uint64_t hash = 14695981039346656037u + (uint64_t)number;
    for (; id != NULL && *id != '\0'; id++) {
        hash = (hash ^ (uint8_t)*id) * 1099511628211u;
    }
    for (int i = 0; i < ID_LEN; i++, hash /= 36) {
        out[i] = digits[hash % 36];
    }
    out[ID_LEN] = '\0';
}

/* The id of a call; without one, it is that of its number in the conversation. */
static json_t *short_id(const json_t *given, int64_t number)
{
    char id[ID_LEN + 1];
    const char *text = json_string_value(given);
    id_shorten(text, text == NULL ? number : 0, id);
    return json_string(id);
}

static whim_err shorten_ids(whim_prompt_turns *turns, whim_diag *diag)
{
    int64_t n_call = 0, n_result = 0;
    bool good = true;
    turns->made = json_array();
    for (int64_t i = 0; i < turns->n; i++) {
        whim_turn *turn = &turns->v[i];
        for (size_t k = 0; k < json_array_size(turn->calls); k++) {
            json_t *call = json_array_get(turn->calls, k);
            json_t *id = short_id(json_object_get(call, "id"), n_call++);
            good = json_object_set_new(call, "id", id) == 0 && good;
        }
        if (turn->role == WHIM_ROLE_TOOL) {
            json_t *id = short_id(turn->call_id, n_result++);
            turn->call_id = id;
            good = json_array_append_new(turns->made, id) == 0 && good;
        }
    }
    return good ? WHIM_ERR_OK : whim_prompt_no_memory(diag);
}

/* --- arguments -------------------------------------------------------------------------------- */

/* As `tojson` of the templates writes it, and models have learned it: with a space behind what
 * separates. */
static void write_spaced(whim_str *out, const json_t *value)
{
    whim_str tight = {0};
    bool quoted = false;
    whim_json_write(&tight, value);
    const char *text = whim_str_text(&tight);
    for (int64_t i = 0; i < tight.len; i++) {
        whim_str_append_char(out, text[i]);
        if (quoted && text[i] == '\\') {
            whim_str_append_char(out, text[++i]);
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted && (text[i] == ',' || text[i] == ':')) {
            whim_str_append_char(out, ' ');
        }
    }
    out->failed = out->failed || tight.failed;
    whim_str_deinit(&tight);
}

static json_t *text_of(const json_t *value)
{
    whim_str text = {0};
    write_spaced(&text, value);
    json_t *made = text.failed ? NULL : json_stringn(whim_str_text(&text), (size_t)text.len);
    whim_str_deinit(&text);
    return made;
}

/* For templates that print arguments as the text that they are given. */
static whim_err arguments_write(whim_prompt_turns *turns, whim_diag *diag)
{
    for (int64_t i = 0; i < turns->n; i++) {
        for (size_t k = 0; k < json_array_size(turns->v[i].calls); k++) {
            json_t *function = json_object_get(json_array_get(turns->v[i].calls, k), "function");
            const json_t *given = json_object_get(function, "arguments");
            if (!json_is_string(given) &&
                json_object_set_new(function, "arguments", text_of(given)) != 0) {
                return whim_prompt_no_memory(diag);
            }
        }
    }
    return WHIM_ERR_OK;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* Whether a tool turn is the result of a call; without an id it is of the next one. */
static bool is_result_of(const whim_turn *turn, const json_t *call)
{
    const json_t *id = json_object_get(call, "id");
    return turn->call_id == NULL || id == NULL || json_equal(turn->call_id, id);
}

/* The results from `from` to before `to` that are of this call; at most one where ids are
 * missing. */
static void take_results(whim_prompt_turns *to, whim_turn *v, int64_t n, bool *taken,
                         const json_t *call)
{
    for (int64_t i = 0; i < n; i++) {
        if (!taken[i] && (call == NULL || is_result_of(&v[i], call))) {
            to->v[to->n++] = v[i];
            taken[i] = true;
            if (call != NULL) {
                return;
            }
        }
    }
}

/* A turn of several calls, with the n results behind it, becomes a turn for each call, with its
 * result. */
static whim_err split_turn(whim_prompt_turns *to, whim_turn *turn, int64_t n, whim_diag *diag)
{
    json_t *calls = turn->calls;
    bool *taken = whim_alloc_array(n + 1, sizeof *taken);
    bool good = true;
    if (taken == NULL) {
        memcpy(to->v + to->n, turn, (size_t)(n + 1) * sizeof *turn);
        to->n += n + 1;
        return whim_prompt_no_memory(diag);
    }
    turn->calls = NULL;
    for (size_t k = 0; k < json_array_size(calls); k++) {
        whim_turn one = k == 0 ? *turn : (whim_turn){.role = WHIM_ROLE_ASSISTANT};
        json_t *call = json_array_get(calls, k);
        one.calls = json_pack("[O]", call);
        good = good && one.calls != NULL;
        to->v[to->n++] = one;
        take_results(to, turn + 1, n, taken, call);
    }
    take_results(to, turn + 1, n, taken, NULL);
    whim_free(taken);
    json_decref(calls);
    return good ? WHIM_ERR_OK : whim_prompt_no_memory(diag);
}

static int64_t count_calls(const whim_prompt_turns *turns)
{
    int64_t n = 0;
    for (int64_t i = 0; i < turns->n; i++) {
        n += (int64_t)json_array_size(turns->v[i].calls);
    }
    return n;
}

static whim_err split_calls(whim_prompt_turns *turns, whim_diag *diag)
{
    whim_prompt_turns out = {
        .made = turns->made, .parts = turns->parts, .cap = turns->cap + count_calls(turns)};
    out.v = whim_alloc_array(out.cap, sizeof *out.v);
    whim_err err = out.v == NULL ? whim_prompt_no_memory(diag) : WHIM_ERR_OK;
    for (int64_t i = 0; i < turns->n && out.v != NULL; i++) {
        int64_t n = 0;
        if (json_array_size(turns->v[i].calls) < 2 || err != WHIM_ERR_OK) {
            out.v[out.n++] = turns->v[i];
            continue;
        }
        while (i + n + 1 < turns->n && turns->v[i + n + 1].role == WHIM_ROLE_TOOL) {
            n++;
        }
        err = split_turn(&out, &turns->v[i], n, diag);
        i += n;
    }
    if (out.v != NULL) {
        whim_free(turns->v);
        *turns = out;
    }
    return err;
}

/* --- texts beside calls ----------------------------------------------------------------------- */

static bool has_text(const whim_turn *turn)
{
    const char *text = whim_str_text(&turn->content.text);
    int64_t n = 0;
    while (n < turn->content.text.len && whim_is_blank(text[n])) {
        n++;
    }
    return n < turn->content.text.len;
}

/* A turn with a text and calls becomes two. */
static whim_err part_texts(whim_prompt_turns *turns, whim_diag *diag)
{
    whim_prompt_turns out = {
        .made = turns->made, .parts = turns->parts, .cap = turns->cap + count_calls(turns)};
    out.v = whim_alloc_array(out.cap, sizeof *out.v);
    if (out.v == NULL) {
        return whim_prompt_no_memory(diag);
    }
    for (int64_t i = 0; i < turns->n; i++) {
        whim_turn turn = turns->v[i];
        if (turn.calls != NULL && has_text(&turn)) {
            out.v[out.n] = turn;
            out.v[out.n++].calls = NULL;
            turn = (whim_turn){.role = turn.role, .calls = turn.calls, .raw_call = turn.raw_call};
        }
        out.v[out.n++] = turn;
    }
    whim_free(turns->v);
    *turns = out;
    return WHIM_ERR_OK;
}

whim_err whim_prompt_turns_fit_calls(whim_prompt_turns *turns, const whim_chat_format *format,
                                     whim_diag *diag)
{
    if (format->short_ids) {
        WHIM_TRY(shorten_ids(turns, diag));
    }
    if (format->drops_text) {
        WHIM_TRY(part_texts(turns, diag));
    }
    if (format->text_args) {
        WHIM_TRY(arguments_write(turns, diag));
    }
    return format->one_call && count_calls(turns) > 1 ? split_calls(turns, diag) : WHIM_ERR_OK;
}
