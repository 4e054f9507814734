/* Internals of a service: generation, by which the sequences of all requests to a model share
 * batches. A sequence is a request to a batch queue for each of its positions; when one is
 * computed, the next is queued, so sequences begin and end between two batches (continuous
 * batching, Yu et al. 2022). */
#ifndef WEFT_SERVE_GENERATION_H
#define WEFT_SERVE_GENERATION_H

#include "serve/servable.h"
#include "train/sampling.h"
#include "train/step_program.h"
#include "train/token_text.h"

enum { WEFT_STEP_SIZES = 8 }; /* programs for batches of 1, 2, 4, ... rows */

typedef struct weft_step_batch weft_step_batch;

/* A sequence that is being generated. */
typedef struct weft_generation {
    weft_servable *servable;
    weft_generation_request request;
    int32_t *tokens; /* the prompt, and what was drawn */
    int64_t count;   /* of `tokens` */
    size_t capacity;
    int64_t end;      /* the count at which the sequence is complete */
    int64_t computed; /* index of the token whose position is computed next */
    int64_t first;    /* index of the token at position 0 of the states */
    /* Where the states are: a row of a batch, or NULL: in `states`, unless they are
     * fresh. Guarded by the lock of the generator. */
    weft_step_batch *home;
    int64_t row;
    void *states;
    double *logits;
    weft_sampler sampler;
    weft_error error;         /* a failure of this sequence alone */
    double began, token_sent; /* times of the request, and of its last token; 0: none yet */
    bool drawn;               /* the last position that was computed has given the last token */
    bool fresh;               /* its states are those of an empty sequence, and written nowhere */
} weft_generation;

/* A batch of up to `rows` sequences on one executor. */
struct weft_step_batch {
    int64_t rows;
    weft_step_program program; /* has more rows if a larger data axis shares them out */
    weft_generation **owner;   /* [rows]: the sequence whose states are in the row, or NULL */
};

/* The engine has the programs and the queue with which a version generates. */
struct weft_generation_engine {
    weft_step_batch *batches; /* [executors][sizes], by increasing rows */
    weft_rank_team **teams;   /* [executors]: its own, since batches of samples run meanwhile */
    int executors, sizes;
    size_t state_bytes;
    weft_tokenizer *tokenizer; /* NULL: tokens are numbers */
    weft_batch_queue *queue;
    pthread_mutex_t lock;
    int64_t most_active;          /* sequences at a time */
    weft_generation_stats counts; /* guarded by the lock, and so are the times */
    weft_generation_times times;
};

/* generation_batch.c: creates the engine of a version and plans its programs; *out NULL: the model
 * does not predict the next token, or reads later positions. cores: of all ranks; NULL: they are
 * not bound. */
weft_status weft_generation_engine_create(weft_servable *servable, const weft_core_sets *cores,
                                          weft_generation_engine **out) WEFT_NODISCARD;
void weft_generation_engine_free(weft_generation_engine **engine);
/* Computes one position of each sequence; the batch queue calls it. user: the servable. */
weft_status weft_generation_run(void *user, int executor, void *const *sequences, int count,
                                int64_t rows) WEFT_NODISCARD;
/* Takes a sequence that ends out of the row that has its states. */
void weft_generation_leave_row(weft_generation_engine *engine, weft_generation *sequence);

#endif
