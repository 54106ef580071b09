/* SPDX-License-Identifier: Apache-2.0 */
/* A name for what a checkpoint holds, of which every byte of its files counts: equal files have
 * equal names on every machine, and an edit in place is another name. It is made of the files'
 * sums, config.json and the fingerprint.
 *
 * A file is read once: its sum is remembered beside device, inode, size and both times, which no
 * program can set back together. One that was changed within the last seconds is not remembered,
 * because another change could leave it the same times.
 * Threads: stateless. */
#ifndef WHIM_WEIGHTS_IDENTITY_H
#define WHIM_WEIGHTS_IDENTITY_H

#include "base/err.h"
#include "weights/ckpt.h"

#include <stdatomic.h>
#include <stdint.h>

/* 32 digits and a NUL. */
enum { WHIM_IDENTITY_TEXT = 33 };

typedef struct whim_identity_cfg {
    const char *memory; /* the file in which sums are remembered; NULL: nowhere */
    int32_t n_thread;   /* that read */
    atomic_bool *stop;  /* set: give up, with BUSY; NULL: nobody does */
} whim_identity_cfg;

/* Sizes and times of the last write of all files, as one number: whoever loads them beside this
 * looks before and after, since an identity says nothing of what another read of them found. */
uint64_t whim_ckpt_written(const whim_ckpt *ckpt);

WHIM_MUST_CHECK whim_err whim_ckpt_identity(const whim_ckpt *ckpt, const whim_identity_cfg *cfg,
                                            char out[WHIM_IDENTITY_TEXT], whim_diag *diag);

#endif
