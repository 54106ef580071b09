/* SPDX-License-Identifier: Apache-2.0 */
/* A link between threads of one process, for tests. Bytes are read where the sender has them when
 * they are delivered, as late as any network would, so that a sender who writes there too soon is
 * seen. Messages overtake each other when that is asked for.
 * Threads: a link's owner; the functions here any. */
#ifndef WHIM_SUPPORT_LINK_QUEUE_H
#define WHIM_SUPPORT_LINK_QUEUE_H

#include "comm/link.h"

enum { WHIM_LINK_QUEUE_NODES = 4 };

extern const whim_link_ops whim_link_queue;

/* Before links are opened: whether messages overtake each other and wait for a while at random. */
void whim_link_queue_reset(bool is_wild, uint64_t seed);

/* A message from outside, to a node; its bytes stay. */
void whim_link_queue_inject(int32_t node, const whim_link_head *head, const void *bytes);

/* A node falls silent, and the others hear of it. */
void whim_link_queue_cut(int32_t node);

#endif
