/*
 * The coordinator, as an actor: who takes part in a run. It says what joiners need to know, who
 * keeps which range of the parameters, and who has gone; nothing that is trained passes through it.
 *
 * A run begins when all that are expected have come. From then on anybody may come and go. When the
 * coordinator dies the members go on with what they know; one that begins at its place learns from
 * them how far the run is; where it is told of another run than theirs, it fails. A run in which
 * nobody has trained for long has come to its end.
 */
#ifndef WEFT_MEMBERSHIP_COORDINATOR_H
#define WEFT_MEMBERSHIP_COORDINATOR_H

#include "membership/view.h"

/* What somebody trains with. NULL or 0: not known, and not compared. */
typedef struct weft_fingerprint {
    const char *version, *model, *data; /* of the library; its name; shapes of sample and label */
    uint64_t parameters;                /* how they lie in memory */
    uint64_t checkpoint; /* checksum of the one that was loaded; the coordinator's: of the one that
                            the run goes on from. 0: none */
    int64_t step;        /* of that checkpoint */
} weft_fingerprint;

typedef struct weft_coordinator_options {
    size_t struct_size;              /* sizeof(weft_coordinator_options) */
    uint64_t run;                    /* drawn by the host: no two runs have the same */
    int expected[WEFT_MEMBER_ROLES]; /* who has to be there before the run begins */
    int ranges;    /* of the parameters, which servers keep; 0 where there are none */
    bool replicas; /* each range is to have one */
    bool first;    /* the run is over only when the learner of slot 0 has done its steps, too: it is
                      the one who tells what the run came to */
    int most;      /* members; 0: WEFT_MOST_MEMBERS */
    double limit;  /* seconds of silence after which a member has gone */
    int64_t steps; /* of each learner, in all; 0: not known */
    int64_t done;  /* this one comes in the place of another, in a run that has come to this step:
                      if no member of it is left, the run comes to a fault. 0: where it has no
                      members, a run begins */
    const char *exchange; /* for people; NULL: not known */
    const char *advice;   /* how to go on where the run's state is lost, as the end of a sentence;
                             NULL: from a checkpoint, where there is one */
    weft_fingerprint fingerprint;
    /* That joiners are given: pairs of a name and a text, each with a zero byte at its end. A run
     * that is under way has to have the same. Copied; NULL: nothing. */
    const void *configuration;
    size_t configuration_bytes;
} weft_coordinator_options;

/* Its number is WEFT_COORDINATOR. It is done when the run is over and all have gone. */
weft_status weft_coordinator_create(const weft_coordinator_options *options,
                                    weft_actor **out) WEFT_NODISCARD;
/* Who is there, with the figures of their last beats; the coordinator's until it is told something.
 */
const weft_view *weft_coordinator_view(const weft_actor *coordinator);

#endif
