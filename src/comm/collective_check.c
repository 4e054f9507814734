/* Checks that the ranks of a communicator are in the same collective, and describes a collective
 * for the message of a mismatch. */
#include <stdio.h>

#include "comm/comm.h"

/* Whether the counts of rank r match the counts of this rank. In an all-to-all, what rank r sends
 * to this rank must be what this rank receives from it. */
static bool counts_alike(const weft_operation *o, int r, const weft_transfer *t,
                         const int64_t *counts)
{
    int n = o->comm->size, me = o->comm->rank;
    if (o->t.kind == WEFT_ALL_TO_ALL) return counts[me] == o->counts[n + r];
    if (weft_has_counts(o->t.kind))
        return memcmp(counts, o->counts, (size_t)n * sizeof(int64_t)) == 0;
    return t->count == o->t.count;
}

bool weft_transfer_alike(const weft_operation *o, int r, const weft_transfer *t,
                         const int64_t *counts)
{
    return t->kind == o->t.kind && t->dtype == o->t.dtype && t->leaves == o->t.leaves &&
           (!weft_has_root(t->kind) || t->peer == o->t.peer) && counts_alike(o, r, t, counts);
}

void weft_transfer_describe(const weft_transfer *t, const char *what, const int64_t *counts, int n,
                            char *out)
{
    bool parts = weft_has_counts(t->kind) || t->kind == WEFT_ALL_TO_ALL;
    const char *dtype = weft_dtype_name(t->dtype);
    int at = snprintf(out, WEFT_TRANSFER_TEXT, "%s of %.60s", weft_transfer_name(t->kind), what);
    size_t room = WEFT_TRANSFER_TEXT - (size_t)at;
    int64_t count = parts ? weft_counts_before(counts, n) : t->count;
    at += snprintf(out + at, room, " (%lld %s", (long long)count, dtype);
    for (int r = 0; parts && r < n && at < WEFT_TRANSFER_TEXT - 48; r++)
        at += snprintf(out + at, WEFT_TRANSFER_TEXT - (size_t)at, "%s%lld", r ? " + " : " = ",
                       (long long)counts[r]);
    if (weft_has_root(t->kind))
        at += snprintf(out + at, WEFT_TRANSFER_TEXT - (size_t)at, " %s rank %d",
                       t->kind == WEFT_GATHER ? "to" : "of", t->peer);
    if (t->leaves)
        at += snprintf(out + at, WEFT_TRANSFER_TEXT - (size_t)at, ", %d leaves", t->leaves);
    (void)snprintf(out + at, WEFT_TRANSFER_TEXT - (size_t)at, ")");
}
