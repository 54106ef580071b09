/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a group, and its rounds. */
#include "comm/shared.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/os/futex.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x316d6d6f636d6877)

enum {
    TURNS_PER_LOOK = 64,    /* looks at a count between looks at the clock */
    SPIN_NS = 1000000,      /* peers are about to come: see workers.c of the CPU backend */
    SPIN_CROWDED_NS = 5000, /* they may wait for this CPU */
    YIELD_NS = 100000,      /* of a wait in which they get it: to be woken takes longer */
    STRANGER_NS = 1000000,  /* to get it back from ranks takes less; others keep it for long, and */
    STRANGER_ROUNDS = 1000, /* who sleeps instead gets it as soon as it is woken */
    NAP_NS = 10000000,      /* of a sleeper between looks at the group's state */
};

static int64_t seats_bytes(int32_t n_rank)
{
    int64_t bytes = (int64_t)sizeof(struct whim_comm_shared) +
                    WHIM_COMM_SETS * n_rank * (int64_t)sizeof(whim_comm_seat);
    return (bytes + 4095) / 4096 * 4096;
}

static int64_t pieces_end(int32_t n_rank)
{
    return seats_bytes(n_rank) +
           (int64_t)n_rank * WHIM_COMM_SETS * WHIM_COMM_TURNS * WHIM_COMM_PIECE;
}

static int64_t shared_bytes(int32_t n_rank)
{
    return pieces_end(n_rank) + WHIM_MAIL_SLOTS * (int64_t)WHIM_MAIL_SLOT_BYTES;
}

whim_comm_letter *whim_comm_letter_at(struct whim_comm_shared *shared, uint64_t n)
{
    char *slots = (char *)shared + pieces_end(shared->n_rank);
    return (whim_comm_letter *)(void *)(slots +
                                        (int64_t)(n % WHIM_MAIL_SLOTS) * WHIM_MAIL_SLOT_BYTES);
}

static whim_err memory_map(whim_comm_memory *m, whim_diag *diag)
{
    void *at = mmap(NULL, (size_t)m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    m->shared = at != MAP_FAILED ? at : NULL;
    return whim_got(m->shared != NULL, diag, "no room for %" PRId64 " bytes that ranks share: %s",
                    m->bytes, strerror(errno));
}

whim_err whim_comm_memory_make(int32_t n_rank, whim_comm_memory *out, whim_diag *diag)
{
    if (n_rank < 1 || n_rank > WHIM_COMM_MAX_RANK) {
        return whim_fail(diag, WHIM_ERR_INVALID, "a group of %d ranks: expected 1 to %d", n_rank,
                         WHIM_COMM_MAX_RANK);
    }
    whim_comm_memory m = {.bytes = shared_bytes(n_rank),
                          .fd = memfd_create("whimbrel-ranks", MFD_CLOEXEC)};
    bool made = m.fd >= 0 && ftruncate(m.fd, m.bytes) == 0;
    whim_err err = whim_got(made, diag, "no file for %" PRId64 " bytes that ranks share: %s",
                            m.bytes, strerror(errno));
    err = err == WHIM_ERR_OK ? memory_map(&m, diag) : err;
    if (err != WHIM_ERR_OK) {
        if (m.fd >= 0) {
            close(m.fd);
        }
        return err;
    }
    m.shared->magic = MAGIC;
    m.shared->n_rank = n_rank;
    *out = m;
    return WHIM_ERR_OK;
}

whim_err whim_comm_memory_join(int fd, whim_comm_memory *out, whim_diag *diag)
{
    struct stat st = {0};
    whim_comm_memory m = {.fd = fd};
    if (fstat(fd, &st) != 0 || st.st_size < seats_bytes(1)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "descriptor %d is not the memory of a group of ranks", fd);
    }
    m.bytes = st.st_size;
    WHIM_TRY(memory_map(&m, diag));
    int32_t n = m.shared->n_rank;
    if (m.shared->magic != MAGIC || n < 1 || n > WHIM_COMM_MAX_RANK || m.bytes != shared_bytes(n)) {
        munmap(m.shared, (size_t)m.bytes);
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "descriptor %d is not the memory of a group of ranks", fd);
    }
    *out = m;
    return WHIM_ERR_OK;
}

void whim_comm_memory_close(whim_comm_memory *memory)
{
    if (memory->shared != NULL) {
        munmap(memory->shared, (size_t)memory->bytes);
        close(memory->fd);
        *memory = (whim_comm_memory){.fd = -1};
    }
}

void whim_comm_open(whim_comm *comm, const whim_comm_memory *memory, const whim_comm_cfg *cfg)
{
    whim_check(cfg->rank >= 0 && cfg->rank < memory->shared->n_rank);
    *comm = (whim_comm){.shared = memory->shared,
                        .rank = cfg->rank,
                        .n_rank = memory->shared->n_rank,
                        .stride = 1,
                        .wait_ns = cfg->wait_ns > 0 ? cfg->wait_ns : WHIM_NS_PER_S,
                        .spin_ns = cfg->crowded ? SPIN_CROWDED_NS : SPIN_NS,
                        .yields = cfg->crowded};
    atomic_store(&memory->shared->seats[cfg->rank].pid, (int32_t)getpid());
}

char *whim_comm_piece(const whim_comm *comm, int32_t rank, uint64_t round)
{
    int64_t seat = comm->seat + (int64_t)rank * comm->stride;
    int64_t index = seat * WHIM_COMM_TURNS + (int64_t)(round % WHIM_COMM_TURNS);
    return (char *)comm->shared + seats_bytes(comm->shared->n_rank) + index * WHIM_COMM_PIECE;
}

/* --- the end of a group ----------------------------------------------------------------------- */

static void ring(struct whim_comm_shared *s)
{
    if (atomic_load(&s->bell.sleepers) > 0) {
        atomic_fetch_add(&s->bell.n, 1);
        whim_os_futex_wake_all_shared(&s->bell.n);
    }
}

void whim_comm_shared_end(struct whim_comm_shared *s, const char *why)
{
    uint32_t good = WHIM_COMM_GOOD;
    if (atomic_compare_exchange_strong(&s->state, &good, WHIM_COMM_ENDING)) {
        snprintf(s->why, sizeof s->why, "%s", why);
        atomic_store(&s->state, WHIM_COMM_ENDED);
        whim_os_futex_wake_all_shared(&s->sent.n);
        ring(s);
    }
}

void whim_comm_abort(const whim_comm_memory *memory, const char *why)
{
    whim_comm_shared_end(memory->shared, why);
}

bool whim_comm_is_over(const whim_comm *comm)
{
    return atomic_load(&comm->shared->state) != WHIM_COMM_GOOD;
}

whim_err whim_comm_why(struct whim_comm_shared *s, whim_diag *diag)
{
    int64_t until = whim_clock_ns() + NAP_NS;
    while (atomic_load(&s->state) != WHIM_COMM_ENDED && whim_clock_ns() < until) {
        whim_os_cpu_relax();
    }
    bool said = atomic_load(&s->state) == WHIM_COMM_ENDED;
    return whim_fail(diag, WHIM_ERR_DEVICE, "%.*s", (int)sizeof s->why - 1,
                     said ? s->why : "a rank ended while it said why");
}

whim_err whim_comm_check(const whim_comm *comm, whim_diag *diag)
{
    return whim_comm_is_over(comm) ? whim_comm_why(comm->shared, diag) : WHIM_ERR_OK;
}

static whim_err ended(whim_comm *comm)
{
    whim_err err = whim_comm_why(comm->shared, &comm->diag);
    if (comm->of != NULL) {
        comm->of->diag = comm->diag;
    }
    return err;
}

/* For the reason in comm->diag. */
static whim_err end(whim_comm *comm)
{
    whim_comm_shared_end(comm->shared, comm->diag.text);
    return ended(comm);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void call_print(const whim_comm_call *c, char *out, size_t size)
{
    static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter",
                                        "exchange",   "broadcast",  "barrier"};
    bool known = c->kind >= 0 && c->kind <= WHIM_COMM_BARRIER;
    bool is_cut = c->kind == WHIM_COMM_ALL_GATHER || c->kind == WHIM_COMM_REDUCE_SCATTER ||
                  c->kind == WHIM_COMM_EXCHANGE;
    char parts[32] = "";
    if (is_cut) {
        snprintf(parts, sizeof parts, " in parts %08x", (uint32_t)c->root);
    }
    snprintf(out, size, "%s of %" PRId64 "%s at \"%.31s\"", known ? names[c->kind] : "something",
             c->size, parts, c->site);
}

static whim_err late(whim_comm *comm, int32_t peer, const whim_comm_wait *wait,
                     const whim_comm_call *mine, uint32_t round)
{
    char here[128], there[32], last[64] = "";
    call_print(mine, here, sizeof here);
    if (whim_comm_last_site(comm, peer, there)) {
        snprintf(last, sizeof last, ", its last call was at \"%s\"", there);
    }
    whim_fail(&comm->diag, WHIM_ERR_DEVICE,
              "rank %d did not reach %s within %.2g s: it is %u rounds behind rank %d%s",
              whim_comm_number(comm, peer), here, (double)wait->waited_ns / 1e9,
              round - atomic_load(&whim_comm_seat_of(comm, peer)->n_round),
              whim_comm_number(comm, comm->rank), last);
    return end(comm);
}

static whim_err differs(whim_comm *comm, int32_t peer, const whim_comm_call *mine,
                        const whim_comm_call *its)
{
    char here[128], there[128];
    call_print(mine, here, sizeof here);
    call_print(its, there, sizeof there);
    whim_fail(&comm->diag, WHIM_ERR_DEVICE, "ranks disagree: rank %d calls %s, rank %d calls %s",
              whim_comm_number(comm, comm->rank), here, whim_comm_number(comm, peer), there);
    return end(comm);
}

static whim_err passed_by(whim_comm *comm, int32_t peer, const whim_comm_call *mine,
                          const char *site)
{
    char here[128];
    call_print(mine, here, sizeof here);
    whim_fail(&comm->diag, WHIM_ERR_DEVICE,
              "ranks disagree: rank %d calls %s, rank %d is at \"%.31s\"",
              whim_comm_number(comm, comm->rank), here, whim_comm_number(comm, peer), site);
    return end(comm);
}

/* The last call of a step, which no other follows. */
static whim_err left_out(whim_comm *comm, int32_t peer, const whim_comm_call *mine)
{
    char here[128], there[32];
    call_print(mine, here, sizeof here);
    bool any = whim_comm_last_site(comm, peer, there);
    whim_fail(&comm->diag, WHIM_ERR_DEVICE,
              "ranks disagree: rank %d calls %s, rank %d has ended the step behind \"%.31s\"",
              whim_comm_number(comm, comm->rank), here, whim_comm_number(comm, peer),
              any ? there : "no call");
    return end(comm);
}

static bool has_come(whim_comm_seat *seat, uint32_t round)
{
    return (int32_t)(atomic_load_explicit(&seat->n_round, memory_order_acquire) - round) >= 0;
}

static void nap(whim_comm_seat *seat, uint32_t round)
{
    /* Counted before the look and the teller tells before it looks at the count, both in one total
     * order: one of the two sees the other. */
    atomic_fetch_add(&seat->sleepers, 1);
    uint32_t now = atomic_load(&seat->n_round);
    if ((int32_t)(now - round) < 0) {
        whim_os_futex_wait_shared(&seat->n_round, now, NAP_NS);
    }
    atomic_fetch_sub(&seat->sleepers, 1);
}

static void yield(whim_comm *comm, int64_t now_ns)
{
    sched_yield();
    if (whim_clock_ns() - now_ns > STRANGER_NS) {
        comm->yield_at = comm->n_round + STRANGER_ROUNDS;
    }
}

static whim_err wait_for(whim_comm *comm, int32_t peer, const whim_comm_call *mine, uint32_t round)
{
    whim_comm_seat *seat = whim_comm_seat_of(comm, peer);
    whim_comm_wait wait = {0};
    char site[32];
    while (!has_come(seat, round)) {
        for (int i = 0; i < TURNS_PER_LOOK && !has_come(seat, round); i++) {
            whim_os_cpu_relax();
        }
        int64_t waited = whim_comm_wait_look(&wait, whim_clock_ns());
        if (atomic_load_explicit(&comm->shared->state, memory_order_relaxed) != WHIM_COMM_GOOD) {
            return ended(comm);
        }
        if (whim_comm_passed_by(comm, peer, round, site)) {
            return passed_by(comm, peer, mine, site);
        }
        if (waited > comm->spin_ns && whim_comm_has_followed(comm, peer) &&
            !has_come(seat, round)) {
            return left_out(comm, peer, mine);
        }
        if (whim_comm_wait_is_over(&wait, comm->shared, (int32_t)(seat - comm->shared->seats),
                                   comm->wait_ns)) {
            return late(comm, peer, &wait, mine, round);
        }
        if (comm->yields && waited < YIELD_NS && comm->n_round >= comm->yield_at) {
            yield(comm, wait.last_ns);
        } else if (waited > comm->spin_ns) {
            nap(seat, round);
        }
    }
    comm->waited_ns += wait.last_ns == 0 ? 0 : whim_comm_wait_look(&wait, whim_clock_ns());
    return WHIM_ERR_OK;
}

void whim_comm_tell(struct whim_comm_shared *shared, _Atomic uint32_t *count,
                    _Atomic uint32_t *sleepers, uint64_t n)
{
    atomic_store(count, (uint32_t)n);
    if (atomic_load(sleepers) > 0) {
        whim_os_futex_wake_all_shared(count);
    }
    ring(shared);
}

whim_comm_call whim_comm_call_of(whim_comm *comm, whim_comm_kind kind, int64_t size,
                                 const char *site)
{
    bool floats = kind == WHIM_COMM_ALL_REDUCE || kind == WHIM_COMM_REDUCE_SCATTER;
    comm->n_call++;
    whim_comm_count_bytes(comm, floats ? size * (int64_t)sizeof(float) : size);
    whim_comm_place_tell(comm, site);
    return whim_comm_call_again(kind, size, site);
}

whim_comm_call whim_comm_call_again(whim_comm_kind kind, int64_t size, const char *site)
{
    whim_comm_call call = {.kind = (int32_t)kind, .size = size};
    snprintf(call.site, sizeof call.site, "%s", site);
    return call;
}

int32_t whim_comm_parts(const whim_comm *comm, const int64_t *list)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int32_t r = 0; r < comm->n_rank; r++) {
        hash = (hash ^ (uint64_t)list[r]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (int32_t)(hash >> 32);
}

void whim_comm_round_tell(whim_comm *comm, const whim_comm_call *call, whim_comm_wrote wrote)
{
    comm->n_round++;
    uint64_t turn = comm->n_round % WHIM_COMM_TURNS;
    whim_comm_seat *seat = whim_comm_seat_of(comm, comm->rank);
    seat->calls[turn] = *call;
    seat->wrote[turn] = wrote;
    whim_comm_tell(comm->shared, &seat->n_round, &seat->sleepers, comm->n_round);
    if (wrote.bytes <= WHIM_COMM_DIRECT) { /* while it waits: the next is often as long */
        whim_os_lines_write(whim_comm_next_piece(comm), wrote.bytes);
    }
}

whim_err whim_comm_round_wait(whim_comm *comm, const whim_comm_call *call, uint64_t round)
{
    int64_t waited = comm->waited_ns;
    for (int32_t i = 1; i < comm->n_rank; i++) {
        int32_t peer = (comm->rank + i) % comm->n_rank;
        WHIM_TRY(wait_for(comm, peer, call, (uint32_t)round));
        const whim_comm_call *its = &whim_comm_seat_of(comm, peer)->calls[round % WHIM_COMM_TURNS];
        if (its->kind != call->kind || its->root != call->root || its->size != call->size ||
            strncmp(its->site, call->site, sizeof call->site) != 0) {
            return differs(comm, peer, call, its);
        }
    }
    if (atomic_load_explicit(&comm->shared->state, memory_order_relaxed) != WHIM_COMM_GOOD) {
        return ended(comm);
    }
    if (comm->waited_ns > waited) {
        whim_comm_count_wait(comm->shared, whim_comm_number(comm, comm->rank), call->site,
                             comm->waited_ns - waited);
    }
    return WHIM_ERR_OK;
}

whim_err whim_comm_round(whim_comm *comm, const whim_comm_call *call, whim_comm_wrote wrote)
{
    whim_comm_round_tell(comm, call, wrote);
    return whim_comm_round_wait(comm, call, comm->n_round);
}
