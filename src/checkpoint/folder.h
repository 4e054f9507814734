/* Inside of checkpoints: their folder, and what is gathered for them. */
#ifndef WEFT_CHECKPOINT_FOLDER_H
#define WEFT_CHECKPOINT_FOLDER_H

#include "checkpoint/checkpoint.h"

/* A checkpoint that is moved aside for another one of its step: .step-N and this. */
#define WEFT_ASIDE ".old"

/* Removes what crashes have left. Only for who holds the lock, as all of this. */
weft_status weft_folder_tidy(const char *directory) WEFT_NODISCARD;
/* Gives a written and synced folder its name, in place of a checkpoint that may have it. IO:
 * something else has it. */
weft_status weft_folder_enter(const char *directory, const char *temporary,
                              const char *name) WEFT_NODISCARD;
/* Points DIR/latest at a checkpoint. */
weft_status weft_folder_point(const char *directory, const char *name) WEFT_NODISCARD;
/* Of the checkpoints up to step `newest` only `keep` stay; later ones are of another course of the
 * run, and stay until this one comes there. */
weft_status weft_folder_prune(const char *directory, int64_t newest, int64_t keep) WEFT_NODISCARD;

/* --- what rank 0 of a learner gathers --- */

typedef struct weft_gathering {
    const weft_comms *comms;
    const weft_store *store;
    int leader; /* the first rank of this one's data axis */
    struct weft_part *parts;
} weft_gathering;

/* Collective over the learner. */
weft_status weft_gathering_open(const weft_comms *comms, const weft_store *store,
                                weft_gathering *out) WEFT_NODISCARD;
void weft_gathering_close(weft_gathering *gathering);

/* Collective over the learner: its rank 0 gets the whole of a tensor of which each rank holds a
 * part (or none), and needs room for one part besides; who gives a part, room for that. data is
 * NULL elsewhere. image: as for weft_store_gather. */
weft_status weft_gather_tensor(const weft_gathering *gathering, const char *name,
                               const weft_type *whole, const void *image,
                               void *data) WEFT_NODISCARD;

/* load.c: tensor i of a store from where it stands in a file under "PREFIX/name"; prefix NULL: in
 * the files of parameters and state, under its own. */
weft_status weft_checkpoint_load_one(const weft_checkpoint *c, weft_store *store, int i, int file,
                                     const char *prefix) WEFT_NODISCARD;
/* Whether a file has tensors under this prefix. */
bool weft_checkpoint_knows(const weft_checkpoint *c, int file, const char *prefix);

#endif
