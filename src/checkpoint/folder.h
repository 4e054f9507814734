/* Internals of checkpoints: the folder, and gathering of tensors. */
#ifndef WEFT_CHECKPOINT_FOLDER_H
#define WEFT_CHECKPOINT_FOLDER_H

#include "checkpoint/checkpoint.h"

/* Suffix of a checkpoint that is being replaced: .step-N.old. */
#define WEFT_ASIDE ".old"

/* Removes what crashes have left behind. The caller holds the lock, here and below. */
weft_status weft_folder_tidy(const char *directory) WEFT_NODISCARD;
/* Renames a written and synced folder to its final name, replacing a checkpoint of that name. IO:
 * something else has it. */
weft_status weft_folder_enter(const char *directory, const char *temporary,
                              const char *name) WEFT_NODISCARD;
/* Points DIR/latest at a checkpoint. */
weft_status weft_folder_point(const char *directory, const char *name) WEFT_NODISCARD;
/* Removes all but the newest `keep` checkpoints up to step `newest`. Later ones belong to another
 * branch of the run, and stay until they are overwritten. */
weft_status weft_folder_prune(const char *directory, int64_t newest, int64_t keep) WEFT_NODISCARD;

/* --- gathering on rank 0 of a learner --- */

typedef struct weft_gathering {
    const weft_comms *comms;
    const weft_store *store;
    int leader; /* first rank of the data axis of this rank */
    struct weft_part *parts;
} weft_gathering;

/* Collective over the learner. */
weft_status weft_gathering_open(const weft_comms *comms, const weft_store *store,
                                weft_gathering *out) WEFT_NODISCARD;
void weft_gathering_close(weft_gathering *gathering);

/* Collective over the learner: gathers a tensor, of which each rank holds a part or none, on rank
 * 0, where data is set. Rank 0 needs memory for one more part, a rank that sends for its own.
 * image: see weft_store_gather. */
weft_status weft_gather_tensor(const weft_gathering *gathering, const char *name,
                               const weft_type *whole, const void *image,
                               void *data) WEFT_NODISCARD;

/* load_tensors.c: loads tensor i of a store from a file, where it is named "PREFIX/name"; prefix
 * NULL: from the files of parameters and state, by its own name. */
weft_status weft_checkpoint_load_one(const weft_checkpoint *c, weft_store *store, int i, int file,
                                     const char *prefix) WEFT_NODISCARD;
/* Whether a file has tensors with this prefix. */
bool weft_checkpoint_knows(const weft_checkpoint *c, int file, const char *prefix);

#endif
