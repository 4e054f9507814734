/* The coordinator is an actor that maintains the view of a run. The coordinator gives joining
 * members the run configuration, assigns ranges to servers, and removes failed members; no training
 * data pass through it.
 *
 * A run begins when all expected members have joined. From then on members may join and leave. When
 * the coordinator fails, the members go on with their view; a new coordinator at its address
 * recovers the view from them, and fails if its run configuration differs from theirs. A run that
 * has had no learner for 30 failure timeouts fails.
 *
 * A coordinator that hears no member at all suspects its own network: it takes no member for lost,
 * and goes on when they are back, with the views that they have made meanwhile. After 30 failure
 * timeouts it ends, and they go on without it. */
#ifndef WEFT_MEMBERSHIP_COORDINATOR_H
#define WEFT_MEMBERSHIP_COORDINATOR_H

#include "membership/view.h"

/* The fingerprint of a member holds what it must have in common with the run that it joins. NULL or
 * 0: not known, and not compared. */
typedef struct weft_fingerprint {
    /* The library's version; the model's name; shapes of a sample and its label. */
    const char *version, *model, *data;
    uint64_t parameters; /* hash of the parameters' layout in memory */
    /* In a member: checksum of the checkpoint that it has loaded; in the coordinator: of the
     * checkpoint from which the run continues. 0: none. */
    uint64_t checkpoint;
    int64_t step; /* step of that checkpoint */
    uint64_t run; /* in a member: id of the run that wrote the checkpoint; 0: not known */
} weft_fingerprint;

/* Copies version, model and data of a fingerprint, of each as much as fits into Join. */
weft_status weft_fingerprint_texts(const weft_fingerprint *fingerprint,
                                   char *texts[3]) WEFT_NODISCARD;

/* The failure timeout of a run whose members live as long as the job that they belong to: no member
 * is removed for silence, and every change of the view is sent at once. */
#define WEFT_NO_FAILURE_TIMEOUT 1e9

typedef struct weft_coordinator_options {
    size_t struct_size;              /* sizeof(weft_coordinator_options) */
    uint64_t run;                    /* run id, which the caller draws at random */
    int expected[WEFT_MEMBER_ROLES]; /* members that must join before the run begins */
    int ranges;                      /* ranges of the parameters; 0: the run has no servers */
    bool replicas;                   /* each range has a replica */
    /* A job: the run cannot be over before the learner of slot 0, which saves the result, has
     * finished. */
    bool first;
    /* The number of processes that the supervisor of the job has started for a slot. A client may
     * take the place of a member only if its process is not the last of them, and so has ended.
     * NULL: nobody knows that, so the failure timeout decides, and no client replaces a member. */
    int64_t (*starts)(void *user, weft_member_role role, int slot);
    void *user;
    int most;      /* bound on members; 0: WEFT_MOST_MEMBERS */
    double limit;  /* failure timeout of members, in seconds, or WEFT_NO_FAILURE_TIMEOUT */
    int64_t steps; /* step after which the run is over; 0: not known */
    /* This coordinator replaces the one of a run that has reached this step: if no member sends its
     * view within a failure timeout, the run fails. 0: if there are no such members, a run
     * begins. */
    int64_t done;
    const char *exchange; /* text for displays; NULL: not known */
    /* End of the sentence that reports a lost state: how the user can continue the run. NULL:
     * advises to begin again from a checkpoint. */
    const char *advice;
    weft_fingerprint fingerprint;
    /* Run configuration for joining members: pairs of a name and a text, each with a zero byte at
     * its end. If a run is already under way, its members must have the same. Copied; NULL:
     * none. */
    const void *configuration;
    size_t configuration_bytes;
} weft_coordinator_options;

/* Creates the coordinator, whose actor id must be WEFT_COORDINATOR. The actor is done when the run
 * is over or has a fault, and no member has been left for one failure timeout. */
weft_status weft_coordinator_create(const weft_coordinator_options *options,
                                    weft_actor **out) WEFT_NODISCARD;
/* The coordinator's view, with the statistics of the last heartbeats. The pointer is valid until
 * the coordinator handles its next message or timer. */
const weft_view *weft_coordinator_view(const weft_actor *coordinator);
/* Tells the coordinator that its process is to end, as all processes of the run may be. Learners
 * then leave first; a server with the last copy of a range, which has requested to leave, may do so
 * once no learner is left. */
void weft_coordinator_stop(weft_actor *coordinator);
/* Whether the process of a coordinator that is to end must wait for members: one has left within
 * `seconds`, or a server has requested to leave and waits for learners. *server: its slot, -1:
 * there is none. */
bool weft_coordinator_awaits_leave(const weft_actor *coordinator, double seconds, int *server);

#endif
