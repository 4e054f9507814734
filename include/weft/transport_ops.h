/*
 * The interface between Weft and the transports of communicators, for programs and plug-ins that
 * add an engine (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_ENGINE whose `ops` is a
 * weft_transport_ops). --engine NAME chooses it; its ranks are threads of one process.
 *
 * A transport carries bytes from each rank to each other one, in order and without loss. The
 * library makes messages, collectives, splits, time limits and aborts of them (weft/comm.h); sums
 * have the bits of all other engines. Each rank sends each other one, in one round, what that needs
 * of it: the fewest bytes there are, but N (N - 1) frames. An all-reduce of more than 4 KiB takes
 * two rounds, the slices of the sum and their results. No function waits. The thread of a rank
 * alone calls `send` with that rank as `from` and `receive` with it as `to`; those of several ranks
 * do so at once. A function that fails (services->fail) ends the job with its message.
 */
#ifndef WEFT_TRANSPORT_OPS_H
#define WEFT_TRANSPORT_OPS_H

#include <stddef.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_transport_ops {
    size_t struct_size; /* sizeof(weft_transport_ops) */
    /* Connects `ranks` ranks, from 1 to WEFT_MAX_RANKS. *state is the transport's own. */
    weft_status (*open)(int ranks, void **state);
    void (*close)(void *state);
    /* Takes at most `bytes` bytes, at least 1, from rank `from` to another rank `to`, and sets
     * *moved to how many it has taken; 0: none at the moment. The data stay the caller's. */
    weft_status (*send)(void *state, int from, int to, const void *data, size_t bytes,
                        size_t *moved);
    /* Gives rank `to` at most `bytes` of the next bytes from rank `from`, likewise. */
    weft_status (*receive)(void *state, int to, int from, void *data, size_t bytes, size_t *moved);
} weft_transport_ops;

#ifdef __cplusplus
}
#endif
#endif
