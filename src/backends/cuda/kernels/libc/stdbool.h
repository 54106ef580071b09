/* SPDX-License-Identifier: Apache-2.0 */
/* bool is a word of the language here. */
