/* Internals of batching. A batch queue holds the waiting requests of one model and a batching
 * policy; the dispatch shares the executors between the queues. Nothing here uses threads or
 * clocks: the caller passes the time, so the simulation (forecast.c) runs the same code as the
 * server. */
#ifndef WEFT_SERVE_BATCH_BATCH_INTERNAL_H
#define WEFT_SERVE_BATCH_BATCH_INTERNAL_H

#include "base/base.h"
#include "base/spec.h"
#include "weft/batcher.h"
#include "weft/batching_ops.h"

/* --- curve.c: the batch curve, the time of a batch as a function of its rows --- */

enum { WEFT_CURVE_SIZES = 64 };
typedef struct weft_curve_samples weft_curve_samples;
typedef struct weft_curve {
    int sizes; /* number of entries of `rows` and `time`; 0: nothing was measured yet */
    int64_t rows[WEFT_CURVE_SIZES];
    /* seconds of a batch while no other batch runs; non-decreasing */
    double time[WEFT_CURVE_SIZES];
    int executors;
    /* [executors]: [e] is the factor by which e + 1 busy executors slow a batch down */
    double *slowdown;
    double noise; /* squared coefficient of variation of the times of batches of one size */
    weft_curve_samples *samples;
} weft_curve;
weft_status weft_curve_make(const int64_t *rows, const double *times, int sizes,
                            const double *slowdown, int executors, weft_curve *out) WEFT_NODISCARD;
void weft_curve_free(weft_curve *curve);
/* Copies the times to a curve for the same number of executors, without the samples. */
void weft_curve_copy(const weft_curve *curve, weft_curve *to);
/* The seconds of a batch while no other batch runs: linear between the sizes, non-decreasing in the
 * rows; 0: unknown. */
double weft_curve_time(const weft_curve *curve, double rows);
/* Records a batch that took `seconds` while `busy` executors were busy. busy 0: the number of busy
 * executors varied, and `seconds` is the time that the batch would have taken alone. limit: the
 * largest batch of the queue. */
void weft_curve_learn(weft_curve *curve, int64_t limit, int64_t rows, int busy, double seconds);

/* --- policies.c: when a batch starts, and how many rows it has --- */

typedef struct weft_policy weft_policy;
typedef struct weft_policy_ops weft_policy_ops;

/* The data of its batch queue that a policy may read. limit: largest batch in rows. */
typedef struct weft_policy_input {
    const weft_policy_ops *ops; /* of the policy that is opened */
    int64_t limit;
    const weft_curve *curve;
    const double *timer_slack; /* mean seconds by which timed waits end too late */
} weft_policy_input;

struct weft_policy_ops {
    const char *name, *form, *help;
    weft_status (*open)(const char *arguments, const weft_policy_input *input, weft_policy **out);
    void (*close)(weft_policy *policy);
    /* The remaining functions may be NULL for a policy whose setting never changes. arrived,
     * answered: the queue reports that a request arrived or was answered; `in_system` requests are
     * queued or running now. */
    void (*arrived)(weft_policy *policy, double now, int64_t rows, int64_t in_system);
    void (*answered)(weft_policy *policy, double now, double latency, int64_t in_system);
    /* wants_search: whether a search for a better setting is due. If so, the caller calls
     * copy_input, then `search`, then `apply`, which installs the result. `search` runs in a thread
     * of its own, at the same time as other functions of the policy and possibly after the queue
     * was removed; so it reads only what copy_input has copied. */
    bool (*wants_search)(weft_policy *policy, double now);
    void (*copy_input)(weft_policy *policy, double now);
    void (*search)(weft_policy *policy);
    void (*apply)(weft_policy *policy);
    void (*describe)(const weft_policy *policy, weft_batch_queue_stats *out);
};

struct weft_policy {
    const weft_policy_ops *ops;
    weft_batch_setting setting; /* setting that the dispatch uses now */
};

/* Cancels a request as weft_batch_queue_cancel does; true: *user becomes that of the request. */
bool weft_batch_queue_withdraw(weft_batch_queue *queue, uint64_t ticket, void **user);

/* added_policy.c: policies that programs and plug-ins add. */
extern const struct weft_extension weft_policies_extension;

extern const weft_policy_ops weft_policy_adaptive;
weft_status weft_policies_register(weft_context *context) WEFT_NODISCARD;
/* Parses the arguments of a policy with weft_spec_parse; empty arguments are allowed. */
weft_status weft_policy_parse(const char *kind, const char *arguments,
                              const weft_spec_key *keys) WEFT_NODISCARD;
/* Opens a policy by its specification, such as "fixed:max=8". ARGUMENT: no policy has that name, or
 * an argument is invalid. */
weft_status weft_policy_open(weft_context *context, const char *spec,
                             const weft_policy_input *input, weft_policy **out) WEFT_NODISCARD;
void weft_policy_close(weft_policy **policy);

/* --- queue_sim.c: fast simulation of one setting --- */

/* largest number of closed-loop clients that can be detected */
enum { WEFT_MOST_CLOSED_CLIENTS = 512 };
typedef struct weft_queue_sim {
    /* [count]: arrival times, non-decreasing; with clients the simulation writes them */
    double *at;
    const int64_t *rows; /* [count]: rows of each request */
    int count, skip;    /* requests; the first `skip` of them are not counted in the goal's value */
    double *latency;    /* [count]: the simulation writes the latency of each request */
    double timer_slack; /* mean seconds by which timed waits end too late */
    int64_t row_limit;  /* largest batch in rows, whatever the setting */
    /* closed-loop clients: each sends again after its answer and one of the think times; 0: open
     * loop */
    int clients;
    const double *think_time; /* [think_times], in seconds */
    int think_times;
    /* [variations]: factors of the times of successive batches, in turn; none: 1. With equal
     * factors the results of two settings can be compared. */
    const double *variation;
    int variations;
} weft_queue_sim;
/* Simulates the queue with a setting, and writes the latency of each request. The setting must not
 * have one_request. */
void weft_queue_sim_run(const weft_queue_sim *r, const weft_curve *curve,
                        const weft_batch_setting *setting);

/* --- heap.c: binary heaps of indices into an array of elements --- */

typedef struct weft_heap {
    int *item;
    size_t capacity;
    int count;
} weft_heap;
/* The order of a heap. before: whether element a precedes element b; place: where an element stores
 * its position in the heap. */
typedef struct weft_heap_order {
    bool (*before)(const void *things, int a, int b);
    int *(*place)(void *things, int thing);
} weft_heap_order;
/* Makes room for one more element, so that the next weft_heap_put cannot fail. */
weft_status weft_heap_reserve(weft_heap *heap) WEFT_NODISCARD;
void weft_heap_put(weft_heap *heap, const weft_heap_order *order, void *things, int thing);
void weft_heap_drop(weft_heap *heap, const weft_heap_order *order, void *things, int thing);

/* A binary heap of times, whose smallest one is at[0]. The caller provides the memory. */
void weft_time_heap_add(double *at, int *count, double time);
void weft_time_heap_pop(double *at, int *count);

/* --- request_queue.c: requests that wait --- */

typedef struct weft_queued_request {
    weft_request request;
    /* time of arrival; time after which the request is refused as late, infinite: never */
    double arrived, deadline;
    uint64_t number;     /* counts the requests of the queue in the order of arrival */
    uint32_t generation; /* counts the uses of the slot, so that an old ticket does not match */
    int kind;            /* index of its kind; -1: the slot is free */
    /* neighbours in the list of its kind by arrival; in a free slot `older` is the next free
     * slot */
    int older, younger;
    /* positions in its kind's heap `order`, and in the heap `deadlines` */
    int order_index, deadline_index;
} weft_queued_request;

/* A kind: the queued requests with the same `batch_key`, which may share a batch. */
typedef struct weft_request_kind {
    uint64_t batch_key;
    weft_heap order; /* its requests, by priority and then arrival */
    int oldest, youngest;
    int64_t rows;
    int next; /* next kind in the chain of its hash bucket; in a free kind, the next free one */
    bool is_due;
    int all_index, due_index; /* positions in the heap `all`, and in `due` or `not_due` */
} weft_request_kind;

typedef struct weft_request_queue {
    weft_queued_request *slots;
    size_t capacity;
    int free, slots_used; /* first free slot, or -1; number of slots ever used */
    weft_request_kind *kinds;
    size_t kind_capacity;
    int free_kind, kinds_used;
    int *buckets, bucket_count; /* hash table, by `batch_key`, of the kinds that have requests */
    /* Heaps of kinds. all: every kind that has requests; due: the kinds that were due at time `now`
     * by min_rows and max_delay. Both are ordered by the first request of each kind. not_due: the
     * other kinds, ordered by the age of their oldest request. */
    weft_heap all, due, not_due;
    int64_t min_rows;
    double max_delay, now;
    weft_heap deadlines; /* requests with a deadline, the earliest first */
    int64_t count, rows;
    uint64_t number;
} weft_request_queue;
void weft_request_queue_init(weft_request_queue *queue);
void weft_request_queue_free(weft_request_queue *queue);
weft_status weft_request_queue_add(weft_request_queue *queue, const weft_request *request,
                                   double now, uint64_t *ticket) WEFT_NODISCARD;
/* The slot of the request that a ticket names; -1: the request is no longer in the queue. */
int weft_request_queue_find(const weft_request_queue *queue, uint64_t ticket);
void weft_request_queue_remove(weft_request_queue *queue, int slot);
/* The index of the kind with this `batch_key`; -1: no request of this kind waits. */
int weft_request_queue_kind(const weft_request_queue *queue, uint64_t batch_key);
/* Among the kinds that are due (`min_rows` rows wait, or a request has waited `max_delay` seconds)
 * the kind whose first request is first by priority and arrival; -1: none is due. *when: the next
 * time at which a waiting kind becomes due. `now` must not decrease. */
int weft_request_queue_due(weft_request_queue *queue, int64_t min_rows, double max_delay,
                           double now, double *when);
/* The slot of the first request of a kind, by priority and arrival; -1: none. */
int weft_request_queue_head(const weft_request_queue *queue, int kind);
/* The slot of the first request of the whole queue, by priority and arrival; -1: none. */
int weft_request_queue_first(const weft_request_queue *queue);
/* The slot of the request with the earliest deadline; -1: none. */
int weft_request_queue_next_deadline(const weft_request_queue *queue);

/* --- dispatch.c: batch queues that share executors --- */

/* A request that has left the queue. */
typedef struct weft_dequeued_request {
    weft_request request;
    double arrived, ended;
    weft_status status;
    bool failed; /* it was not computed, or its answer is a failure */
} weft_dequeued_request;

typedef struct weft_batch_job {
    weft_batch_queue *queue;
    /* busy: executors that were busy when the batch started, its own one included */
    int executor, count, busy;
    int64_t rows;
    double began;
    weft_batch_reason reason;
    bool running;
    bool one_by_one; /* the batch failed, and its requests were run again one by one */
    double charged;  /* estimated seconds that were added to the queue's usage at the start */
    double progress; /* the queue's `progress` at the start */
    int64_t changes; /* the dispatch's `changes` at the start */
    weft_dequeued_request *requests; /* [limit of the queue]: the requests of the batch */
    void **users;
} weft_batch_job;

typedef struct weft_dispatch {
    int executors, busy;
    weft_batch_queue **queues;
    int count;
    size_t capacity;
    double changed; /* when `busy` last changed; `changes` counts these changes */
    int64_t changes;
    /* virtual time of weighted fair queueing: largest `usage` of a queue when it was served */
    double virtual_time;
    double timer_slack; /* mean seconds by which timed waits end too late */
} weft_dispatch;

struct weft_batch_queue {
    weft_batcher *batcher; /* NULL in a simulation */
    weft_dispatch *dispatch;
    /* a copy; pointers in it, other than `run` and `user`, belong to the caller and are not used */
    weft_batch_queue_options options;
    weft_policy *policy;
    weft_request_queue requests;
    weft_curve curve;
    weft_batch_job *batches; /* [executors]: the batch that each computes */
    bool ending;
    /* the full queue has refused a request since the last batch; so a batch waits for no more
     * rows */
    bool refused_recently;
    int expiring; /* late requests that are being answered without the lock */
    /* time that has passed while executors were busy, each part divided by the slowdown then: the
     * progress that a batch would have made, in seconds of a batch that runs alone */
    double progress;
    double usage; /* seconds of executor time that the queue has used, divided by its share */
    int running;
    int64_t in_service; /* requests of the batches that are being computed */
    weft_batch_queue_stats stats;
};

weft_status weft_dispatch_add(weft_dispatch *d, weft_context *context,
                              const weft_batch_queue_options *options,
                              weft_batch_queue **out) WEFT_NODISCARD;
void weft_dispatch_remove(weft_dispatch *d, weft_batch_queue **queue);
/* Queues a request, or refuses it at once: ARGUMENT, BUSY, LATE. *look: an executor in a timed wait
 * should look again, since a batch may be due earlier than it expects. */
weft_status weft_dispatch_put(weft_batch_queue *queue, const weft_request *request, double now,
                              bool *look, uint64_t *ticket) WEFT_NODISCARD;
/* Records by how much a timed wait that should have ended at `when` was late. */
void weft_dispatch_timer_fired(weft_dispatch *d, double when, double now);
/* Whether a request waits in any queue. */
bool weft_dispatch_has_requests(const weft_dispatch *d);
/* Takes the due batch of the queue that has used the least executor time relative to its share, for
 * a free executor. NULL: no batch is due, and *when is the next time at which one may be; infinite:
 * not before a request arrives. only_short: looks only at queues with run_in_caller whose next
 * batch is estimated to take at most MOST_CALLER_SECONDS. */
weft_batch_job *weft_dispatch_next(weft_dispatch *d, int executor, double now, bool only_short,
                                   double *when);
/* Takes one request whose deadline has passed from its queue. false: there is none, and *when is
 * the earliest deadline. */
bool weft_dispatch_expire(weft_dispatch *d, double now, weft_dequeued_request *out,
                          weft_batch_queue **queue, double *when);
/* Ends a batch after its requests have been answered; each request has its status and end time.
 * Updates the statistics, the batch curve and the policy. */
void weft_dispatch_end(weft_dispatch *d, weft_batch_job *batch, double now);
/* Counts a latency in a histogram of WEFT_LATENCY_CELLS cells. */
void weft_latency_count(int64_t *cells, double seconds);

/* --- admission.c --- */

/* LATE: the batch of the request, which has not been queued yet, cannot begin before its deadline,
 * given the requests before it and the batch curve. */
weft_status weft_admission_check(const weft_batch_queue *queue, const weft_request *request,
                                 double now) WEFT_NODISCARD;

#endif
