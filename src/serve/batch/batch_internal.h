/* Internals of batching: a batch queue holds the requests for one model with a batching policy, and
 * a dispatch shares executors between queues. Nothing here knows threads or clocks: the caller
 * passes the time, so the simulation runs the same code as the server. */
#ifndef WEFT_SERVE_BATCH_BATCH_INTERNAL_H
#define WEFT_SERVE_BATCH_BATCH_INTERNAL_H

#include "base/base.h"
#include "base/spec.h"
#include "weft/batcher.h"

/* --- curve.c: time of a batch --- */

enum { WEFT_CURVE_SIZES = 64 };
typedef struct weft_curve_samples weft_curve_samples;
typedef struct weft_curve {
    int sizes; /* 0: no measurements */
    int64_t rows[WEFT_CURVE_SIZES];
    double time[WEFT_CURVE_SIZES]; /* of a batch that runs alone; non-decreasing */
    int executors;
    double *slowdown; /* [executors]: slowdown with e + 1 busy executors */
    double noise;     /* squared coefficient of variation of batches of the same size */
    weft_curve_samples *samples;
} weft_curve;
weft_status weft_curve_make(const int64_t *rows, const double *times, int sizes,
                            const double *slowdown, int executors, weft_curve *out) WEFT_NODISCARD;
void weft_curve_free(weft_curve *curve);
/* Copies the times to a curve for as many executors. */
void weft_curve_copy(const weft_curve *curve, weft_curve *to);
/* Time of a batch that runs alone: linear between sizes, non-decreasing in the rows. */
double weft_curve_time(const weft_curve *curve, double rows);
/* Records a batch that took `seconds` with `busy` busy executors. busy 0: their number varied, and
 * `seconds` is the time that the batch would have taken alone. */
void weft_curve_learn(weft_curve *curve, int64_t limit, int64_t rows, int busy, double seconds);

/* --- policies.c: when a batch starts, and how many rows it has --- */

/* A batch is due when `min_rows` rows wait, when the oldest request has waited `max_delay` seconds,
 * or when `max_in_system` requests are in the queue, queued or running (0: no bound), since no more
 * can arrive before an answer. A batch has at most `max_rows` rows; where `surge_rows` or more rows
 * wait (0: never), at most the limit of the queue. one_request: a batch is one request. */
typedef struct weft_batch_setting {
    int64_t min_rows, max_rows, max_in_system, surge_rows;
    double max_delay;
    bool one_request;
} weft_batch_setting;

typedef struct weft_policy weft_policy;

/* The part of its queue that a policy may read. */
typedef struct weft_policy_input {
    int64_t limit;
    const weft_curve *curve;
    const double *timer_slack; /* mean delay of timed waits, in seconds */
} weft_policy_input;

typedef struct weft_policy_ops {
    const char *name, *form, *help;
    weft_status (*open)(const char *arguments, const weft_policy_input *input, weft_policy **out);
    void (*close)(weft_policy *policy);
    /* The remaining members may be NULL, for a policy that never changes. arrived, answered: a
     * request arrived or was answered, and `in_system` requests are in the queue now. */
    void (*arrived)(weft_policy *policy, double now, int64_t rows, int64_t in_system);
    void (*answered)(weft_policy *policy, double now, double latency, int64_t in_system);
    /* wants_search: whether a new search is due. Then `copy_input` copies its inputs, `search`
     * searches, and `apply` installs the result. Only `search` may run concurrently with the
     * others, and after the queue was removed; it may read only the copies. */
    bool (*wants_search)(weft_policy *policy, double now);
    void (*copy_input)(weft_policy *policy, double now);
    void (*search)(weft_policy *policy);
    void (*apply)(weft_policy *policy);
    void (*describe)(const weft_policy *policy, weft_batch_queue_stats *out);
} weft_policy_ops;

struct weft_policy {
    const weft_policy_ops *ops;
    weft_batch_setting setting; /* current setting */
};

extern const weft_policy_ops weft_policy_adaptive;
/* Calls weft_spec_parse unless `arguments` is empty. */
weft_status weft_policy_parse(const char *kind, const char *arguments,
                              const weft_spec_key *keys) WEFT_NODISCARD;
/* Opens a policy by its specification. ARGUMENT: no policy has that name. */
weft_status weft_policy_open(weft_context *context, const char *spec,
                             const weft_policy_input *input, weft_policy **out) WEFT_NODISCARD;
void weft_policy_close(weft_policy **policy);

/* --- queue_sim.c: simulation of a setting --- */

enum { WEFT_MOST_CLOSED_CLIENTS = 512 }; /* closed-loop clients that can be detected, at most */
typedef struct weft_queue_sim {
    double *at;          /* arrival times, non-decreasing; output, if there are clients */
    const int64_t *rows; /* of each request */
    int count, skip;     /* the first `skip` requests are not counted */
    double *latency;     /* [count], output */
    double timer_slack;  /* mean delay of timed waits */
    int64_t row_limit;   /* row limit of any batch */
    int clients; /* closed-loop clients; each sends again one of `think_time` after its answer */
    const double *think_time; /* [think_times] */
    int think_times;
} weft_queue_sim;
/* Simulates the queue and fills the latencies. The setting must not be `single`. */
void weft_queue_sim_run(const weft_queue_sim *r, const weft_curve *curve,
                        const weft_batch_setting *setting);

/* --- heap.c: indices, the first of which is found at once --- */

typedef struct weft_heap {
    int *item;
    size_t capacity;
    int count;
} weft_heap;
/* The order of a heap, and where an element's position is stored. */
typedef struct weft_heap_order {
    bool (*before)(const void *things, int a, int b);
    int *(*place)(void *things, int thing);
} weft_heap_order;
/* Makes room for one more element. */
weft_status weft_heap_reserve(weft_heap *heap) WEFT_NODISCARD;
void weft_heap_put(weft_heap *heap, const weft_heap_order *order, void *things, int thing);
void weft_heap_drop(weft_heap *heap, const weft_heap_order *order, void *things, int thing);

/* A heap of times with the smallest in at[0]; the caller provides the memory. */
void weft_time_heap_add(double *at, int *count, double time);
void weft_time_heap_pop(double *at, int *count);

/* --- request_queue.c: requests that wait --- */

typedef struct weft_queued_request {
    weft_request request;
    double arrived, deadline; /* arrival; deadline, infinite without one */
    uint64_t number;          /* in order of arrival */
    uint32_t generation;      /* of the slot, for tickets */
    int kind;                 /* its kind; -1: the slot is free */
    int older, younger;       /* list in order of arrival within the kind; older: next free slot */
    int order_index, deadline_index; /* positions in the heaps */
} weft_queued_request;

/* A kind: requests that can share a batch, since their `batch_key` is equal. */
typedef struct weft_request_kind {
    uint64_t batch_key;
    weft_heap order; /* by priority, then arrival */
    int oldest, youngest;
    int64_t rows;
    int next; /* next kind of the hash chain, or next free kind */
    bool is_due;
    int all_index, due_index; /* positions in the heaps */
} weft_request_kind;

typedef struct weft_request_queue {
    weft_queued_request *slots;
    size_t capacity;
    int free, slots_used; /* first free slot; slots ever used */
    weft_request_kind *kinds;
    size_t kind_capacity;
    int free_kind, kinds_used;
    int *buckets, bucket_count; /* hash table of the kinds that have requests, by `batch_key` */
    /* Heaps of kinds, ordered by the next request of each: all kinds; kinds that are due at time
     * `now` by the policy's min_rows and max_delay; and kinds that are not due. */
    weft_heap all, due, not_due;
    int64_t min_rows;
    double max_delay, now;
    weft_heap deadlines; /* requests with a deadline, by deadline */
    int64_t count, rows;
    uint64_t number;
} weft_request_queue;
void weft_request_queue_init(weft_request_queue *queue);
void weft_request_queue_free(weft_request_queue *queue);
weft_status weft_request_queue_add(weft_request_queue *queue, const weft_request *request,
                                   double now, uint64_t *ticket) WEFT_NODISCARD;
/* The slot of a queued ticket, or -1. */
int weft_request_queue_find(const weft_request_queue *queue, uint64_t ticket);
void weft_request_queue_remove(weft_request_queue *queue, int slot);
/* The kind with the next request among the due ones (`min_rows` rows wait, or a request has waited
 * `max_delay` seconds); -1: none is due. *when is the next time at which a kind may become due.
 * `now` must not decrease. */
int weft_request_queue_due(weft_request_queue *queue, int64_t min_rows, double max_delay,
                           double now, double *when);
/* The next request of a kind; -1: none. */
int weft_request_queue_head(const weft_request_queue *queue, int kind);
/* The next request of all, or -1. */
int weft_request_queue_first(const weft_request_queue *queue);
/* The request with the earliest deadline, or -1. */
int weft_request_queue_next_deadline(const weft_request_queue *queue);

/* --- dispatch.c --- */

/* A request that has left the queue. */
typedef struct weft_dequeued_request {
    weft_request request;
    double arrived, ended;
    weft_status status;
} weft_dequeued_request;

typedef struct weft_batch_job {
    weft_batch_queue *queue;
    int executor, count, busy; /* busy: executors that were busy at the start, this one included */
    int64_t rows;
    double began;
    bool one_by_one;                 /* its requests were run one by one */
    double charged;                  /* to the queue at the start */
    double progress;                 /* of the queue at the start */
    int64_t changes;                 /* of the dispatch at the start */
    weft_dequeued_request *requests; /* [limit of the queue] */
    void **users;
} weft_batch_job;

typedef struct weft_dispatch {
    int executors, busy;
    weft_batch_queue **queues;
    int count;
    size_t capacity;
    double changed; /* when `busy` last changed, and how often it has */
    int64_t changes;
    double virtual_time; /* virtual time of fair queueing: `usage` of the queue served last, never
                            decreasing */
    double timer_slack;  /* mean delay of timed waits, in seconds */
} weft_dispatch;

struct weft_batch_queue {
    weft_batcher *batcher; /* NULL in virtual time */
    weft_dispatch *dispatch;
    weft_batch_queue_options options; /* its pointers are not valid */
    weft_policy *policy;
    weft_request_queue requests;
    weft_curve curve;
    weft_batch_job *batches; /* [executors] */
    bool ending;
    bool refused_recently; /* a request was refused since the last batch, so waiting for more is
                              useless */
    int expiring;          /* requests that are being answered as late, without the lock */
    double progress; /* seconds of progress that a batch at full speed would have made until now */
    double usage;    /* executor seconds, divided by its share */
    int running;
    int64_t in_service; /* requests of the batches in progress */
    weft_batch_queue_stats stats;
};

weft_status weft_dispatch_add(weft_dispatch *d, weft_context *context,
                              const weft_batch_queue_options *options,
                              weft_batch_queue **out) WEFT_NODISCARD;
void weft_dispatch_remove(weft_dispatch *d, weft_batch_queue **queue);
/* Queues a request, or refuses it at once: ARGUMENT, BUSY. look: set if a thread in a timed wait
 * should look again, since a batch may be due earlier. */
weft_status weft_dispatch_put(weft_batch_queue *queue, const weft_request *request, double now,
                              bool *look, uint64_t *ticket) WEFT_NODISCARD;
/* Records that a timed wait for `when` ended at `now`. */
void weft_dispatch_timer_fired(weft_dispatch *d, double when, double now);
/* Whether any request is queued. */
bool weft_dispatch_has_requests(const weft_dispatch *d);
/* The batch that is due for a free executor, or NULL; then *when is the next time at which one
 * may be due, infinite: not before a request arrives. only_short: considers only queues with
 * short runs. */
weft_batch_job *weft_dispatch_next(weft_dispatch *d, int executor, double now, bool only_short,
                                   double *when);
/* Removes a request that is past its deadline, one for each call. false: there is none, and *when
 * is the next deadline. */
bool weft_dispatch_expire(weft_dispatch *d, double now, weft_dequeued_request *out,
                          weft_batch_queue **queue, double *when);
/* Ends a batch that was computed and whose callbacks have run; each of its requests has a status
 * and an end time. */
void weft_dispatch_end(weft_dispatch *d, weft_batch_job *batch, double now);
/* Adds a latency to the histogram. */
void weft_latency_count(int64_t *cells, double seconds);

#endif
