/* The inside of a range. */
#ifndef WEFT_EXCHANGE_PS_RANGE_RANGE_INTERNAL_H
#define WEFT_EXCHANGE_PS_RANGE_RANGE_INTERNAL_H

#include "compress/compress.h"
#include "exchange/ps/range/weighted_mean.h"
#include "exchange/ps/range/range.h"

typedef struct member {
    weft_actor_id id;
    int slot;
    bool here;
    int64_t clock, sequence;
    int64_t met, stale; /* of its updates in versions: how many, and their staleness in all */
} member;

/* An update that waits for others. */
typedef struct pushed {
    weft_push push;
    int slot;             /* of its learner */
    weft_encoded message; /* the update as it was read, which takes a walk through all of it */
} pushed;

struct weft_range {
    weft_range_options options;
    int64_t version;
    int64_t begun; /* steps that everybody had finished, when somebody was there at last */
    int64_t last;  /* where all are to leave: the clock that the first has left at */
    void *parameters;
    member *members; /* by number, as they came */
    size_t member_count, member_capacity;
    pushed *waiting; /* in the order of arrival */
    size_t waiting_count, waiting_capacity;
    void *gradient; /* the mean of updates that make a version */
    bool own_parameters, own_gradient;
    weft_weighted_mean mean;
    int64_t *staleness;
    size_t staleness_count, staleness_capacity;
};

#endif
