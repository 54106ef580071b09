/* SPDX-License-Identifier: Apache-2.0 */
/* checkop: every op of ops.def, on every backend of this build and on every instruction level that
 * the machine has, against the law. A group is (backend, level, op) and prints one line; after the
 * ops come "chain", programs of ops that share buffers, and "ranks", collectives of several. A group runs in a process of its own,
 * which keeps the number of its current case in shared memory: when it crashes or hangs, that case
 * has failed and a new process goes on with the next one. */
#include "checkop/harness.h"

#include "backends/cpu/cpu.h"
#include "base/check.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASE_SECONDS = 180, MAX_CRASHES = 8, MAX_FAILS = 10, MAX_LEVELS = 16 };

/* --- the families, one for each op ------------------------------------------------------------ */

#define WHIM_OP(name) extern const checkop_case_family checkop_##name;
#include "ops/ops.def"
#undef WHIM_OP
extern const checkop_case_family checkop_chain, checkop_ranks;

const checkop_case_family *checkop_family(int32_t group)
{
    static const checkop_case_family *const families[CHECKOP_GROUPS] = {
#define WHIM_OP(name) &checkop_##name,
#include "ops/ops.def"
#undef WHIM_OP
        [CHECKOP_CHAIN] = &checkop_chain,
        [CHECKOP_RANKS] = &checkop_ranks,
    };
    return families[group];
}

const char *checkop_name(int32_t group)
{
    return group == CHECKOP_CHAIN   ? "chain"
           : group == CHECKOP_RANKS ? "ranks"
                                    : whim_op_name((whim_op)group);
}

whim_err checkop_check(whim_op op, const void *args)
{
    switch (op) {
#define WHIM_OP(name)    \
    case WHIM_OP_##name: \
        return whim_##name##_check(args);
#include "ops/ops.def"
#undef WHIM_OP
    default:
        return WHIM_ERR_INVALID;
    }
}

whim_err checkop_invoke(whim_stream *s, whim_op op, const void *args)
{
    return whim_op_call(s, op, args);
}

/* --- options ---------------------------------------------------------------------------------- */

typedef struct options {
    const char *op, *backend, *isa;
    uint64_t seed;
    int32_t repeat, only_case, threads, every;
    bool list, quick, bench, help;
} options;

static const char usage[] =
    "usage: checkop [--op=NAME] [--backend=NAME] [--isa=LEVEL] [--seed=N] [--repeat=N] [--case=N]\n"
    "               [--threads=N] [--every=N] [--quick] [--list] [--bench] [--help]\n";

static const char help[] =
    "\nEvery op on every backend of this build and every level of this machine, against the "
    "law.\n\n"
    "  --op=NAME       this op only, or \"chain\": programs of ops that share buffers\n"
    "  --backend=NAME  this backend only\n"
    "  --isa=LEVEL     this instruction level only\n"
    "  --seed=N        of all random cases (default: 1)\n"
    "  --repeat=N      N times as many random cases (default: 1)\n"
    "  --case=N        this case only, as a FAIL line names it\n"
    "  --threads=N     so many threads (default: one for each core, and one alone)\n"
    "  --every=N       every N-th case only, of which the seed says which\n"
    "  --quick         fewer random cases, and a level only where its source is not that of the\n"
    "                  level below, in ops and types of weights: for emulators and sanitizers\n"
    "  --list          say what would be run\n"
    "  --bench         time the ops and test nothing\n"
    "  --help          this text\n\n"
    "One line for each (backend, level, op), FAIL lines with the options that repeat a case, and\n"
    "RESULT at the end. Exit status: 0 all passed, 1 some failed or none ran, 2 wrong options.\n";

static bool number_option(const char *arg, const char *name, uint64_t *out)
{
    size_t n = strlen(name);
    char *end;
    if (strncmp(arg, name, n) != 0 || arg[n] < '0' || arg[n] > '9') {
        return false;
    }
    *out = strtoull(arg + n, &end, 0);
    return *end == '\0';
}

static bool options_parse(options *o, int argc, char **argv)
{
    *o = (options){.seed = 1, .repeat = 1, .only_case = -1, .every = 1};
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        uint64_t number;
        if (strncmp(arg, "--op=", 5) == 0) {
            o->op = arg + 5;
        } else if (strncmp(arg, "--backend=", 10) == 0) {
            o->backend = arg + 10;
        } else if (strncmp(arg, "--isa=", 6) == 0) {
            o->isa = arg + 6;
        } else if (number_option(arg, "--seed=", &o->seed)) {
            continue;
        } else if (number_option(arg, "--repeat=", &number) && number < 1000000) {
            o->repeat = (int32_t)number;
        } else if (number_option(arg, "--case=", &number) && number < INT32_MAX) {
            o->only_case = (int32_t)number;
        } else if (number_option(arg, "--threads=", &number) && number < 1024) {
            o->threads = (int32_t)number;
        } else if (number_option(arg, "--every=", &number) && number > 0 && number < INT32_MAX) {
            o->every = (int32_t)number;
        } else if (strcmp(arg, "--list") == 0) {
            o->list = true;
        } else if (strcmp(arg, "--quick") == 0) {
            o->quick = true;
        } else if (strcmp(arg, "--bench") == 0) {
            o->bench = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            o->help = true;
        } else {
            fprintf(stderr, "checkop: unknown option %s\n%s", arg, usage);
            return false;
        }
    }
    return true;
}

/* --- one group -------------------------------------------------------------------------------- */

typedef struct group {
    const options *o;
    const whim_backend *backend;
    const char *isa;
    char place[64];
    int32_t op; /* or CHECKOP_CHAIN */
} group;

/* What the process of a group leaves behind. */
typedef struct progress {
    int32_t index; /* the case now running; -1: opening, n: arguments */
    int32_t n_case, n_skip, n_fail;
    char text[sizeof((checkop_case *)NULL)->text];
    char skip[16];
    bool finished;
} progress;

/* Whether a level of the CPU has products of its own for weights of this type. The others are those
 * of the level below it (tmpl/product_tmpl.h, tmpl/block_tmpl.h). `avx512vnni` has them all, since
 * builds of the sanitizers have no `avx512`. */
static bool is_own_type(const char *isa, whim_dtype type)
{
    bool is_block = whim_cpu_form_of(type) != NULL;
    bool is_plain = type == WHIM_DTYPE_F32 || type == WHIM_DTYPE_F16;
    if (strcmp(isa, "dotprod") == 0 || strcmp(isa, "i8mm") == 0) {
        return is_block;
    }
    if (strcmp(isa, "bf16") == 0 || strcmp(isa, "avx512bf16") == 0) {
        return !is_block && !is_plain;
    }
    return strcmp(isa, "amx") != 0 || !is_plain;
}

/* Levels that differ in nothing but the length of pages. */
static bool is_page_length(const char *isa)
{
    return isa != NULL && strncmp(isa, "page", 4) == 0;
}

static int32_t group_cases(const group *g)
{
    const checkop_case_family *f = checkop_family(g->op);
    bool few = g->o->quick || is_page_length(g->isa);
    return f->n_fixed + g->o->repeat * (few ? f->n_random_quick : f->n_random);
}

/* Whether a case has weights, and they are all of types that the level below multiplies as well. */
static bool is_of_below(const group *g, const checkop_case *c)
{
    int32_t n_weight = 0, n_own = 0;
    for (int32_t i = 0; i < c->n_buf && g->isa != NULL; i++) {
        if (c->buf[i].role == CHECKOP_WEIGHT) {
            n_weight++;
            n_own += is_own_type(g->isa, c->buf[i].dtype);
        }
    }
    return n_weight > 0 && n_own == 0;
}

static void group_case(const group *g, checkop_run *run, progress *p, checkop_case *c)
{
    run->index = p->index;
    alarm(CASE_SECONDS);
    checkop_case_init(c, run, g->op, p->index);
    memcpy(p->text, c->text, sizeof p->text);
    if (g->o->quick && is_of_below(g, c)) {
        checkop_case_free(c, run);
        return;
    }
    bool of_ranks = g->op == CHECKOP_RANKS, ready = checkop_case_upload(c, run);
    if (of_ranks && !checkop_ranks_run_on(run)) {
        c->skip = "collectives";
    }
    if (c->skip != NULL) {
        p->n_skip++;
        snprintf(p->skip, sizeof p->skip, "%s", c->skip);
    } else {
        p->n_case++;
        p->n_fail += !ready || !(of_ranks ? checkop_ranks_test(run, p->index, g->o->quick)
                                          : checkop_case_test(c, run, g->o->quick));
    }
    checkop_case_free(c, run);
}

/* The process of a group: cases from `first` on, then the argument sets. */
static void group_work(const group *g, progress *p, int32_t first)
{
    checkop_run run = {.place = g->place,
                       .name = checkop_name(g->op),
                       .seed = g->o->seed,
                       .n_thread = g->o->threads};
    static checkop_case c;
    whim_diag diag = {{0}};
    alarm(CASE_SECONDS);
    whim_err err = checkop_run_open(&run, g->backend, g->isa, &diag);
    if (err != WHIM_ERR_OK) {
        printf("FAIL %s cannot be opened: %s\n", g->place, diag.text);
        p->n_fail++;
    } else if (g->isa != NULL && strcmp(run.side[0].dev->caps.isa, g->isa) != 0) {
        printf("FAIL %s was asked for, the device uses %s\n", g->place, run.side[0].dev->caps.isa);
        p->n_fail++;
    } else if (g->o->only_case >= 0) {
        p->index = g->o->only_case;
        group_case(g, &run, p, &c);
    } else {
        int32_t n = group_cases(g);
        for (p->index = first; p->index < n && p->n_fail < MAX_FAILS; p->index++) {
            if ((uint64_t)p->index % (uint64_t)g->o->every == g->o->seed % (uint64_t)g->o->every) {
                group_case(g, &run, p, &c);
            }
        }
        p->index = n;
        snprintf(p->text, sizeof p->text, "argument checks");
        p->n_fail += checkop_arguments_test(&run, g->op, &p->n_case);
    }
    checkop_run_close(&run);
    p->finished = true;
}

static void print_crash(const group *g, const progress *p, int status)
{
    char why[48];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        snprintf(why, sizeof why, "no end after %d s", CASE_SECONDS);
    } else if (WIFSIGNALED(status)) {
        snprintf(why, sizeof why, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    } else {
        snprintf(why, sizeof why, "ended with code %d", WEXITSTATUS(status));
    }
    printf("FAIL %s %s case %d (--op=%s --seed=%" PRIu64 " --case=%d): %s: %s\n", g->place,
           checkop_name(g->op), p->index, checkop_name(g->op), g->o->seed, p->index, p->text, why);
}

/* Run a group to its end in as many processes as it takes. */
static void group_run(const group *g, progress *p)
{
    int32_t first = 0;
    for (int32_t crashes = 0; crashes < MAX_CRASHES && !p->finished; crashes++) {
        p->index = -1;
        snprintf(p->text, sizeof p->text, "opening the device");
        fflush(NULL);
        pid_t pid = fork();
        whim_check(pid >= 0);
        if (pid == 0) {
            group_work(g, p, first);
            exit(0); /* not _exit: a sanitizer has its last word here */
        }
        int status = 0;
        whim_check(waitpid(pid, &status, 0) == pid);
        if (!p->finished || status != 0) {
            print_crash(g, p, status);
            p->n_fail++;
            first = p->index + 1;
            p->finished = p->finished || p->index < 0 || g->o->only_case >= 0 ||
                          p->index >= group_cases(g) || p->n_fail >= MAX_FAILS;
        }
    }
}

/* --- all groups ------------------------------------------------------------------------------- */

typedef struct totals {
    int64_t passed, failed, skipped;
} totals;

static void group_report(const group *g, totals *t)
{
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    whim_check(p != MAP_FAILED);
    group_run(g, p);
    const char *verdict = p->n_fail > 0 ? "FAILED" : p->n_case > 0 ? "ok" : "skipped";
    t->failed += p->n_fail > 0;
    t->passed += p->n_fail == 0 && p->n_case > 0;
    t->skipped += p->n_fail == 0 && p->n_case == 0;
    printf("%s %s %s %d cases", verdict, g->place, checkop_name(g->op), p->n_case);
    if (p->n_fail > 0) {
        printf(", %d failed", p->n_fail);
    }
    if (p->n_skip > 0) {
        printf(", %d skipped (no kernel for %s)", p->n_skip, p->skip);
    }
    printf("\n");
    munmap(p, sizeof *p);
}

static bool is_paged(int32_t op)
{
    return op == WHIM_OP_kv_write || op == WHIM_OP_kv_read || op == WHIM_OP_attn_paged;
}

static bool has_products(int32_t op)
{
    return op == WHIM_OP_linear || op == WHIM_OP_linear_swiglu || op == WHIM_OP_linear_topk ||
           op == WHIM_OP_moe_experts;
}

/* Whether the source of a level differs from the level's below it in this op: levels of the CPU
 * with no vectors of their own (src/backends/cpu/LEVEL/vec_LEVEL.h) differ in products, and `bf16`
 * in attention. The guard's differ in the length of pages. */
static bool is_other(const group *g)
{
    static const char *const products[] = {"dotprod",    "i8mm",       "bf16",
                                           "avx512vnni", "avx512bf16", "amx"};
    if (g->op == CHECKOP_RANKS && g->isa != NULL) { /* the same on every level of the CPU */
        return strcmp(g->isa, "neon") == 0 || strcmp(g->isa, "sse2") == 0;
    }
    if (g->isa == NULL || is_page_length(g->isa)) {
        return g->isa == NULL || is_paged(g->op);
    }
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        if (strcmp(g->isa, products[i]) == 0) {
            bool attention = strcmp(g->isa, "bf16") == 0 && is_paged(g->op);
            bool other =
                g->op == CHECKOP_CHAIN ? is_own_type(g->isa, WHIM_DTYPE_Q8_0) : has_products(g->op);
            return !g->o->quick || attention || other;
        }
    }
    return true;
}

static int level_run(const options *o, const whim_backend *backend, const char *isa, totals *t)
{
    if (o->bench) {
        return checkop_bench(backend, isa, o->op, o->seed);
    }
    group g = {.o = o, .backend = backend, .isa = isa};
    snprintf(g.place, sizeof g.place, "%s%s%s", backend->name, isa != NULL ? "/" : "",
             isa != NULL ? isa : "");
    for (g.op = 0; g.op < CHECKOP_GROUPS; g.op++) {
        if ((o->op != NULL && strcmp(o->op, checkop_name(g.op)) != 0) || !is_other(&g)) {
            continue;
        }
        if (o->list) {
            printf("%s %s %d cases\n", g.place, checkop_name(g.op), group_cases(&g));
        } else {
            group_report(&g, t);
        }
    }
    return 0;
}

/* The levels of a backend; one without levels has the level NULL. The guard's differ in the length
 * of pages. */
static int32_t levels_of(const whim_backend *backend, const char **names)
{
    if (strcmp(backend->name, "cpu") == 0) {
        return whim_cpu_levels(names, MAX_LEVELS);
    }
    names[0] = NULL;
    names[1] = "page64";
    names[2] = "page128";
    return strcmp(backend->name, "guard") == 0 ? 3 : 1;
}

/* Asked in a process of its own: a driver that has been started does not survive fork. */
static bool has_device(const whim_backend *backend)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    whim_check(pid >= 0);
    if (pid == 0) {
        _exit(backend->device_count() > 0);
    }
    whim_check(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

int main(int argc, char **argv)
{
    options o;
    if (!options_parse(&o, argc, argv)) {
        return 2;
    }
    if (o.help) {
        printf("%s%s", usage, help);
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("checkop: seed %" PRIu64 "\n", o.seed);
    totals t = {0};
    int rc = 0;
    for (int32_t b = 0; b < whim_backend_count(); b++) {
        const whim_backend *backend = whim_backend_at(b);
        const char *names[MAX_LEVELS];
        int32_t n = has_device(backend) ? levels_of(backend, names) : 0;
        for (int32_t i = 0; i < n; i++) {
            bool wanted = (o.backend == NULL || strcmp(o.backend, backend->name) == 0) &&
                          (o.isa == NULL || (names[i] != NULL && strcmp(o.isa, names[i]) == 0));
            rc |= wanted ? level_run(&o, backend, names[i], &t) : 0;
        }
    }
    if (o.list || o.bench) {
        return rc;
    }
    printf("RESULT passed=%" PRId64 " failed=%" PRId64 " skipped=%" PRId64 "\n", t.passed, t.failed,
           t.skipped);
    return t.failed > 0 || t.passed + t.skipped == 0;
}
