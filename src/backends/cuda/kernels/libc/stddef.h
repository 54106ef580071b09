/* SPDX-License-Identifier: Apache-2.0 */
/* size_t is known to the compiler. */
#define restrict __restrict__
