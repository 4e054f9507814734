/* The folder that holds a run's checkpoints. */
#ifndef WEFT_CHECKPOINT_FOLDER_H
#define WEFT_CHECKPOINT_FOLDER_H

#include "base/base.h"

/* A checkpoint that is moved aside for another one of its step: .step-N and this. */
#define WEFT_ASIDE ".old"

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

/* Removes what crashes have left. Only for who holds the lock, as all that follows. */
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

#endif
