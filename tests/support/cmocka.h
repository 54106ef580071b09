/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers that it wants before itself, whatever the includer has. */
#ifndef WHIM_TESTS_SUPPORT_CMOCKA_H
#define WHIM_TESTS_SUPPORT_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
