/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of collectives on a stream that is alone; ranks.c has those of several ranks. */
#include "checkop/harness.h"

typedef struct comm_shape {
    int64_t rows, cols;
} comm_shape;

static const comm_shape hostile[] = {{0, 64}, {1, 1}, {3, 0}, {5, 33}, {CHECKOP_MANY, 3}};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], N_RANDOM = 10, N_QUICK = 3 };

static comm_shape shape_make(checkop_case *c, int32_t index)
{
    comm_shape s = index < N_HOSTILE ? hostile[index]
                                     : (comm_shape){checkop_range(&c->rng, 1, 20),
                                                    checkop_range(&c->rng, 1, 700)};
    checkop_say(c, "rows=%lld cols=%lld", (long long)s.rows, (long long)s.cols);
    return s;
}

/* Lists with an entry for each rank, which arguments point to; a case is run before the next one is
 * made. */
static int64_t only[1];
static const int64_t three[] = {4, 0, 4}, negative[] = {4, -1, 4}, huge[] = {INT64_MAX / 4, 0, 0};

/* --- all_reduce ------------------------------------------------------------------------------- */

static void all_reduce_make(checkop_case *c, int32_t index)
{
    comm_shape s = shape_make(c, index);
    checkop_call *call = checkop_call_add(c, WHIM_OP_all_reduce);
    whim_all_reduce_args *a = (void *)call->args.bytes;
    *a = (whim_all_reduce_args){.n_row = s.rows, .n_col = s.cols, .site = "test"};
    checkop_operands(c, call, CHECKOP_ANY, 1);
    CHECKOP_SUBJECT(c, call, all_reduce, s.rows);
}

static const char *all_reduce_arguments(int32_t i, void *args)
{
    whim_all_reduce_args *a = args;
    *a = (whim_all_reduce_args){.x = checkop_somewhere, .n_row = 2, .n_col = 8, .site = "test"};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = -1, "n_col < 0";
    case 3:
        return a->x = NULL, "x = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_all_reduce = {
    N_HOSTILE, N_RANDOM, N_QUICK, all_reduce_make, all_reduce_arguments, NULL};

/* --- all_gather_v, reduce_scatter_v ----------------------------------------------------------- */

#define COLUMNS(op)                                                                          \
    static void op##_make(checkop_case *c, int32_t index)                                    \
    {                                                                                        \
        comm_shape s = shape_make(c, index);                                                 \
        checkop_call *call = checkop_call_add(c, WHIM_OP_##op);                              \
        whim_##op##_args *a = (void *)call->args.bytes;                                      \
        only[0] = s.cols;                                                                    \
        *a = (whim_##op##_args){.cols = only, .n_row = s.rows, .n_rank = 1, .site = "test"}; \
        checkop_operands(c, call, CHECKOP_ANY, 1);                                           \
        CHECKOP_SUBJECT(c, call, op, s.rows);                                                \
    }                                                                                        \
    static const char *op##_arguments(int32_t i, void *args)                                 \
    {                                                                                        \
        whim_##op##_args *a = args;                                                          \
        *a = (whim_##op##_args){.x = checkop_somewhere,                                      \
                                .cols = three,                                               \
                                .y = checkop_somewhere,                                      \
                                .n_row = 1,                                                  \
                                .n_rank = 3,                                                 \
                                .rank = 2,                                                   \
                                .site = "test"};                                             \
        switch (i) {                                                                         \
        case 0:                                                                              \
            return "valid";                                                                  \
        case 1:                                                                              \
            return a->n_row = -1, "n_row < 0";                                               \
        case 2:                                                                              \
            return a->n_rank = 0, "n_rank = 0";                                              \
        case 3:                                                                              \
            return a->n_rank = 1025, "n_rank = 1025";                                        \
        case 4:                                                                              \
            return a->rank = 3, "rank = n_rank";                                             \
        case 5:                                                                              \
            return a->rank = -1, "rank < 0";                                                 \
        case 6:                                                                              \
            return a->cols = NULL, "cols = NULL";                                            \
        case 7:                                                                              \
            return a->cols = negative, "a rank with -1 columns";                             \
        case 8:                                                                              \
            return a->cols = huge, "too many columns";                                       \
        case 9:                                                                              \
            return a->x = NULL, "x = NULL";                                                  \
        case 10:                                                                             \
            return a->y = NULL, "y = NULL";                                                  \
        default:                                                                             \
            return NULL;                                                                     \
        }                                                                                    \
    }                                                                                        \
    const checkop_case_family checkop_##op = {N_HOSTILE, N_RANDOM,       N_QUICK,            \
                                              op##_make, op##_arguments, NULL};

COLUMNS(all_gather_v)
COLUMNS(reduce_scatter_v)

/* --- moe_exchange ----------------------------------------------------------------------------- */

static void moe_exchange_make(checkop_case *c, int32_t index)
{
    static const int32_t firsts[] = {0, 8};
    comm_shape s = shape_make(c, index);
    checkop_call *call = checkop_call_add(c, WHIM_OP_moe_exchange);
    *(whim_moe_exchange_args *)(void *)call->args.bytes =
        (whim_moe_exchange_args){.firsts = firsts,
                                 .n_row = s.rows,
                                 .n_col = s.cols,
                                 .k_top = 2,
                                 .n_rank = 1,
                                 .all = index % 2 == 0,
                                 .site = "test"};
    int32_t ids = checkop_bytes(c, "ids", CHECKOP_IN, CHECKOP_JUNK, s.rows, 8, 8, 4);
    CHECKOP_BIND(c, call, moe_exchange, ids, ids, 8);
    checkop_operands(c, call, CHECKOP_JUNK, 3);
}

static const char *moe_exchange_arguments(int32_t i, void *args)
{
    static const int32_t three_firsts[] = {0, 2, 2, 5}, falling[] = {0, 3, 2, 5};
    whim_moe_exchange_args *a = args;
    *a = (whim_moe_exchange_args){.x = checkop_somewhere,
                                  .ids = (int32_t *)(void *)checkop_somewhere,
                                  .firsts = three_firsts,
                                  .n_row = 2,
                                  .n_col = 4,
                                  .k_top = 2,
                                  .n_rank = 3,
                                  .site = "test"};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_rank = 0, "n_rank = 0";
    case 2:
        return a->rank = 3, "rank = n_rank";
    case 3:
        return a->firsts = falling, "a rank with -1 experts";
    case 4:
        return a->firsts = NULL, "firsts = NULL";
    case 5:
        return a->ids = NULL, "ids = NULL";
    case 6:
        return a->k_top = 0, "k_top = 0";
    case 7:
        return a->n_row = -1, "n_row < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_moe_exchange = {
    N_HOSTILE, N_RANDOM, N_QUICK, moe_exchange_make, moe_exchange_arguments, NULL};

/* --- moe_dispatch ----------------------------------------------------------------------------- */

static void moe_dispatch_make(checkop_case *c, int32_t index)
{
    static const int32_t firsts[] = {0, 8};
    comm_shape s = shape_make(c, index);
    checkop_call *call = checkop_call_add(c, WHIM_OP_moe_dispatch);
    *(whim_moe_dispatch_args *)(void *)call->args.bytes = (whim_moe_dispatch_args){.firsts = firsts,
                                                                                   .n_row = s.rows,
                                                                                   .n_col = s.cols,
                                                                                   .k_top = 2,
                                                                                   .n_rank = 1,
                                                                                   .site = "test"};
    int32_t ids = checkop_bytes(c, "ids", CHECKOP_IN, CHECKOP_JUNK, s.rows, 8, 8, 4);
    CHECKOP_BIND(c, call, moe_dispatch, ids, ids, 8);
    checkop_operands(c, call, CHECKOP_JUNK, 3);
}

static const char *moe_dispatch_arguments(int32_t i, void *args)
{
    static const int32_t three_firsts[] = {0, 2, 2, 5}, falling[] = {0, 3, 2, 5};
    whim_moe_dispatch_args *a = args;
    *a = (whim_moe_dispatch_args){.x = checkop_somewhere,
                                  .ids = (int32_t *)(void *)checkop_somewhere,
                                  .firsts = three_firsts,
                                  .n_row = 2,
                                  .n_col = 4,
                                  .k_top = 2,
                                  .n_rank = 3,
                                  .site = "test"};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_rank = 0, "n_rank = 0";
    case 2:
        return a->rank = 3, "rank = n_rank";
    case 3:
        return a->firsts = falling, "a rank with -1 experts";
    case 4:
        return a->ids = NULL, "ids = NULL";
    case 5:
        return a->n_col = -1, "n_col < 0";
    case 6:
        return a->k_top = 0, "k_top = 0";
    case 7:
        return a->n_row = -1, "n_row < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_moe_dispatch = {
    N_HOSTILE, N_RANDOM, N_QUICK, moe_dispatch_make, moe_dispatch_arguments, NULL};

/* --- broadcast, barrier ----------------------------------------------------------------------- */

static void broadcast_make(checkop_case *c, int32_t index)
{
    comm_shape s = shape_make(c, index);
    checkop_call *call = checkop_call_add(c, WHIM_OP_broadcast);
    *(whim_broadcast_args *)(void *)call->args.bytes =
        (whim_broadcast_args){.bytes = s.rows * s.cols, .site = "test"};
    checkop_operands(c, call, CHECKOP_JUNK, 3);
}

static const char *broadcast_arguments(int32_t i, void *args)
{
    whim_broadcast_args *a = args;
    *a = (whim_broadcast_args){.x = checkop_somewhere, .bytes = 8, .site = "test"};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->bytes = -1, "bytes < 0";
    case 2:
        return a->root = -1, "root < 0";
    case 3:
        return a->root = 1024, "root = 1024";
    case 4:
        return a->x = NULL, "x = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_broadcast = {
    N_HOSTILE, N_RANDOM, N_QUICK, broadcast_make, broadcast_arguments, NULL};

static void barrier_make(checkop_case *c, int32_t index)
{
    (void)index;
    checkop_call *call = checkop_call_add(c, WHIM_OP_barrier);
    ((whim_barrier_args *)(void *)call->args.bytes)->site = "test";
    checkop_say(c, "of one");
}

const checkop_case_family checkop_barrier = {1, 0, 0, barrier_make, NULL, NULL};
