/* SPDX-License-Identifier: Apache-2.0 */
/* memcpy and memset are known to the compiler. */
