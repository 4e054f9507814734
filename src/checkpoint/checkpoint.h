/* Checkpoints and exported models: writing them, reading them into stores, and describing them. */
#ifndef WEFT_CHECKPOINT_CHECKPOINT_H
#define WEFT_CHECKPOINT_CHECKPOINT_H

#include "base/base.h"
#include "base/settings.h"
#include "data/data.h"
#include "exchange/exchange.h"
#include "formats/safetensors.h"
#include "weft/comm.h"
#include "weft/data.h"
#include "weft/graph.h"
#include "weft/model.h"
#include "weft/options.h"
#include "weft/plan.h"
#include "weft/program.h"

/* The position of a run: its completed steps, the running epoch, and the batches and samples that
 * have been completed within that epoch, all from 0. A resumed run may have another number of
 * learners, so its first batch begins after `samples` samples of the epoch. */
typedef struct weft_position {
    int64_t step, epoch, batch;
    int64_t samples; /* of all learners; below 0: an older checkpoint, which does not store it */
    /* The steps that the schedule of the learning rate has done, and those that an epoch has in it:
     * with as many learners as the run began with. Both are 0 in an older checkpoint. */
    double schedule;
    int64_t schedule_epoch;
} weft_position;

/* Sums over the measurements of the noise of gradients, which decay: the trace of the covariance of
 * a sample's gradient, and the squared length of the mean gradient (learner/noise.c). */
typedef struct weft_noise_sums {
    double trace, squared;
} weft_noise_sums;

/* The measurements of a run (train/watch.c): the sum of its training losses, weighted, and
 * that of the weights since the last evaluation; the step of the last evaluation that was compared,
 * and of the best one with its metric, 0: none; and the evaluations since. */
typedef struct weft_watch {
    double loss, weight, best;
    int64_t step, best_step, waited;
    weft_noise_sums noise;
} weft_watch;

enum {
    WEFT_PARAMETERS_FILE,
    WEFT_STATE_FILE,
    WEFT_LEARNERS_FILE,
    WEFT_EXCHANGE_FILE,
    WEFT_CHECKPOINT_FILES
};
/* File names in the folder of a checkpoint. */
extern const char *const weft_checkpoint_files[WEFT_CHECKPOINT_FILES];

/* The newest format of the index. Format 2 added WEFT_INDEX_CRC, format 3 numeric targets,
 * format 4 tokens and several inputs, and format 5 tables with texts, dates or missing values. A
 * checkpoint is written in the oldest format that can hold it, so that older versions can read it.
 */
#define WEFT_CHECKPOINT_FORMAT 5
/* The most samples of a split, and of an epoch that a checkpoint is in: a double still counts them.
 */
#define WEFT_MOST_SAMPLES ((int64_t)1 << 53)
/* A file that weft serve writes to the folder of a model that is not named step-N. */
#define WEFT_BATCH_TIMES_FILE "times.json"
/* The table of measurements by which the run chose its kernels (--tune). */
#define WEFT_TUNING_FILE "tuning.txt"
/* Precedes the eight digits of the checksum at the end of index.json and model.json. */
#define WEFT_INDEX_CRC ",\n \"crc32\": \""

/* The description of a state of the exchange. */
typedef struct weft_state_words {
    char *name, *what;
} weft_state_words;

typedef struct weft_checkpoint {
    char *path; /* of its folder, with symbolic links resolved */
    weft_position position;
    weft_watch watch;
    int learners; /* of the exchange of that run; 0: unknown, in older checkpoints, or no exchange
                   */
    weft_settings settings; /* of the run that wrote it */
    weft_data_stats stats;
    char *folder; /* in which that run was started, for relative paths of its data; NULL: unknown */
    weft_split_id
        splits[WEFT_SPLITS]; /* of the data of that run; samples 0: unknown, in older checkpoints */
    weft_bytes model;        /* text of the YAML model, allocated, or empty */
    weft_bytes tuning;       /* likewise of WEFT_TUNING_FILE */
    /* In the order of the enum: parameters of the first learner, its state, parameters and state of
     * the other learners, state of the exchange. The last two files may be absent. */
    weft_bytes files[WEFT_CHECKPOINT_FILES];
    weft_safetensors tensors[WEFT_CHECKPOINT_FILES];
    weft_state_words *words; /* descriptions of the exchange's states; older checkpoints: none */
    size_t word_count;
    uint64_t checksum; /* of the index, which lists the checksums of all files; exported: 0 */
    /* A checksum of the run, the step and the checksums of the files: equal in the checkpoints that
     * several learners have written of the same state, each in a folder of its own. */
    uint64_t state_checksum;
    uint64_t run;  /* id of the elastic run that wrote it; 0: not known */
    bool exported; /* this is an exported model, which has no state and no position */
    /* For messages: the options on which state depends and that the resuming run changes, as the
     * checkpoint has them; NULL: none. */
    char *changed;
    uint16_t *rounded; /* averages of bf16 parameters (weft_checkpoint_open_model); NULL: none */
} weft_checkpoint;

/* Opens a checkpoint. The path names a step folder, a link to one, the folder of a run (its
 * newest checkpoint is opened), or an exported model, whose tensors are all in the parameters
 * file. All files are checked against their checksums, and all settings against the option table.
 * FORMAT: the checkpoint is damaged; the message suggests the previous checkpoint. */
weft_status weft_checkpoint_open(const char *path, const weft_option *table,
                                 weft_checkpoint *out) WEFT_NODISCARD;
/* As weft_checkpoint_open, for all that uses the model and does not go on with its training: if the
 * run averaged its parameters (--ema), the averages take their places, rounded to bf16 if these
 * are bf16, as the run has evaluated them. */
WEFT_PRIVATE_API weft_status weft_checkpoint_open_model(const char *path, const weft_option *table,
                                                        weft_checkpoint *out) WEFT_NODISCARD;
/* Reads the index alone: the position, the settings and the data; files are not opened. */
weft_status weft_checkpoint_open_index(const char *path, const weft_option *table,
                                       weft_checkpoint *out) WEFT_NODISCARD;
/* Unmaps the files of tensors, once these are loaded; all else stays. NFS cannot remove the folder
 * of a file that is mapped. */
WEFT_PRIVATE_API void weft_checkpoint_unmap(weft_checkpoint *checkpoint);
WEFT_PRIVATE_API void weft_checkpoint_close(weft_checkpoint *checkpoint);

/* Copies the tensors of the checkpoint into the store; of a sharded tensor, only the part that the
 * store has. Every parameter of the checkpoint must be in the graph (NULL: in the store). ARGUMENT:
 * a tensor is missing, is unknown or has another type or shape; the message names the first one.
 * State that accumulates within a step (WEFT_ROLE_SUM) is left unchanged. */
weft_status weft_checkpoint_load(const weft_checkpoint *checkpoint, weft_store *store,
                                 const weft_graph *graph) WEFT_NODISCARD;

/* initial.c: weights from which a new run begins (--init): those of a checkpoint, of an exported
 * model, or of a safetensors file of another program. `spec` is FILE[:MAP], with a built-in map or
 * a file of rules (name_map.h). here: of the data of the run, which the caller keeps. ARGUMENT:
 * there is no such map. FORMAT: the file is damaged, or a pickle. */
typedef struct weft_initial weft_initial;
weft_status weft_initial_open(const char *spec, const weft_option *table,
                              const weft_data_stats *here, weft_initial **out) WEFT_NODISCARD;
void weft_initial_close(weft_initial **initial);
/* ARGUMENT: `path`, the value of an output option, is a file of FILE[:MAP], which would be lost. */
weft_status weft_initial_refuse_overwrite(const char *spec, const char *option,
                                          const char *path) WEFT_NODISCARD;
/* A hash of the contents and the map, to compare ranks. */
uint64_t weft_initial_hash(const weft_initial *w);
/* Writes the parameters and statistics of the graph of a model that a tensor fits by name and shape
 * into the store of a rank, of each its part; the others are left as they are. Features, classes
 * and tokens that a checkpoint has under names keep their numbers at the places where the run has
 * them (initial_names.h). *out: a sentence about what was loaded, is missing or does not fit; the
 * caller frees it. ARGUMENT: nothing fits, or two tensors are for one parameter. NUMERIC: a number
 * is not finite. */
weft_status weft_initial_load(const weft_initial *w, const weft_graph *graph,
                              const weft_model_values *values, weft_store *store,
                              char **out) WEFT_NODISCARD;

/* tuning.c: lets programs of the store choose kernels by the checkpoint's table of measurements. If
 * it has none, or one of another processor, card or version of Weft (which is logged), the rule
 * chooses. */
weft_status weft_checkpoint_tune(const weft_checkpoint *checkpoint,
                                 weft_store *store) WEFT_NODISCARD;

/* dropped.c: the state of a checkpoint that does not fit the resumed run, and is dropped
 * (--drop-state). */
typedef struct weft_dropped {
    struct weft_dropped_part {
        char *what;   /* description */
        char *first;  /* name of its first tensor, without the number of the learner */
        int learners; /* number of learners whose state of this kind is dropped */
    } * parts;
    size_t count, capacity;
    char *absent; /* description of states of the exchange that the checkpoint lacks, or NULL */
} weft_dropped;
/* Records a dropped tensor; `name` is the tensor's name without the number of the learner. */
weft_status weft_dropped_add(weft_dropped *dropped, const char *what,
                             const char *name) WEFT_NODISCARD;
/* Logs all dropped parts in one sentence, if there are any, and then what the checkpoint lacks. */
weft_status weft_dropped_report(const weft_dropped *dropped, weft_context *context,
                                const weft_checkpoint *checkpoint) WEFT_NODISCARD;
void weft_dropped_free(weft_dropped *dropped);

/* The number of learners in the checkpoint if their parameters differ; otherwise 1. */
int weft_checkpoint_differing(const weft_checkpoint *checkpoint);
/* As weft_checkpoint_load, for one of several learners of a resumed run. A learner that the
 * checkpoint lacks gets the parameters and state of the first learner. merges: every learner gets
 * the mean of all learners of the checkpoint instead: of the parameters, of the optimizer's state,
 * and of running statistics. If the checkpoint lacks any optimizer state that the graph needs, none
 * is loaded, and the optimizer starts anew; state that is not loaded is recorded in `dropped`.
 * dropped NULL: both cases are refused (ARGUMENT). */
weft_status weft_checkpoint_load_learner(const weft_checkpoint *checkpoint, weft_store *store,
                                         const weft_graph *graph, int learner, bool merges,
                                         weft_dropped *dropped) WEFT_NODISCARD;
/* Loads the states of the exchange (NULL: the run has no exchange) by their names. If the
 * checkpoint has none of them, the exchange starts without state, which `dropped` names. If the
 * checkpoint has only a part of them, has another type, or has the state of another exchange, this
 * state is recorded in `dropped` and not loaded; with dropped NULL it is refused (ARGUMENT). */
weft_status weft_checkpoint_load_exchange(const weft_checkpoint *checkpoint,
                                          weft_exchange *exchange, int learner,
                                          weft_dropped *dropped) WEFT_NODISCARD;
/* Whether the checkpoint has the first learner's own state of the exchange, such as residuals, but
 * not that of the others: learners that are processes of their own send none. */
bool weft_checkpoint_lacks_learners(const weft_checkpoint *checkpoint, weft_exchange *exchange);

/* The source of the tensors of a checkpoint that is written. */
typedef struct weft_checkpoint_source {
    weft_store *store;
    const weft_graph *graph;
    const weft_comms *comms;     /* communicators of the learner */
    weft_learner_group *between; /* all learners, if each is saved; NULL: only this one is */
    weft_exchange *exchange;     /* NULL: the run has no exchange */
    /* A simulated run, whose learners are all in this process; `between` and `exchange` are then
     * NULL. NULL: a real run. In a simulated run `store` and `graph` are those of one rank and hold
     * the resulting parameters, and stores, [learners], hold the state of each learner. */
    struct weft_sim_exchange *simulated;
    const weft_store *const *stores;
} weft_checkpoint_source;

/* The contents of a checkpoint that is written, beside its tensors. */
#define WEFT_BEST "best" /* the link in the folder of a run */
typedef struct weft_checkpoint_record {
    weft_position position;
    const weft_settings *settings;
    const weft_data_stats *stats;
    const weft_split_id *splits; /* [WEFT_SPLITS], of the data */
    const weft_bytes *model;     /* text of the YAML model, or empty */
    const weft_bytes *tuning;    /* text of WEFT_TUNING_FILE, or empty; NULL: likewise */
    uint64_t run;                /* id of the elastic run; 0: it is none */
    weft_watch watch;
    bool best; /* DIR/best is pointed at it, too */
} weft_checkpoint_record;

/* Writes DIR/step-N, points DIR/latest at it, and removes all but the newest `keep` checkpoints
 * of this run and the one that DIR/best names. Collective over all ranks of the learners that are
 * saved. Rank 0 of the first of them gathers all tensors and writes them, and only there *path is
 * set. */
weft_status weft_checkpoint_save(const weft_checkpoint_source *from,
                                 const weft_checkpoint_record *what, const char *directory,
                                 int64_t keep, char **path) WEFT_NODISCARD;

/* The bytes that a rank takes while a checkpoint is written, which rank 0 does (writes): tensors of
 * the graph are gathered and written one after the other. The store is the rank's, or one on which
 * its program is planned. */
size_t weft_checkpoint_room(const weft_graph *graph, const weft_store *store, bool writes);

/* Calls fn on rank 0 of the learner with each parameter of its graph, whole and in plain layout,
 * one after the other. Collective over the learner. */
typedef weft_status weft_parameter_fn(void *user, const char *name, const weft_type *type,
                                      const void *data);
weft_status weft_gather_parameters(const weft_comms *comms, const weft_store *store,
                                   const weft_graph *graph, weft_parameter_fn *fn,
                                   void *user) WEFT_NODISCARD;

/* Appends position, settings and tensors as text. rate, outputs: lines about the learning rate, and
 * about what the model gives. */
void weft_checkpoint_describe(const weft_checkpoint *checkpoint, const char *rate,
                              const char *outputs, weft_text *text);
/* Whether the checkpoint has each leaf of this graph, and no other parameter. ARGUMENT: see
 * weft_checkpoint_load. NUMERIC: a number of a leaf is not finite. */
weft_status weft_checkpoint_check_leaves(const weft_checkpoint *checkpoint,
                                         const weft_graph *graph) WEFT_NODISCARD;
/* Writes the tensors of the checkpoint that are leaves of this graph to a safetensors file (modes:
 * weft_safetensors_write). */
weft_status weft_checkpoint_write_leaves(const weft_checkpoint *checkpoint, const weft_graph *graph,
                                         const char *file, weft_output_mode mode) WEFT_NODISCARD;

/* mapped.c: writes the parameters and statistics of the graph as FILE:MAP of --init reads them: by
 * a built-in map or a file of rules (name_map.h), in a file that the user names. The leaves have
 * been checked (weft_checkpoint_check_leaves). ARGUMENT: there is no such map, or it has no rule
 * for one of them. */
weft_status weft_checkpoint_write_mapped(const weft_checkpoint *checkpoint, const weft_graph *graph,
                                         const char *map, const char *file) WEFT_NODISCARD;

/* Exports the tensors that are leaves of the graph, and the description of the model, to a folder:
 * weights.safetensors, model.json and, for a YAML model, model.yaml. ARGUMENT: the folder is a
 * checkpoint or has those of a run. */
weft_status weft_exported_write(const weft_checkpoint *checkpoint, const weft_graph *graph,
                                const char *folder) WEFT_NODISCARD;

/* Protects checkpoints from an output option. ARGUMENT: `path`, the value of that option (NULL:
 * unset), is an existing file of some checkpoint or exported model, which would be overwritten. */
WEFT_PRIVATE_API weft_status weft_checkpoint_refuse_overwrite(const char *option,
                                                              const char *path) WEFT_NODISCARD;

/* --- the folder of a run --- */

/* Locks the folder for one run, until weft_folder_unlock or the end of the process. The caller sets
 * *lock to -1 before the first call; a later call, with the lock in *lock, does nothing. If a
 * process of the same supervised `job` (NULL: none) holds the lock, waits up to `timeout` seconds
 * for its end. On a file system without locks the call succeeds and locks nothing. ARGUMENT:
 * another run holds the lock; the message names its process and host. */
weft_status weft_folder_lock(const char *directory, const char *job, double timeout,
                             int *lock) WEFT_NODISCARD;
void weft_folder_unlock(int *lock);

/* ARGUMENT: the folder is a checkpoint or an exported model itself, so no run may begin in it or
 * resume there; the message names the folder that holds the checkpoint. */
weft_status weft_folder_suits_run(const char *directory) WEFT_NODISCARD;

/* If DIR/latest is a folder, as in a copy in which links were followed: renames the folder to
 * step-N and points `latest` at it. newest: what was loaded from there. The caller holds the lock.
 * ARGUMENT: another checkpoint has that name, or something else is in one of the two folders. */
weft_status weft_folder_name_latest(const char *directory,
                                    const weft_checkpoint *newest) WEFT_NODISCARD;

/* Checks the names that a run from step `after` to `last` may give to checkpoints. ARGUMENT: a file
 * or folder that is no checkpoint has one of these names; a run never overwrites it. */
weft_status weft_folder_check(const char *directory, int64_t after, int64_t last) WEFT_NODISCARD;

/* Whether a run has left a checkpoint in DIR. A link DIR/latest alone counts, too, since
 * weft_checkpoint_open then reports the checkpoint as damaged. */
weft_status weft_checkpoint_found(const char *directory, bool *found) WEFT_NODISCARD;

/* The steps of the complete checkpoints in DIR, newest first. *count may be 0. */
weft_status weft_checkpoint_list(const char *directory, int64_t **steps, int *count) WEFT_NODISCARD;

#endif
