/* Checkpoints: writing, reading and describing them. */
#ifndef WEFT_CHECKPOINT_CHECKPOINT_H
#define WEFT_CHECKPOINT_CHECKPOINT_H

#include "base/base.h"
#include "base/settings.h"
#include "exchange/exchange.h"
#include "formats/safetensors.h"
#include "weft/comm.h"
#include "weft/data.h"
#include "weft/graph.h"
#include "weft/options.h"
#include "weft/plan.h"
#include "weft/program.h"

/* The position of a run: completed batches of `epoch`, and their samples. A resumed run may have
 * another number of learners; its batches continue after these samples. */
typedef struct weft_position {
    int64_t step, epoch, batch;
    int64_t samples; /* below 0: unknown, in older checkpoints */
} weft_position;

enum {
    WEFT_PARAMETERS_FILE,
    WEFT_STATE_FILE,
    WEFT_LEARNERS_FILE,
    WEFT_EXCHANGE_FILE,
    WEFT_CHECKPOINT_FILES
};
/* File names in the folder of a checkpoint. */
extern const char *const weft_checkpoint_files[WEFT_CHECKPOINT_FILES];

/* Format 1 had no WEFT_INDEX_CRC, and in format 2 targets are classes. A checkpoint is written in
 * the oldest format that can express it. */
#define WEFT_CHECKPOINT_FORMAT 3
/* Precedes the eight digits of the checksum at the end of the index. */
#define WEFT_INDEX_CRC ",\n \"crc32\": \""

/* The description of a state of the exchange. */
typedef struct weft_state_words {
    char *name, *what;
} weft_state_words;

typedef struct weft_checkpoint {
    char *path; /* folder, with links resolved */
    weft_position position;
    weft_settings settings; /* of the run that wrote it */
    weft_data_stats stats;
    weft_bytes model; /* text of the YAML model, or empty */
    /* Parameters and state of the first learner; with several learners those of the others, and the
     * state of the exchange. */
    weft_bytes files[WEFT_CHECKPOINT_FILES];
    weft_safetensors tensors[WEFT_CHECKPOINT_FILES];
    weft_state_words *words; /* of the exchange's states; none in older checkpoints */
    size_t word_count;
    uint64_t checksum; /* of its index, which contains those of all files; never 0 */
    bool exported;     /* an exported model, without a run */
} weft_checkpoint;

/* Opens a checkpoint: a step folder, a link to one, or the folder of a run; or a folder of
 * weft_exported_write, whose tensors are all parameters. All files are checked against their
 * checksums, and all settings against the option table. FORMAT: damaged; the message suggests the
 * previous checkpoint. */
weft_status weft_checkpoint_open(const char *path, const weft_option *table,
                                 weft_checkpoint *out) WEFT_NODISCARD;
void weft_checkpoint_close(weft_checkpoint *checkpoint);

/* Copies tensors, or the parts that the store has. The graph (NULL: the store) determines the
 * parameters of the model. ARGUMENT: names the first tensor that is missing or has another shape.
 * State that accumulates within a step is left unchanged. */
weft_status weft_checkpoint_load(const weft_checkpoint *checkpoint, weft_store *store,
                                 const weft_graph *graph) WEFT_NODISCARD;

/* dropped.c: the state of a checkpoint that does not fit the resumed run, and is dropped. */
typedef struct weft_dropped {
    struct weft_dropped_part {
        char *what;  /* description */
        char *first; /* its first tensor, without the number of the learner */
        int learners;
    } * parts;
    size_t count, capacity;
    char *absent; /* what the exchange needs and the checkpoint lacks; NULL: nothing */
} weft_dropped;
/* Records a dropped tensor; name: without the number of the learner. */
weft_status weft_dropped_add(weft_dropped *dropped, const char *what,
                             const char *name) WEFT_NODISCARD;
/* Logs all dropped parts in one sentence, if there are any. */
weft_status weft_dropped_tell(const weft_dropped *dropped, weft_context *context,
                              const weft_checkpoint *checkpoint) WEFT_NODISCARD;
void weft_dropped_free(weft_dropped *dropped);

/* As weft_checkpoint_load, for one of several learners of a resumed run; a learner that the
 * checkpoint lacks gets the state of the first one. An optimiser whose state is incomplete starts
 * from scratch. dropped NULL: incomplete or unknown optimiser state is refused (ARGUMENT). */
weft_status weft_checkpoint_load_learner(const weft_checkpoint *checkpoint, weft_store *store,
                                         const weft_graph *graph, int learner,
                                         weft_dropped *dropped) WEFT_NODISCARD;
/* Loads the state of the exchange (NULL: none) by name. If the checkpoint has none, or only a part,
 * or another type, the exchange starts without it, and a note names each absent state. dropped
 * NULL: a part, another type and state of another exchange are refused (ARGUMENT). */
weft_status weft_checkpoint_load_exchange(const weft_checkpoint *checkpoint, weft_context *context,
                                          weft_exchange *exchange, int learner,
                                          weft_dropped *dropped) WEFT_NODISCARD;

/* The source of the tensors of a checkpoint. */
typedef struct weft_checkpoint_source {
    weft_store *store;
    const weft_graph *graph;
    const weft_comms *comms;     /* of the learner */
    weft_learner_group *between; /* all learners that are saved; NULL: only this one */
    weft_exchange *exchange;     /* NULL: none */
    /* A simulated run, whose learners are all in this process, in place of the last two; NULL: a
     * real run. Its store and graph are of one rank and have the result; stores: [learners], the
     * state of each learner. */
    struct weft_sim_exchange *simulated;
    const weft_store *const *stores;
} weft_checkpoint_source;

/* The other contents of a checkpoint. */
typedef struct weft_checkpoint_record {
    weft_position position;
    const weft_settings *settings;
    const weft_data_stats *stats;
    const weft_bytes *model; /* text of the YAML model, or empty */
} weft_checkpoint_record;

/* Writes DIR/step-N, points DIR/latest at it, and removes all but the newest `keep` checkpoints
 * of this run. Collective over all ranks; the first rank gathers and writes, and *path is set
 * there. */
weft_status weft_checkpoint_save(const weft_checkpoint_source *from,
                                 const weft_checkpoint_record *what, const char *directory,
                                 int64_t keep, char **path) WEFT_NODISCARD;

/* Appends position, settings and tensors as text. */
void weft_checkpoint_describe(const weft_checkpoint *checkpoint, weft_text *text);
/* Writes the tensors that are leaves of this graph to a safetensors file. */
weft_status weft_checkpoint_write_leaves(const weft_checkpoint *checkpoint, const weft_graph *graph,
                                         const char *file) WEFT_NODISCARD;

/* Exports these tensors and the description of the model to a folder: weights.safetensors,
 * model.json and, for a YAML model, model.yaml. */
weft_status weft_exported_write(const weft_checkpoint *checkpoint, const weft_graph *graph,
                                const char *folder) WEFT_NODISCARD;

/* ARGUMENT: `path`, which is to be written (NULL: none), is a file of some checkpoint. */
weft_status weft_checkpoint_spares(const char *option, const char *path) WEFT_NODISCARD;

/* --- the folder of a run --- */

/* Locks the folder for one run, until weft_folder_unlock or the end of the process. *lock is -1 at
 * first; if it holds a lock already, nothing happens. Waits up to `timeout` seconds for another
 * process of the same supervised `job` (NULL: none). A file system without locks is not locked.
 * ARGUMENT: another run holds the lock; the message names it. */
weft_status weft_folder_lock(const char *directory, const char *job, double timeout,
                             int *lock) WEFT_NODISCARD;
void weft_folder_unlock(int *lock);

/* ARGUMENT: something else has the name of a checkpoint that a run from step `after` to `last` may
 * write; it is never overwritten. */
weft_status weft_folder_check(const char *directory, int64_t after, int64_t last) WEFT_NODISCARD;

/* Whether a run has left a checkpoint in DIR: a complete one, or DIR/latest, whose damage
 * weft_checkpoint_open reports. */
weft_status weft_checkpoint_found(const char *directory, bool *found) WEFT_NODISCARD;

/* The steps of the complete checkpoints in DIR, newest first. *count may be 0. */
weft_status weft_checkpoint_list(const char *directory, int64_t **steps, int *count) WEFT_NODISCARD;

#endif
