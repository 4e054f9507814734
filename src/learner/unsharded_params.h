/* The unsharded parameters of a learner: whole copies of its parameters or gradients on every rank,
 * which are gathered from the ranks' shards, and from which the ranks take their shards. */
#ifndef WEFT_LEARNER_UNSHARDED_PARAMS_H
#define WEFT_LEARNER_UNSHARDED_PARAMS_H

#include "learner/learner_internal.h"

/* A parameter, and this rank's part of it. */
typedef struct weft_unsharded_tensor {
    const char *name;
    weft_type type; /* of the whole parameter */
    int64_t at;     /* offset in `room`, in elements */
    int entry;      /* index in the rank's store; -1: this rank has no part */
    bool gives;     /* this rank is the first one that has this part, and contributes it */
    int64_t start[WEFT_MAX_RANK];
    weft_shape shape; /* of this rank's part, which begins at `start` */
} weft_unsharded_tensor;

typedef struct weft_unsharded_params {
    const weft_rank *rank;
    weft_unsharded_tensor *tensors;
    int count;
    weft_dtype dtype;
    int64_t total; /* elements of all parameters */
    void *room;    /* all parameters or gradients, in plain layout */
    void *part;    /* memory for a part of one */
} weft_unsharded_params;

/* Opens the parameters of a rank's learner. `_close` is valid also after a failure. Collective over
 * the ranks of the learner, as `_gather` and `_spread` are. */
weft_status weft_unsharded_params_open(weft_unsharded_params *params,
                                       const weft_rank *rank) WEFT_NODISCARD;
void weft_unsharded_params_close(weft_unsharded_params *params);
/* Parameter i in `room`. */
void *weft_unsharded_at(const weft_unsharded_params *params, int i);
/* Gathers all parameters (image NULL), or the gradients in `image`, in `room` of every rank. */
weft_status weft_unsharded_gather(const weft_unsharded_params *params,
                                  const void *image) WEFT_NODISCARD;
/* Broadcasts `room` from rank 0, and writes the parts of each rank to its store. unlimited: this
 * rank waits without a limit. */
weft_status weft_unsharded_spread(const weft_unsharded_params *params,
                                  bool unlimited) WEFT_NODISCARD;

#endif
