/* Inside of batching: a line is a queue with a policy, a dispatch is lines that share executors.
 * Nothing here knows threads or clocks: who drives it says what time it is, so what serves is what
 * is simulated. */
#ifndef WEFT_SERVE_BATCH_LINE_H
#define WEFT_SERVE_BATCH_LINE_H

#include "base/base.h"
#include "base/spec.h"
#include "weft/batcher.h"

/* --- curve.c: what a batch takes --- */

enum { WEFT_CURVE_SIZES = 64 };
typedef struct weft_curve_seen weft_curve_seen;
typedef struct weft_curve {
    int sizes; /* 0: nothing is known */
    int64_t rows[WEFT_CURVE_SIZES];
    double time[WEFT_CURVE_SIZES]; /* of a batch that computes alone; not falling */
    int executors;
    double *slower; /* [executors]: by which factor so many slow each other down */
    double noise;   /* squared coefficient of variation of batches of the same size */
    weft_curve_seen *seen;
} weft_curve;
weft_status weft_curve_make(const int64_t *rows, const double *times, int sizes,
                            const double *slower, int executors, weft_curve *out) WEFT_NODISCARD;
void weft_curve_free(weft_curve *curve);
/* What is believed, into another one for as many executors. */
void weft_curve_copy(const weft_curve *curve, weft_curve *to);
/* Of a batch that computes alone: linear between the sizes; never less for more rows. */
double weft_curve_time(const weft_curve *curve, double rows);
/* A batch that took so long while so many executors computed; 0: now more, now fewer, and it would
 * have taken so long alone. */
void weft_curve_learn(weft_curve *curve, int64_t limit, int64_t rows, int busy, double seconds);

/* --- policies.c: when how many rows are a batch --- */

/* A batch is due when `need` rows wait, or the oldest has waited so long, or `all` requests are in
 * the line, waiting or computed, beyond which none come before one of them is answered (0: any
 * number may come). It has `limit` rows at the most, where `brim` or more wait (0: never so many)
 * what the line may have at all; or one request if it is single. */
typedef struct weft_batching {
    int64_t need, limit, all, brim;
    double wait;
    bool single;
} weft_batching;

typedef struct weft_policy weft_policy;

/* What a policy may know of its line. */
typedef struct weft_policy_about {
    int64_t limit;
    const weft_curve *curve;
    const double *slack; /* seconds by which who waits for a time looks late */
} weft_policy_about;

typedef struct weft_policy_ops {
    const char *name, *form, *help;
    weft_status (*open)(const char *arguments, const weft_policy_about *about, weft_policy **out);
    void (*close)(weft_policy *policy);
    /* The rest may be NULL: a policy that never changes. A request came, and so many are in the
     * line with it; one was answered, and so many are left. */
    void (*arrived)(weft_policy *policy, double now, int64_t rows, int64_t there);
    void (*answered)(weft_policy *policy, double now, double latency, int64_t there);
    /* Whether it should think again. If so: it takes what it needs, thinks, and makes use of it; of
     * these only `think` may run beside the others, and after its line is gone: it may look only at
     * what was taken. */
    bool (*wants)(weft_policy *policy, double now);
    void (*take)(weft_policy *policy, double now);
    void (*think)(weft_policy *policy);
    void (*use)(weft_policy *policy);
    void (*describe)(const weft_policy *policy, weft_line_stats *out);
} weft_policy_ops;

struct weft_policy {
    const weft_policy_ops *ops;
    weft_batching now; /* what is done at present */
};

extern const weft_policy_ops weft_policy_adaptive;
/* weft_spec_parse, where there may be nothing. */
weft_status weft_policy_parse(const char *kind, const char *arguments,
                              const weft_spec_key *keys) WEFT_NODISCARD;
/* By its specification. ARGUMENT: there is no such one. */
weft_status weft_policy_open(weft_context *context, const char *spec,
                             const weft_policy_about *about, weft_policy **out) WEFT_NODISCARD;
void weft_policy_close(weft_policy **policy);

/* --- rehearse.c: a setting tried on arrivals --- */

enum { WEFT_CROWD = 512 }; /* clients of which it is seen that they wait for answers, at most */
typedef struct weft_rehearsal {
    double *at;          /* when requests come, not falling; made, if there are clients */
    const int64_t *rows; /* of each */
    int count, skip;     /* the first `skip` are not counted */
    double *latency;     /* [count], made */
    double slack;        /* as of a dispatch */
    int64_t most;        /* rows of any batch */
    int clients;         /* who ask again when they are answered, after one of `pauses` each */
    const double *pause; /* [pauses] */
    int pauses;
} weft_rehearsal;
/* Fills the latencies under a setting that is not single. */
void weft_rehearse(const weft_rehearsal *r, const weft_curve *curve, const weft_batching *setting);

/* --- heap.c: numbers of things, of which the first is found at once --- */

typedef struct weft_heap {
    int *item;
    size_t capacity;
    int count;
} weft_heap;
/* What heaps of one kind have in common: which of two comes first, and where a thing lies. */
typedef struct weft_heap_order {
    bool (*before)(const void *things, int a, int b);
    int *(*place)(void *things, int thing);
} weft_heap_order;
/* So that the next one can be put. */
weft_status weft_heap_reserve(weft_heap *heap) WEFT_NODISCARD;
void weft_heap_put(weft_heap *heap, const weft_heap_order *order, void *things, int thing);
void weft_heap_drop(weft_heap *heap, const weft_heap_order *order, void *things, int thing);

/* Times, the first of which is at[0]; of room for them the caller takes care. */
void weft_times_put(double *at, int *count, double time);
void weft_times_drop(double *at, int *count);

/* --- queue.c: requests that wait --- */

typedef struct weft_waiting {
    weft_request request;
    double came, until; /* until: infinite if it has any time */
    uint64_t number;    /* in order of arrival */
    uint32_t turn;      /* of the slot, for tickets */
    int kind;           /* of those that are alike; -1: the slot is free */
    int older, younger; /* in order of arrival, within its kind; older: the next free slot */
    int turn_place, late_place; /* in the heaps */
} weft_waiting;

/* Requests that are alike: those that can share a batch. */
typedef struct weft_alike {
    uint64_t like;
    weft_heap turns; /* by priority, then arrival */
    int oldest, youngest;
    int64_t rows;
    int next; /* of those by the same chain of names; free: the next free one */
    bool is_due;
    int there_place, due_place; /* in the heaps */
} weft_alike;

typedef struct weft_queue {
    weft_waiting *slots;
    size_t capacity;
    int free, made; /* slots that are free, and have been used */
    weft_alike *kinds;
    size_t kind_capacity;
    int free_kind, made_kinds;
    int *named, chains; /* kinds that have requests, by what they are alike in */
    /* The same by who is next in them; those of them that were due by this need and wait when it
     * was `now`; and the others. */
    weft_heap there, due, not_due;
    int64_t need;
    double wait, now;
    weft_heap late; /* those that have a time, by it */
    int64_t count, rows;
    uint64_t number;
} weft_queue;
void weft_queue_start(weft_queue *queue);
void weft_queue_free(weft_queue *queue);
weft_status weft_queue_put(weft_queue *queue, const weft_request *request, double now,
                           uint64_t *ticket) WEFT_NODISCARD;
/* The slot of a ticket that waits, or -1. */
int weft_queue_find(const weft_queue *queue, uint64_t ticket);
void weft_queue_drop(weft_queue *queue, int slot);
/* Of the kinds of which so many rows wait, or one has waited so long, the one whose turn it is; -1:
 * none is due. *when is the next time that another one may be. `now` does not fall. */
int weft_queue_due(weft_queue *queue, int64_t need, double wait, double now, double *when);
/* Whose turn it is within a kind; -1: nobody waits. */
int weft_queue_head(const weft_queue *queue, int kind);
/* Any that waits, or -1. */
int weft_queue_any(const weft_queue *queue);
/* The one whose time is over first, or -1. */
int weft_queue_latest(const weft_queue *queue);

/* --- dispatch.c --- */

/* A request that has left its queue. */
typedef struct weft_taken {
    weft_request request;
    double came, ended;
    weft_status status;
} weft_taken;

typedef struct weft_job {
    weft_line *line;
    int executor, count, busy; /* busy: executors that computed when it began, it among them */
    int64_t rows;
    double began;
    bool apart;        /* its requests were tried one by one */
    double charged;    /* to the line when it began */
    double progress;   /* of the line when it began */
    int64_t changes;   /* of the dispatch then */
    weft_taken *taken; /* [limit of the line] */
    void **users;
} weft_job;

typedef struct weft_dispatch {
    int executors, busy;
    weft_line **lines;
    int count;
    size_t capacity;
    double changed; /* when `busy` last did, and how often it has */
    int64_t changes;
    double spent; /* the least share that a line which takes part has used */
    double slack; /* seconds by which who waits for a time looks late, on the mean */
} weft_dispatch;

struct weft_line {
    weft_batcher *batcher; /* NULL in virtual time */
    weft_dispatch *dispatch;
    weft_line_options options; /* its pointers are not kept */
    weft_policy *policy;
    weft_queue queue;
    weft_curve curve;
    weft_job *jobs; /* [executors] */
    bool ending;
    bool crowded;    /* one was refused since the last batch: to wait for more is for nothing */
    int telling;     /* of its requests: told outside of the lock that they are late */
    double progress; /* seconds that a batch would have computed until now, were it alone */
    double used;     /* executors' seconds, over its share */
    int running;
    int64_t computed; /* requests of the batches under way */
    weft_line_stats stats;
};

weft_status weft_dispatch_add(weft_dispatch *d, weft_context *context,
                              const weft_line_options *options, weft_line **out) WEFT_NODISCARD;
void weft_dispatch_remove(weft_dispatch *d, weft_line **line);
/* What can be refused at once is: ARGUMENT, BUSY. look: set if who waits for a time should look
 * again, since something may be due before. */
weft_status weft_dispatch_put(weft_line *line, const weft_request *request, double now, bool *look,
                              uint64_t *ticket) WEFT_NODISCARD;
/* Who has waited for a time looks now. */
void weft_dispatch_woke(weft_dispatch *d, double when, double now);
/* Whether anything waits. */
bool weft_dispatch_waits(const weft_dispatch *d);
/* The batch that is due for a free executor, or NULL; then *when is the next time that one may be,
 * infinite: not before something comes. only_short: of lines with short runs. */
weft_job *weft_dispatch_next(weft_dispatch *d, int executor, double now, bool only_short,
                             double *when);
/* Requests whose time is over, one at a time. false: there is none, and *when is the next time that
 * one may be. */
bool weft_dispatch_late(weft_dispatch *d, double now, weft_taken *out, weft_line **line,
                        double *when);
/* The batch has been computed and its callers called; each of its requests has a status and a time
 * at which it ended. */
void weft_dispatch_end(weft_dispatch *d, weft_job *job, double now);
/* A latency into its cell. */
void weft_latency_count(int64_t *cells, double seconds);

#endif
