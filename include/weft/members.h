/* Members of an elastic run (weft/cluster.h), as reported by its coordinator. */
#ifndef WEFT_MEMBERS_H
#define WEFT_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set from any thread, or a signal handler, to end a call that waits. */
typedef struct weft_stop {
    volatile int wanted;
} weft_stop;

/* A member, by its last heartbeat. */
typedef struct weft_cluster_member {
    uint32_t id;       /* its actor id: unique in a run */
    const char *role;  /* "learner", "server" */
    char name[40];     /* role and slot, "learner 2", as in all messages */
    char host[64];     /* the name of its host; "": not known */
    char address[512]; /* where other members reach it; "": nowhere */
    int slot;          /* 0, 1, ... within its role; a free slot is given again */
    int64_t step;      /* finished steps of a learner, updates of a server */
    double loss;       /* of a learner's last step */
    double rate;       /* samples a second of this learner over its last steps */
    double staleness;  /* mean of a server's updates: other updates that it had made since the
                          learner read the parameters */
    double silent;     /* seconds since its last message */
    bool leaving;
} weft_cluster_member;

/* An event: a member has joined, left, or was removed. */
typedef struct weft_cluster_event {
    int64_t number; /* 1 for the first event of a run, then one more for each */
    double ago;     /* seconds */
    char text[256]; /* "learner 1 of HOST was lost: silent for 10.2 s" */
} weft_cluster_event;

typedef struct weft_cluster_status {
    uint64_t run; /* random id; 0: unknown */
    char model[64], exchange[128], data[128];
    int64_t step, steps; /* highest step of the learners, and steps of each in all; 0: unknown */
    double rate;         /* samples a second of all learners */
    int learners, servers, learners_expected, servers_expected; /* expected: at first */
    bool running, over;
    char *fault; /* NULL: none */
    weft_cluster_member *members;
    int count;
    weft_cluster_event *events; /* the last events, the oldest first */
    int event_count;
} weft_cluster_status;
WEFT_API void weft_cluster_status_free(weft_cluster_status *status);

/* Receives the address of a coordinator, as a joining member needs it, and the status of the run;
 * valid during the call. */
typedef void (*weft_cluster_fn)(void *user, const char *address, const weft_cluster_status *status);

#ifdef __cplusplus
}
#endif
#endif
