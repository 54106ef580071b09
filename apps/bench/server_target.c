/* SPDX-License-Identifier: Apache-2.0 */
/* The server to measure: its address, its model's name, and the requests that it gets. */
#include "base/clock.h"
#include "base/math/rng.h"
#include "bench/server.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Short and common, so that nearly every tokenizer has one token for each with the blank before
 * it. */
static const char *const words[] = {
    "the",   "of",     "and",   "to",     "in",    "is",     "for",    "that",    "with",
    "as",    "are",    "on",    "by",     "from",  "this",   "or",     "be",      "it",
    "at",    "an",     "can",   "not",    "have",  "has",    "was",    "which",   "more",
    "will",  "also",   "their", "but",    "one",   "about",  "other",  "they",    "we",
    "these", "all",    "its",   "such",   "may",   "when",   "time",   "some",    "into",
    "most",  "like",   "used",  "than",   "many",  "been",   "first",  "two",     "were",
    "how",   "people", "new",   "what",   "only",  "over",   "up",     "who",     "out",
    "there", "if",     "so",    "water",  "make",  "years",  "well",   "way",     "work",
    "world", "use",    "could", "then",   "them",  "where",  "life",   "each",    "would",
    "our",   "should", "much",  "after",  "any",   "small",  "both",   "between", "important",
    "often", "high",   "same",  "need",   "good",  "help",   "part",   "take",    "day",
    "long",  "even",   "under", "great",  "food",  "system", "number", "through", "state",
    "form",  "before", "level", "health", "light", "house",  "school", "story",   "music",
    "river", "red",    "white", "money",  "city",  "night",  "paper",  "field",   "group",
    "point", "learn",
};
enum { N_WORD = sizeof words / sizeof words[0] };

/* --- requests --------------------------------------------------------------------------------- */

static void append_words(uint64_t key, int64_t n, bool first, whim_str *out)
{
    for (int64_t i = 0; i < n; i++) {
        const char *word = words[whim_rng_at(key, (uint64_t)i) % N_WORD];
        whim_str_append(out, i == 0 && first ? "" : " ");
        whim_str_append(out, word);
    }
}

/* ignore_eos makes all answers equally long on servers that know it. */
static void append_body(const server_target *t, int64_t number, whim_str *out)
{
    int64_t shared = t->options->prefix_tokens;
    whim_str_append(out, "{\"model\":");
    json_text(out, t->model);
    whim_str_append(out, t->chat ? ",\"messages\":[{\"role\":\"user\",\"content\":\""
                                 : ",\"prompt\":\"");
    append_words(whim_rng_key(t->seed, 0), shared, true, out);
    append_words(whim_rng_key(t->seed, (uint64_t)number + 1), t->prompt_words, shared == 0, out);
    whim_str_append(out, t->chat ? "\"}]" : "\"");
    whim_str_printf(
        out,
        ",\"max_tokens\":%lld,\"ignore_eos\":true,"
        "\"temperature\":%g,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
        (long long)t->tokens, t->options->server_temp);
}

void server_request_append(const server_target *t, int64_t number, whim_str *out)
{
    whim_str body = {0};
    append_body(t, number, &body);
    server_head_append(&t->address, "POST", t->chat ? "/chat/completions" : "/completions",
                       body.len, out);
    whim_str_append_n(out, whim_str_text(&body), body.len);
    out->failed = out->failed || body.failed;
    whim_str_deinit(&body);
}

/* --- opening ---------------------------------------------------------------------------------- */

whim_err server_target_open(server_target *t, const whim_options *options, whim_diag *diag)
{
    struct timespec now;
    server_reply models = {0};
    server_model model;
    *t = (server_target){.options = options, .chat = strcmp(options->endpoint, "chat") == 0};
    t->prompt_words = options->prompt_tokens;
    t->tokens = options->tokens;
    clock_gettime(CLOCK_REALTIME, &now);
    t->seed = (uint64_t)now.tv_sec * (uint64_t)WHIM_NS_PER_S + (uint64_t)now.tv_nsec;
    const server_place place = {.option = "--serve",
                                .url = options->serve,
                                .key = options->server_key,
                                .ca_file = options->ca_file};
    WHIM_TRY(server_address_read(&t->address, &place, diag));
    whim_err err = server_address_find(&t->address, "/models", options->timeout, &models, diag);
    /* A server that lists no model gets a name of ours, which those with one model take. */
    if (options->server_model != NULL) {
        snprintf(t->model, sizeof t->model, "%s", options->server_model);
    } else {
        bool found = server_model_find(&models, NULL, &model, NULL);
        snprintf(t->model, sizeof t->model, "%s", found ? model.name : "default");
    }
    server_reply_deinit(&models);
    return err;
}
