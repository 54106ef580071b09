/* SPDX-License-Identifier: Apache-2.0 */
/* The table of places. */
#include "kv/disk_index.h"

#include "base/alloc.h"

#include <stddef.h>
#include <string.h>

enum { FIRST_SIZE = 64 };

void whim_disk_index_deinit(whim_disk_index *index)
{
    whim_free(index->slots);
    *index = (whim_disk_index){0};
}

static bool key_equals(const whim_prefix_key *a, const whim_prefix_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The key's slot, or the empty one where it would go. */
static whim_disk_place *slot_of(const whim_disk_index *index, const whim_prefix_key *key)
{
    uint64_t at;
    memcpy(&at, key->byte, sizeof at);
    for (;; at++) {
        whim_disk_place *slot = &index->slots[at & (uint64_t)(index->size - 1)];
        if (slot->segment < 0 || key_equals(&slot->key, key)) {
            return slot;
        }
    }
}

whim_disk_place *whim_disk_index_find(const whim_disk_index *index, const whim_prefix_key *key)
{
    if (index->size == 0) {
        return NULL;
    }
    whim_disk_place *slot = slot_of(index, key);
    return slot->segment >= 0 ? slot : NULL;
}

/* A new table of this size without the entries of one segment (-1: with all). */
static whim_err rebuild(whim_disk_index *index, int64_t size, int32_t without)
{
    whim_disk_index made = {.size = size};
    made.slots = whim_alloc_array(size, (int64_t)sizeof *made.slots);
    if (made.slots == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int64_t i = 0; i < size; i++) {
        made.slots[i].segment = -1;
    }
    for (int64_t i = 0; i < index->size; i++) {
        const whim_disk_place *old = &index->slots[i];
        if (old->segment >= 0 && old->segment != without) {
            *slot_of(&made, &old->key) = *old;
            made.n++;
        }
    }
    whim_free(index->slots);
    *index = made;
    return WHIM_ERR_OK;
}

whim_err whim_disk_index_put(whim_disk_index *index, const whim_disk_place *place)
{
    if (2 * (index->n + 1) > index->size) {
        WHIM_TRY(rebuild(index, index->size > 0 ? 2 * index->size : FIRST_SIZE, -1));
    }
    whim_disk_place *slot = slot_of(index, &place->key);
    index->n += slot->segment < 0;
    *slot = *place;
    return WHIM_ERR_OK;
}

whim_err whim_disk_index_drop_segment(whim_disk_index *index, int32_t segment)
{
    return index->size > 0 ? rebuild(index, index->size, segment) : WHIM_ERR_OK;
}
