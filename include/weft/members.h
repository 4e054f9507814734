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
    uint32_t id;       /* its number: no two members of a run have ever the same */
    const char *role;  /* "learner", "server" */
    char name[40];     /* role and slot, "learner 2", by which all messages call it */
    char host[64];     /* the name of its machine; "": not known */
    char address[512]; /* where others reach it; "": nowhere */
    int slot;          /* which of its role it is, from 0; a slot is given again when it is free */
    int64_t step;      /* finished steps of a learner, updates that a server has made */
    double loss;       /* of a learner's last step */
    double rate;       /* samples a second of this learner alone, over its last steps */
    double staleness;  /* mean over a server's updates: how many others it had made since the
                        * learner read the parameters */
    double silent;     /* seconds since the coordinator heard of it */
    bool leaving;
} weft_cluster_member;

/* A member has joined, left, or was lost. */
typedef struct weft_cluster_event {
    int64_t number; /* of a run's first event 1, then one more for each */
    double ago;     /* seconds */
    char text[256]; /* "learner 1 of HOST was lost: silent for 10.2 s" */
} weft_cluster_event;

typedef struct weft_cluster_status {
    uint64_t run; /* drawn at random; 0: not known */
    char model[64], exchange[128], data[128];
    int64_t step, steps; /* of the learner that is ahead, and of each in all; 0: not known */
    double rate;         /* samples a second of all learners */
    int learners, servers, learners_expected, servers_expected; /* with which it begins */
    bool running, over;
    char *fault; /* NULL: there is none */
    weft_cluster_member *members;
    int count;
    weft_cluster_event *events; /* the last ones, the oldest first */
    int event_count;
} weft_cluster_status;
WEFT_API void weft_cluster_status_free(weft_cluster_status *status);

/* Told of a coordinator: its address, as joiners need it, and who is there; during the call. */
typedef void (*weft_cluster_fn)(void *user, const char *address, const weft_cluster_status *status);

#ifdef __cplusplus
}
#endif
#endif
