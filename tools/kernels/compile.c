/* SPDX-License-Identifier: Apache-2.0 */
/* The build's compiler of device code: compile LIBNVRTC TARGET OUT SOURCE [options]. TARGET is
 * sm_<capability> for machine code, compute_<capability> for the driver's assembly. OUT becomes an
 * image as src/backends/cuda/images.h has it. It runs on the machine that builds, needs neither a
 * driver nor headers of the toolkit, and knows the library by the few declarations here. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvrtc_program *program;

static struct {
    int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(program, int, const char *const *);
    int (*log_size)(program, size_t *);
    int (*log)(program, char *);
    int (*cubin_size)(program, size_t *);
    int (*cubin)(program, char *);
    int (*ptx_size)(program, size_t *);
    int (*ptx)(program, char *);
    const char *(*error)(int);
} nvrtc;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
    {"nvrtcCreateProgram", &nvrtc.create},     {"nvrtcCompileProgram", &nvrtc.compile},
    {"nvrtcGetProgramLogSize", &nvrtc.log_size}, {"nvrtcGetProgramLog", &nvrtc.log},
    {"nvrtcGetCUBINSize", &nvrtc.cubin_size},  {"nvrtcGetCUBIN", &nvrtc.cubin},
    {"nvrtcGetPTXSize", &nvrtc.ptx_size},      {"nvrtcGetPTX", &nvrtc.ptx},
    {"nvrtcGetErrorString", &nvrtc.error},
};

enum { MAX_OPTIONS = 32 };

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "compile-kernels: %s: %s\n", what, why);
    exit(1);
}

static void library_open(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW);
    if (lib == NULL) {
        fail(path, dlerror());
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(lib, symbols[i].name);
        if (found == NULL) {
            fail(path, dlerror());
        }
        memcpy(symbols[i].slot, &found, sizeof found);
    }
}

static char *file_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    long size;
    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0 ||
        fseek(f, 0, SEEK_SET) != 0) {
        fail(path, "cannot be read");
    }
    char *text = calloc(1, (size_t)size + 1);
    if (text == NULL || fread(text, 1, (size_t)size, f) != (size_t)size) {
        fail(path, "cannot be read");
    }
    fclose(f);
    return text;
}

static int is_assembly(const char *target)
{
    return strncmp(target, "compute_", 8) == 0;
}

static void show_log(program p)
{
    size_t size = 0;
    char *text;
    if (nvrtc.log_size(p, &size) == 0 && size > 1 && (text = malloc(size)) != NULL) {
        nvrtc.log(p, text);
        fprintf(stderr, "%s", text);
        free(text);
    }
}

static char *compile(const char *path, const char *target, char **options, int n_option,
                     size_t *bytes)
{
    char *text = file_read(path);
    const char *all[MAX_OPTIONS];
    char arch[64];
    program p;
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", target);
    all[0] = arch;
    for (int i = 0; i < n_option; i++) {
        all[1 + i] = options[i];
    }
    int err = nvrtc.create(&p, text, path, 0, NULL, NULL);
    err = err != 0 ? err : nvrtc.compile(p, n_option + 1, all);
    show_log(p);
    int assembly = is_assembly(target);
    err = err != 0 ? err : (assembly ? nvrtc.ptx_size : nvrtc.cubin_size)(p, bytes);
    char *code = err == 0 ? malloc(*bytes) : NULL;
    if (code == NULL || (err = (assembly ? nvrtc.ptx : nvrtc.cubin)(p, code)) != 0) {
        fail(path, err != 0 ? nvrtc.error(err) : "no memory");
    }
    return code;
}

int main(int argc, char **argv)
{
    static const char zeros[16];
    size_t bytes;
    if (argc < 5 || argc - 5 > MAX_OPTIONS - 1) {
        fail("usage", "compile LIBNVRTC TARGET OUT SOURCE [options]");
    }
    library_open(argv[1]);
    char *code = compile(argv[4], argv[2], argv + 5, argc - 5, &bytes);
    int64_t capability = strtol(strchr(argv[2], '_') != NULL ? strchr(argv[2], '_') + 1 : "", NULL, 10);
    int64_t head[2] = {2 * capability + is_assembly(argv[2]), (int64_t)bytes};
    FILE *out = fopen(argv[3], "wb");
    if (out == NULL || fwrite(head, sizeof head, 1, out) != 1 || fwrite(code, 1, bytes, out) != bytes ||
        fwrite(zeros, 1, (16 - bytes % 16) % 16, out) != (16 - bytes % 16) % 16 || fclose(out) != 0) {
        fail(argv[3], "cannot be written");
    }
    return 0;
}
