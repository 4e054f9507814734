/* Who takes part in a run of processes that come and go (weft/cluster.h), as its coordinator has
 * heard of them. */
#ifndef WEFT_MEMBERS_H
#define WEFT_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set by anybody, also by a signal handler, to end what waits. */
typedef struct weft_stop {
    volatile int wanted;
} weft_stop;

/* A member, as the coordinator has heard of it. */
typedef struct weft_cluster_member {
    uint32_t id;
    const char *role, *address;
    int slot;                     /* which of its role it is */
    int64_t clock;                /* steps of a learner, updates of a server */
    double loss, rate, staleness; /* of a learner; samples a second; mean, of a server */
    double silent;                /* seconds since it was heard of */
    bool leaving;
} weft_cluster_member;

typedef struct weft_cluster_status {
    bool running, over;
    char *fault; /* NULL: there is none */
    weft_cluster_member *members;
    int count;
    char *texts; /* that members point into */
} weft_cluster_status;
WEFT_API void weft_cluster_status_free(weft_cluster_status *status);

/* Told of a coordinator: its address, as joiners need it, and who is there; during the call. */
typedef void (*weft_cluster_fn)(void *user, const char *address, const weft_cluster_status *status);

#ifdef __cplusplus
}
#endif
#endif
