/*
 * A service: trained models that answer requests. It loads checkpoints, plans programs for several
 * batch sizes, keeps one copy of a model's weights for all instances, and computes requests in
 * batches (weft/batcher.h). No network is involved.
 *
 * A model has a name and versions. A model that is loaded from a path has one version at a time,
 * numbered from 1: a new version replaces the previous one when it is ready, and the previous one
 * ends when its last request has been answered, so none is dropped. Models of a folder
 * (weft_service_options.models) have the versions DIR/NAME/VERSION, of which the newest or all are
 * served.
 */
#ifndef WEFT_SERVICE_H
#define WEFT_SERVICE_H

#include "weft/batcher.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_service weft_service;
typedef struct weft_servable weft_servable;

typedef struct weft_service_options {
    size_t struct_size; /* sizeof(weft_service_options) */
    const char *device; /* default "cpu" */
    int instances;      /* batches computed at a time, each on its own cores; default 1 */
    int threads; /* of a rank; 0: the cores divided by the ranks of all instances, or one if the
      largest batch has less than 50 million floating-point operations */
    const char *policy; /* default "adaptive" */
    int64_t limit;      /* rows of a batch; default 64 */
    int64_t waiting;    /* most rows waiting for a model; default 4096 */
    /* A folder of models, DIR/NAME/VERSION: checkpoints, or exports by
     * weft_checkpoint_export_folder; versions are integers from 1. NULL: none. It is read by
     * weft_service_poll_models only. */
    const char *models;
    bool all_versions; /* serves all versions, not only the newest that can be loaded */
    double watch;      /* seconds between scans of the folder by a separate thread; 0: none */
    /* The mesh of an instance, as in weft_plan_options.mesh: "tensor=2". Each rank has its own
     * cores, threads and part of the weights. NULL: one rank. */
    const char *mesh;
    /* About how many seconds measuring batch times may take when a model is loaded; default 2. 0:
     * they are learned from the first batches. */
    double measure;
    /* Where batch times are saved: a folder, as NAME.json; "none"; NULL: times.json in the folder
     * of the model's run, or else of the model. They are not saved where the file cannot be
     * written. */
    const char *times;
} weft_service_options;
WEFT_API void weft_service_options_init(weft_service_options *options);

/* Creates a service without models. The context logs a warning if threads outnumber the cores.
 * ARGUMENT: an invalid option or mesh. */
WEFT_API WEFT_NODISCARD weft_status weft_service_create(weft_context *context,
                                                        const weft_service_options *options,
                                                        weft_service **out);
/* Answers the requests in progress, then ends. All references to models must have been released.
 * NULL is allowed. */
WEFT_API void weft_service_destroy(weft_service **service);

/* Loads a checkpoint (DIR/latest, DIR/step-N, DIR) as the next version of a model, and returns when
 * the previous version has ended. path NULL: the previous path, or for a model of the folder its
 * new and changed versions. Takes seconds; several threads may load at once. ARGUMENT: an invalid
 * name (1 to 127 letters, digits, '-', '_' and '.', not beginning with '.'), nothing to load, or a
 * path for a model of the folder; FORMAT, IO: names the file and the reason. After a failure the
 * previous version stays in service. */
WEFT_API WEFT_NODISCARD weft_status weft_service_load(weft_service *service, const char *name,
                                                      const char *path);
/* Scans the folder of models: loads new versions, and ends removed ones. A version that cannot be
 * loaded is reported in the log and by weft_service_entry, does not affect others, and is tried
 * again when its files have changed. A model that was unloaded stays so until it is loaded by
 * weft_service_load. ARGUMENT: no folder is given, or a model in it has the name of another model;
 * IO: the folder cannot be read. */
WEFT_API WEFT_NODISCARD weft_status weft_service_poll_models(weft_service *service);
/* Takes all versions of a model out of service; returns when their requests have been answered. Its
 * name and path stay known. ARGUMENT: no such model. */
WEFT_API WEFT_NODISCARD weft_status weft_service_unload(weft_service *service, const char *name);

typedef enum weft_servable_state {
    WEFT_SERVABLE_READY,
    WEFT_SERVABLE_LOADING, /* and not ready yet */
    WEFT_SERVABLE_UNAVAILABLE
} weft_servable_state;
/* The state of version i, in the order of addition; false past the end. */
typedef struct weft_service_item {
    char name[128];
    int64_t version; /* 0: none was ready yet, so it has no number */
    bool ready;
    weft_servable_state state;
    char reason[1024]; /* why it is not ready, or why the last load failed; "" */
} weft_service_item;
WEFT_API bool weft_service_entry(weft_service *service, int i, weft_service_item *out);

/* A reference to a model's version (0: the newest), or NULL: there is none in service now. */
WEFT_API weft_servable *weft_service_hold(weft_service *service, const char *name, int64_t version);
/* As above, for entry i of weft_service_entry. */
WEFT_API weft_servable *weft_service_hold_entry(weft_service *service, int i);
WEFT_API void weft_servable_release(weft_servable **servable);

/* Description of a version. Valid while a reference is held. */
typedef struct weft_servable_info {
    const char *name;
    int64_t version;
    const char *model; /* "lenet", or the name of its file */
    weft_dtype real;   /* type of its computation: F32 or F64 */
    weft_shape sample; /* of one row of the input "x" */
    int classes,
        targets; /* one of them is 0; the number of values in a row of the output "prediction" */
    char *const *class_names;  /* [classes], or NULL */
    char *const *column_names; /* of the features of a table, or NULL */
    const char *label_name;    /* of its label or target, or NULL */
    bool table;                /* the features are columns with different meanings */
    int label_column;          /* of a table, as in weft_data_stats */
    const char *weight_name;
    int weight_column;
    bool bytes;    /* the features seem to be those of pictures, 0..255 */
    int64_t limit; /* most rows of a request */
    const char *policy;
} weft_servable_info;
WEFT_API void weft_servable_describe(const weft_servable *servable, weft_servable_info *out);
/* Its queue, for what it has done (weft_batch_queue_describe). */
WEFT_API weft_batch_queue *weft_servable_queue(const weft_servable *servable);

/* A request. All memory belongs to the caller and must stay valid until `done`; the model is held
 * until then. */
typedef struct weft_inference_request {
    size_t struct_size; /* sizeof(weft_inference_request) */
    int64_t rows;
    const float *x; /* [rows, sample...], in the form of the training data */
    /* The input in double precision, instead of x; NULL: x. Columns of a table (about.table) may be
     * far from zero, so that rounding before the normalisation would lose precision. */
    const double *x_double;
    bool raw;           /* in the network's form: neither x nor numeric predictions are converted */
    double *prediction; /* [rows, classes or targets]: probabilities, or numbers */
    double *logits;     /* the outputs before the last step; NULL: not wanted */
    double queue_timeout; /* as in weft_request */
    int priority;
    bool no_wake; /* as in weft_request */
    void *user;
    void (*done)(void *user, const weft_request_result *result);
} weft_inference_request;
WEFT_API void weft_inference_request_init(weft_inference_request *request);

/* Asks: `done` is called once, in another thread, if this returns OK; *ticket (may be NULL) is for
 * weft_servable_cancel. As weft_batch_queue_submit. */
WEFT_API WEFT_NODISCARD weft_status weft_servable_submit(weft_servable *servable,
                                                         weft_inference_request *request,
                                                         uint64_t *ticket);
/* As weft_batch_queue_cancel: true: `done` will not be called. */
WEFT_API bool weft_servable_cancel(weft_servable *servable, uint64_t ticket);
/* As weft_batcher_run_due. */
WEFT_API int weft_service_run_due(weft_service *service, double seconds);

#ifdef __cplusplus
}
#endif
#endif
