/* Checkpoints: writing, reading, and what is said of them. */
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

/* Where a run stands: so many batches of `epoch` are done, which had so many samples. Those who go
 * on may be fewer or more, and their batches begin behind these samples. */
typedef struct weft_position {
    int64_t step, epoch, batch;
    int64_t samples; /* below 0: an older checkpoint does not say */
} weft_position;

enum {
    WEFT_PARAMETERS_FILE,
    WEFT_STATE_FILE,
    WEFT_LEARNERS_FILE,
    WEFT_EXCHANGE_FILE,
    WEFT_CHECKPOINT_FILES
};
/* Their names in a checkpoint's folder. */
extern const char *const weft_checkpoint_files[WEFT_CHECKPOINT_FILES];

/* 1: without WEFT_INDEX_CRC; 2: targets are classes. What is written is of the oldest that can say
 * it. */
#define WEFT_CHECKPOINT_FORMAT 3
/* What the index ends with, before eight digits. */
#define WEFT_INDEX_CRC ",\n \"crc32\": \""

/* What a state of the exchange is, in words. */
typedef struct weft_state_words {
    char *name, *what;
} weft_state_words;

typedef struct weft_checkpoint {
    char *path; /* the folder that was read, links resolved */
    weft_position position;
    weft_settings settings; /* of the run that wrote it */
    weft_data_stats stats;
    weft_bytes model; /* text of the YAML model, or empty */
    /* Parameters and state of the first learner; where there are several, those of the others, and
     * the exchange's state. */
    weft_bytes files[WEFT_CHECKPOINT_FILES];
    weft_safetensors tensors[WEFT_CHECKPOINT_FILES];
    weft_state_words *words; /* of the exchange's states; of older checkpoints there are none */
    size_t word_count;
    uint64_t checksum; /* of its index, which has those of all files; never 0 */
    bool exported;     /* a model without a run */
} weft_checkpoint;

/* Reads a checkpoint: a step folder, a link to one, or the folder that holds them; or a folder that
 * weft_exported_write wrote, whose tensors are then all among the parameters. Every file is
 * compared with its checksum, every setting with the table of options that a run has. FORMAT:
 * damaged; the message offers the one before. */
weft_status weft_checkpoint_open(const char *path, const weft_option *table,
                                 weft_checkpoint *out) WEFT_NODISCARD;
void weft_checkpoint_close(weft_checkpoint *checkpoint);

/* Copies tensors, or the parts of them that the store has. The graph (NULL: the store itself) says
 * which parameters the model has. ARGUMENT: the first tensor that is missing or has another shape.
 * State that is a sum within a step is left alone. */
weft_status weft_checkpoint_load(const weft_checkpoint *checkpoint, weft_store *store,
                                 const weft_graph *graph) WEFT_NODISCARD;

/* dropped.c: the state of a checkpoint that a run goes on without, because it does not fit. */
typedef struct weft_dropped {
    struct weft_dropped_part {
        char *what;  /* in words */
        char *first; /* name of its first tensor, without the number of a learner */
        int learners;
    } * parts;
    size_t count, capacity;
} weft_dropped;
/* A tensor of the checkpoint is dropped, by its name without the number of a learner. */
weft_status weft_dropped_add(weft_dropped *dropped, const char *what,
                             const char *name) WEFT_NODISCARD;
/* Notes all parts in one sentence; nothing where there are none. */
weft_status weft_dropped_tell(const weft_dropped *dropped, weft_context *context,
                              const weft_checkpoint *checkpoint) WEFT_NODISCARD;
void weft_dropped_free(weft_dropped *dropped);

/* As weft_checkpoint_load for one learner of several, in a run that goes on; one that the
 * checkpoint does not know gets what the first one had. An optimizer begins anew where its state is
 * not all there. dropped NULL: that is refused (ARGUMENT), and so is optimizer state that this
 * graph has no place for. */
weft_status weft_checkpoint_load_learner(const weft_checkpoint *checkpoint, weft_store *store,
                                         const weft_graph *graph, int learner,
                                         weft_dropped *dropped) WEFT_NODISCARD;
/* Then the state of its exchange, by name (NULL: there is no exchange). Where the checkpoint has
 * nothing of it, that is noted in a sentence, and the exchange begins anew; and so it does where
 * only some of it is there, or of another type. dropped NULL: the latter is refused (ARGUMENT), and
 * so is state of another exchange, which would be lost. */
weft_status weft_checkpoint_load_exchange(const weft_checkpoint *checkpoint, weft_context *context,
                                          weft_exchange *exchange, int learner,
                                          weft_dropped *dropped) WEFT_NODISCARD;

/* Where the tensors of a checkpoint come from. */
typedef struct weft_checkpoint_source {
    weft_store *store;
    const weft_graph *graph;
    const weft_comms *comms; /* of a learner */
    weft_learner_group
        *between; /* to the other learners, of all that are saved; NULL: this one alone */
    weft_exchange *exchange; /* NULL: there is none */
} weft_checkpoint_source;

/* What it says of the run besides. */
typedef struct weft_checkpoint_record {
    weft_position position;
    const weft_settings *settings;
    const weft_data_stats *stats;
    const weft_bytes *model; /* text of the YAML model, or empty */
} weft_checkpoint_record;

/* Collective over all ranks; the first rank gathers and writes,
 * and *path is set there. Writes DIR/step-N and points DIR/latest at it; removes all but the newest
 * `keep` of this run. */
weft_status weft_checkpoint_save(const weft_checkpoint_source *from,
                                 const weft_checkpoint_record *what, const char *directory,
                                 int64_t keep, char **path) WEFT_NODISCARD;

/* Appends where it stands, its settings and its tensors as text. */
void weft_checkpoint_describe(const weft_checkpoint *checkpoint, weft_text *text);
/* Writes those of its tensors that are leaves of this graph, as one safetensors file. */
weft_status weft_checkpoint_write_leaves(const weft_checkpoint *checkpoint, const weft_graph *graph,
                                         const char *file) WEFT_NODISCARD;

/* The same, and what the model is, as a folder of its own: weights.safetensors, model.json and, of
 * a YAML model, model.yaml. */
weft_status weft_exported_write(const weft_checkpoint *checkpoint, const weft_graph *graph,
                                const char *folder) WEFT_NODISCARD;

/* ARGUMENT: a path that is to be written (NULL: none) is a file of a checkpoint, be it another one
 * than is read. */
weft_status weft_checkpoint_spares(const char *option, const char *path) WEFT_NODISCARD;

/* --- the folder of a run --- */

/* Lets one run write there, until weft_folder_unlock or the end of its process. *lock is -1 before;
 * if it is held already, nothing happens. Waits up to `patience` seconds for another process of the
 * same `job` (what a supervisor calls it; NULL: there is none). Where the file system has no locks
 * there is none. ARGUMENT: another run holds it, and which. */
weft_status weft_folder_lock(const char *directory, const char *job, double patience,
                             int *lock) WEFT_NODISCARD;
void weft_folder_unlock(int *lock);

/* ARGUMENT: something that is no checkpoint has a name that a run from step `after` to `last` may
 * need; it is never overwritten. */
weft_status weft_folder_check(const char *directory, int64_t after, int64_t last) WEFT_NODISCARD;

/* Whole checkpoints of DIR, newest first: their steps. *count may be 0. */
weft_status weft_checkpoint_list(const char *directory, int64_t **steps, int *count) WEFT_NODISCARD;

#endif
