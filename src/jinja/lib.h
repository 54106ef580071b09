/* SPDX-License-Identifier: Apache-2.0 */
/* What filters and methods share: work on strings as Python does it, and sorting. */
#ifndef WHIM_JINJA_LIB_H
#define WHIM_JINJA_LIB_H

#include "jinja/eval.h"

/* --- jinja_lib.c --- */
whim_jval whim_jlib_replace(whim_jinja *j, const whim_jstr *str, const whim_jstr *old,
                            const whim_jstr *with, int64_t count); /* negative: all */
whim_jval whim_jlib_splitlines(whim_jinja *j, const whim_jstr *str, bool keep_ends);
/* sep NULL: runs of white space; max negative: no limit. */
whim_jval whim_jlib_split(whim_jinja *j, const whim_jstr *str, const whim_jstr *sep, int64_t max,
                          bool from_right);
/* The text with `fill` around it up to `width` characters: align '<', '>' or '^'. */
whim_jval whim_jlib_pad(whim_jinja *j, const whim_jstr *str, int64_t width, int32_t fill,
                        char align);
whim_jval whim_jlib_join(whim_jinja *j, const whim_jstr *sep, const whim_jlist *items);

/* Sort items by keys of the same number, stably. */
void whim_jlib_sort(whim_jinja *j, whim_jval *items, whim_jval *keys, int64_t n, bool reverse);

/* A number out of a text as Python's int() and float() read it; false: it is none. */
bool whim_jlib_parse_int(const whim_jstr *str, int base, int64_t *out);
bool whim_jlib_parse_float(const whim_jstr *str, double *out);

#endif
