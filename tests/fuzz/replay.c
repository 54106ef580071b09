/* SPDX-License-Identifier: Apache-2.0 */
/* Runs fuzz targets over the files of their corpora, for builds without libFuzzer: replay runs every
 * target, replay NAME PATH... one of them over files and folders of files. All are one program,
 * since the search for leaks at its end takes four seconds. The file at work is named before it
 * runs, so that a crash says which one it was. Each input is copied to its own allocation of
 * exactly its size, so that the address sanitizer sees a read past the end. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef int fuzz_target(const uint8_t *data, size_t size);
#define X(name) fuzz_target fuzz_##name;
#include "fuzz_targets.inc"
#undef X

static const struct {
    const char *name;
    fuzz_target *run;
} targets[] = {
#define X(name) {#name, fuzz_##name},
#include "fuzz_targets.inc"
#undef X
};
enum { N_TARGET = sizeof targets / sizeof targets[0] };

static int n_run;

static int replay_file(fuzz_target *run, const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (file == NULL || data == NULL || fread(data, 1, size, file) != size) {
        fprintf(stderr, "ERROR: cannot read %s\n", path);
        return 1;
    }
    fclose(file);
    printf("run %s\n", path);
    fflush(stdout);
    run(data, size);
    free(data);
    n_run++;
    return 0;
}

static int replay_path(fuzz_target *run, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "ERROR: there is no %s\n", path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode)) {
        return replay_file(run, path, (size_t)st.st_size);
    }
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    int failed = n < 0;
    for (int i = 0; i < n; i++) {
        char inner[4096];
        int len = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && len > 0 && (size_t)len < sizeof inner) {
            failed |= replay_path(run, inner);
        }
        free(entries[i]);
    }
    if (n >= 0) {
        free(entries);
    }
    return failed;
}

int main(int argc, char **argv)
{
    int failed = argc > 1;
    for (int t = 0; t < N_TARGET; t++) {
        if (argc == 1) {
            char corpus[256];
            snprintf(corpus, sizeof corpus, "tests/data/corpus/%s", targets[t].name);
            failed |= replay_path(targets[t].run, corpus);
        } else if (strcmp(argv[1], targets[t].name) == 0) {
            failed = 0;
            for (int i = 2; i < argc; i++) {
                failed |= replay_path(targets[t].run, argv[i]);
            }
        }
    }
    printf("RESULT passed=%d failed=%d skipped=0\n", n_run, failed);
    return failed;
}
