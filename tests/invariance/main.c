/* SPDX-License-Identifier: Apache-2.0 */
/* Batch size, chunking, threads, graphs and instruction level change no bit of any logit:
 * invariance_test [DATA] [--quick] [--model FILE] [--backend NAME: the tiny models on that alone]. */
#include "invariance/invariance.h"
#include "support/tally.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *data = "tests/data/golden", *given = NULL, *backend = NULL;
    char path[1024];
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
        } else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc) {
            given = argv[++i];
        } else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
            backend = argv[++i];
        } else if (argv[i][0] != '-') {
            data = argv[i];
        } else {
            fprintf(stderr, "invariance_test: what is %s?\n", argv[i]);
            return 2;
        }
    }
    invariance_tiny(data, quick, backend);
    if (!quick && backend == NULL) {
        invariance_long_hybrid();
        const char *model = drive_default_model(given, path, sizeof path);
        if (model != NULL) {
            invariance_default(model);
        } else {
            tally_skip("default model", "no file %s; `make model` fetches it", path);
        }
    }
    return tally_finish();
}
