/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a model that is cut over ranks, on disk: found again by ranks that begin anew, with the
 * bits of a cold run; and where one rank lacks its part, or it is damaged, found by none. */
#include "unit/engine/ranks_fixture.h"

#include "base/arena.h"
#include "base/file.h"
#include "kv/disk_segment.h"
#include "runner/page_store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LLAMA "tests/data/golden/llama-f32"
#define HYBRID "tests/data/golden/qwen35-f32"
#define DRAFT "tests/data/drafts/"

enum { PROMPT = 130, MADE = 12, CACHED = 128, MAX_FILE = 64 };

static char folder[64];

/* --- files ------------------------------------------------------------------------------------ */

static int folder_make(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whim_store_XXXXXX");
    memset(fixture_dirs, 0, sizeof fixture_dirs);
    return mkdtemp(folder) == NULL;
}

static int folder_remove(void **state)
{
    (void)state;
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* The paths of all files of pages, those of one rank one behind the other; how many. */
static int32_t files_find(char paths[MAX_FILE][256])
{
    whim_arena arena;
    whim_diag diag = {""};
    char **parts, **names, part[160];
    int64_t n_part, n_name;
    whim_disk_kind kind;
    int32_t n = 0;
    whim_arena_init(&arena);
    assert_int_equal(whim_dir_list(&arena, folder, &parts, &n_part, &diag), WHIM_ERR_OK);
    for (int64_t i = 0; i < n_part; i++) {
        snprintf(part, sizeof part, "%s/%.64s", folder, parts[i]);
        assert_int_equal(whim_dir_list(&arena, part, &names, &n_name, &diag), WHIM_ERR_OK);
        for (int64_t k = 0; k < n_name; k++) {
            if (whim_disk_segment_number(names[k], &kind) >= 0 && n < MAX_FILE) {
                snprintf(paths[n++], sizeof *paths, "%s/%.64s", part, names[k]);
            }
        }
    }
    whim_arena_reset(&arena);
    return n;
}

static int64_t files_bytes(void)
{
    char paths[MAX_FILE][256];
    int64_t bytes = 0;
    for (int32_t i = files_find(paths) - 1; i >= 0; i--) {
        struct stat st;
        assert_int_equal(stat(paths[i], &st), 0);
        bytes += st.st_size;
    }
    return bytes;
}

/* Another byte at the end, which is in the last page. */
static void file_damage(const char *path)
{
    char byte;
    int fd = open(path, O_RDWR);
    off_t at = lseek(fd, 0, SEEK_END) - 1;
    assert_true(at > 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* --- answers ---------------------------------------------------------------------------------- */

static whim_service_cfg cfg_of(int64_t max_bytes)
{
    whim_service_cfg cfg = service_cfg();
    cfg.kv_dir = folder;
    cfg.kv_space = "test";
    cfg.kv_dir_bytes = max_bytes;
    cfg.no_lookup = cfg.propose_all = true;
    return cfg;
}

static answer asked;

/* What ranks that begin now, with a service of their own, say to prompt k. */
static int64_t ask(const group *g, int32_t k, int64_t max_bytes, int32_t ids[MADE])
{
    whim_diag diag = {""};
    ranks_open(g);
    whim_service_cfg cfg = cfg_of(max_bytes);
    if (whim_service_create(&cfg, &service, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_job_cfg job = job_cfg(k, PROMPT, MADE);
    read_all(submit(&job), &asked);
    if (asked.failed) {
        fail_msg("%s", asked.message);
    }
    assert_int_equal(asked.n[0], MADE);
    memcpy(ids, asked.ids[0], MADE * sizeof *ids);
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
    return asked.n_cached;
}

static void pages_are_found_again(void **state)
{
    static const group groups[] = {
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 3, 0},
        {LLAMA, NULL, "guard", WHIM_GRAPHS_ON, 2, 0},
        {LLAMA, DRAFT "llama-f32-dflash", "cpu", WHIM_GRAPHS_OFF, 2, 0},
        {LLAMA, DRAFT "llama-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 3, 0},
        {HYBRID, NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0},
        {HYBRID, NULL, "guard", WHIM_GRAPHS_ON, 2, 0},
        {HYBRID, NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .shares = true},
    };
    int32_t cold[MADE], warm[MADE];
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        assert_int_equal(ask(&groups[i], 2, 0, cold), 0);
        assert_int_equal(ask(&groups[i], 2, 0, warm), CACHED);
        assert_memory_equal(cold, warm, sizeof cold);
        folder_remove(state);
        folder_make(state);
    }
}

/* What groups with requests of their own say to two requests at once, of which each has one. */
static int64_t ask_groups(const group *g, int32_t ids[2][MADE])
{
    static answer answers[2];
    whim_diag diag = {""};
    whim_job *jobs[2];
    ranks_open(g);
    whim_service_cfg cfg = cfg_of(0);
    cfg.max_step_tokens = g->step > 0 ? g->step : cfg.max_step_tokens;
    if (whim_service_create(&cfg, &service, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    for (int32_t k = 0; k < 2; k++) {
        whim_job_cfg job = job_cfg(k + 1, PROMPT, MADE);
        jobs[k] = submit(&job);
    }
    for (int32_t k = 0; k < 2; k++) {
        read_all(jobs[k], &answers[k]);
        if (answers[k].failed) {
            fail_msg("%s", answers[k].message);
        }
        assert_int_equal(answers[k].n[0], MADE);
        memcpy(ids[k], answers[k].ids[0], MADE * sizeof *ids[k]);
    }
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
    return answers[0].n_cached + answers[1].n_cached;
}

/* Pages of any group are there for any other, for other numbers of groups, and for one rank. */
static void pages_of_groups_are_found_again(void **state)
{
    static const group groups[] = {
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .groups = true},
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 1, 0},
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 3, 0, .groups = true},
        {LLAMA, NULL, "guard", WHIM_GRAPHS_ON, 3, 0, .groups = true},
        {LLAMA, NULL, "guard", WHIM_GRAPHS_ON, 2, 0, .groups = true},
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 4, 0, .groups = true, .twos = true},
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 4, 0, .groups = true, .twos = true},
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 4, 0, true, .groups = true, .twos = true},
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 4, 0, true, .groups = true, .twos = true},
        {HYBRID, NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .groups = true},
        {HYBRID, NULL, "cpu", WHIM_GRAPHS_OFF, 1, 0},
        {HYBRID, NULL, "cpu", WHIM_GRAPHS_OFF, 3, 0, .groups = true},
    };
    int32_t cold[2][MADE], warm[2][MADE];
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        bool first = i == 0 || i == 3 || i == 5 || i == 7 || i == 9; /* sums are others from here */
        if (first) {
            folder_remove(state);
            folder_make(state);
        }
        int64_t n_cached = ask_groups(&groups[i], first ? cold : warm);
        assert_true(first ? n_cached < 2 * CACHED : n_cached == 2 * CACHED);
        if (!first) {
            assert_memory_equal(cold, warm, sizeof cold);
        }
    }
}

/* Pages of many pieces, of which the ranks of a group have parts of other sizes. */
static void pages_are_sent_in_pieces(void **state)
{
    (void)state;
    static const group fours = {LLAMA, NULL,           "guard",      WHIM_GRAPHS_OFF, 4,
                                0,     .groups = true, .twos = true, .step = 6};
    int32_t cold[2][MADE], warm[2][MADE];
    ask_groups(&fours, cold);
    ranks_open(&fours);
    const whim_exec_plan *first = whim_engine_runner_plan(members[0].engine);
    const whim_exec_plan *second = whim_engine_runner_plan(members[1].engine);
    assert_true(second->page_bytes < first->page_bytes);
    ranks_close(WHIM_ERR_OK);
    assert_int_equal(ask_groups(&fours, warm), 2 * CACHED);
    assert_memory_equal(cold, warm, sizeof cold);
}

/* A page that the disk has travels no more. */
static void a_known_page_stays_where_it_is(void **state)
{
    (void)state;
    static const group groups = {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .groups = true};
    int32_t tokens[32] = {7}; /* a page of the CPU */
    const whim_prefix_key key = {{5, 6}};
    whim_diag diag = {""};
    ranks_open(&groups);
    whim_exec *exec = whim_runner_exec(whim_engine_runner(engine));
    const whim_page_store_cfg cfg = {.dir = folder, .space = "test"};
    assert_int_equal(whim_exec_store_open(exec, &cfg, &diag), WHIM_ERR_OK);
    assert_true(whim_exec_store_put(exec, 1, WHIM_DISK_PAGE, 0, &key, tokens, true));
    int64_t n_call = members[0].comm.n_call;
    assert_true(whim_exec_store_put(exec, 1, WHIM_DISK_PAGE, 0, &key, tokens, true));
    assert_int_equal(members[0].comm.n_call, n_call);
    ranks_close(WHIM_ERR_OK);
}

static const group two = {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0};

/* Of what is there already each rank tells when it is told something. */
static void bytes_are_those_of_all_ranks(void **state)
{
    (void)state;
    whim_diag diag = {""};
    int32_t ids[MADE];
    assert_int_equal(ask(&two, 2, 0, ids), 0);
    int64_t bytes = files_bytes();
    ranks_open(&two);
    whim_service_cfg cfg = cfg_of(0);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg job = job_cfg(2, PROMPT, MADE);
    read_all(submit(&job), &asked);
    assert_int_equal(asked.n_cached, CACHED);
    while (whim_service_get_stats(service).disk_read < CACHED / 32) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(whim_service_get_stats(service).disk_bytes, bytes);
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
}

/* A letter that nobody would write ends the group, and touches nothing. */
static void letters_are_looked_at(void **state)
{
    (void)state;
    static int32_t page[sizeof(whim_store_page) / sizeof(int32_t) + 32];
    const int64_t n_word = sizeof page / sizeof *page;
    const struct {
        whim_letter_kind kind;
        int64_t n_word;
        int32_t group, number;
    } letters[] = {
        {WHIM_LETTER_STORE_PUT, n_word - 1, 0, 0},   {WHIM_LETTER_STORE_PUT, n_word, 0, -1},
        {WHIM_LETTER_STORE_GET, n_word, 0, 1 << 30}, {WHIM_LETTER_STORE_OPEN, 3, 0, 0},
        {WHIM_LETTER_STORE_FLUSH, 1, 0, 0},          {WHIM_LETTER_STORE_PUT, n_word, 1, 0},
        {WHIM_LETTER_STORE_GET, n_word, -1, 0},
    };
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        whim_diag diag = {""};
        ranks_open(&two);
        whim_exec *exec = whim_runner_exec(whim_engine_runner(members[0].engine));
        page[0] = letters[i].group;
        page[1] = letters[i].number;
        assert_int_equal(whim_ranks_tell(whim_exec_ranks(exec), letters[i].kind, false, page,
                                         letters[i].n_word, &diag),
                         WHIM_ERR_OK);
        ranks_close(WHIM_ERR_CORRUPT);
        assert_non_null(strstr(members[1].diag.text, " words about pages on disk is not"));
    }
}

/* Whichever rank's it is; and what was missing is there again for the next. Other numbers of ranks
 * find nothing. */
static void parts_are_missing_and_damaged(void **state)
{
    (void)state;
    char paths[MAX_FILE][256];
    int32_t cold[MADE], warm[MADE];
    assert_int_equal(ask(&two, 2, 0, cold), 0);
    for (int32_t i = 0; i < 4; i++) {
        bool damaged = i >= 2;
        assert_int_equal(files_find(paths), 2);
        if (damaged) {
            file_damage(paths[i % 2]);
        } else {
            assert_int_equal(unlink(paths[i]), 0);
        }
        assert_int_equal(ask(&two, 2, 0, warm), damaged ? CACHED - 32 : 0);
        assert_memory_equal(cold, warm, sizeof cold);
        assert_int_equal(ask(&two, 2, 0, warm), CACHED);
        assert_memory_equal(cold, warm, sizeof cold);
    }
    group three = two;
    three.n_rank = 3;
    assert_int_equal(ask(&three, 2, 0, warm), 0);
    assert_int_equal(files_find(paths), 2 + 3);
}

/* Two jobs, of which the second drives pages of the first to the disk; then a rank is lost. */
static void a_rank_is_lost(void **state)
{
    (void)state;
    whim_diag diag = {""};
    int32_t cold[MADE], warm[MADE];
    ranks_open(&two);
    whim_service_cfg cfg = cfg_of(0);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    for (int32_t k = 0; k < 2; k++) {
        whim_job_cfg job = job_cfg(k, PROMPT, MADE);
        read_all(submit(&job), &asked);
        assert_false(asked.failed);
        memcpy(k == 0 ? cold : warm, asked.ids[0], sizeof cold);
    }
    whim_comm_abort(&memory, "rank 1 was killed by signal 9");
    whim_job_cfg job = job_cfg(2, PROMPT, MADE);
    read_all(submit(&job), &asked);
    assert_true(asked.failed);
    stop(NULL);
    ranks_close(WHIM_ERR_DEVICE);
    assert_true(files_bytes() > 0);
    ask(&two, 0, 0, warm);
    assert_memory_equal(cold, warm, sizeof cold);
}

/* The limit is that of all ranks together. */
static void limits_hold_for_the_sum(void **state)
{
    (void)state;
    whim_diag diag = {""};
    int32_t ids[MADE];
    ranks_open(&two);
    int64_t bytes = 0;
    for (int32_t r = 0; r < 2; r++) {
        bytes += whim_disk_record_bytes(whim_engine_runner_plan(members[r].engine)->page_bytes, 32);
    }
    whim_service_cfg cfg = cfg_of(2 * bytes - 1);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "--kv-dir-size"));
    ranks_close(WHIM_ERR_INVALID);
    for (int32_t k = 0; k < 4; k++) {
        ask(&two, k, 5 * bytes, ids);
        assert_in_range(files_bytes(), 2 * bytes, 5 * bytes);
    }
}

/* Ranks may have folders of their own (those of other hosts); one that cannot be used is named. */
static void a_rank_has_its_own_folder(void **state)
{
    (void)state;
    whim_diag diag = {""};
    char own[80], paths[MAX_FILE][256];
    int32_t ids[MADE];
    snprintf(own, sizeof own, "%s-1", folder);
    fixture_dirs[1] = own;
    assert_int_equal(ask(&two, 2, 0, ids), 0);
    assert_int_equal(files_find(paths), 1);
    assert_int_equal(ask(&two, 2, 0, ids), CACHED);
    snprintf(paths[0], sizeof paths[0], "rm -r %s", own);
    assert_int_equal(system(paths[0]), 0);
    fixture_dirs[1] = "/dev/null/folder";
    ranks_open(&two);
    whim_service_cfg cfg = cfg_of(0);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_DEVICE);
    assert_non_null(strstr(diag.text, "rank 1: --kv-dir /dev/null/folder"));
    ranks_close(WHIM_ERR_IO);
}

/* What a follower's disk did with the last page is known when all is said to be saved, though no
 * other letter comes. */
static void a_failing_disk_of_a_follower_is_known(void **state)
{
    (void)state;
    whim_diag diag = {""};
    char own[80], command[96];
    snprintf(own, sizeof own, "%s-1", folder);
    snprintf(command, sizeof command, "rm -r %s", own);
    fixture_dirs[1] = own;
    ranks_open(&two);
    whim_service_cfg cfg = cfg_of(0);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    assert_int_equal(system(command), 0); /* in a folder that is gone no file can be made */
    whim_job_cfg job = job_cfg(2, 40, 2); /* one page */
    read_all(submit(&job), &asked);
    assert_false(asked.failed);
    while (!whim_service_is_saved(service)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(whim_service_get_stats(service).disk_errors, 1);
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failing_disk_of_a_follower_is_known, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(pages_are_found_again, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(pages_of_groups_are_found_again, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(pages_are_sent_in_pieces, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(a_known_page_stays_where_it_is, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(bytes_are_those_of_all_ranks, folder_make, folder_remove),
        cmocka_unit_test(letters_are_looked_at),
        cmocka_unit_test_setup_teardown(parts_are_missing_and_damaged, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(a_rank_is_lost, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(limits_hold_for_the_sum, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(a_rank_has_its_own_folder, folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
