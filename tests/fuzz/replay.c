/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over the files of its corpus, for builds without libFuzzer: replay PATH...,
 * where a PATH is a file or a folder of files. The file at work is named before it runs, so that a
 * crash says which one it was. Each input is copied to its own allocation of exactly its size, so
 * that the address sanitizer sees a read past the end. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_run;

static int replay_file(const char *path, size_t size)
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
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_run++;
    return 0;
}

static int replay_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "ERROR: there is no %s\n", path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode)) {
        return replay_file(path, (size_t)st.st_size);
    }
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    int failed = n < 0;
    for (int i = 0; i < n; i++) {
        char inner[4096];
        int len = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && len > 0 && (size_t)len < sizeof inner) {
            failed |= replay_path(inner);
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
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= replay_path(argv[i]);
    }
    printf("RESULT passed=%d failed=%d skipped=0\n", n_run, failed);
    return failed;
}
