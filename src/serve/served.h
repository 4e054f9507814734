/* Inside of a service: one version of a model. */
#ifndef WEFT_SERVE_SERVED_H
#define WEFT_SERVE_SERVED_H

#include "checkpoint/checkpoint.h"
#include "learner/learner.h"
#include "serve/mesh.h"
#include "serve/spent.h"
#include "serve/times.h"
#include "train/train.h"
#include "weft/service.h"

/* What one rank runs for batches of up to so many rows, with an instance for each executor. */
typedef struct weft_part {
    weft_rewritten *mine;    /* NULL: there is one rank, which has all of the graph */
    const weft_graph *graph; /* the one that is run */
    weft_value x, prediction, logits;
    bool says[2]; /* whether what it has of prediction and logits counts */
    weft_program *program;
    weft_instance **instances;
} weft_part;

/* A size of batches. */
typedef struct weft_sized {
    int64_t rows;
    weft_graph *graph; /* of all ranks; NULL: the size is not planned */
    weft_value x, prediction, logits;
    weft_part *parts; /* [ranks] */
    double seconds;   /* of a run that is alone; 0: not known */
    bool measured;
} weft_sized;

/* Where a mesh has a whole batch: what goes in, and what comes out as its ranks have made it. */
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
    weft_train_options run; /* that wrote it */
    weft_context *context;  /* with the threads of a rank */
    weft_mesh **meshes;     /* [executors] */
    weft_plan *plan;        /* NULL: there is one rank */
    weft_comms *comms;      /* [executors * ranks] */
    weft_store **stores;    /* [ranks] */
    weft_whole *wholes;     /* [executors], where there are several ranks */
    weft_dtype real;
    weft_sized *sizes; /* growing */
    int count;
    int outputs;
    bool slowed; /* it is known by how much executors slow each other down */
    double slower[WEFT_MOST_EXECUTORS];
    weft_line *line;
    weft_spent *spent;
    int holds;           /* the service's lock; the table has one */
    weft_times_key *key; /* what its times depend on */
    char *times;         /* file that they are kept in; NULL: none */
    int64_t kept;        /* batches of the line when they were written; -1: not yet */
};

/* That it was made with. */
weft_context *weft_service_context(const weft_service *service);
/* What a service has in common for what it opens. */
typedef struct weft_service_site {
    weft_context *context;
    const weft_service_options *options;
    int ranks;
    const weft_core_sets *cores;
} weft_service_site;

/* served.c: reads and plans; its line is not there yet. like: a version that serves, from whose
 * times it learns if they are of the same kind; NULL: none. */
weft_status weft_served_open(const weft_service_site *site, const char *name, const char *path,
                             const weft_served *like, weft_served **out) WEFT_NODISCARD;
void weft_served_close(weft_served **served);
/* Whether its samples are rows of a table, as data sets have them. */
static inline bool weft_served_is_table(const weft_served *served)
{
    return served->checkpoint.stats.shape.rank == 1;
}
/* sizes.c: loads the weights, chooses sizes, plans them, and estimates what they take in about so
 * many seconds. */
weft_status weft_served_plan_sizes(weft_served *served, double budget,
                                   const weft_served *like) WEFT_NODISCARD;
/* planned.c: floating point operations of a row. */
weft_status weft_served_row_flops(weft_served *s, double *out) WEFT_NODISCARD;
/* The programs of a size, and back. */
weft_status weft_sized_plan(weft_served *s, weft_sized *v) WEFT_NODISCARD;
weft_status weft_sized_bind(weft_served *s, weft_sized *v) WEFT_NODISCARD;
void weft_sized_free(weft_served *s, weft_sized *v);
/* Runs it in the instances of an executor. */
weft_status weft_sized_run(weft_served *s, const weft_sized *v, int executor) WEFT_NODISCARD;
/* answer.c: what its line runs. */
weft_status weft_served_run(void *user, int executor, void *const *requests, int count,
                            int64_t rows) WEFT_NODISCARD;

#endif
