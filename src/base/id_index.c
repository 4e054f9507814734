/* Implements a hash table from ids to places, with open addressing; at most half of its slots are
 * in use. */
#include "base/id_index.h"

static size_t slot_of(const weft_id_index *x, uint32_t id)
{
    size_t at = (size_t)weft_mix(id, 1) & (x->capacity - 1);
    while (x->slots[at].taken && x->slots[at].id != id) at = (at + 1) & (x->capacity - 1);
    return at;
}

size_t weft_id_index_find(const weft_id_index *x, uint32_t id)
{
    if (x->count == 0) return WEFT_NO_PLACE;
    const weft_id_slot *slot = &x->slots[slot_of(x, id)];
    return slot->taken ? slot->place : WEFT_NO_PLACE;
}

static weft_status widen(weft_id_index *x)
{
    weft_id_index wider = {.count = x->count, .capacity = x->capacity ? 2 * x->capacity : 16};
    WEFT_TRY(WEFT_NEW(&wider.slots, wider.capacity));
    for (size_t i = 0; i < x->capacity; i++)
        if (x->slots[i].taken) wider.slots[slot_of(&wider, x->slots[i].id)] = x->slots[i];
    free(x->slots);
    *x = wider;
    return WEFT_OK;
}

weft_status weft_id_index_put(weft_id_index *x, uint32_t id, size_t place)
{
    if (2 * (x->count + 1) > x->capacity) WEFT_TRY(widen(x));
    weft_id_slot *slot = &x->slots[slot_of(x, id)];
    x->count += !slot->taken;
    *slot = (weft_id_slot){.taken = true, .id = id, .place = place};
    return WEFT_OK;
}

/* Moves the ids behind the free slot that belong before it (backward shift), so that no search ends
 * too early. */
void weft_id_index_remove(weft_id_index *x, uint32_t id)
{
    if (weft_id_index_find(x, id) == WEFT_NO_PLACE) return;
    size_t mask = x->capacity - 1, free_slot = slot_of(x, id);
    for (size_t at = (free_slot + 1) & mask; x->slots[at].taken; at = (at + 1) & mask) {
        size_t home = (size_t)weft_mix(x->slots[at].id, 1) & mask;
        if (((at - home) & mask) < ((at - free_slot) & mask)) continue;
        x->slots[free_slot] = x->slots[at];
        free_slot = at;
    }
    x->slots[free_slot].taken = false;
    x->count--;
}

void weft_id_index_clear(weft_id_index *x)
{
    if (x->slots) memset(x->slots, 0, x->capacity * sizeof(*x->slots));
    x->count = 0;
}

void weft_id_index_free(weft_id_index *x)
{
    free(x->slots);
    *x = (weft_id_index){.count = 0};
}
