/* Internals of a service: one loaded version of a model. */
#ifndef WEFT_SERVE_SERVABLE_H
#define WEFT_SERVE_SERVABLE_H

#include "checkpoint/checkpoint.h"
#include "learner/learner.h"
#include "serve/rank_team.h"
#include "serve/compute_stats.h"
#include "serve/batch_times.h"
#include "train/train.h"
#include "weft/service.h"

/* The program of one rank for batches of up to `rows` rows, with an instance for each executor. */
typedef struct weft_rank_program {
    weft_rewritten *rewritten; /* NULL: there is one rank, which runs the whole graph */
    const weft_graph *graph;   /* the graph that is run */
    weft_value x, prediction, logits;
    bool contributes[2]; /* whether this rank's prediction and logits contribute to the result */
    weft_program *program;
    weft_instance **instances;
} weft_rank_program;

/* A batch size. */
typedef struct weft_batch_program {
    int64_t rows;
    weft_graph *graph; /* of all ranks; NULL: not planned yet */
    weft_value x, prediction, logits;
    weft_rank_program *parts; /* [ranks] */
    double seconds;           /* of a run that is alone; 0: unknown */
    bool measured;
} weft_batch_program;

/* A whole batch of several ranks: the input, and the outputs assembled from its ranks. */
typedef struct weft_full_batch {
    void *x;
    double *output[2]; /* prediction and logits */
} weft_full_batch;

struct weft_servable {
    weft_service *service;
    char *name, *policy;
    int64_t version, limit;
    int executors, ranks;
    const char *mesh, *device; /* of the service */
    weft_checkpoint checkpoint;
    weft_train_options run;        /* of the training run that wrote the checkpoint */
    weft_context *context;         /* with the threads of one rank */
    weft_rank_team **teams;        /* [executors] */
    weft_plan *plan;               /* NULL: there is one rank */
    weft_comms *comms;             /* [executors * ranks] */
    weft_store **stores;           /* [ranks] */
    weft_full_batch *full_batches; /* [executors], with several ranks */
    weft_dtype real;
    weft_batch_program *sizes; /* in increasing order */
    int count;
    int outputs;
    bool has_slowdown; /* `slowdown` is known */
    double slowdown[WEFT_MOST_EXECUTORS];
    weft_batch_queue *queue;
    weft_compute_stats *compute_stats;
    int references;            /* references, guarded by the service's lock; the table holds one */
    weft_batch_times_key *key; /* what its batch times depend on */
    char *times_path;          /* file of its batch times; NULL: none */
    int64_t
        saved_batches; /* batches of the queue at the last save of the times; -1: not saved yet */
};

/* The context that the service was created with. */
weft_context *weft_service_context(const weft_service *service);
/* The parts of a service that a version is opened with. */
typedef struct weft_service_site {
    weft_context *context;
    const weft_service_options *options;
    int ranks;
    const weft_core_sets *cores;
} weft_service_site;

/* servable.c: reads and plans a version, without its queue. like: a version in service whose batch
 * times are reused if they have the same key; NULL: none. */
weft_status weft_servable_open(const weft_service_site *site, const char *name, const char *path,
                               const weft_servable *like, weft_servable **out) WEFT_NODISCARD;
void weft_servable_close(weft_servable **servable);
/* Whether its samples are rows of a table. */
static inline bool weft_servable_is_table(const weft_servable *servable)
{
    return servable->checkpoint.stats.shape.rank == 1;
}
/* batch_sizes.c: loads the weights, chooses and plans batch sizes, and estimates their times within
 * about `budget` seconds. */
weft_status weft_servable_plan_sizes(weft_servable *servable, double budget,
                                     const weft_servable *like) WEFT_NODISCARD;
/* batch_program.c: floating-point operations of a row. */
weft_status weft_servable_row_flops(weft_servable *s, double *out) WEFT_NODISCARD;
/* Creates and frees the programs of a batch size. */
weft_status weft_batch_program_plan(weft_servable *s, weft_batch_program *v) WEFT_NODISCARD;
weft_status weft_batch_program_bind(weft_servable *s, weft_batch_program *v) WEFT_NODISCARD;
void weft_batch_program_free(weft_servable *s, weft_batch_program *v);
/* Runs the batch in the instances of an executor. */
weft_status weft_batch_program_run(weft_servable *s, const weft_batch_program *v,
                                   int executor) WEFT_NODISCARD;
/* run_batch.c: the function that its queue runs. */
weft_status weft_servable_run(void *user, int executor, void *const *requests, int count,
                              int64_t rows) WEFT_NODISCARD;

#endif
