/* SPDX-License-Identifier: Apache-2.0 */
/* What the leader tells, and what those who follow make of it. */
#include "runner/ranks.h"

#include "base/check.h"
#include "runner/page_store.h"

#include <stdio.h>

static bool has_others(const whim_exec_cfg *cfg)
{
    return cfg->comm != NULL && cfg->comm->n_rank > 1;
}

whim_err whim_ranks_check(const whim_exec_cfg *cfg, int64_t block_bytes, whim_diag *diag)
{
    int64_t most = WHIM_MAIL_BYTES - (int64_t)sizeof(whim_letter_head);
    block_bytes *= whim_exec_groups(cfg);
    if (has_others(cfg) && block_bytes > most) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "a step may take %lld bytes, and ranks can be sent %lld: use a shorter "
                         "context or fewer sequences",
                         (long long)block_bytes, (long long)most);
    }
    return WHIM_ERR_OK;
}

void whim_ranks_init(whim_ranks *ranks, const whim_exec_cfg *cfg)
{
    *ranks = (whim_ranks){0};
    if (has_others(cfg)) {
        whim_mail_open(&ranks->mail, cfg->comm);
        ranks->leads = cfg->comm->rank == 0;
        ranks->follows = !ranks->leads;
    }
}

static whim_err tell(whim_ranks *ranks, whim_letter_head head, const void *words, whim_diag *diag)
{
    if (!ranks->leads) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_mail_send(&ranks->mail, &head, sizeof head, words,
                            head.n_word * (int64_t)sizeof(int32_t), diag));
    if (head.kind != WHIM_LETTER_END) { /* of which no call follows */
        whim_mail_begin(&ranks->mail);
    }
    return WHIM_ERR_OK;
}

whim_err whim_ranks_tell(whim_ranks *ranks, whim_letter_kind kind, bool chose, const void *words,
                         int64_t n_word, whim_diag *diag)
{
    return tell(
        ranks, (whim_letter_head){.kind = (int32_t)kind, .n_word = (int32_t)n_word, .chose = chose},
        words, diag);
}

whim_err whim_ranks_tell_group(whim_ranks *ranks, whim_letter_kind kind, int32_t group,
                               const void *words, int64_t n_word, whim_diag *diag)
{
    return tell(
        ranks, (whim_letter_head){.kind = (int32_t)kind, .n_word = (int32_t)n_word, .group = group},
        words, diag);
}

void whim_ranks_failed(const whim_ranks *ranks, const char *why)
{
    if (ranks->leads || ranks->follows) {
        char text[sizeof((whim_diag *)NULL)->text];
        snprintf(text, sizeof text, "rank %d: %.1900s", ranks->mail.rank, why);
        whim_mail_end(&ranks->mail, text);
    }
}

/* --- following -------------------------------------------------------------------------------- */

static whim_err collect_all(whim_exec *exec, int32_t until, whim_diag *diag)
{
    while (whim_exec_in_flight(exec) > until) {
        WHIM_TRY(whim_exec_collect(exec, diag));
    }
    return WHIM_ERR_OK;
}

static whim_err obey_submit(whim_exec *exec, const whim_letter_head *head, const int32_t *block,
                            whim_diag *diag)
{
    WHIM_TRY(collect_all(exec, whim_exec_room(exec) - 1, diag));
    whim_exec_ranks(exec)->chose = head->chose != 0;
    return whim_exec_submit(exec, block, head->n_word, NULL, diag);
}

static whim_err obey(whim_exec *exec, const whim_letter_head *head, whim_diag *diag)
{
    const int32_t *words = (const int32_t *)(const void *)(head + 1);
    switch ((whim_letter_kind)head->kind) {
    case WHIM_LETTER_SUBMIT:
        return obey_submit(exec, head, words, diag);
    case WHIM_LETTER_STATE_COPY: {
        if (head->n_word != 2) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "a message about a state has %d words",
                             head->n_word);
        }
        whim_err err = whim_exec_state_copy(exec, head->group, words[0], words[1]);
        return err == WHIM_ERR_OK
                   ? err
                   : whim_fail(diag, err, "a state could not be copied: %s", whim_err_text(err));
    }
    case WHIM_LETTER_ADVANCE:
        return whim_exec_advance(exec, head->group, (const whim_step_take *)(const void *)words,
                                 head->n_word / WHIM_TAKE_WORDS, diag);
    case WHIM_LETTER_STORE_OPEN:
    case WHIM_LETTER_STORE_PUT:
    case WHIM_LETTER_STORE_GET:
    case WHIM_LETTER_STORE_FLUSH:
    case WHIM_LETTER_STORE_CLOSE:
        return whim_store_obey(exec, (whim_letter_kind)head->kind, words, head->n_word, diag);
    case WHIM_LETTER_END:
        return collect_all(exec, 0, diag);
    }
    return whim_fail(diag, WHIM_ERR_CORRUPT, "a message of the unknown kind %d", head->kind);
}

/* A step that was told of runs as soon as no other letter is there: whoever leads may wait for
 * it. */
static whim_err follow(whim_exec *exec, whim_diag *diag)
{
    whim_mail *mail = &whim_exec_ranks(exec)->mail;
    for (bool over = false; !over;) {
        const void *letter;
        int64_t bytes;
        bool idle = whim_exec_in_flight(exec) == 0;
        WHIM_TRY(whim_mail_take(mail, idle, &letter, &bytes, diag));
        if (letter == NULL) {
            WHIM_TRY(whim_exec_collect(exec, diag));
            continue;
        }
        const whim_letter_head *head = letter;
        if (bytes < (int64_t)sizeof *head || head->n_word < 0 ||
            bytes != (int64_t)sizeof *head + head->n_word * (int64_t)sizeof(int32_t)) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "a message of %lld bytes is not valid",
                             (long long)bytes);
        }
        over = head->kind == WHIM_LETTER_END;
        if (!over) {
            whim_mail_begin(mail);
        }
        WHIM_TRY(obey(exec, head, diag));
        whim_store_tell(exec);
        whim_mail_done(mail);
    }
    return WHIM_ERR_OK;
}

whim_err whim_exec_follow(whim_exec *exec, whim_diag *diag)
{
    whim_check(whim_exec_ranks(exec)->follows);
    whim_err err = follow(exec, diag);
    if (err != WHIM_ERR_OK) {
        whim_ranks_failed(whim_exec_ranks(exec), diag->text);
    }
    return err;
}
