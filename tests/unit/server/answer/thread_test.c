/* SPDX-License-Identifier: Apache-2.0 */
/* Whose large reply is written next. */
#include "server/openai/openai.h"
#include "unit/server/server_fixture.h"

enum { N = 4, LARGE = (1 << 20) + 64 };

static whim_exchange exchanges[N], small;
static char order[N + 1]; /* clients whose replies were written */
static int n_written;
static atomic_bool may_go;

static void event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                  const whim_chat_event *ev)
{
    (void)a, (void)c, (void)part, (void)ev;
}

/* The first waits until all others are there. */
static void finish(whim_answer *a)
{
    const uint64_t client = whim_exchange_get_notes(a->ex)->client;
    if (client == 0) {
        return;
    }
    while (!atomic_load(&may_go)) {
        sched_yield();
    }
    order[n_written++] = (char)('a' + client);
}

static const whim_answer_form form = {
    .read = whim_openai_read_completion,
    .id_prefix = "cmpl-",
    .dialect = WHIM_DIALECT_OPENAI,
    .state_bytes = 8,
    .event = event,
    .finish = finish,
};

static void start(whim_exchange *ex, uint64_t client, const char *body)
{
    *ex = (whim_exchange){.request = {.method = "POST",
                                      .path = "/v1/completions",
                                      .query = "",
                                      .body = body,
                                      .n_body = (int64_t)strlen(body),
                                      .client = "c",
                                      .request_id = "req"},
                          .notes = {.client = client},
                          .write_limit = -1};
    whim_answer_route(&api, ex, &form);
}

static void wait_for(const whim_exchange *ex)
{
    pthread_mutex_lock(&fake_lock);
    while (!ex->ended) {
        pthread_cond_wait(&fake_ended, &fake_lock);
    }
    pthread_mutex_unlock(&fake_lock);
}

/* A client with many large replies is written one, and then it is the next one's turn. */
static void clients_take_turns(void **state)
{
    (void)state;
    static const whim_job_event events[] = {ADMITTED, TOKEN(0, 97, "a"),
                                            CHOICE_END(0, WHIM_END_LENGTH)};
    static const char body[] = "{\"prompt\":[97]}";
    static char large[LARGE];
    memset(large, ' ', sizeof large - 1);
    memcpy(large, body, sizeof body - 1);
    script = events;
    n_script = N_OF(events);
    cancelled = WHIM_REASON_NONE;
    for (int i = 0; i < N; i++) {
        start(&exchanges[i], i < N - 1 ? 1 : 2, large);
    }
    start(&small, 0, body); /* behind it, all of them wait to be written */
    wait_for(&small);
    atomic_store(&may_go, true);
    for (int i = 0; i < N; i++) {
        wait_for(&exchanges[i]);
    }
    while (whim_answer_thread_active(api.answer_thread) > 0) {
        sched_yield();
    }
    assert_string_equal(order, "bcbb");
    for (int i = 0; i < N; i++) {
        whim_str_deinit(&exchanges[i].headers);
        whim_str_deinit(&exchanges[i].body);
    }
    whim_str_deinit(&small.headers);
    whim_str_deinit(&small.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_take_turns),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
