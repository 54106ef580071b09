/* SPDX-License-Identifier: Apache-2.0 */
/* replay_steps FILE MODEL [--backend NAME] [--isa LEVEL] [--threads N] [--graphs]: run what
 * `whimbrel run --record-steps FILE` wrote once more, and say whether the bits are the same.
 * replay_steps --self DATA: the part of `make test`. */
#include "replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(void)
{
    fprintf(stderr, "usage: replay_steps FILE MODEL [--backend NAME] [--isa LEVEL] [--threads N] "
                    "[--graphs]\n       replay_steps --self DATA\n");
    return 2;
}

int main(int argc, char **argv)
{
    replay_with with = {.graphs = WHIM_GRAPHS_AUTO};
    int64_t n_result = 0;
    if (argc == 3 && strcmp(argv[1], "--self") == 0) {
        return replay_self(argv[2]);
    }
    if (argc < 3) {
        return usage();
    }
    for (int i = 3; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--graphs") == 0) {
            with.graphs = WHIM_GRAPHS_ON;
            continue;
        }
        if (value == NULL) {
            return usage();
        }
        if (strcmp(argv[i], "--backend") == 0) {
            with.backend = value;
        } else if (strcmp(argv[i], "--isa") == 0) {
            with.isa = value;
        } else if (strcmp(argv[i], "--threads") == 0) {
            with.n_thread = atoi(value);
        } else {
            return usage();
        }
        i++;
    }
    if (!replay_file(argv[1], argv[2], &with, &n_result)) {
        return 1;
    }
    printf("%lld results, the same bits\n", (long long)n_result);
    return 0;
}
