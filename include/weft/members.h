/* The status of an elastic run (weft/cluster.h) and its members, as its coordinator reports
 * them. */
#ifndef WEFT_MEMBERS_H
#define WEFT_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A request to end a call that waits. Any thread or a signal handler increments `wanted`, which is
 * 0 at first; the call ends soon after, as its description says. */
typedef struct weft_stop {
    volatile int wanted;
} weft_stop;

/* A member of the run, with the statistics of its last heartbeat. */
typedef struct weft_cluster_member {
    uint32_t id;       /* actor id, which no other member of the run has had */
    const char *role;  /* "learner" (peers too) or "server" */
    char name[40];     /* role and slot, "learner 2", as messages name the member */
    char host[64];     /* host name; "": unknown */
    char address[512]; /* where other members connect to it; "": nowhere */
    int slot;          /* 0, 1, ... within the role; a later member may get a free slot */
    int64_t step;      /* step of the run that a learner has reached; of a server: updates of
                          learners that it has applied, each counted once */
    double loss;       /* loss of a learner's last step */
    double rate;       /* of a learner: samples per second over its last steps */
    double staleness;  /* of a server: mean over its updates of the number of other updates that it
                          made since the learner had read the parameters */
    double silent;     /* seconds since the member's last message */
    bool leaving;      /* it has been asked to leave (weft leave) */
    /* The use of a device with memory of its own by a learner's first rank, see weft_device_use:
     * the share of a step in which it had work, bytes in use, and in all. 0: unknown. */
    double device_busy;
    uint64_t device_used, device_total;
    uint64_t room[1]; /* of later versions: 0 */
} weft_cluster_member;

/* A member event: a member has joined, has left, or is lost. */
typedef struct weft_cluster_event {
    int64_t number;   /* number of the event in the run, from 1 */
    double ago;       /* seconds since the event */
    char text[256];   /* "learner 1 on HOST (number 7) is lost: no heartbeat for 10.2 s" */
    uint64_t room[2]; /* of later versions: 0 */
} weft_cluster_event;

/* The status of a run. */
typedef struct weft_cluster_status {
    uint64_t run; /* run id, drawn at random; 0: unknown */
    char model[64], exchange[128], data[128];
    /* Highest step that a learner, present or gone, has reached, and the last step of the run; 0:
     * unknown. Steps count from the beginning of training, also if the run resumes from a
     * checkpoint. */
    int64_t step, steps;
    double rate; /* samples per second, sum over the learners */
    /* Members now, and the numbers with which the run begins. */
    int learners, servers, learners_expected, servers_expected;
    bool running, over;           /* all expected members have joined; all learners have finished */
    char *fault;                  /* why the run cannot continue; NULL: it can */
    weft_cluster_member *members; /* [count] */
    int count;
    weft_cluster_event *events; /* [event_count]: the last events, oldest first */
    int event_count;
    uint64_t room[8]; /* of later versions: 0 */
} weft_cluster_status;
/* Frees the contents of the status and zeroes it. */
WEFT_API void weft_cluster_status_free(weft_cluster_status *status);

/* Receives the address of a coordinator, in the form in which joining members take it, and the
 * status of its run; both are valid during the call. */
typedef void (*weft_cluster_fn)(void *user, const char *address, const weft_cluster_status *status);

#ifdef __cplusplus
}
#endif
#endif
