/* SPDX-License-Identifier: Apache-2.0 */
/* Batch size, chunking, threads, graphs and instruction level change no bit of any logit:
 * invariance_test [DATA] [--quick] [--model FILE] [--only PART]
 * [--backend NAME: the tiny models on that alone] [--list: the parts' names]. */
#include "invariance/invariance.h"
#include "support/tally.h"

#include <stdio.h>
#include <string.h>

typedef struct invariance_options {
    const char *data, *model, *backend, *only;
    bool quick, list;
} invariance_options;

static void tiny_part(const invariance_options *options)
{
    invariance_tiny(options->data, options->quick, options->backend);
}

static void default_part(const invariance_options *options)
{
    char path[1024];
    const char *model = drive_default_model(options->model, path, sizeof path);
    if (model != NULL) {
        invariance_default(model);
    } else {
        tally_skip("default model", "no file %s; `make model` fetches it", path);
    }
}

static void long_part(const invariance_options *options)
{
    (void)options;
    invariance_long_hybrid();
}

static bool options_read(int argc, char **argv, invariance_options *out)
{
    *out = (invariance_options){.data = "tests/data/golden"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            out->quick = true;
        } else if (strcmp(argv[i], "--list") == 0) {
            out->list = true;
        } else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc) {
            out->model = argv[++i];
        } else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
            out->backend = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            out->only = argv[++i];
        } else if (argv[i][0] != '-') {
            out->data = argv[i];
        } else {
            fprintf(stderr, "invariance_test: what is %s?\n", argv[i]);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const invariance_options *options);
        bool is_slow;
    } parts[] = {
        {"tiny", tiny_part, false}, {"default", default_part, true}, {"long", long_part, true}};
    invariance_options options;
    if (!options_read(argc, argv, &options)) {
        return 2;
    }
    bool with_slow = !options.quick && options.backend == NULL;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].is_slow && !with_slow) {
            continue;
        }
        if (options.list) {
            puts(parts[i].name);
        } else if (options.only == NULL || strcmp(options.only, parts[i].name) == 0) {
            parts[i].run(&options);
        }
    }
    return options.list ? 0 : tally_finish();
}
