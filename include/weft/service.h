/*
 * A service: trained models that answer requests. A service loads checkpoints, plans programs for
 * several batch sizes, keeps one copy of a model's weights for all instances, and computes requests
 * in batches (weft/batcher.h). No network is involved.
 *
 * A model has a name and versions. A model that is loaded from a path has one version at a time,
 * numbered from 1. A new version replaces the previous one when the new one is ready; the previous
 * one ends when its last request has been answered, so no request is dropped. Models of a model
 * repository (weft_service_options.models) have the versions DIR/NAME/VERSION, of which the service
 * serves the newest or all.
 */
#ifndef WEFT_SERVICE_H
#define WEFT_SERVICE_H

#include "weft/batcher.h"
#include "weft/data.h"
#include "weft/generate.h"
#include "weft/port.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_service weft_service;
typedef struct weft_servable weft_servable;

typedef struct weft_service_options {
    size_t struct_size; /* sizeof(weft_service_options) */
    const char *device; /* device of all models; default "cpu" */
    /* Batches computed at a time for all models, each on its own cores; default 1. */
    int instances;
    /* Threads of a rank; 0: the cores divided by the ranks of all instances, or one if the largest
     * batch has less than 50 million floating-point operations. */
    int threads;
    const char *policy; /* batching policy; default "adaptive" */
    int64_t limit;      /* most rows of a batch, 1 to 4096; default 64 */
    int64_t waiting;    /* most rows that may wait for a version; default 4096 */
    /* Weights of models against each other while several wait for an instance, "NAME=3,NAME=0.5";
     * a model that is not named has 1. NULL: all have 1. */
    const char *shares;
    /* The model repository, a folder DIR/NAME/VERSION. VERSION is an integer from 1, a checkpoint
     * or an export by weft_checkpoint_export_folder. NULL: none. weft_service_create does not scan
     * the folder; weft_service_poll_models does. */
    const char *models;
    /* Serve all versions of the repository, not only the newest that can be loaded. */
    bool all_versions;
    double watch; /* seconds between scans of the repository in the background; 0: none */
    /* The mesh of an instance, as in weft_plan_options.mesh: "tensor=2". Each rank has cores,
     * threads and a part of the weights of its own. NULL: one rank. */
    const char *mesh;
    /* About how many seconds the service measures batch times when it loads a model; default 2. 0:
     * it learns them from the first batches. */
    double measure;
    /* A folder where batch times are saved, as NAME.json; "none": nowhere; NULL: as times.json in
     * the folder of the run that wrote the checkpoint, or else in the model's folder. Times that
     * cannot be written are measured again after the next load. */
    const char *times;
    /* A table of measurements that chooses kernels, as weft train --tune has it; a group that it
     * lacks is measured when a model is loaded, and the file is written again. A process of a
     * supervised server measures none. NULL: the table of each checkpoint. */
    const char *tune;
} weft_service_options;
WEFT_API void weft_service_options_init_size(weft_service_options *options, size_t size);
#define weft_service_options_init(options)                                                         \
    weft_service_options_init_size(options, sizeof(*(options)))

/* Creates a service without models. Logs a warning if there are more threads than cores. ARGUMENT:
 * an invalid option or mesh. */
WEFT_API WEFT_NODISCARD weft_status weft_service_create(weft_context *context,
                                                        const weft_service_options *options,
                                                        weft_service **out);
/* Answers the requests that wait or are in progress, then ends the service. Waits without a time
 * limit until all references to models (weft_service_hold) have been released. NULL is allowed. */
WEFT_API void weft_service_destroy(weft_service **service);

/* Loads a checkpoint (DIR/latest, DIR/step-N, DIR) as the next version of a model, and returns when
 * the previous version has ended: when its requests have been answered and its references been
 * released, without a time limit. So the caller must hold no reference to that version. path NULL:
 * loads the model's previous path again, or, for a model of the repository, its new and changed
 * versions. Takes seconds; several threads may load at once. If it fails, the previous version
 * stays in service. ARGUMENT: an invalid name (valid: 1 to 127 letters, digits, '-', '_' and '.',
 * not beginning with '.'), nothing to load, or a path for a model of the repository; BUSY: the
 * model is being loaded by another call, or was unloaded meanwhile; FORMAT, IO: the message names
 * the file and the reason. */
WEFT_API WEFT_NODISCARD weft_status weft_service_load(weft_service *service, const char *name,
                                                      const char *path);
/* Scans the model repository: loads new versions, and ends removed ones. A version that cannot be
 * loaded is reported in the log and by weft_service_entry, not as a failure of this call; it
 * affects no other version, and is tried again when its files have changed. A model that was
 * unloaded stays unloaded until weft_service_load. ARGUMENT: there is no repository, or a model in
 * it has the name of a model that was loaded from a path; IO: the folder cannot be read. */
WEFT_API WEFT_NODISCARD weft_status weft_service_poll_models(weft_service *service);
/* Takes all versions of a model out of service, and returns when their requests have been answered
 * and their references been released, without a time limit; the caller must hold none.
 * The service keeps the model's name and path. ARGUMENT: no version of such a model is served or
 * being loaded. */
WEFT_API WEFT_NODISCARD weft_status weft_service_unload(weft_service *service, const char *name);

/* The state of a version. */
typedef enum weft_servable_state {
    WEFT_SERVABLE_READY,      /* answers requests, also while its successor is being loaded */
    WEFT_SERVABLE_LOADING,    /* being loaded, and not ready yet */
    WEFT_SERVABLE_UNAVAILABLE /* failed to load, or unloaded */
} weft_servable_state;
/* A version and its state. */
typedef struct weft_service_item {
    char name[128];
    int64_t version;      /* 0: a model from a path of which no version has been ready */
    bool ready, unloaded; /* unloaded: a client has unloaded the model */
    weft_servable_state state;
    char reason[1024]; /* why it is not ready, or why the last load failed; "": neither */
    uint64_t room[8];  /* of later versions: 0 */
} weft_service_item;
/* Sets *out to version i, in the order of addition; false past the end. */
WEFT_API bool weft_service_entry(weft_service *service, int i, weft_service_item *out);

/* Returns a reference to a version of a model (0: the newest), or NULL if none is in service now.
 * weft_servable_release releases it. */
WEFT_API weft_servable *weft_service_hold(weft_service *service, const char *name, int64_t version);
/* Returns a reference to version i of weft_service_entry, or NULL if it is not in service now. */
WEFT_API weft_servable *weft_service_hold_entry(weft_service *service, int i);
WEFT_API void weft_servable_release(weft_servable **servable);

struct weft_table;

/* The description of a version. Valid while a reference is held. */
typedef struct weft_servable_info {
    const char *name;
    int64_t version;
    const char *model; /* built-in network, "lenet", or the name of its YAML file */
    weft_dtype real;   /* of inputs and answers: F32 (also of a model in bf16) or F64 */
    int inputs;
    weft_input input[WEFT_MAX_INPUTS]; /* their names, and shape and type of one row */
    bool tokens;                       /* an input holds tokens, which are integers */
    /* One is 0; the other is the number of values of an answer. */
    int classes, targets;
    int64_t positions;        /* answers of a row, one for each position; 0: a row has one answer */
    int64_t outputs;          /* numbers of a row of output 0, the prediction */
    char *const *class_names; /* [classes]; NULL: classes are numbers */
    char *const *column_names; /* names of the features of a table; NULL: none */
    const char *label_name;    /* name of the label or target; NULL: none */
    bool table;                /* the only input has columns with different meanings */
    int label_column;          /* as in weft_data_stats */
    const char *weight_name;   /* as in weft_data_stats */
    int weight_column;
    const char *id_name; /* as in weft_data_stats */
    int id_column;
    weft_range range;   /* as in weft_data_stats */
    bool bytes;         /* as in weft_data_stats */
    int64_t limit;      /* most rows of a batch; a request of more is cut into several */
    const char *policy; /* batching policy */
    int64_t most_rows;  /* most rows of a request */
    /* Bit k: in the file of the training the channels of input k are last; those of its shape, and
     * of a weft_inference_request, are first. */
    uint64_t channels_last;
    /* The outputs: the prediction, and further ones that the model names. */
    const weft_model_output *output; /* [output_count] */
    int64_t output_count;
    const struct weft_table *table_columns; /* `table` of weft_data_stats */
    bool fills;  /* pictures are scaled to cover the shape, and cut, as those of the training */
    bool binary; /* the targets are labels of 0 and 1, and answers their probabilities */
    char *const *target_names; /* [targets], of several; NULL: they have none */
    uint64_t room[1];          /* of later versions: 0 */
} weft_servable_info;
/* Sets *out to the description of a version. */
WEFT_API void weft_servable_describe(const weft_servable *servable, weft_servable_info *out);
/* The batch queue of a version, for its statistics (weft_batch_queue_describe). */
WEFT_API weft_batch_queue *weft_servable_queue(const weft_servable *servable);

/* An inference request. The struct is copied; the memory that it points to belongs to the caller
 * and must stay valid until `done`, or until the request has been cancelled. The version stays
 * loaded until then. */
typedef struct weft_inference_request {
    size_t struct_size; /* sizeof(weft_inference_request) */
    int64_t rows;
    /* [rows, sample...]: features in the unit of the training data, not normalised, channels first
     * as in the shapes of weft_servable_info.input. Several inputs follow one another, in the order
     * of these, each with all rows. */
    const float *x;
    /* Features in double precision, used instead of x; NULL: x is used. Columns of a table
     * (weft_servable_info.table) may be far from zero, so that rounding to float before the
     * normalisation would lose precision. A float holds tokens up to 2^24. */
    const double *x_double;
    /* If set, x is normalised already, and numeric predictions stay normalised. */
    bool raw;
    /* Output, [rows, classes or targets] or [rows, positions, classes]: probabilities, or numbers.
     */
    double *prediction;
    double *logits;       /* output of the last layer, same shape; NULL: not wanted */
    double queue_timeout; /* as in weft_request, like priority and no_wake */
    int priority;
    bool no_wake;
    void *user;
    void (*done)(void *user, const weft_request_result *result);
    /* output[k], from 1: memory for output k of weft_servable_info, [rows, shape...] of its type;
     * NULL: not wanted. Such numbers are as the layer gives them. */
    void *output[WEFT_MODEL_OUTPUTS];
} weft_inference_request;
WEFT_API void weft_inference_request_init_size(weft_inference_request *request, size_t size);
#define weft_inference_request_init(request)                                                       \
    weft_inference_request_init_size(request, sizeof(*(request)))

/* Submits a request. One of more rows than a batch may have is cut into parts, which are computed
 * on their own, and is answered when all are: with the first failure of a part, the longest of
 * their times and the rows of the largest batch. ARGUMENT: an element of an input of tokens is no
 * token, or a number is not finite once it is normalised; the message names its place. If this
 * returns OK, `done` is called once, in the thread that answers the request (weft_request.done),
 * with NUMERIC if a number of an output is not finite: the message names the row, and `prediction`
 * holds what was computed. *ticket (may be NULL) is for weft_servable_cancel. Else fails as
 * weft_batch_queue_submit. */
WEFT_API WEFT_NODISCARD weft_status weft_servable_submit(weft_servable *servable,
                                                         const weft_inference_request *request,
                                                         uint64_t *ticket);
/* Submits a request and waits for its answer; `done` and `user` must be NULL. Several threads may
 * call it at a time, and their rows then share batches. *result (may be NULL) is the answer without
 * `message` and `failed`, which are NULL. Fails as weft_servable_submit, and with the status of the
 * answer. */
WEFT_API WEFT_NODISCARD weft_status weft_servable_predict(weft_servable *servable,
                                                          const weft_inference_request *request,
                                                          weft_request_result *result);
/* Cancels a request, as weft_batch_queue_cancel does; true: `done` will not be called. If parts of
 * a request were computed already, only the others are cancelled, and `done` gets INTERRUPTED. */
WEFT_API bool weft_servable_cancel(weft_servable *servable, uint64_t ticket);
/* A generation request: the model continues a prompt. Sequences of several requests are computed in
 * batches, each beginning and ending on its own. */
enum { WEFT_MOST_GENERATED = 1 << 20 }; /* most tokens of a request */
typedef struct weft_generation_request {
    size_t struct_size; /* sizeof(weft_generation_request) */
    /* The text to continue, as in weft_generator_encode, read before the call returns. NULL: begins
     * behind the end of a line, or with token 0. */
    const char *prompt;
    int64_t tokens; /* tokens to generate, from 1; default 16 */
    weft_sampling sampling;
    double queue_timeout; /* of its first position, as in weft_request; `priority` is of all */
    int priority;
    void *user;
    /* Called with the bytes of each token that is drawn, in the thread that computed it, and with a
     * size of 0 for each position of the prompt. Returns false to end. Must not wait. */
    bool (*token)(void *user, const char *text, size_t size);
    /* Called once, after the last token or a failure. rows: of the last batch. */
    void (*done)(void *user, const weft_request_result *result);
    /* Drawing this token ends the text, of which it is no part; -1 (default): none. */
    int64_t end_token;
} weft_generation_request;
WEFT_API void weft_generation_request_init_size(weft_generation_request *request, size_t size);
#define weft_generation_request_init(request)                                                      \
    weft_generation_request_init_size(request, sizeof(*(request)))
/* Begins to generate, and holds a reference to the version until `done` returns. ARGUMENT, FORMAT:
 * the request or its prompt is wrong; UNSUPPORTED: the model does not predict the next token;
 * BUSY: too many texts are being generated. */
WEFT_API WEFT_NODISCARD weft_status weft_servable_generate(weft_servable *servable,
                                                           const weft_generation_request *request);
/* Statistics of a version's generation; all 0 if it does not generate. */
typedef struct weft_generation_stats {
    int64_t active;    /* texts that are being generated now */
    int64_t texts;     /* that have ended, by failures too */
    int64_t refused;   /* since too many were being generated */
    int64_t tokens;    /* that were drawn */
    int64_t positions; /* that were computed: of prompts, and of drawn tokens */
    int64_t batches;   /* in which they were computed */
    uint64_t room[4];  /* of later versions: 0 */
} weft_generation_stats;
WEFT_API void weft_servable_generation_stats(const weft_servable *servable,
                                             weft_generation_stats *out);
/* Histograms of seconds, with the cells of weft_batch_queue_stats.latency, and their sums: from a
 * request to its first token, from a token to the next, and from the request to the end of a text
 * that did not fail. */
typedef struct weft_generation_times {
    int64_t first_token[WEFT_LATENCY_CELLS], next_token[WEFT_LATENCY_CELLS],
        whole[WEFT_LATENCY_CELLS];
    double first_token_seconds, next_token_seconds, whole_seconds;
    uint64_t room[4]; /* of later versions: 0 */
} weft_generation_times;
WEFT_API void weft_servable_generation_times(const weft_servable *servable,
                                             weft_generation_times *out);

/* Computes due batches of all models in the calling thread, as weft_batcher_run_due does. */
WEFT_API int weft_service_run_due(weft_service *service, double seconds);

#ifdef __cplusplus
}
#endif
#endif
