/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler and the prefix tree on random traces, and who goes first: sim_test [--quick]
 * [--seed N]; --alone is one client for 4,000 steps, for counting instructions. */
#include "sim.h"

#include "base/alloc.h"
#include "support/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a client that is alone is planned, where pages lie on disk, too (without a disk it is what
 * it was before clients shared: sim_plans.c). Whoever changes how one client's requests are planned
 * puts the new number here. */
static void lone_clients(sim_world *w)
{
    const uint64_t expected = UINT64_C(0x6cb9e76c8515d880);
    uint64_t plans = 0;
    bool good = true;
    for (uint64_t seed = 1; seed <= 60 && good; seed++) {
        good = sim_trace(w, seed, true);
        plans = plans * 31 + w->plans;
    }
    tally_check(good && plans == expected, "a client alone is planned as ever", "%s plans 0x%llx",
                w->failure, (unsigned long long)plans);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, n = 600;
    if (argc == 2 && strcmp(argv[1], "--alone") == 0) {
        sim_alone();
        return tally_finish();
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            n = 60;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
            n = 1;
        } else {
            fprintf(stderr, "usage: %s [--quick] [--seed N]\n", argv[0]);
            return 2;
        }
    }
    sim_world *w = whim_alloc(sizeof *w);
    if (w == NULL) {
        return 1;
    }
    int64_t ended = 0, resumed = 0, cached = 0, fetched = 0, cancelled = 0, aborted = 0, lost = 0;
    int64_t kept = 0, loaded = 0, taken = 0, proposed = 0, right = 0, ahead = 0;
    int64_t drafted = 0, all = 0, states_fetched = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        char name[32];
        snprintf(name, sizeof name, "trace %llu", (unsigned long long)seed);
        bool good = sim_trace(w, seed, false);
        tally_check(good, name, "%lld requests, %lld steps%s%s", (long long)w->n_job,
                    (long long)w->n_step, good ? "" : ": ", w->failure);
        ended += w->n_ended;
        resumed += w->n_resumed;
        cached += w->n_cached;
        fetched += w->n_fetched;
        cancelled += w->n_cancelled;
        aborted += w->n_aborted;
        lost += w->n_lost;
        kept += w->n_kept;
        loaded += w->n_loaded;
        states_fetched += w->n_state_fetched;
        taken += w->n_taken;
        proposed += w->n_proposed;
        right += w->n_right;
        ahead += w->n_ahead;
        drafted += w->n_drafted;
        all += w->n_all;
    }
    if (n > 1) { /* traces in which nothing happens would prove nothing */
        tally_check(
            ended > 0 && resumed > 0 && cached > 0 && fetched > 0 && cancelled > 0 && aborted > 0 &&
                lost > 0 && kept > 0 && loaded > 0 && states_fetched > 0 && taken > 0 &&
                right > 0 && proposed > right && ahead > 0 && drafted > 0 && all > 0,
            "everything happened",
            "%lld ended, %lld of them preempted, %lld tokens cached, %lld pages fetched, "
            "%lld cancelled, %lld steps failed, %lld of them with all pages, %lld states kept, "
            "%lld gone on from, %lld states fetched, "
            "%lld proposals, %lld of them right, %lld by states, %lld steps ahead, %lld passes "
            "of a draft, %lld requests with all of preemption, lost and right proposals",
            (long long)ended, (long long)resumed, (long long)cached, (long long)fetched,
            (long long)cancelled, (long long)aborted, (long long)lost, (long long)kept,
            (long long)loaded, (long long)states_fetched, (long long)proposed, (long long)right,
            (long long)taken, (long long)ahead, (long long)drafted, (long long)all);
    }
    lone_clients(w);
    whim_free(w);
    sim_clients();
    sim_plans();
    sim_alone();
    sim_hostile();
    return tally_finish();
}
