/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that carry a value. Each call looks at s[*at], and either reads one such token, moves
 * *at behind it and returns true, or leaves everything alone and returns false. */
#ifndef WHIM_JINJA_LEX_VALUE_H
#define WHIM_JINJA_LEX_VALUE_H

#include "jinja/value.h"

bool whim_jlex_number(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v);
bool whim_jlex_name(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v);
bool whim_jlex_string(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v);

#endif
