/* SPDX-License-Identifier: Apache-2.0 */
/* Manual and shell completion, made from the option table. Threads: the main thread. */
#ifndef WHIM_APPS_HELP_HELP_H
#define WHIM_APPS_HELP_HELP_H

#include "base/str.h"
#include "options/options.h"

/* whimbrel.1, and docs/options.md. */
void help_man(whim_str *out);
void help_markdown(whim_str *out);

void help_bash(whim_str *out);
void help_zsh(whim_str *out);
void help_fish(whim_str *out);

#endif
