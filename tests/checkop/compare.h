/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the images that came back from a device. Every function is false, after printing the case
 * and the first difference, when something is wrong. */
#ifndef CHECKOP_COMPARE_H
#define CHECKOP_COMPARE_H

#include "checkop/harness.h"

/* The line that names the failed case and how to run it again. */
void checkop_fail_head(const checkop_case *c, const checkop_run *run);

/* Everything in b->got against the law and against what must not change. */
bool checkop_compare_law(const checkop_case *c, const checkop_run *run, int32_t side,
                         const char *what);

/* Keep the outputs of the run with all rows and all threads; compare with them, bit for bit. */
void checkop_keep_full(checkop_case *c);
bool checkop_compare_full(const checkop_case *c, const checkop_run *run);

/* After row `row` was run alone: its outputs are as kept, the other rows were left alone. */
bool checkop_compare_row(const checkop_case *c, const checkop_run *run, int64_t row);

/* Whether the case has products of rounded activations here (rounded.c), and how a result of theirs
 * is judged. */
bool checkop_rounded(const checkop_case *c, const checkop_run *run);
bool checkop_rounded_near(const checkop_case *c, const checkop_run *run, int64_t row, int64_t col,
                          float want, float got);

#endif
