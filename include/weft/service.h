/*
 * A service: trained models that answer. It loads checkpoints, plans programs for a ladder of batch
 * sizes, keeps one copy of the weights of a model for all its instances, and answers questions
 * through batches (weft/batcher.h). There is no network in this.
 *
 * A model has a name and versions. One that is loaded from a path has one at a time, counted from
 * 1: a new version takes the place of the one before when it can answer, and that one ends when its
 * last question has been answered, so nothing is dropped. Models of a folder
 * (weft_service_options.models) have the versions that lie there, DIR/NAME/VERSION, of which the
 * newest is served, or all.
 */
#ifndef WEFT_SERVICE_H
#define WEFT_SERVICE_H

#include "weft/batcher.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_service weft_service;
typedef struct weft_served weft_served;

typedef struct weft_service_options {
    size_t struct_size; /* sizeof(weft_service_options) */
    const char *device; /* "cpu" */
    int instances;      /* batches computed at a time, each on cores of its own; 1 */
    int threads;        /* of a rank; 0: the cores over the ranks of all instances, or one where the
                         * largest batch is less than 50 million floating point operations */
    const char *policy; /* "adaptive" */
    int64_t limit;      /* rows of a batch; 64 */
    int64_t waiting;    /* rows that may wait for a model; 4096 */
    /* A folder of models, DIR/NAME/VERSION: checkpoints, or what weft_checkpoint_export_folder
     * wrote; versions are whole numbers from 1. NULL: none. Nothing is read of it before
     * weft_service_look. */
    const char *models;
    bool all_versions; /* of them all versions, not the newest that can be loaded alone */
    double watch;      /* seconds between looks at the folder, in a thread of its own; 0: none */
    /* Ranks of an instance, as weft_plan_options.mesh: "tensor=2". Each has cores and threads of
     * its own, and its part of the weights. NULL: one rank. */
    const char *mesh;
    /* About how many seconds may be spent on what batches take when a model is loaded; 2. 0: none,
     * and the first batches show it. */
    double measure;
    /* Where is kept what batches take: a folder, of which NAME.json; "none"; NULL: times.json in
     * the folder of the model's run, or else of the model. Where it cannot be written it is not
     * kept. */
    const char *times;
} weft_service_options;
WEFT_API void weft_service_options_init(weft_service_options *options);

/* Makes a service without models. The context is told where threads outnumber the cores. ARGUMENT:
 * an option, or a mesh that is none. */
WEFT_API WEFT_NODISCARD weft_status weft_service_create(weft_context *context,
                                                        const weft_service_options *options,
                                                        weft_service **out);
/* Answers what is under way, then ends. Nobody may hold a model any more. NULL is allowed. */
WEFT_API void weft_service_destroy(weft_service **service);

/* Loads a checkpoint (DIR/latest, DIR/step-N, DIR) as the next version of a model, and returns when
 * the version before has ended. path NULL: where the version before came from, or of a model of the
 * folder what is new there, and what has changed. Takes seconds; several threads may load at once.
 * ARGUMENT: no name (1 to 127 letters, digits, '-', '_' and '.', which is not the first), nothing
 * to load, or the name of a model of the folder with a path; FORMAT, IO: the file and the reason.
 * After a failure what served before still does. */
WEFT_API WEFT_NODISCARD weft_status weft_service_load(weft_service *service, const char *name,
                                                      const char *path);
/* Looks at the folder of models: loads versions that are new, and ends those that are gone. What
 * cannot be loaded is told of in the log and by weft_service_entry, leaves all else as it is, and
 * is tried again when it has changed. One that was unloaded stays so until it is asked for.
 * ARGUMENT: no folder is given, or a model there has the name of another one; IO: it cannot be
 * read.
 */
WEFT_API WEFT_NODISCARD weft_status weft_service_look(weft_service *service);
/* Takes a model out of service, all its versions; returns when what it was asked has been answered.
 * Its name and path stay known. ARGUMENT: there is no such model. */
WEFT_API WEFT_NODISCARD weft_status weft_service_unload(weft_service *service, const char *name);

typedef enum weft_served_state {
    WEFT_SERVED_READY,
    WEFT_SERVED_LOADING, /* and none of it is ready yet */
    WEFT_SERVED_UNAVAILABLE
} weft_served_state;
/* What is known of version i, in the order in which they came; false past the end. */
typedef struct weft_service_item {
    char name[128];
    int64_t version; /* 0: none has been ready, and it has no number yet */
    bool ready;
    weft_served_state state;
    char reason[1024]; /* why it is not, or why the last load failed; "" */
} weft_service_item;
WEFT_API bool weft_service_entry(weft_service *service, int i, weft_service_item *out);

/* Holds the model, or NULL: there is none of the name, or not of this version (0: the newest) now.
 */
WEFT_API weft_served *weft_service_hold(weft_service *service, const char *name, int64_t version);
/* The same of version i of weft_service_entry. */
WEFT_API weft_served *weft_service_hold_entry(weft_service *service, int i);
WEFT_API void weft_served_release(weft_served **served);

/* What it is. Valid while it is held. */
typedef struct weft_served_about {
    const char *name;
    int64_t version;
    const char *model; /* "lenet", or the name of its file */
    weft_dtype real;   /* in which it computes: F32 or F64 */
    weft_shape sample; /* of one row of the input "x" */
    int classes,
        targets; /* one of them is 0; a row of the output "prediction" has so many numbers */
    char *const *class_names;  /* [classes], or NULL */
    char *const *column_names; /* of the features of a table, or NULL */
    const char *label_name;    /* of its label or target, or NULL */
    bool table;                /* the features are columns of different meaning */
    int label_column;          /* of a table, as weft_data_stats has it */
    const char *weight_name;
    int weight_column;
    bool bytes;    /* the features are those of pictures, 0..255, as far as can be told */
    int64_t limit; /* rows of a question at the most */
    const char *policy;
} weft_served_about;
WEFT_API void weft_served_describe(const weft_served *served, weft_served_about *out);
/* Its line, for what it has done (weft_line_describe). */
WEFT_API weft_line *weft_served_line(const weft_served *served);

/* A question. All memory is the caller's, and stays until `done`; the model is held until then. */
typedef struct weft_question {
    size_t struct_size; /* sizeof(weft_question) */
    int64_t rows;
    const float *x; /* [rows, sample...], as the data that it was trained on are */
    /* The same in double precision, in place of x; NULL: x. A table's columns may be far from zero
     * (about.table), so that rounded before they are normalised they are not what they were. */
    const double *wide;
    bool raw; /* as the network has them: neither is x normalised nor a number given in its own
                 units */
    double *prediction; /* [rows, classes or targets]: probabilities, or numbers */
    double *logits;     /* the same before the last step; NULL: not wanted */
    double patience;    /* as weft_request */
    int priority;
    bool quiet; /* as weft_request */
    void *user;
    void (*done)(void *user, const weft_answered *answered);
} weft_question;
WEFT_API void weft_question_init(weft_question *question);

/* Asks: `done` is called once, in another thread, if this returns OK; *ticket (may be NULL) is for
 * weft_served_cancel. As weft_line_submit. */
WEFT_API WEFT_NODISCARD weft_status weft_served_ask(weft_served *served, weft_question *question,
                                                    uint64_t *ticket);
/* As weft_line_cancel: true: `done` will not be called. */
WEFT_API bool weft_served_cancel(weft_served *served, uint64_t ticket);
/* As weft_batcher_lend. */
WEFT_API int weft_service_lend(weft_service *service, double seconds);

#ifdef __cplusplus
}
#endif
#endif
