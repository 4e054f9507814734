/* Inside of checkpoints: their folder, and what is gathered for them. */
#ifndef WEFT_CHECKPOINT_FOLDER_H
#define WEFT_CHECKPOINT_FOLDER_H

#include "base/base.h"
#include "weft/plan.h"
#include "weft/program.h"

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

/* Collective over the learner: its rank 0 gets the whole of a tensor of which each rank holds a
 * part (or none); data is NULL elsewhere. */
weft_status weft_gather_tensor(const weft_comms *comms, const weft_store *store, const char *name,
                               const weft_type *whole, void *data) WEFT_NODISCARD;

#endif
