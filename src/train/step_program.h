/* Declares step programs, with which sequences of tokens are continued: a program computes one
 * position of each of several sequences in a run, from the states that the positions before it have
 * left. Each sequence has a row of the batch. */
#ifndef WEFT_TRAIN_STEP_PROGRAM_H
#define WEFT_TRAIN_STEP_PROGRAM_H

#include "checkpoint/checkpoint.h"
#include "graph/incremental.h"
#include "models/models.h"
#include "train/mesh_program.h"
#include "weft/train_options.h"

typedef struct weft_step_program {
    weft_incremental one; /* the graph, its inputs and its states */
    weft_rank_team *team; /* runs the program; the caller's */
    weft_mesh_program program;
    weft_instance **instances; /* [ranks] */
    void *whole; /* the logits of all ranks; NULL: there is one rank, whose output they are */
    weft_value tokens, logits;
    int64_t rows;
    int64_t window; /* positions of a sample of the training data */
    int vocabulary; /* number of different tokens */
} weft_step_program;

/* Whether a checkpoint's model predicts the next token (UNSUPPORTED: it does not). */
WEFT_PRIVATE_API weft_status weft_step_program_check(const weft_checkpoint *checkpoint)
    WEFT_NODISCARD;
/* Builds the program of a checkpoint, whose weights are loaded or will be, and its instances. run:
 * the options of the run that wrote the checkpoint. The program has at least as many rows as the
 * data axis has ranks. UNSUPPORTED: a layer reads later positions. Zero *out before; free it also
 * after a failure. */
WEFT_PRIVATE_API weft_status weft_step_program_build(weft_context *context,
                                                     const weft_checkpoint *checkpoint,
                                                     const weft_train_options *run,
                                                     weft_mesh_weights *weights,
                                                     weft_rank_team *team, int64_t rows,
                                                     weft_step_program *out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_step_program_free(weft_step_program *program);
/* Destroys the instances, and with them the states of all rows, before the team is restarted; and
 * creates them anew. */
WEFT_PRIVATE_API void weft_step_program_close(const weft_step_program *program);
WEFT_PRIVATE_API weft_status weft_step_program_reopen(
    const weft_step_program *program, const weft_mesh_weights *weights) WEFT_NODISCARD;

/* Whether no more than `window` positions can be computed, and generation must go on from the later
 * half of them. */
static inline bool weft_step_program_is_limited(const weft_step_program *program)
{
    return program->one.limited;
}
/* How many of the last tokens of a sequence of `count` determine what follows. */
WEFT_PRIVATE_API int64_t weft_step_program_needed(const weft_step_program *program, int64_t count);

/* Sets the token of a row, and its position from 0, for the next run. */
WEFT_PRIVATE_API void weft_step_program_set(const weft_step_program *program, int64_t row,
                                            int32_t token, int64_t position);
/* Computes the positions of the rows that were set since the last run. The others keep their
 * states. */
WEFT_PRIVATE_API weft_status weft_step_program_run(const weft_step_program *program) WEFT_NODISCARD;
/* Writes the logits of a row: `vocabulary` numbers. */
WEFT_PRIVATE_API void weft_step_program_logits(const weft_step_program *program, int64_t row,
                                               double *to);

/* The states of a row: their bytes, setting them to those of an empty sequence, and copying them
 * out and in. */
WEFT_PRIVATE_API size_t weft_step_program_state_bytes(const weft_step_program *program);
WEFT_PRIVATE_API weft_status weft_step_program_clear(const weft_step_program *program,
                                                     int64_t row) WEFT_NODISCARD;
WEFT_PRIVATE_API weft_status weft_step_program_save(const weft_step_program *program, int64_t row,
                                                    void *to) WEFT_NODISCARD;
WEFT_PRIVATE_API weft_status weft_step_program_load(const weft_step_program *program, int64_t row,
                                                    const void *from) WEFT_NODISCARD;

#endif
