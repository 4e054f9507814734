/* Checks the names in a table of measurements that a user gives: its devices, operators, types and
 * layouts exist, and its shapes can. A group that no run has would otherwise never be found to be
 * misspelt. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>

#include "base/registry.h"
#include "program/tuning.h"

/* A group is read from `at`; `why` says what is wrong with it. */
typedef struct reader {
    const weft_context *context;
    const char *at;
    bool built_in; /* the device is one whose layouts have oneDNN's notation */
    char why[200];
} reader;

/* Notes what is wrong with the text at `name`, of at most `size` bytes. */
static bool fail(reader *r, const char *what, const char *name, int size)
{
    enum { MOST = 60 };
    (void)snprintf(r->why, sizeof(r->why), "%s '%.*s'", what, WEFT_MIN(size, (int)MOST), name);
    return false;
}

/* The group is damaged at r->at. */
static bool damaged(reader *r)
{
    return *r->why ? false : fail(r, "the group is damaged at", r->at, INT_MAX);
}

static bool skip(reader *r, const char *text)
{
    size_t size = strlen(text);
    if (strncmp(r->at, text, size) != 0) return false;
    r->at += size;
    return true;
}

static bool is_number(reader *r)
{
    const char *begin = r->at;
    while (isdigit((unsigned char)*r->at)) r->at++;
    return r->at > begin;
}

/* "OPERATOR(ARGUMENTS) ", up to the values; the arguments of an operator may be any text. */
static bool read_nodes(reader *r)
{
    while (!skip(r, "of ") && strncmp(r->at, "to ", 3) != 0) {
        int size = (int)strcspn(r->at, "(");
        if (!r->at[size]) return damaged(r);
        if (!weft_registry_look(r->context, WEFT_KIND_OPERATOR, r->at, (size_t)size))
            return fail(r, "there is no operator", r->at, size);
        const char *end = strstr(r->at, ") ");
        if (!end) return damaged(r);
        r->at = end + 2;
    }
    return true;
}

/* A size of a value of `elements` so far. */
static bool read_size(reader *r, int64_t *elements)
{
    char text[24];
    int64_t size;
    int length = (int)strcspn(r->at, ",]");
    (void)snprintf(text, sizeof(text), "%.*s", length, r->at);
    if (!weft_parse_int(text, &size) || size < 1 || !isdigit((unsigned char)*text))
        return fail(r, "a size is a whole number from 1, and there is", r->at, length);
    if (size > INT64_MAX / *elements)
        return fail(r, "a value has more elements than memory can have, by the size", r->at,
                    length);
    *elements *= size;
    r->at += length;
    return true;
}

/* "NUMBER TYPE[SHAPE]"; *rank: dimensions. */
static bool read_type(reader *r, int *rank)
{
    char name[8];
    weft_dtype dtype;
    if (!is_number(r) || !skip(r, " ")) return damaged(r);
    int size = (int)strcspn(r->at, "[");
    (void)snprintf(name, sizeof(name), "%.*s", size, r->at);
    if (!weft_dtype_parse(name, &dtype)) return fail(r, "there is no type", r->at, size);
    r->at += size;
    *rank = 0;
    int64_t elements = (int64_t)weft_dtype_size(dtype);
    if (!skip(r, "[")) return damaged(r);
    for (bool more = *r->at != ']'; more; more = skip(r, ", "))
        if (!read_size(r, &elements) || ++*rank > WEFT_MAX_RANK) return damaged(r);
    return skip(r, "]") || damaged(r);
}

/* Whether a name is in oneDNN's notation for so many dimensions: each once, in capitals if it has
 * blocks, and then the blocks, as in "aBcd16b". */
static bool is_blocked(const char *name, int size, int rank)
{
    int at = 0;
    unsigned seen = 0;
    for (; at < size && isalpha((unsigned char)name[at]); at++) {
        int dimension = tolower((unsigned char)name[at]) - 'a';
        if (dimension >= rank || seen & 1U << dimension) return false;
        seen |= 1U << dimension;
    }
    if (at == 0 || seen != (1U << at) - 1) return false;
    for (int digits; at < size; at++) {
        for (digits = 0; at < size && isdigit((unsigned char)name[at]); at++) digits++;
        if (digits == 0 || at == size || !(seen >> (name[at] - 'a') & 1U)) return false;
    }
    return true;
}

/* A device from outside may name its layouts as it likes. */
static bool is_layout(const reader *r, const char *name, int size, int rank)
{
    static const char *const words[] = {"any", "plain", "private"};
    for (size_t i = 0; i < WEFT_COUNT(words); i++)
        if (strncmp(name, words[i], (size_t)size) == 0 && !words[i][size]) return true;
    if (!r->built_in) return size > 0;
    return strncmp(name, "flat ", 5) == 0 ? is_blocked(name + 5, size - 5, WEFT_MAX_RANK)
                                          : is_blocked(name, size, rank);
}

/* " LAYOUT", up to the next value. */
static bool read_layout(reader *r, int rank)
{
    const char *comma = strstr(r->at, ", "), *to = strstr(r->at, " to ");
    if (!skip(r, " ") || !to) return damaged(r);
    int size = (int)((comma && comma < to ? comma : to) - r->at);
    if (!is_layout(r, r->at, size, rank)) return fail(r, "there is no layout", r->at, size);
    r->at += size;
    return true;
}

/* "INPUT, INPUT to OUTPUT, OUTPUT" */
static bool read_values(reader *r)
{
    int rank;
    if (strncmp(r->at, "to ", 3) != 0) {
        do {
            if (!read_type(r, &rank) || !read_layout(r, rank)) return false;
        } while (skip(r, ", "));
        if (!skip(r, " ")) return damaged(r);
    }
    if (!skip(r, "to ")) return damaged(r);
    do {
        if (!read_type(r, &rank)) return false;
    } while (skip(r, ", "));
    return !*r->at || damaged(r);
}

weft_status tuning_check_names(const tuning *t, const weft_context *context)
{
    for (size_t i = 0; i < t->count; i++) {
        const measured *m = &t->lines[i];
        const char *device = NULL;
        for (size_t h = 0; h < t->hardware_count; h++)
            if (strcmp(t->hardware[h].label, m->device) == 0) device = t->hardware[h].device;
        reader r = {.context = context, .at = m->group};
        if (!device || !weft_device_is_known(context, device, &r.built_in))
            return tuning_damaged(t, m->number, "there is no such device here");
        if (!read_nodes(&r) || !read_values(&r)) return tuning_damaged(t, m->number, r.why);
    }
    return WEFT_OK;
}
