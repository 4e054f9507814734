/* Internals of checkpoints: the folder of a run, gathering of tensors on rank 0 of a learner, and
 * loading of single tensors. */
#ifndef WEFT_CHECKPOINT_FOLDER_H
#define WEFT_CHECKPOINT_FOLDER_H

#include "checkpoint/checkpoint.h"

/* offer.c. `_leads_nowhere`: whether the path is a link to what does not exist; `target` gets the
 * text of the link. */
bool weft_folder_leads_nowhere(const char *path, char *target, size_t size);
/* Adds to the message of a failure the path of the next older complete checkpoint, which can be
 * used in place of this one. A damaged checkpoint (FORMAT) may be removed; one that cannot be read
 * (IO) may be intact. Returns the status of the failure. */
weft_status weft_folder_offer_previous(const char *folder, weft_status status) WEFT_NODISCARD;
/* IO, always: the path leads to no checkpoint. The message names a link that leads nowhere, and the
 * complete checkpoints beside it. */
weft_status weft_folder_fail_empty(const char *path) WEFT_NODISCARD;

/* Suffix of a checkpoint that is being replaced: .step-N.old. */
#define WEFT_ASIDE ".old"

/* Removes or restores checkpoints that a crash has left incomplete. For this function and the next
 * three the caller holds the lock of the folder. */
weft_status weft_folder_tidy(const char *directory) WEFT_NODISCARD;
/* Renames a written and synced folder to its final name, replacing a checkpoint of that name. IO: a
 * file or folder that is no checkpoint has the name. */
weft_status weft_folder_enter(const char *directory, const char *temporary,
                              const char *name) WEFT_NODISCARD;
/* Links of a folder: to its newest checkpoint, and to the best one. */
#define WEFT_LATEST "latest"
/* Points such a link at a checkpoint. */
weft_status weft_folder_point(const char *directory, const char *link,
                              const char *name) WEFT_NODISCARD;
/* Removes all but the newest `keep` checkpoints up to step `newest`, except the best one and those
 * that a process is reading. Checkpoints of later steps come from before a resume at an earlier
 * step; they stay until the run overwrites them. */
weft_status weft_folder_prune(const char *directory, int64_t newest, int64_t keep) WEFT_NODISCARD;

/* --- gathering on rank 0 of a learner --- */

typedef struct weft_gathering {
    const weft_comms *comms;
    const weft_store *store;
    int leader; /* rank, within the learner, of the first rank on this rank's data axis */
    struct weft_part *parts; /* [ranks of the learner]: the part that each holds, while gathering */
} weft_gathering;

/* Prepares gathering: finds the leader of each data axis. Collective over the learner. */
weft_status weft_gathering_open(const weft_comms *comms, const weft_store *store,
                                weft_gathering *out) WEFT_NODISCARD;
void weft_gathering_close(weft_gathering *gathering);

/* Collective over the learner: gathers a tensor, of which each rank holds a part or none, into
 * `data` of rank 0; other ranks may pass NULL. Rank 0 allocates memory for at most one part at a
 * time, and a sending rank for its own part. image: see weft_store_gather. */
weft_status weft_gather_tensor(const weft_gathering *gathering, const char *name,
                               const weft_type *whole, const void *image,
                               void *data) WEFT_NODISCARD;

/* load_tensors.c: loads tensor i of a store from a file of the checkpoint, where it is named
 * "PREFIX/name". prefix NULL: `file` is ignored, and the tensor is loaded by its own name from the
 * file of parameters or of state. */
weft_status weft_checkpoint_load_one(const weft_checkpoint *c, weft_store *store, int i, int file,
                                     const char *prefix) WEFT_NODISCARD;
/* Whether a file of the checkpoint has tensors whose names begin with "PREFIX/". */
bool weft_checkpoint_knows(const weft_checkpoint *c, int file, const char *prefix);

/* gather.c: the bytes that a rank takes while a tensor is gathered: the part that it sends, or on
 * rank 0 (writes) the whole tensor and what its own part takes on the way. */
size_t weft_gather_room(const weft_store *store, const char *name, const weft_type *whole,
                        bool writes);

#endif
