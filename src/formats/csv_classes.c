/* Finds the class of a label: a hash table with open addressing, of which at most half of the slots
 * are in use. Labels that are equal numbers are one class, so a number is hashed by its value. */
#include <math.h>

#include "formats/formats.h"

enum { FIRST_CAPACITY = 64 };

/* Beyond 2^53 different whole numbers become the same double. */
static const double EXACT = 9007199254740992.0;

bool weft_csv_same_class(const char *a, const char *b)
{
    double x, y;
    if (strcmp(a, b) == 0) return true;
    return weft_parse_real(a, &x) && weft_parse_real(b, &y) && x == y && fabs(x) < EXACT;
}

static uint64_t hash_of(const char *label)
{
    double value;
    uint64_t bits;
    if (!weft_parse_real(label, &value) || !(fabs(value) < EXACT)) return weft_hash_text(label);
    value += 0.0; /* -0 is 0 */
    memcpy(&bits, &value, sizeof(bits));
    return weft_mix(bits, 0);
}

/* The slot that has the label, or the empty one where it belongs. */
static size_t place_of(const weft_csv_classes *c, const char *label, uint64_t hash)
{
    size_t at = (size_t)hash & (c->capacity - 1);
    while (c->slots[at].label &&
           (c->slots[at].hash != hash || !weft_csv_same_class(c->slots[at].label, label)))
        at = (at + 1) & (c->capacity - 1);
    return at;
}

int weft_csv_classes_find(const weft_csv_classes *c, const char *label)
{
    if (c->count == 0) return -1;
    const weft_csv_class *slot = &c->slots[place_of(c, label, hash_of(label))];
    return slot->label ? slot->number : -1;
}

static weft_status widen(weft_csv_classes *c)
{
    weft_csv_classes wider = {.capacity = c->capacity ? c->capacity * 2 : FIRST_CAPACITY};
    WEFT_TRY(WEFT_NEW(&wider.slots, wider.capacity));
    for (size_t i = 0; i < c->capacity; i++)
        if (c->slots[i].label)
            wider.slots[place_of(&wider, c->slots[i].label, c->slots[i].hash)] = c->slots[i];
    wider.count = c->count;
    free(c->slots);
    *c = wider;
    return WEFT_OK;
}

weft_status weft_csv_classes_add(weft_csv_classes *c, const char *label, int number)
{
    uint64_t hash = hash_of(label);
    if (2 * (c->count + 1) > c->capacity) WEFT_TRY(widen(c));
    weft_csv_class *slot = &c->slots[place_of(c, label, hash)];
    if (slot->label) return WEFT_OK;
    *slot = (weft_csv_class){label, hash, number};
    c->count++;
    return WEFT_OK;
}

void weft_csv_classes_free(weft_csv_classes *c)
{
    free(c->slots);
    *c = (weft_csv_classes){0};
}
