/* Internals of a service: a servable, which is one loaded version of a model. */
#ifndef WEFT_SERVE_SERVABLE_H
#define WEFT_SERVE_SERVABLE_H

#include "checkpoint/checkpoint.h"
#include "learner/learner.h"
#include "serve/compute_stats.h"
#include "serve/batch_times.h"
#include "train/mesh_program.h"
#include "train/train.h"
#include "weft/service.h"

typedef struct weft_generation_engine weft_generation_engine;

/* A batch program: computes batches of up to `rows` rows. */
typedef struct weft_batch_program {
    int64_t rows;
    weft_graph *graph; /* of the whole model; NULL: the program is not planned yet */
    weft_value x[WEFT_MAX_INPUTS], prediction, logits;
    weft_value output[WEFT_MODEL_OUTPUTS]; /* [0] is not used: the prediction */
    weft_mesh_program program;
    weft_instance **instances; /* [executors * ranks] */
    double seconds;            /* time of a batch while no other batch runs; 0: unknown */
    bool measured;
} weft_batch_program;

/* The whole batch of an executor with several ranks: the inputs that the ranks share, and the
 * outputs to which each rank adds its part. */
typedef struct weft_full_batch {
    void *x[WEFT_MAX_INPUTS];
    double *prediction, *logits;
    void *output[WEFT_MODEL_OUTPUTS]; /* further outputs, of their own types */
} weft_full_batch;

/* An inference request on its way, of which a request of more rows than a batch is several. */
typedef struct weft_submission weft_submission;

struct weft_servable {
    weft_service *service;
    char *name, *policy;
    int64_t version;
    int64_t limit;     /* most rows of a batch */
    int64_t sequences; /* most sequences of a batch of generation */
    int executors;
    const char *device;
    weft_checkpoint checkpoint;
    weft_train_options run; /* options of the training run that wrote the checkpoint */
    weft_context *context;  /* has as many threads as one rank uses */
    weft_rank_team **teams; /* [executors]: the rank threads of each */
    weft_mesh_weights weights;
    weft_full_batch *full_batches; /* [executors]; NULL: there is one rank */
    weft_dtype real;               /* in which it computes; see weft_servable_real */
    weft_batch_program *sizes;     /* [count], by increasing rows */
    int count;
    unsigned channels_last; /* as in weft_servable_info */
    int64_t outputs;        /* numbers of a row of the prediction */
    int output_count;
    weft_model_output output[WEFT_MODEL_OUTPUTS];
    bool has_slowdown; /* `slowdown` was known when the version was loaded */
    double slowdown[WEFT_MOST_EXECUTORS];
    weft_batch_queue *queue;
    weft_submission *cut; /* submissions of several parts; guarded by the lock */
    pthread_mutex_t cut_lock;
    weft_generation_engine *generation; /* NULL: the model does not generate */
    weft_compute_stats *compute_stats;
    /* counted references, guarded by the service's lock; the pointer in the service's table is not
     * counted */
    int references;
    weft_batch_times_key *key; /* what the batch times depend on, see batch_times.h */
    char *times_path;          /* file for the batch times; NULL: they are not kept */
    /* number of batches that the queue had computed when the batch times were last saved; -1: not
     * saved yet */
    int64_t saved_batches;
};

/* The context that the service was created with. */
weft_context *weft_service_context(const weft_service *service);
/* Whether it has a repository of models. */
bool weft_service_has_folder(const weft_service *service);
/* The parts of a service that are needed to open a version. */
typedef struct weft_service_setup {
    weft_context *context;
    const weft_service_options *options;
    int ranks;
    const weft_core_sets *cores;
} weft_service_setup;

/* servable.c: reads a checkpoint and plans its batch programs, without the batch queue. like: a
 * version in service, whose learned batch times are taken over if the keys are equal; NULL:
 * none. */
weft_status weft_servable_open(const weft_service_setup *setup, const char *name, const char *path,
                               const weft_servable *like, weft_servable **out) WEFT_NODISCARD;
void weft_servable_close(weft_servable **servable);
/* service.c: adds a reference to a version that the caller holds already. */
void weft_servable_hold(weft_servable *servable);
/* Whether the samples of the model are rows of a table, not pictures, series or tokens. */
static inline bool weft_servable_is_table(const weft_servable *servable)
{
    const weft_data_stats *stats = &servable->checkpoint.stats;
    return stats->inputs == 1 && stats->input[0].shape.rank == 1 && stats->input[0].values == 0;
}
/* The type of the numbers that a batch program takes and gives, which in bf16 are f32. */
static inline weft_dtype weft_servable_real(const weft_servable *servable)
{
    return servable->real == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

/* The type in which a batch program reads an input. */
static inline weft_dtype weft_servable_input_type(const weft_servable *servable, int input)
{
    return servable->checkpoint.stats.input[input].values > 0 ? WEFT_I32
                                                              : weft_servable_real(servable);
}
/* The bytes of a row of an output. */
static inline size_t weft_servable_output_bytes(const weft_servable *servable, int output)
{
    const weft_model_output *o = &servable->output[output];
    return weft_type_bytes(&(weft_type){o->dtype, o->shape});
}
/* batch_sizes.c: loads the weights, chooses the batch sizes and plans a batch program for each, and
 * measures some of them. Measuring takes about `budget` seconds; 0: nothing is measured. */
weft_status weft_servable_plan_sizes(weft_servable *servable, double budget,
                                     const weft_servable *like) WEFT_NODISCARD;
/* batch_program.c: the floating-point operations of one row, and the bytes of its largest value;
 * sets the outputs of the servable. */
weft_status weft_servable_row_cost(weft_servable *s, double *flops, size_t *bytes) WEFT_NODISCARD;
/* A batch program: plan creates the program of each rank, bind creates their instances for all
 * executors, and free destroys both. */
weft_status weft_batch_program_plan(weft_servable *s, weft_batch_program *v) WEFT_NODISCARD;
weft_status weft_batch_program_bind(weft_servable *s, weft_batch_program *v) WEFT_NODISCARD;
void weft_batch_program_free(weft_servable *s, weft_batch_program *v);
/* Runs a batch program on the instances of one executor. */
weft_status weft_batch_program_run(weft_servable *s, const weft_batch_program *v,
                                   int executor) WEFT_NODISCARD;
/* run_batch.c: computes a batch of requests; the batch queue calls it. user: the servable. */
weft_status weft_servable_run(void *user, int executor, void *const *requests, int count,
                              int64_t rows) WEFT_NODISCARD;

#endif
