/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded steps: what is written is read back and gives the same results again; files that were
 * cut or changed are refused by name; a full disk is told. */
#include "tiny_runner.h"

#include "base/alloc.h"
#include "base/file.h"
#include "support/step_reader.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 20 };

static int32_t ids[64];

static int fill_ids(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 64; i++) {
        ids[i] = i * 37 % TINY_VOCAB;
    }
    return 0;
}

/* Steps of two sequences, one without rows, logits and best tokens; returns the bytes of the
 * file. */
static char *record_some(tiny_runner *t, const char *path, int64_t *n_byte)
{
    whim_diag diag = {""};
    whim_recording *recording;
    whim_exec_cfg cfg = tiny_cfg(false);
    whim_record_head head = whim_record_head_of(&t->ckpt.config, &cfg);
    assert_int_equal(
        whim_recording_start(path, &head, whim_runner_exec(t->runner), &recording, &diag),
        WHIM_ERR_OK);
    whim_sequence *a = tiny_sequence(t), *b = tiny_sequence(t);
    whim_step_part parts[] = {{a, ids, 35, 2, 0}, {b, ids + 7, 3, 1, 0}};
    assert_int_equal(whim_runner_step(t->runner, parts, 2, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_runner_step(t->runner, NULL, 0, &diag), WHIM_ERR_OK);
    parts[0].n_tok = parts[0].n_out = parts[1].n_tok = 1;
    parts[0].n_top = parts[1].n_top = 1;
    assert_int_equal(whim_runner_step(t->runner, parts, 2, &diag), WHIM_ERR_OK);
    whim_runner_sequence_destroy(t->runner, a);
    whim_runner_sequence_destroy(t->runner, b);
    assert_int_equal(whim_recording_end(recording, &diag), WHIM_ERR_OK);
    whim_exec_set_tap(whim_runner_exec(t->runner), &(whim_exec_tap){0});
    char *bytes;
    assert_int_equal(whim_file_read_all(path, MAX_FILE, &bytes, n_byte, &diag), WHIM_ERR_OK);
    return bytes;
}

static char *record_to_memory(tiny_runner *t, int64_t *n_byte)
{
    char path[] = "/tmp/whim-record-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    char *bytes = record_some(t, path, n_byte);
    unlink(path);
    return bytes;
}

static void steps_run_again(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    for (int from = 0; from < 2; from++) {
        tiny_runner t;
        whim_diag diag = {""};
        whim_exec_cfg cfg = tiny_cfg(false);
        whim_record_reader reader;
        int64_t n_byte, n_result = 0, n_step = 0;
        tiny_open(&t, backends[from], &cfg);
        char *bytes = record_to_memory(&t, &n_byte);
        tiny_close(&t);
        tiny_open(&t, backends[1 - from], &cfg);
        whim_exec *exec = whim_runner_exec(t.runner);
        assert_int_equal(whim_record_open(&reader, "steps", bytes, n_byte, &diag), WHIM_ERR_OK);
        assert_string_equal(reader.head.arch, "llama");
        assert_int_equal(reader.head.max_rows, cfg.max_rows);
        for (;;) {
            whim_record record;
            whim_record_result expected, got;
            bool more;
            assert_int_equal(whim_record_next(&reader, &record, &more, &diag), WHIM_ERR_OK);
            if (!more) {
                break;
            }
            if (record.kind == WHIM_RECORD_STEP) {
                n_step++;
                assert_int_equal(whim_exec_submit(exec, record.words, record.n_word, NULL, &diag),
                                 WHIM_ERR_OK);
                continue;
            }
            assert_int_equal(record.kind, WHIM_RECORD_RESULT);
            assert_int_equal(whim_exec_collect(exec, &diag), WHIM_ERR_OK);
            memcpy(&expected, record.words, sizeof expected);
            got = whim_record_result_of(exec);
            assert_memory_equal(&expected, &got, sizeof got);
            for (int32_t i = 0; i < got.n_out; i++) {
                assert_int_equal(whim_record_best(exec, i),
                                 record.words[sizeof expected / sizeof(int32_t) + (size_t)i]);
            }
            n_result++;
        }
        assert_int_equal(n_step, 3);
        assert_int_equal(n_result, 3);
        whim_free(bytes);
        tiny_close(&t);
    }
}

/* Other logits have other bits. */
static void results_are_told_apart(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    tiny_open(&t, "cpu", &cfg);
    whim_record_result first, second;
    for (int i = 0; i < 2; i++) {
        whim_sequence *seq = tiny_sequence(&t);
        tiny_step(&t, seq, ids + i, 5, 1);
        first = i == 0 ? whim_record_result_of(whim_runner_exec(t.runner)) : first;
        second = whim_record_result_of(whim_runner_exec(t.runner));
        whim_runner_sequence_destroy(t.runner, seq);
    }
    assert_true(memcmp(&first, &second, sizeof first) != 0);
    tiny_close(&t);
}

/* Read to the end or to the first refusal, which names the file. Returns how many records there
 * were. */
static int64_t read_all(const char *bytes, int64_t n_byte, bool *refused)
{
    whim_diag diag = {""};
    whim_record_reader reader;
    whim_record record;
    bool more = true;
    int64_t n = 0;
    whim_err err = whim_record_open(&reader, "steps", bytes, n_byte, &diag);
    while (err == WHIM_ERR_OK && more) {
        err = whim_record_next(&reader, &record, &more, &diag);
        n += err == WHIM_ERR_OK && more;
    }
    *refused = err != WHIM_ERR_OK;
    if (*refused && strstr(diag.text, "steps") == NULL) {
        fail_msg("a refusal does not name the file: %s", diag.text);
    }
    return n;
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    int64_t n_byte, n_whole = 0;
    bool refused;
    tiny_open(&t, "cpu", &cfg);
    char *bytes = record_to_memory(&t, &n_byte);
    assert_int_equal(read_all(bytes, n_byte, &refused), 6);
    assert_false(refused);
    for (int64_t n = 0; n < n_byte; n++) {
        int64_t n_record = read_all(bytes, n, &refused);
        n_whole += !refused; /* the cut fell between two records */
        assert_true(n_record < 6);
    }
    assert_int_equal(n_whole, 6);
    whim_free(bytes);
    tiny_close(&t);
}

/* Whatever word is changed, reading ends; and heads that promise nonsense are refused. */
static void changed_files_do_no_harm(void **state)
{
    (void)state;
    static const int32_t odd[] = {-1, 0, 1, INT32_MAX, INT32_MIN, 1 << 20};
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    int64_t n_byte, n_refused = 0, n = 0;
    bool refused;
    tiny_open(&t, "cpu", &cfg);
    char *bytes = record_to_memory(&t, &n_byte);
    for (int64_t at = 0; at + 4 <= n_byte; at += 4) {
        int32_t before;
        memcpy(&before, bytes + at, 4);
        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++, n++) {
            memcpy(bytes + at, &odd[i], 4);
            (void)read_all(bytes, n_byte, &refused);
            n_refused += refused;
        }
        memcpy(bytes + at, &before, 4);
    }
    assert_true(n_refused > n / 4);
    whim_record_head head;
    memcpy(&head, bytes, sizeof head);
    head.max_seqs = head.max_ctx = 1 << 20; /* each alone is fine */
    memcpy(bytes, &head, sizeof head);
    (void)read_all(bytes, n_byte, &refused);
    assert_true(refused);
    whim_free(bytes);
    tiny_close(&t);
}

/* Pieces of kept rows are records, too, and refused like blocks. */
static void taken_rows_are_recorded(void **state)
{
    (void)state;
    tiny_runner t;
    whim_diag diag = {""};
    whim_exec_cfg cfg = tiny_cfg(false);
    char path[] = "/tmp/whim-record-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    cfg.n_state = cfg.max_seqs;
    cfg.max_kept = 8;
    tiny_load_arch(&t, "cpu", "qwen3_5");
    assert_int_equal(tiny_try(&t, &cfg, &diag), WHIM_ERR_OK);
    whim_recording *recording;
    whim_record_head head = whim_record_head_of(&t.ckpt.config, &cfg);
    assert_int_equal(
        whim_recording_start(path, &head, whim_runner_exec(t.runner), &recording, &diag),
        WHIM_ERR_OK);
    whim_sequence *seq = tiny_sequence(&t);
    whim_step_part trial = {seq, ids, 5, 1, .keeps_state = true};
    assert_int_equal(whim_runner_step(t.runner, &trial, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_runner_advance(t.runner, &(whim_taken){seq, 3}, 1, &diag), WHIM_ERR_OK);
    whim_runner_sequence_destroy(t.runner, seq);
    assert_int_equal(whim_recording_end(recording, &diag), WHIM_ERR_OK);
    tiny_close(&t);
    char *bytes;
    int64_t n_byte;
    bool refused;
    assert_int_equal(whim_file_read_all(path, MAX_FILE, &bytes, &n_byte, &diag), WHIM_ERR_OK);
    unlink(path);
    assert_int_equal(read_all(bytes, n_byte, &refused), 3);
    assert_false(refused);
    whim_step_take *take = (whim_step_take *)(void *)(bytes + n_byte - sizeof *take);
    assert_true(take->n_row == 3 && take->position == 0 && take->row == 0);
    take->n_row = 9; /* more than can be kept */
    assert_int_equal(read_all(bytes, n_byte, &refused), 2);
    assert_true(refused);
    whim_free(bytes);
}

static void a_full_disk_is_told(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    tiny_runner t;
    whim_diag diag = {""};
    whim_recording *recording;
    whim_exec_cfg cfg = tiny_cfg(false);
    tiny_open(&t, "cpu", &cfg);
    whim_record_head head = whim_record_head_of(&t.ckpt.config, &cfg);
    whim_exec *exec = whim_runner_exec(t.runner);
    assert_int_equal(whim_recording_start("/dev/full", &head, exec, &recording, &diag),
                     WHIM_ERR_OK);
    assert_int_equal(whim_recording_end(recording, &diag), WHIM_ERR_FULL);
    assert_non_null(strstr(diag.text, "/dev/full"));
    whim_exec_set_tap(exec, &(whim_exec_tap){0});
    assert_int_equal(whim_recording_start("/nowhere/steps", &head, exec, &recording, &diag),
                     WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "/nowhere/steps"));
    tiny_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_run_again),         cmocka_unit_test(results_are_told_apart),
        cmocka_unit_test(cut_files_are_refused),   cmocka_unit_test(changed_files_do_no_harm),
        cmocka_unit_test(taken_rows_are_recorded), cmocka_unit_test(a_full_disk_is_told),
    };
    if (argc == 2) { /* a first file for the fuzzer's corpus */
        tiny_runner t;
        whim_exec_cfg cfg = tiny_cfg(false);
        int64_t n_byte;
        fill_ids(NULL);
        tiny_open(&t, "cpu", &cfg);
        whim_free(record_some(&t, argv[1], &n_byte));
        tiny_close(&t);
        return 0;
    }
    return cmocka_run_group_tests_name("step_record", tests, fill_ids, NULL);
}
