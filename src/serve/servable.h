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
typedef struct weft_part {
    weft_rewritten *mine;    /* NULL: there is one rank, which runs the whole graph */
    const weft_graph *graph; /* the graph that is run */
    weft_value x, prediction, logits;
    bool says[2]; /* whether this rank's prediction and logits contribute to the result */
    weft_program *program;
    weft_instance **instances;
} weft_part;

/* A batch size. */
typedef struct weft_sized {
    int64_t rows;
    weft_graph *graph; /* of all ranks; NULL: not planned yet */
    weft_value x, prediction, logits;
    weft_part *parts; /* [ranks] */
    double seconds;   /* of a run that is alone; 0: unknown */
    bool measured;
} weft_sized;

/* A whole batch of a mesh: the input, and the outputs assembled from its ranks. */
typedef struct weft_whole {
    void *x;
    double *said[2]; /* prediction and logits */
} weft_whole;

struct weft_served {
    weft_service *service;
    char *name, *policy;
    int64_t version, limit;
    int executors, ranks;
    const char *mesh, *device; /* of the service */
    weft_checkpoint checkpoint;
    weft_train_options run; /* of the training run that wrote the checkpoint */
    weft_context *context;  /* with the threads of one rank */
    weft_mesh **meshes;     /* [executors] */
    weft_plan *plan;        /* NULL: there is one rank */
    weft_comms *comms;      /* [executors * ranks] */
    weft_store **stores;    /* [ranks] */
    weft_whole *wholes;     /* [executors], with several ranks */
    weft_dtype real;
    weft_sized *sizes; /* in increasing order */
    int count;
    int outputs;
    bool slowed; /* `slowdown` is known */
    double slower[WEFT_MOST_EXECUTORS];
    weft_batch_queue *line;
    weft_spent *spent;
    int holds;           /* references, guarded by the service's lock; the table holds one */
    weft_times_key *key; /* what its batch times depend on */
    char *times;         /* file of its batch times; NULL: none */
    int64_t kept;        /* batches of the queue at the last save of the times; -1: not saved yet */
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
weft_status weft_served_open(const weft_service_site *site, const char *name, const char *path,
                             const weft_served *like, weft_served **out) WEFT_NODISCARD;
void weft_served_close(weft_served **served);
/* Whether its samples are rows of a table. */
static inline bool weft_served_is_table(const weft_served *served)
{
    return served->checkpoint.stats.shape.rank == 1;
}
/* batch_sizes.c: loads the weights, chooses and plans batch sizes, and estimates their times within
 * about `budget` seconds. */
weft_status weft_served_plan_sizes(weft_served *served, double budget,
                                   const weft_served *like) WEFT_NODISCARD;
/* batch_program.c: floating-point operations of a row. */
weft_status weft_served_row_flops(weft_served *s, double *out) WEFT_NODISCARD;
/* Creates and frees the programs of a batch size. */
weft_status weft_sized_plan(weft_served *s, weft_sized *v) WEFT_NODISCARD;
weft_status weft_sized_bind(weft_served *s, weft_sized *v) WEFT_NODISCARD;
void weft_sized_free(weft_served *s, weft_sized *v);
/* Runs the batch in the instances of an executor. */
weft_status weft_sized_run(weft_served *s, const weft_sized *v, int executor) WEFT_NODISCARD;
/* run_batch.c: the function that its queue runs. */
weft_status weft_served_run(void *user, int executor, void *const *requests, int count,
                            int64_t rows) WEFT_NODISCARD;

#endif
