/* Implements a hash table from names to numbers, with open addressing; at most half of its slots
 * are in use. */
#include "base/base.h"

static size_t place_of(const weft_names *n, const char *name)
{
    size_t at = (size_t)weft_hash_text(name) & (n->capacity - 1);
    while (n->slots[at].name && strcmp(n->slots[at].name, name) != 0)
        at = (at + 1) & (n->capacity - 1);
    return at;
}

int weft_names_find(const weft_names *n, const char *name)
{
    if (n->count == 0) return -1;
    const weft_name_slot *slot = &n->slots[place_of(n, name)];
    return slot->name ? slot->number : -1;
}

static weft_status widen(weft_names *n)
{
    weft_names wider = {.capacity = n->capacity ? n->capacity * 2 : 64};
    WEFT_TRY(WEFT_NEW(&wider.slots, wider.capacity));
    for (size_t i = 0; i < n->capacity; i++)
        if (n->slots[i].name) wider.slots[place_of(&wider, n->slots[i].name)] = n->slots[i];
    wider.count = n->count;
    free(n->slots);
    *n = wider;
    return WEFT_OK;
}

weft_status weft_names_add(weft_names *n, const char *name, int number)
{
    if (2 * (n->count + 1) > n->capacity) WEFT_TRY(widen(n));
    size_t at = place_of(n, name);
    n->count += n->slots[at].name == NULL;
    n->slots[at] = (weft_name_slot){name, number};
    return WEFT_OK;
}

void weft_names_free(weft_names *n)
{
    free(n->slots);
    *n = (weft_names){0};
}
