/* SPDX-License-Identifier: Apache-2.0 */
/* Which models fit a machine, and which of them is taken unasked. The rows and the machines are made
 * up; no hub is asked and no cache is looked at. */
#include "local/fit.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

#define GB (INT64_C(1000) * 1000 * 1000)

enum { SMALL, MIDDLE, LARGE, OTHER, N_ROW };

/* Better ones come later, as in models.def; the last is not offered. */
static const catalogue_row rows[N_ROW] = {
    {"small", "o/small", "Q8_0", "1B", "", 1 * GB, 2 * GB, 1 * GB, true},
    {"middle", "o/middle", "Q8_0", "4B", "", 4 * GB, 5 * GB, 4 * GB, true},
    {"large", "o/large", "Q8_0", "30B", "", 20 * GB, 21 * GB, 2 * GB, true},
    {"other", "o/other", "Q8_0", "3B", "", 3 * GB, 4 * GB, 3 * GB, false},
};

/* Enough of everything, and quick. */
static const machine_room plenty = {
    .memory = 64 * GB, .disk = 500 * GB, .read_gbs = 100, .has_hub = true};

/* All rows; bit i of `cached`: row i is in the cache. */
static const fit_list *fit(machine_room room, uint32_t cached)
{
    static fit_list list;
    list = (fit_list){.room = room};
    for (int32_t i = 0; i < N_ROW; i++) {
        fit_consider(&list, &rows[i], (cached >> i & 1) != 0);
    }
    return &list;
}

/* The names of what fits, with blanks behind them. */
static const char *names(const fit_list *list)
{
    static char text[256];
    text[0] = '\0';
    for (int32_t i = 0; i < list->n; i++) {
        strcat(text, list->v[i].name);
        strcat(text, " ");
    }
    return text;
}

/* The best one's name and, behind a "<", that of what would be better; "-": none. */
static const char *best(const fit_list *list)
{
    static char text[2 * CATALOGUE_TEXT_MAX];
    const model_fit *better, *taken = fit_best(list, &better);
    snprintf(text, sizeof text, "%s%s%s", taken != NULL ? taken->name : "-",
             better != NULL ? "<" : "", better != NULL ? better->name : "");
    return text;
}

static void memory_must_suffice(void **state)
{
    (void)state;
    machine_room room = plenty;
    assert_string_equal(names(fit(room, 0)), "small middle large ");
    room.memory = 21 * GB; /* to the byte */
    assert_string_equal(names(fit(room, 0)), "small middle large ");
    room.memory--;
    assert_string_equal(names(fit(room, 0)), "small middle ");
    room.memory = 2 * GB - 1;
    assert_string_equal(names(fit(room, 0)), "");
    assert_string_equal(best(fit(room, 0)), "-");
    assert_string_equal(names(fit(room, 1 << LARGE)), ""); /* being in the cache does not help */
}

static void a_gpu_has_memory_of_its_own(void **state)
{
    (void)state;
    machine_room room = plenty;
    room.memory = 3 * GB;
    room.gpu_memory = 6 * GB;
    const fit_list *list = fit(room, 0);
    assert_string_equal(names(list), "small middle ");
    assert_true(list->v[1].on_gpu && list->v[1].rate <= 0);
    room.memory = 64 * GB;
    list = fit(room, 0);
    assert_string_equal(names(list), "small middle large ");
    assert_true(!list->v[2].on_gpu && list->v[2].rate > 0);
    room.read_gbs =
        1; /* the CPU is slow: what runs on the GPU is taken, though a larger one fits */
    assert_string_equal(best(fit(room, 0)), "middle");
}

static void the_disk_keeps_some_room(void **state)
{
    (void)state;
    machine_room room = plenty;
    room.disk = 4 * GB + (INT64_C(1) << 30);
    assert_string_equal(names(fit(room, 0)), "small middle ");
    room.disk--;
    assert_string_equal(names(fit(room, 0)), "small ");
    room.disk = 0; /* what is in the cache needs none */
    assert_string_equal(names(fit(room, 1 << MIDDLE)), "middle ");
}

static void without_a_hub_only_the_cache(void **state)
{
    (void)state;
    machine_room room = plenty;
    room.has_hub = false;
    assert_string_equal(names(fit(room, 0)), "");
    assert_string_equal(names(fit(room, 1 << SMALL)), "small ");
    assert_string_equal(best(fit(room, 1 << SMALL)), "small");
}

static void it_must_be_as_quick_as_one_reads(void **state)
{
    (void)state;
    machine_room room = plenty;
    assert_string_equal(best(fit(room, 0)), "large");
    room.read_gbs = 20; /* of middle 5 tokens a second, of large 10 */
    assert_string_equal(best(fit(room, 0)), "large");
    room.memory = 10 * GB;
    assert_string_equal(best(fit(room, 0)), "middle");
    room.read_gbs = 19.9;
    assert_string_equal(best(fit(room, 0)), "small");
    room.read_gbs = 1; /* all are too slow: the quickest */
    assert_string_equal(best(fit(room, 0)), "small");
}

static void what_is_here_goes_first(void **state)
{
    (void)state;
    assert_string_equal(best(fit(plenty, 1 << SMALL)), "small<large");
    assert_string_equal(best(fit(plenty, 1 << SMALL | 1 << LARGE)), "large");
    /* what is not offered is listed where it is in the cache, and goes behind what is offered */
    assert_string_equal(names(fit(plenty, 1 << OTHER)), "small middle large other ");
    assert_string_equal(best(fit(plenty, 1 << OTHER)), "other<large");
    assert_string_equal(best(fit(plenty, 1 << OTHER | 1 << SMALL)), "small<large");
    machine_room room = plenty;
    room.read_gbs = 4; /* small is too slow here; large is, too */
    assert_string_equal(best(fit(room, 1 << OTHER)), "other<small");
}

static void words(void **state)
{
    (void)state;
    char text[64];
    const fit_list *list = fit(plenty, 1 << SMALL);
    fit_source(&list->v[0], text, sizeof text);
    assert_string_equal(text, "in the cache");
    fit_source(&list->v[2], text, sizeof text);
    assert_string_equal(text, "20.0 GB to fetch");
    fit_speed(&list->v[0], text, sizeof text);
    assert_string_equal(text, "up to 100 tokens/s");
    assert_string_equal(list->v[2].canonical, "o/large:Q8_0");
    machine_room room = plenty;
    room.read_gbs = 2.5;
    room.gpu_memory = 3 * GB;
    list = fit(room, 0);
    fit_speed(&list->v[0], text, sizeof text);
    assert_string_equal(text, "on the GPU");
    fit_speed(&list->v[2], text, sizeof text);
    assert_string_equal(text, "up to 1.2 tokens/s");
    fit_default_speed(list, text, sizeof text);
    assert_string_equal(text, "up to 26 tokens/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_must_suffice),
        cmocka_unit_test(a_gpu_has_memory_of_its_own),
        cmocka_unit_test(the_disk_keeps_some_room),
        cmocka_unit_test(without_a_hub_only_the_cache),
        cmocka_unit_test(it_must_be_as_quick_as_one_reads),
        cmocka_unit_test(what_is_here_goes_first),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
