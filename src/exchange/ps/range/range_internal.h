/* Internals of a range: its learners, its pending updates and its statistics. */
#ifndef WEFT_EXCHANGE_PS_RANGE_RANGE_INTERNAL_H
#define WEFT_EXCHANGE_PS_RANGE_RANGE_INTERNAL_H

#include "base/id_index.h"
#include "compress/compress.h"
#include "exchange/ps/range/weighted_mean.h"
#include "exchange/ps/range/range.h"

/* A learner that has joined the range. */
typedef struct member {
    weft_actor_id id;
    int slot;
    bool here;               /* false: the learner has left */
    int64_t clock, sequence; /* of its last push; at first the start clock, and 0 */
    int64_t met, stale;      /* number and total staleness of its updates that are in versions */
    /* The staleness of update i is recent[i % WEFT_RECENT], for the last updates; of those up to
     * `unknown`, which a snapshot has brought, it is not known one by one. */
    int64_t recent[WEFT_RECENT], unknown;
} member;

/* A pending update: it waits for the other updates of its version. */
typedef struct pushed {
    weft_push push;
    int slot;             /* of the learner */
    weft_encoded message; /* the parsed update, so that it is parsed only once */
} pushed;

struct weft_range {
    weft_range_options options;
    int64_t version;
    int64_t begun; /* clock of the slowest learner before the last leave */
    int64_t last;  /* end clock; INT64_MAX: none */
    int64_t made;  /* highest clock of the updates in versions */
    void *parameters;
    member *members; /* in the order of joining */
    size_t member_count, member_capacity;
    weft_id_index places; /* of `members` by their ids */
    pushed *waiting;      /* pending updates, in the order of arrival */
    size_t waiting_count, waiting_capacity;
    void *gradient;                    /* mean of the updates of a version */
    bool own_parameters, own_gradient; /* the range has allocated them */
    weft_weighted_mean mean;
    void *residual; /* [count]: sum of the late updates that the next version adds; NULL: none */
    int64_t *staleness; /* histogram */
    size_t staleness_count, staleness_capacity;
};

/* The learner with this id, here or left; NULL: it has never joined. */
member *weft_range_find(const weft_range *r, weft_actor_id id);
/* Adds a learner whose id is new. */
weft_status weft_range_add(weft_range *r, const member *m) WEFT_NODISCARD;
/* Makes all versions whose updates are there (range_versions.c). */
weft_status weft_range_apply_complete(weft_range *r) WEFT_NODISCARD;
/* Takes a late update (range_versions.c). */
weft_status weft_range_take_late(weft_range *r, const pushed *late, weft_late fate) WEFT_NODISCARD;

#endif
