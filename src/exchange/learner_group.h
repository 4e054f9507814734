/* The learner group: collectives between learners, over a communicator, or of an elastic learner
 * alone. */
#ifndef WEFT_EXCHANGE_LEARNER_GROUP_H
#define WEFT_EXCHANGE_LEARNER_GROUP_H

#include "base/base.h"
#include "weft/exchange_ops.h"

/* A kind of learner group: an implementation of collectives between learners. Callers use a group
 * without its kind, which only the function that creates the group chooses. Implementations extend
 * its head, the weft_learner_group. */
typedef struct weft_learner_group_kind {
    size_t struct_size; /* sizeof(weft_learner_group_kind) */
    const char *name;
    void (*close)(weft_learner_group *endpoint);
    /* Like weft_comm_prepare and weft_operation_*. `bind` fails with UNSUPPORTED if this kind
     * cannot do the transfer. */
    weft_status (*bind)(weft_learner_group *endpoint, const weft_transfer *transfer,
                        weft_group_request **out);
    weft_status (*start)(weft_group_request *request);
    weft_status (*test)(weft_group_request *request, bool *done);
    weft_status (*wait)(weft_group_request *request);
    void (*destroy)(weft_group_request *request);
    /* Checks whether the learners' job still runs. PEER: the job has ended. NULL: the kind cannot
     * tell; weft_learner_group_check succeeds then. */
    weft_status (*check)(weft_learner_group *endpoint);
} weft_learner_group_kind;

/* The head of every request of a group; implementations extend it. */
struct weft_group_request {
    weft_learner_group *endpoint;
};

/* Creates a learner group over a communicator whose rank r is learner r. The communicator stays the
 * caller's and outlives the group. */
weft_status weft_learner_group_over(weft_comm *between, weft_learner_group **out) WEFT_NODISCARD;
/* Creates the group of an elastic learner, which reaches other learners only by messages of actors:
 * a reduction or gather has its own contribution alone, a broadcast or barrier does nothing, and
 * `bind` refuses other transfers. */
weft_status weft_learner_group_single(int learner, int learners, double timeout,
                                      weft_learner_group **out) WEFT_NODISCARD;
/* Closes *endpoint and sets it to NULL. The requests of the group must have been destroyed
 * before. */
void weft_learner_group_close(weft_learner_group **endpoint);

/* Transfers between learners, as in weft/comm.h: a transfer's `peer` is the index of a learner, and
 * its `counts` has one number for each learner. `_bind` allocates memory; `_start`, `_test` and
 * `_wait` do not. */
weft_status weft_learner_group_bind(weft_learner_group *endpoint, const weft_transfer *transfer,
                                    weft_group_request **out) WEFT_NODISCARD;
weft_status weft_group_request_start(weft_group_request *request) WEFT_NODISCARD;
weft_status weft_group_request_test(weft_group_request *request, bool *done) WEFT_NODISCARD;
weft_status weft_group_request_wait(weft_group_request *request) WEFT_NODISCARD;
void weft_group_request_destroy(weft_group_request **request);
/* Checks whether the learners' job still runs, for code that waits without a request. PEER: the job
 * has ended, so no answer will come. */
weft_status weft_learner_group_check(weft_learner_group *endpoint) WEFT_NODISCARD;
/* Runs one transfer to its end: binds a request, starts it, waits for it and destroys it. */
weft_status weft_learner_group_run(weft_learner_group *endpoint,
                                   const weft_transfer *transfer) WEFT_NODISCARD;

#endif
