/* Declares the candidates of a search: options of a run with the values that a strategy may have.
 */
#ifndef WEFT_TRAIN_STRATEGIES_SPACE_H
#define WEFT_TRAIN_STRATEGIES_SPACE_H

#include "train/trainer.h"

/* The options of a strategy beside the number of ranks, in the order in which its words have them.
 * The first ones decide what learners exchange; a bound counts for all values of the others. */
typedef enum strategy_option {
    STRATEGY_MESH,
    STRATEGY_EXCHANGE,
    STRATEGY_COMPRESS,
    STRATEGY_SERVERS,
    STRATEGY_HEAD, /* number of the above */
    STRATEGY_SCHEDULE = STRATEGY_HEAD,
    STRATEGY_MICROBATCHES,
    STRATEGY_ZERO,
    STRATEGY_RECOMPUTE,
    STRATEGY_OPTIONS
} strategy_option;

/* The values of an option; NULL is that of the options that were given. */
typedef struct strategy_values {
    char **text;
    size_t count, capacity;
} strategy_values;

/* A candidate: the number of each option's value, and its learners. */
typedef struct strategy_candidate {
    int at[STRATEGY_OPTIONS];
    int learners;
} strategy_candidate;

typedef struct strategy_space {
    weft_context *context;
    const weft_option *table;
    const weft_train_options *given;
    const char *names;       /* of given options, though they may have their defaults; NULL: none */
    int64_t ranks, machines; /* most ranks of a candidate; machines of the cluster */
    int64_t fixed;           /* its ranks, if they were given; 0: any number */
    strategy_values values[STRATEGY_OPTIONS];
    int64_t *mesh_ranks;        /* [meshes] */
    bool *updates;              /* [exchanges] whether the exchange makes the update */
    bool *reads[STRATEGY_HEAD]; /* [exchanges] whether the option has an effect with it */
} strategy_space;

/* values.c: the name of an option, and its row in the table; the axis without which it has no
 * effect (NULL: none). */
const char *strategy_option_name(int option);
const char *strategy_option_axis(int option);
const weft_option *strategy_row(const strategy_space *space, const char *name);
/* Lists the values of an option: that of the options that were given and, unless the user has given
 * the option, those to be tried. */
weft_status strategy_list_values(strategy_space *space, int option, bool given) WEFT_NODISCARD;

/* Lists the values. one_learner: no exchange. */
weft_status strategy_space_open(strategy_space *space, bool one_learner) WEFT_NODISCARD;
void strategy_space_close(strategy_space *space);

/* A mesh; NULL: a single rank. The size of its axis. */
const char *strategy_space_mesh(const strategy_space *space, int mesh);
int64_t strategy_space_axis(const strategy_space *space, int mesh, const char *axis);
/* The micro-batches of a candidate, at most. */
int64_t strategy_space_microbatches(const strategy_space *space,
                                    const strategy_candidate *candidate);
/* The number of candidates with the head of this one, and the candidate number i of them, the
 * simplest first. */
int strategy_space_tails(const strategy_space *space, const strategy_candidate *head);
void strategy_space_tail(const strategy_space *space, int number, strategy_candidate *candidate);
int strategy_space_tail_number(const strategy_space *space, const strategy_candidate *candidate);

/* The options of a run with this strategy. weft_options_free frees them. */
weft_status strategy_space_options(const strategy_space *space, const strategy_candidate *candidate,
                                   weft_train_options *out) WEFT_NODISCARD;
/* The options of a single rank, where all of these options have their defaults. */
weft_status strategy_space_simplest(const strategy_space *space,
                                    weft_train_options *out) WEFT_NODISCARD;
/* Its words. */
weft_status strategy_space_words(const strategy_space *space, const strategy_candidate *candidate,
                                 char **out) WEFT_NODISCARD;

/* The words of the options in which a candidate differs from another one of its head. */
weft_status strategy_space_changes(const strategy_space *space, const strategy_candidate *from,
                                   const strategy_candidate *to, char **out) WEFT_NODISCARD;
/* Sets another mesh, and its ranks. */
weft_status strategy_space_remesh(const strategy_space *space, weft_train_options *options,
                                  const char *mesh, int64_t ranks) WEFT_NODISCARD;

/* Whether a failure says that a run is refused. */
static inline bool strategy_is_refused(weft_status status)
{
    return status == WEFT_ERR_ARGUMENT || status == WEFT_ERR_UNSUPPORTED || status == WEFT_ERR_PEER;
}

#endif
