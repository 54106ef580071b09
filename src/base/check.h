/* SPDX-License-Identifier: Apache-2.0 */
/* Three strengths of truth: static_assert for layouts, whim_assert for internal invariants in debug
 * builds, whim_check in all builds where going on would corrupt data or emit wrong tokens. Outside
 * data is never asserted; it is refused with an error. */
#ifndef WHIM_BASE_CHECK_H
#define WHIM_BASE_CHECK_H

/* Print where and what, then abort. */
_Noreturn void whim_check_failed(const char *file, int line, const char *what);

#define whim_check(cond) ((cond) ? (void)0 : whim_check_failed(__FILE__, __LINE__, #cond))

#ifdef WHIM_DEBUG
#define whim_assert(cond) whim_check(cond)
#else
#define whim_assert(cond) ((void)0)
#endif

#endif
