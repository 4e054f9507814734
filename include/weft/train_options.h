/*
 * The options of a run, in groups for the parts of the library that need them. One table has the
 * options of all groups, for the command line, run files and checkpoints (weft/options.h). The help
 * text of a row describes the option; a field has the name of its option, with '_' for '-'.
 *
 * The struct owns its strings. weft_train_options_init fills it with the defaults and sets the
 * sizes, which must be those of the library; options are set by name with
 * weft_options_set(weft_train_table(context), ...).
 */
#ifndef WEFT_TRAIN_OPTIONS_H
#define WEFT_TRAIN_OPTIONS_H

#include "weft/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model and the data, which a checkpoint also records. */
typedef struct weft_task_choice {
    size_t struct_size; /* sizeof(weft_task_choice); likewise in all groups */
    char *model, *data, *normalize, *dtype;
    int64_t seed;
    char *weights;
    char *validation;
    char *init;
    uint64_t room[1]; /* of later versions: 0 */
} weft_task_choice;

/* The length of the run, and the division of a step into micro-batches. */
typedef struct weft_length_choice {
    size_t struct_size;
    int64_t epochs, steps, batch, microbatches, virtual_workers;
    bool carry_state;
    int64_t patience;
    char *phases;     /* EPOCH: OPTIONS; ... of a run whose options change; NULL: none */
    uint64_t room[1]; /* of later versions: 0 */
} weft_length_choice;

/* The optimizer and its learning rate. */
typedef struct weft_update_choice {
    size_t struct_size;
    char *optimizer, *lr_schedule;
    double lr, momentum, weight_decay, beta1, beta2, epsilon, clip_norm, gamma, lr_floor,
        label_smoothing;
    int64_t warmup, decay_every;
    bool nesterov;
    char *lr_multiplier;
    char *class_weights, *loss;
    uint64_t room[1]; /* of later versions: 0 */
} weft_update_choice;

/* The device of each rank, and its threads and cores. */
typedef struct weft_where_choice {
    size_t struct_size;
    char *device;
    int64_t threads;
    bool no_bind;
    char *home;
    char *tune;
    uint64_t room[2]; /* of later versions: 0 */
} weft_where_choice;

/* The distribution of a step over ranks, and the exchange between learners. */
typedef struct weft_parallel_choice {
    size_t struct_size;
    char *mesh, *schedule, *shard, *place, *exchange, *compress, *compress_downlink;
    int64_t zero, servers, replicas;
    bool recompute, profile;
    char *shares, *sum_dtype;
    char *rechoose;   /* FILE: A; B of a run that chooses its phases; NULL: none */
    uint64_t room[1]; /* of later versions: 0 */
} weft_parallel_choice;

/* The ranks of the job, restarts, and the time limit of waits. */
typedef struct weft_job_choice {
    size_t struct_size;
    int64_t ranks, max_restarts;
    char *engine, *hosts;
    double timeout;
    bool check_collectives;
    uint64_t room[4]; /* of later versions: 0 */
} weft_job_choice;

/* The files that a run writes, and the checkpoint that it resumes from. */
typedef struct weft_output_choice {
    size_t struct_size;
    char *checkpoint, *metrics, *trace;
    int64_t checkpoint_every, keep;
    bool resume;
    bool drop_state; /* drops state of the checkpoint that does not fit, instead of refusing it */
    char *keep_best, *metric;
    int64_t evaluate_every;
    uint64_t room[1]; /* of later versions: 0 */
} weft_output_choice;

/* The display of progress, and figures that are measured for it. */
typedef struct weft_show_choice {
    size_t struct_size;
    char *progress;
    bool quiet;
    char *estimate; /* cluster file; the first steps are compared with their estimate there */
    int64_t noise_scale;
    bool best;        /* keep_best without a checkpoint: events tell which evaluation is the best */
    uint64_t room[1]; /* of later versions: 0 */
} weft_show_choice;

/* How samples of the training are prepared. */
typedef struct weft_samples_choice {
    size_t struct_size;
    char *augment;    /* augmentations of pictures, as "crop:pad=4,flip"; NULL: none */
    uint64_t room[6]; /* of later versions: 0 */
} weft_samples_choice;

/* The averages of the weights, weights that are not trained, and what a resumed run leaves out. */
typedef struct weft_weights_choice {
    size_t struct_size;
    char *ema;        /* DECAY[:warmup]; NULL: weights have no averages */
    char *without;    /* options that weft_train_options_merge leaves out */
    char *freeze;     /* patterns of parameters that are not trained; NULL: none */
    int64_t unfreeze; /* epoch, from 1, from which on they are; 0: none */
    uint64_t room[3]; /* of later versions: 0 */
} weft_weights_choice;

/* All options of a run. */
typedef struct weft_train_options {
    size_t struct_size;
    weft_task_choice task;
    weft_length_choice length;
    weft_update_choice update;
    weft_where_choice where;
    weft_parallel_choice parallel;
    weft_job_choice job;
    weft_output_choice output;
    weft_show_choice show;
    weft_samples_choice samples;
    weft_weights_choice weights;
    uint64_t room[16]; /* of later versions: 0 */
} weft_train_options;

/* The option table, with the names that the context knows as legal values; owned by the context. */
WEFT_API const weft_option *weft_train_table(const weft_context *context);

/* Sets sizes and defaults in options that are zeroed or freed.
 * weft_options_free(weft_train_table(context), options) frees them. */
WEFT_API WEFT_NODISCARD weft_status weft_train_options_init(const weft_context *context,
                                                            weft_train_options *options);

/* Sets *to, which is zeroed or freed, to a copy of the options, which
 * weft_options_free(weft_train_table(context), to) frees; after an error there is nothing to free.
 */
WEFT_API WEFT_NODISCARD weft_status weft_train_options_copy(const weft_context *context,
                                                            const weft_train_options *from,
                                                            weft_train_options *to);

/* Sets *out, which is zeroed or freed, to the options of the newest checkpoint in a folder, as the
 * command does for a run that it resumes. A file of the model that is gone is that in the
 * checkpoint. *found false: there is no checkpoint that can be read, and *out is left as it is.
 * says: logs it if the run was started in another folder than the current one, from which relative
 * paths now begin. weft_options_free(weft_train_table(context), out) frees them. */
WEFT_API WEFT_NODISCARD weft_status weft_train_options_of_checkpoint(const weft_context *context,
                                                                     const char *folder, bool says,
                                                                     weft_train_options *out,
                                                                     bool *found);

/* Completes the options of a run that resumes. then: those of the checkpoint; *out: these, over
 * which the words of the user were read; words: the defaults, over which they were read. Options
 * that count for one start alone (such as trace), those of words->weights.without, those that
 * depend on an option which the words change (weft_option.with), and, if the words change one of
 * them, the ranks with how they share a step, and the length of the run, become those of `words`.
 * ARGUMENT: a name of `without` is no option. */
WEFT_API WEFT_NODISCARD weft_status weft_train_options_merge(const weft_context *context,
                                                             const weft_train_options *then,
                                                             const weft_train_options *words,
                                                             weft_train_options *out);

#ifdef __cplusplus
}
#endif
#endif
