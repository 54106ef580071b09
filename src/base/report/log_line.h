/* SPDX-License-Identifier: Apache-2.0 */
/* One line of the log, rendered into a buffer of the caller. Text that does not fit is cut between
 * characters, what follows is left out; the line is always whole, and in JSON always an object.
 * Threads: a line belongs to one thread. */
#ifndef WHIM_BASE_REPORT_LOG_LINE_H
#define WHIM_BASE_REPORT_LOG_LINE_H

#include "base/report/log.h"

typedef struct whim_log_line {
    char *buf;
    int64_t at, cap; /* cap leaves room for what _end adds */
    bool is_json, is_cut, is_begun;
} whim_log_line;

/* Room that the end of a line takes at most. */
enum { WHIM_LOG_LINE_END = 64 };

void whim_log_line_begin(whim_log_line *line, char *buf, int64_t n, bool is_json);
void whim_log_line_add(whim_log_line *line, const whim_log_field *field);

/* The marks, the closing of the object, a line break. */
void whim_log_line_end(whim_log_line *line, int64_t dropped);

#endif
