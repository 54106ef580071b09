/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/completions byte by byte: prompts of all kinds, echo with log-probabilities and offsets,
 * choices of several prompts, limits. */
#include "sample/repetition.h"
#include "unit/server/server_fixture.h"

#define HEAD                                                                              \
    "\"id\":\"cmpl-ID\",\"object\":\"text_completion\",\"created\":0,\"model\":\"tiny\"," \
    "\"system_fingerprint\":\"fp_0\",\"choices\":["
#define CHUNK(c, text, finish)                         \
    "data: {" HEAD "{\"index\":" c ",\"text\":\"" text \
    "\",\"logprobs\":null,\"finish_reason\":" finish "}]}\n\n"

static const char *complete(const char *body, const whim_job_event *events, int64_t n)
{
    return call(whim_route_completions, "/v1/completions", body, events, n);
}

static const whim_job_event plain[] = {ADMITTED, TOKEN(0, 268, " world"),
                                       CHOICE_END(0, WHIM_END_LENGTH)};

static void a_reply_has_all_keys(void **state)
{
    (void)state;
    assert_string_equal(
        complete("{\"prompt\":\"hello\",\"add_special_tokens\":false}", plain, N_OF(plain)),
        "{" HEAD "{\"index\":0,\"text\":\" world\",\"logprobs\":null,\"finish_reason\":\"length\"}]"
        ",\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2,"
        "\"prompt_tokens_details\":{\"cached_tokens\":2},\"completion_tokens_details\":{"
        "\"reasoning_tokens\":0,\"proposed_tokens\":0,\"accepted_tokens\":0}}}");
    assert_int_equal(last_cfg.max_tokens, 16);
    assert_int_equal(last_cfg.prompt_logprobs, -1);
    assert_int_equal(last_prompt[0], 263);
}

static void a_circle_is_length_with_its_reason(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 268, " world"),
                                            CHOICE_END(0, WHIM_END_REPETITION)};
    static const char end[] = "\"finish_reason\":\"length\",\"stop_reason\":\"repetition\"}]";
    (void)state;
    assert_non_null(strstr(complete("{\"prompt\":\"hello\"}", events, N_OF(events)), end));
    assert_non_null(
        strstr(complete("{\"prompt\":\"hello\",\"stream\":true}", events, N_OF(events)), end));
    assert_int_equal(last_cfg.max_repeated, 0); /* raw texts: only where it is asked for */
    complete("{\"prompt\":\"hello\",\"repetition_detection\":true}", events, N_OF(events));
    assert_int_equal(last_cfg.max_repeated, WHIM_REPETITION_LIMIT);
}

static void the_server_bounds_it(void **state)
{
    (void)state;
    api.max_tokens = 10;
    complete("{\"prompt\":\"hello\"}", plain, N_OF(plain)); /* 16 */
    assert_int_equal(last_cfg.max_tokens, 10);
    complete("{\"prompt\":\"hello\",\"max_tokens\":9}", plain, N_OF(plain));
    assert_int_equal(last_cfg.max_tokens, 9);
    complete("{\"prompt\":\"hello\",\"echo\":true,\"max_tokens\":0}", plain, N_OF(plain));
    assert_int_equal(last_cfg.max_tokens, -1);
    api.max_tokens = 0;
}

static void a_stream_has_one_end_for_each_choice(void **state)
{
    (void)state;
    assert_string_equal(
        complete("{\"prompt\":[[263],[263,268]],\"stream\":true,\"max_tokens\":3.0}", plain,
                 N_OF(plain)),
        CHUNK("0", "", "null") CHUNK("1", "", "null") CHUNK("0", " world", "null")
            CHUNK("0", "", "\"length\"") CHUNK("1", " world", "null")
                CHUNK("1", "", "\"length\"") "data: [DONE]\n\n");
    assert_int_equal(last_cfg.max_tokens, 3);
    assert_int_equal(last_cfg.n_prompt, 2);
    assert_int_equal(n_together, 2); /* a request's prompts are queued as one */
}

static const whim_job_logprob best[] = {{268, -0.5f}};
#define ECHO                                                                         \
    ADMITTED, {.kind = WHIM_JOB_PROMPT_TOKEN, .id = 263, .position = 0},             \
    {                                                                                \
        .kind = WHIM_JOB_PROMPT_TOKEN, .id = 97, .position = 1, .has_logprob = true, \
        .logprob = -2, .top = best, .n_top = 1                                       \
    }
#define WORLD(choice_)       \
    {.kind = WHIM_JOB_TOKEN, \
     .choice = choice_,      \
     .id = 268,              \
     .text = " world",       \
     .n_text = 6,            \
     .has_logprob = true,    \
     .logprob = -0.5f,       \
     .top = best,            \
     .n_top = 1},            \
        CHOICE_END(choice_, WHIM_END_LENGTH)
static const whim_job_event echoed[] = {ECHO, WORLD(0)};
static const whim_job_event two_echoed[] = {ECHO, WORLD(0), WORLD(1)};

static void echo_puts_the_prompt_first(void **state)
{
    int64_t n;
    (void)state;
    const char *byte = whim_tokenizer_bytes(api.tok, 97, &n);
    assert_int_equal(n, 1);
    char token[16], want[1024];
    whim_str shown = {0};
    whim_put_text(&shown, byte, n);
    snprintf(token, sizeof token, "%s", whim_str_text(&shown));
    whim_str_deinit(&shown);
    char inner[16];
    snprintf(inner, sizeof inner, "%.*s", (int)strlen(token) - 2, token + 1);
    snprintf(want, sizeof want,
             "\"text\":\"hello%s world\",\"logprobs\":{\"tokens\":[\"hello\",%s,\" world\"],"
             "\"token_logprobs\":[null,-2,-0.5],\"top_logprobs\":[null,{\" world\":-0.5,%s:-2},"
             "{\" world\":-0.5}],\"text_offset\":[0,5,6]},\"finish_reason\":\"length\"",
             inner, token, token);
    const char *body = "{\"prompt\":[263,97],\"echo\":true,\"max_tokens\":1,\"logprobs\":1}";
    const char *got = complete(body, echoed, N_OF(echoed));
    if (strstr(got, want) == NULL) {
        fail_msg("%s\nis not in\n%s", want, got);
    }
    assert_int_equal(last_cfg.prompt_logprobs, 1);
    /* The same in a stream, in the first chunk that has text. */
    got = complete("{\"prompt\":[263,97],\"echo\":true,\"max_tokens\":1,\"logprobs\":1,"
                   "\"stream\":true}",
                   echoed, N_OF(echoed));
    assert_non_null(strstr(got, "\"text_offset\":[0,5,6]},\"finish_reason\":null"));
    /* Each of a prompt's choices has it, and its own tokens behind it. */
    got = complete("{\"prompt\":[263,97],\"echo\":true,\"max_tokens\":1,\"logprobs\":1,\"n\":2}",
                   two_echoed, N_OF(two_echoed));
    const char *second = strstr(got, "\"index\":1");
    assert_non_null(second);
    if (strstr(got, want) == NULL || strstr(second, want) == NULL) {
        fail_msg("%s\nis not twice in\n%s", want, got);
    }
}

static void a_token_is_told_beside_one_that_ends_alike(void **state)
{
    /* Token 34 is a quote; 276 is the last of the vocabulary, and what is beyond has no text. */
    static const whim_job_logprob alike[] = {{34, -0.5f}, {263, -1}, {263, -1}};
    static const whim_job_event events[] = {ADMITTED,
                                            {.kind = WHIM_JOB_TOKEN,
                                             .id = 277,
                                             .text = "",
                                             .has_logprob = true,
                                             .logprob = -4,
                                             .top = alike,
                                             .n_top = 3},
                                            CHOICE_END(0, WHIM_END_LENGTH)};
    (void)state;
    const char *want = "\"top_logprobs\":[{\"\\\"\":-0.5,\"hello\":-1,\"\":-4}]";
    const char *got = complete("{\"prompt\":[263],\"logprobs\":3}", events, N_OF(events));
    if (strstr(got, want) == NULL) {
        fail_msg("%s is not in %s", want, got);
    }
    got = complete("{\"prompt\":[263],\"logprobs\":3,\"return_tokens_as_token_ids\":true}", events,
                   N_OF(events));
    assert_non_null(strstr(got, "\"tokens\":[\"token_id:277\"]"));
    assert_non_null(strstr(got, "{\"token_id:34\":-0.5,\"token_id:263\":-1,\"token_id:277\":-4}"));
}

/* A token of one byte that is no character by itself, from an id on. */
static int32_t part_from(int32_t id, unsigned *byte)
{
    int64_t n = 0;
    for (*byte = 0; *byte < 0x80; id++) {
        const char *bytes = whim_tokenizer_bytes(api.tok, id, &n);
        *byte = n == 1 ? (uint8_t)bytes[0] : 0;
    }
    return id - 1;
}

static void parts_of_characters_are_told_apart(void **state)
{
    unsigned one = 0, two = 0;
    int32_t first = part_from(0, &one), second = part_from(first + 1, &two);
    const whim_job_logprob parts[] = {{first, -0.5f}, {second, -1}};
    const whim_job_event events[] = {ADMITTED,
                                     {.kind = WHIM_JOB_TOKEN,
                                      .id = second,
                                      .text = "",
                                      .has_logprob = true,
                                      .logprob = -1,
                                      .top = parts,
                                      .n_top = 2},
                                     CHOICE_END(0, WHIM_END_LENGTH)};
    char want[256];
    (void)state;
    snprintf(want, sizeof want,
             "\"tokens\":[\"bytes:\\\\x%02x\"],\"token_logprobs\":[-1],\"top_logprobs\":[{"
             "\"bytes:\\\\x%02x\":-0.5,\"bytes:\\\\x%02x\":-1}]",
             two, one, two);
    const char *got = complete("{\"prompt\":[263],\"logprobs\":2}", events, N_OF(events));
    if (strstr(got, want) == NULL) {
        fail_msg("%s is not in %s", want, got);
    }
}

static void no_suffix_keeps_the_echo_as_it_was_sent(void **state)
{
    static const char *const suffixes[] = {"", ",\"suffix\":null", ",\"suffix\":\"\""};
    (void)state;
    for (size_t i = 0; i < N_OF(suffixes); i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"prompt\":\"hello\",\"echo\":true,\"max_tokens\":1%s}",
                 suffixes[i]);
        assert_non_null(strstr(complete(body, plain, N_OF(plain)), "\"text\":\"hello world\""));
    }
}

static void an_echo_is_what_was_read(void **state)
{
    (void)state;
    static const char *const sides[][2] = {{"right", "hello"}, {"left", "a"}};
    for (size_t i = 0; i < N_OF(sides); i++) {
        char body[256], want[64];
        snprintf(body, sizeof body,
                 "{\"prompt\":[263,97],\"echo\":true,\"max_tokens\":1,"
                 "\"truncate_prompt_tokens\":1,\"truncation_side\":\"%s\"}",
                 sides[i][0]);
        snprintf(want, sizeof want, "\"text\":\"%s world\"", sides[i][1]);
        const char *got = complete(body, plain, N_OF(plain));
        if (strstr(got, want) == NULL) {
            fail_msg("%s is not in %s", want, got);
        }
    }
}

static void an_end_token_has_its_entry(void **state)
{
    static const whim_job_event events[] = {
        ADMITTED,
        {.kind = WHIM_JOB_PROMPT_TOKEN, .id = 263, .position = 0},
        {.kind = WHIM_JOB_TOKEN,
         .id = 259,
         .is_end = true,
         .text = "",
         .has_logprob = true,
         .logprob = -3},
        CHOICE_END(0, WHIM_END_EOS)};
    (void)state;
    const char *got = complete("{\"prompt\":[263],\"echo\":true,\"max_tokens\":1,\"logprobs\":0}",
                               events, N_OF(events));
    assert_non_null(strstr(got,
                           "\"text\":\"hello\",\"logprobs\":{\"tokens\":[\"hello\",\"</s>\"],"
                           "\"token_logprobs\":[null,-3],\"top_logprobs\":[null,{\"</s>\":-3}],"
                           "\"text_offset\":[0,5]}"));
}

static void echo_alone_generates_nothing(void **state)
{
    static const whim_job_event events[] = {ADMITTED, CHOICE_END(0, WHIM_END_LENGTH)};
    (void)state;
    const char *got =
        complete("{\"prompt\":\"hello\",\"echo\":true,\"max_tokens\":0}", events, N_OF(events));
    assert_non_null(strstr(got, "\"text\":\"hello\",\"logprobs\":null"));
    assert_int_equal(last_cfg.max_tokens, -1);
    got = complete("{\"prompt\":\"hello\",\"echo\":true,\"max_tokens\":0,\"stream\":true}", events,
                   N_OF(events));
    assert_string_equal(got, CHUNK("0", "", "null") CHUNK("0", "hello", "null")
                                 CHUNK("0", "", "\"length\"") "data: [DONE]\n\n");
    got = complete("{\"prompt\":\"hello\",\"max_tokens\":0}", events, N_OF(events));
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(got, "\"param\":\"max_tokens\""));
}

static void token_ids_are_given_when_asked_for(void **state)
{
    (void)state;
    const char *got = complete("{\"prompt\":[263],\"return_token_ids\":true}", plain, N_OF(plain));
    assert_non_null(strstr(got, "\"token_ids\":[268],\"prompt_token_ids\":[263]}"));
}

static void wrong_prompts_are_refused(void **state)
{
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{}", "prompt"},
        {"{\"prompt\":null}", "prompt"},
        {"{\"prompt\":5}", "prompt"},
        {"{\"prompt\":[]}", "prompt"},
        {"{\"prompt\":[1,\"a\"]}", "prompt"},
        {"{\"prompt\":[\"a\",1]}", "prompt[1]"},
        {"{\"prompt\":[277]}", "prompt"},
        {"{\"prompt\":[-1]}", "prompt"},
        {"{\"prompt\":[1.5]}", "prompt"},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix"},
        {"{\"prompt\":\"a\",\"suffix\":3}", "suffix"},
        {"{\"prompt\":\"a\",\"best_of\":2}", "best_of"},
        {"{\"prompt\":\"a\",\"logprobs\":21}", "logprobs"},
        {"{\"prompt\":\"a\",\"logprobs\":true}", "logprobs"},
        {"{\"prompt\":\"a\",\"max_tokens\":-2}", "max_tokens"},
        {"{\"prompt\":\"a\",\"echo\":1}", "echo"},
        {"{\"prompt\":[[1],[2]],\"n\":65}", "prompt"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char want[64];
        snprintf(want, sizeof want, "\"param\":\"%s\"", cases[i].param);
        const char *got = complete(cases[i].body, NULL, 0);
        if (exchange.status != 400 || strstr(got, want) == NULL) {
            fail_msg("%s: %d %s", cases[i].body, exchange.status, got);
        }
    }
}

static void texts_of_other_routes(void **state)
{
    (void)state;
    assert_string_equal(call(whim_route_tokenize, "/tokenize",
                             "{\"prompt\":\"hello world\",\"add_special_tokens\":false,"
                             "\"return_token_strs\":true}",
                             NULL, 0),
                        "{\"tokens\":[263,268],\"count\":2,\"max_model_len\":100,\"token_strs\":["
                        "\"hello\",\"\xC4\xA0world\"]}"); /* as the vocabulary spells it */
    assert_string_equal(call(whim_route_tokenize, "/tokenize",
                             "{\"content\":\"hello world\",\"prompt\":null}", NULL, 0),
                        "{\"tokens\":[263,268],\"count\":2,\"max_model_len\":100}");
    const char *prompt = "{\"prompt\":\"hello world\"}";
    char with_first[256];
    snprintf(with_first, sizeof with_first, "%s",
             call(whim_route_tokenize, "/tokenize", prompt, NULL, 0));
    assert_string_equal(call(whim_route_tokenize, "/tokenize",
                             "{\"content\":\"hello world\",\"add_special\":true}", NULL, 0),
                        with_first);
    call(whim_route_tokenize, "/tokenize", "{\"content\":\"a\",\"prompt\":\"a\"}", NULL, 0);
    assert_int_equal(exchange.status, 400);
    assert_string_equal(call(whim_route_tokenize, "/tokenize",
                             "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", NULL, 0),
                        "{\"tokens\":[0,1,2,3,4],\"count\":5,\"max_model_len\":100}");
    assert_string_equal(
        call(whim_route_detokenize, "/detokenize", "{\"tokens\":[263,268]}", NULL, 0),
        "{\"prompt\":\"hello world\",\"content\":\"hello world\"}");
    assert_string_equal(call(whim_route_template, "/apply-template",
                             "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", NULL, 0),
                        "{\"prompt\":\"<|user|>hi\"}");
    assert_false(last_request.is_closed);
    whim_route_fn *const closing[] = {whim_route_template, whim_route_tokenize};
    for (size_t i = 0; i < N_OF(closing); i++) {
        call(closing[i], "/apply-template",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
             "\"add_generation_prompt\":false}",
             NULL, 0);
        assert_true(last_request.is_closed);
        call(closing[i], "/apply-template",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
             "\"add_generation_prompt\":false,\"continue_final_message\":true}",
             NULL, 0);
        assert_false(last_request.is_closed);
    }
    assert_non_null(
        strstr(call(whim_route_tokenizer, "/tokenizer_info", "", NULL, 0), "{\"bos_token\":"));
    call(whim_route_tokenize, "/tokenize", "{}", NULL, 0);
    assert_int_equal(exchange.status, 400);
    call(whim_route_tokenize, "/tokenize", "{\"prompt\":7}", NULL, 0);
    assert_int_equal(exchange.status, 400);
    call(whim_route_detokenize, "/detokenize", "{\"tokens\":[\"a\"]}", NULL, 0);
    assert_int_equal(exchange.status, 400);
    call(whim_route_template, "/apply-template", "[1]", NULL, 0);
    assert_int_equal(exchange.status, 400);
}

/* A large reply is written by another thread, and looks like a small one. */
static void large_replies_keep_nobody_waiting(void **state)
{
    (void)state;
    enum { N = 9000 };
    static whim_job_event events[N + 2];
    const whim_job_event first = ADMITTED, last = CHOICE_END(0, WHIM_END_LENGTH);
    events[0] = first;
    for (int i = 1; i <= N; i++) {
        events[i] = (whim_job_event){
            .kind = WHIM_JOB_PROMPT_TOKEN, .id = 97, .has_logprob = i > 1, .logprob = -1.0F};
    }
    events[N + 1] = last;
    const char *body = "{\"prompt\":[97],\"echo\":true,\"max_tokens\":0,\"logprobs\":0}";
    const char *small = "{\"tokens\":[\"a\",\"a\"],\"token_logprobs\":[null,-1],\"top_logprobs\":"
                        "[null,{\"a\":-1}],\"text_offset\":[0,1]}";
    const whim_job_event few[] = {events[0], events[1], events[2], last};
    assert_non_null(strstr(complete(body, few, N_OF(few)), small));
    assert_string_equal(exchange.ended_by, "answers");
    const char *got = complete(body, events, N_OF(events));
    assert_string_equal(exchange.ended_by, "replies");
    assert_non_null(strstr(got, "{\"tokens\":[\"a\",\"a\",\"a\","));
    assert_non_null(strstr(got, ",8998,8999]}"));
}

/* Nor does a stream of a large request, which some dialects repeat in its first and last events. */
static void large_requests_keep_nobody_waiting(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"),
                                            CHOICE_END(0, WHIM_END_LENGTH)};
    (void)state;
    whim_str body = {0};
    for (int i = 0; i < 2; i++) {
        whim_str_clear(&body);
        whim_str_append(&body, "{\"prompt\":[97],\"stream\":true,\"user\":\"");
        for (int k = 0; k < (i == 0 ? 1 : 300000); k++) {
            whim_str_append(&body, "user");
        }
        whim_str_append(&body, "\"}");
        assert_non_null(strstr(complete(body.text, events, N_OF(events)), "\"text\":\"a\""));
        assert_string_not_equal(exchange.began, "answers");
        assert_string_equal(exchange.ended_by, i == 0 ? "answers" : "replies");
    }
    whim_str_deinit(&body);
}

/* Nor does a reply that repeats a prompt in each of many answers. */
static void repeated_prompts_keep_nobody_waiting(void **state)
{
    static const char *const how[] = {"\"n\":1,\"echo\":true", "\"n\":128,\"echo\":true",
                                      "\"n\":128,\"return_token_ids\":true", "\"n\":128"};
    (void)state;
    for (size_t i = 0; i < N_OF(how); i++) {
        whim_str body = {0};
        whim_str_printf(&body, "{\"max_tokens\":1,%s,\"prompt\":[97", how[i]);
        for (int k = 1; k < 80; k++) {
            whim_str_append(&body, ",97");
        }
        whim_str_append(&body, "]}");
        complete(body.text, NULL, 0);
        assert_int_equal(exchange.status, 200);
        assert_string_equal(exchange.ended_by, i == 1 || i == 2 ? "replies" : "answers");
        whim_str_deinit(&body);
    }
}

/* What was accepted is not refused for want of memory any more, not even half said. */
static void accepted_streams_have_no_share(void **state)
{
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"),
                                            CHOICE_END(0, WHIM_END_LENGTH)};
    (void)state;
    int32_t had = whim_budget_share(5);
    const char *got = complete("{\"prompt\":[97],\"stream\":true}", events, N_OF(events));
    assert_int_equal(whim_budget_share(had), 5);
    assert_non_null(strstr(got, "\"text\":\"a\""));
    assert_int_equal(exchange.began_share, 0);
}

/* An answer whose events never end leaves turns to the others. */
static void endless_events_keep_nobody_waiting(void **state)
{
    (void)state;
    static const whim_job_event endless[] = {ADMITTED, TOKEN(0, 97, "a")};
    static const whim_job_event other[] = {ADMITTED, TOKEN(0, 98, "b"),
                                           CHOICE_END(0, WHIM_END_LENGTH)};
    static whim_exchange first;
    first = (whim_exchange){.request = {.method = "POST",
                                        .path = "/v1/completions",
                                        .body = "{\"prompt\":[97]}",
                                        .n_body = 15,
                                        .client = "c",
                                        .request_id = "req-0"},
                            .write_limit = -1};
    const whim_http_request asked = first.request; /* a body is dropped once it is read */
    script = endless;
    n_script = N_OF(endless);
    atomic_store(&repeated, endless);
    whim_route_completions(&api, &first);
    assert_int_equal(whim_answer_thread_active(api.answer_thread), 1);
    whim_str_deinit(&exchange.body);
    whim_str_deinit(&exchange.headers);
    /* Not by call, which waits for all answers to be over. */
    exchange = (whim_exchange){.request = asked, .write_limit = -1};
    script = other;
    n_script = N_OF(other);
    whim_route_completions(&api, &exchange);
    pthread_mutex_lock(&fake_lock);
    while (!exchange.ended) {
        pthread_cond_wait(&fake_ended, &fake_lock);
    }
    pthread_mutex_unlock(&fake_lock);
    assert_non_null(strstr(whim_str_text(&exchange.body), "\"text\":\"b\""));
    assert_false(first.ended);
    atomic_store(&repeated, NULL);
    while (whim_answer_thread_active(api.answer_thread) > 0) {
        sched_yield();
    }
    whim_str_deinit(&first.body);
    whim_str_deinit(&first.headers);
}

/* Few bytes may not ask for a reply of gigabytes. */
static void an_echo_has_a_limit(void **state)
{
    (void)state;
    whim_str body = {0};
    whim_str_append(&body, "{\"echo\":true,\"max_tokens\":0,\"prompt\":[97");
    for (int i = 1; i < 400; i++) {
        whim_str_append(&body, ",97");
    }
    int64_t n = body.len;
    api.ctx = fake_model.ctx = 2000;
    whim_str_append(&body, "],\"n\":128,\"logprobs\":20}"); /* 400 * 128 * 21 */
    const char *got = complete(body.text, NULL, 0);
    assert_int_equal(exchange.status, 400);
    assert_non_null(strstr(got, "\"param\":\"logprobs\""));
    assert_non_null(strstr(got, "1075200"));
    body.len = n;
    whim_str_append(&body, "],\"n\":128,\"logprobs\":19}");
    complete(body.text, NULL, 0);
    assert_int_equal(exchange.status, 200);
    api.ctx = fake_model.ctx = 100;
    whim_str_deinit(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_all_keys),
        cmocka_unit_test(a_circle_is_length_with_its_reason),
        cmocka_unit_test(the_server_bounds_it),
        cmocka_unit_test(a_stream_has_one_end_for_each_choice),
        cmocka_unit_test(echo_puts_the_prompt_first),
        cmocka_unit_test(a_token_is_told_beside_one_that_ends_alike),
        cmocka_unit_test(parts_of_characters_are_told_apart),
        cmocka_unit_test(no_suffix_keeps_the_echo_as_it_was_sent),
        cmocka_unit_test(an_echo_is_what_was_read),
        cmocka_unit_test(an_end_token_has_its_entry),
        cmocka_unit_test(echo_alone_generates_nothing),
        cmocka_unit_test(large_replies_keep_nobody_waiting),
        cmocka_unit_test(large_requests_keep_nobody_waiting),
        cmocka_unit_test(repeated_prompts_keep_nobody_waiting),
        cmocka_unit_test(accepted_streams_have_no_share),
        cmocka_unit_test(endless_events_keep_nobody_waiting),
        cmocka_unit_test(an_echo_has_a_limit),
        cmocka_unit_test(token_ids_are_given_when_asked_for),
        cmocka_unit_test(wrong_prompts_are_refused),
        cmocka_unit_test(texts_of_other_routes),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
