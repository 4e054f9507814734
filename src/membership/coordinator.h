/* The coordinator, as an actor: it maintains the view of a run. The coordinator gives joining
 * members the run configuration, assigns ranges to servers, and removes failed members; no training
 * data pass through it.
 *
 * A run begins when all expected members have joined. From then on members may join and leave. When
 * the coordinator fails, the members go on with their view; a new coordinator at its address
 * recovers the view from them, and fails if its run configuration is another one. A run without
 * learners for long fails. */
#ifndef WEFT_MEMBERSHIP_COORDINATOR_H
#define WEFT_MEMBERSHIP_COORDINATOR_H

#include "membership/view.h"

/* Compatibility data of a member. NULL or 0: not known, and not compared. */
typedef struct weft_fingerprint {
    const char *version, *model, *data; /* of the library; its name; shapes of sample and label */
    uint64_t parameters;                /* layout in memory */
    uint64_t checkpoint; /* checksum of the one loaded; the coordinator's: of the one that the run
                            goes on from. 0: none */
    int64_t step;        /* of that checkpoint */
} weft_fingerprint;

typedef struct weft_coordinator_options {
    size_t struct_size;              /* sizeof(weft_coordinator_options) */
    uint64_t run;                    /* drawn by the host: no two runs have the same */
    int expected[WEFT_MEMBER_ROLES]; /* members that must join before the run begins */
    int ranges;                      /* of the parameters, on servers; 0: no servers */
    bool replicas;                   /* each range has a replica */
    bool first;    /* the run is over only when the learner of slot 0 has finished, too, which saves
                      the result */
    int most;      /* members; 0: WEFT_MOST_MEMBERS */
    double limit;  /* failure timeout of members, in seconds */
    int64_t steps; /* of each learner, in all; 0: not known */
    int64_t done; /* this coordinator replaces one in a run that has come to this step: if no member
                     of it is left, the run fails. 0: without members a run begins */
    const char *exchange; /* for people; NULL: not known */
    const char *advice;   /* how to go on if the state of the run is lost, as the end of a sentence;
                             NULL: from a checkpoint, where there is one */
    weft_fingerprint fingerprint;
    /* Run configuration for joining members: pairs of a name and a text, each with a zero byte at
     * its end. A run that goes on must have the same. Copied; NULL: none. */
    const void *configuration;
    size_t configuration_bytes;
} weft_coordinator_options;

/* Its id is WEFT_COORDINATOR. The actor is done when the run is over and all members have left. */
weft_status weft_coordinator_create(const weft_coordinator_options *options,
                                    weft_actor **out) WEFT_NODISCARD;
/* The view, with the statistics of the last heartbeats; the coordinator's, until its next
 * message. */
const weft_view *weft_coordinator_view(const weft_actor *coordinator);

#endif
