/*
 * The interface between Weft and the implementations of batching policies, for programs and
 * plug-ins that add one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_POLICY whose
 * `ops` is a weft_batching_ops).
 *
 * A policy decides when waiting requests become a batch, by a setting: the dispatch starts a batch
 * as the setting says, and the policy may change it whenever a request arrives or is answered.
 * Times are in seconds of a clock that begins anywhere; in a forecast (weft serve --simulate) it is
 * virtual, so a policy must not look at another clock. The functions are called with the lock of
 * the batcher held, so they must be short; one thread at a time uses a policy.
 */
#ifndef WEFT_BATCHING_OPS_H
#define WEFT_BATCHING_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A batching setting. A batch is due when `min_rows` rows wait; when the oldest request has waited
 * `max_delay` seconds; or when `max_in_system` requests are queued or running (0: no bound), since
 * closed-loop clients can then send none before an answer. A batch has at most `max_rows` rows.
 * While `surge_rows` or more rows wait (0: never), it may have as many as the queue's limit.
 * one_request: each batch is a single request. */
typedef struct weft_batch_setting {
    int64_t min_rows, max_rows, max_in_system, surge_rows;
    double max_delay;
    bool one_request;
} weft_batch_setting;

/* The queue of a policy. */
typedef struct weft_batching_queue {
    int64_t limit; /* the most rows of a batch */
    /* The seconds that a batch of so many rows takes alone, from measurements; 0: unknown. */
    double (*seconds)(const struct weft_batching_queue *queue, double rows);
} weft_batching_queue;

typedef struct weft_batching_ops {
    size_t struct_size; /* sizeof(weft_batching_ops) */
    /* Reads the arguments, the text after "NAME:", or "", and sets the first setting, which holds
     * batches of 1 row up to the limit. *state is the policy's own; the queue outlives it. */
    weft_status (*open)(const char *arguments, const weft_batching_queue *queue,
                        weft_batch_setting *setting, void **state);
    void (*close)(void *state);
    /* A request of so many rows has arrived, or one was answered `latency` seconds after its
     * arrival; `in_system` requests are queued or running now. May change the setting, of which
     * numbers out of range are taken as the nearest ones within. NULL: the setting stays. */
    void (*arrived)(void *state, double now, int64_t rows, int64_t in_system,
                    weft_batch_setting *setting);
    void (*answered)(void *state, double now, double latency, int64_t in_system,
                     weft_batch_setting *setting);
} weft_batching_ops;

#ifdef __cplusplus
}
#endif
#endif
