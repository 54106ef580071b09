/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models against an independent implementation: golden_test [DATA] [--quick] [--model FILE]
 * [--only PART] [--backend NAME: models only] [--list: the parts' names]. */
#include "golden/golden.h"
#include "support/tally.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    golden_options options = {.data = "tests/data/golden"};
    const char *only = NULL;
    bool list = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            options.quick = true;
        } else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc) {
            options.model = argv[++i];
        } else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
            options.backend = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else if (strcmp(argv[i], "--list") == 0) {
            list = true;
        } else if (argv[i][0] != '-') {
            options.data = argv[i];
        } else {
            fprintf(stderr, "golden_test: what is %s?\n", argv[i]);
            return 2;
        }
    }
    static const struct {
        const char *name;
        void (*run)(const golden_options *options);
        bool is_slow; /* left out where all is slow */
    } parts[] = {
        /* first: it reads the memory of a process that is still small */
        {"memory", golden_memory_test, true},
        {"models", golden_models_test, false},
        {"ranks", golden_ranks_test, false},
        {"ranks-made", golden_ranks_made_test, false},
        {"mixed", golden_mixed_test, false},
        {"twins", golden_twins_test, false},
        /* It judges the goldens, not the machine. */
        {"pitfalls", golden_pitfalls_test, true},
        {"default", golden_default_test, true},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (options.quick && parts[i].is_slow) {
            continue;
        }
        if (list) {
            puts(parts[i].name);
        } else if (only == NULL || strcmp(only, parts[i].name) == 0) {
            parts[i].run(&options);
        }
    }
    return list ? 0 : tally_finish();
}
