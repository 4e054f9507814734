/*
 * The interface between Weft and the consistency policies of parameter servers, for programs and
 * plug-ins that add one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_SERVER_POLICY
 * whose `ops` is a weft_server_policy_ops). --exchange server:policy=NAME chooses it.
 *
 * A policy says which updates that learners have pushed make a version of the parameters, when a
 * learner may begin a step, and what becomes of late updates. A learner's clock is the number of
 * steps that it has finished. Each range of the parameters asks the policy for itself, on every
 * server, and a replica asks again what its range has asked: so the functions must depend on their
 * arguments alone. Several threads call them at once.
 */
#ifndef WEFT_SERVER_POLICY_OPS_H
#define WEFT_SERVER_POLICY_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The pending updates of a range and its learners. */
typedef struct weft_server_pending {
    int updates;     /* number of pending updates, at least 1 */
    int learners;    /* that have joined and not left; may be 0 */
    int64_t slowest; /* clock of the slowest of them */
    int64_t clock;   /* lowest clock of a pending update */
    int of_clock;    /* pending updates with that clock */
    int count;       /* the option c; without it 0 in a policy of rounds, else 1 */
} weft_server_pending;

/* A learner that waits for its next step. */
typedef struct weft_server_waiting {
    int64_t clock;   /* its clock */
    int64_t slowest; /* clock of the slowest learner; any number, if a message was forged */
    int64_t made;    /* highest clock of the updates in versions */
    int64_t bound;   /* the option bound; -1: none */
} weft_server_waiting;

/* An update is late if a version of its clock or a later one was made without it. DISCARD: it has
 * no effect. APPLY: it makes a version alone. KEEP: the range keeps it as a residual, which the
 * next version adds to the sum of its updates (as partial collectives do, Li et al. 2020). */
typedef enum weft_late { WEFT_LATE_DISCARD, WEFT_LATE_APPLY, WEFT_LATE_KEEP } weft_late;

typedef struct weft_server_policy_ops {
    size_t struct_size;  /* sizeof(weft_server_policy_ops) */
    bool counts, bounds; /* the policy needs the option c; it needs the option bound */
    bool rounds;         /* a version has updates of one clock only, else those that came first */
    /* How many pending updates make the next version: the first ones, with `rounds` of those of the
     * lowest clock. 0: an update of that version is missing. Another number than from 0 to
     * `updates` (with `rounds`: `of_clock`) ends the run. */
    int (*complete)(const weft_server_pending *pending);
    bool (*may_begin)(const weft_server_waiting *learner);
    /* With `rounds`: what becomes of an update that is `clocks` clocks (0: none) behind the newest
     * version. NULL: no update can be late, since a version waits for all learners. */
    weft_late (*late)(int64_t clocks);
} weft_server_policy_ops;

#ifdef __cplusplus
}
#endif
#endif
