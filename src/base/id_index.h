/* A hash table from ids to places in an array. */
#ifndef WEFT_BASE_ID_INDEX_H
#define WEFT_BASE_ID_INDEX_H

#include "base/base.h"

typedef struct weft_id_slot {
    bool taken;
    uint32_t id;
    size_t place;
} weft_id_slot;
typedef struct weft_id_index {
    weft_id_slot *slots;
    size_t count, capacity;
} weft_id_index;
#define WEFT_NO_PLACE SIZE_MAX
/* The place of an id; WEFT_NO_PLACE: the index does not have it. */
size_t weft_id_index_find(const weft_id_index *index, uint32_t id);
/* Adds an id, or changes its place. */
weft_status weft_id_index_put(weft_id_index *index, uint32_t id, size_t place) WEFT_NODISCARD;
void weft_id_index_remove(weft_id_index *index, uint32_t id);
/* Drops all ids; the memory stays. */
void weft_id_index_clear(weft_id_index *index);
void weft_id_index_free(weft_id_index *index);

#endif
