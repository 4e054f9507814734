/* Internals of a range. */
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
    int64_t met, stale; /* number and total staleness of its updates in versions */
} member;

/* An update that waits for the others of its version. */
typedef struct pushed {
    weft_push push;
    int slot;             /* of its learner */
    weft_encoded message; /* the parsed update; parsing reads all of it */
} pushed;

struct weft_range {
    weft_range_options options;
    int64_t version;
    int64_t begun; /* clock of the slowest learner before the last leave */
    int64_t last;  /* end clock */
    void *parameters;
    member *members; /* in the order of joining */
    size_t member_count, member_capacity;
    pushed *waiting; /* in the order of arrival */
    size_t waiting_count, waiting_capacity;
    void *gradient; /* mean of the updates of a version */
    bool own_parameters, own_gradient;
    weft_weighted_mean mean;
    int64_t *staleness;
    size_t staleness_count, staleness_capacity;
};

#endif
