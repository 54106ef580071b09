/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell of themselves in the memory that they share, for meters: each writes its own,
 * whoever has the memory may look. Ranks of other hosts count on node 0 too, a moment later, where
 * its bridge writes (comm/bridge_meters.c).
 * Threads: any may look; a rank's own are written by the threads of its comm and mail. */
#ifndef WHIM_COMM_RANK_METERS_H
#define WHIM_COMM_RANK_METERS_H

#include "comm/comm.h"

/* Places of calls that are told apart; what is beyond counts with the last. */
enum { WHIM_COMM_SITES = 16, WHIM_COMM_SITE_NAME = 32 };

/* What a rank tells of its part of the pages on disk. */
typedef enum whim_rank_disk {
    WHIM_RANK_DISK_BYTES, /* there now; the others count from the first group on */
    WHIM_RANK_DISK_ERRORS,
    WHIM_RANK_DISK_WRITTEN,
    WHIM_RANK_DISK_DROPPED,
    WHIM_RANK_DISK_COUNT
} whim_rank_disk;

typedef struct whim_rank_meters {
    int64_t step_ns; /* the clock at the end of its last step; 0: there was none */
    int64_t n_byte;  /* of collectives' messages and of letters that it sent, each counted once */
    int64_t n_link_byte; /* of rank 0: sent from host to host by any, with all that goes along */
    int64_t disk[WHIM_RANK_DISK_COUNT];
    int32_t n_site;
    struct {
        char name[WHIM_COMM_SITE_NAME];
        int64_t waited_ns; /* for others, in collectives there */
    } sites[WHIM_COMM_SITES];
} whim_rank_meters;

/* A step of this rank has ended. */
void whim_comm_step_done(const whim_comm *comm);

/* Its part of the pages on disk: what is there now, and what is to be added to the rest. */
void whim_comm_disk_told(const whim_comm *comm, const int64_t disk[WHIM_RANK_DISK_COUNT]);

/* As any rank of the group, or whoever has its memory. */
void whim_rank_meters_of(const whim_comm *comm, int32_t rank, whim_rank_meters *out);
void whim_rank_meters_look(const whim_comm_memory *memory, int32_t rank, whim_rank_meters *out);

/* Another group continues for one that is over: what was counted stays. Nobody is in the new one
 * yet. */
void whim_rank_meters_carry(const whim_comm_memory *to, const whim_comm_memory *from);

#endif
