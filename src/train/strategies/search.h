/* Declares the inside of the search of a strategy. */
#ifndef WEFT_TRAIN_STRATEGIES_SEARCH_H
#define WEFT_TRAIN_STRATEGIES_SEARCH_H

#include "train/strategies/bound.h"
#include "weft/strategies.h"

/* Most values of the ZeRO stage. */
enum { STRATEGY_STAGES = 4 };

/* The plain ways to use a cluster, which are tried before the other candidates of their sort. */
typedef enum strategy_rung {
    STRATEGY_OTHERS,
    STRATEGY_SIMPLEST, /* the mesh and the exchange that are given, or one rank */
    STRATEGY_BY_DATA,  /* the batch of a learner is shared out, to a rank of each machine or core */
    STRATEGY_BY_LEARNERS /* a learner on each machine, with an exchange */
} strategy_rung;

/* Candidates that differ in the options of the tail alone. */
typedef struct strategy_head {
    strategy_candidate candidate; /* the simplest */
    double most;                  /* samples a second of any of them, at most */
    int kind, tails, order;
    strategy_rung rung;
    bool apart;   /* learners do not meet: what is known of these bounds others */
    double first; /* by which heads are sorted: `most`, or that of the simplest one's own steps */
    strategy_means means;
    strategy_known known[STRATEGY_STAGES]; /* by ZeRO stage */
    bool tried[2]; /* candidates with more work than the least, and those with the least */
} strategy_head;

/* A candidate with its estimate. */
typedef struct strategy_found {
    strategy_candidate candidate;
    weft_step_estimate step;
    double most;
} strategy_found;

/* Strategies that update parameters in the same way: the exchange and the codec. */
typedef struct strategy_kind {
    strategy_found *fitting, *unfit; /* the fastest; NULL: none yet */
    /* Candidates that could not be estimated, all for one reason, while none could be. */
    int refused;
    uint64_t reason; /* hash of the message */
} strategy_kind;

/* A reason for which candidates cannot be estimated, and the first of them. */
typedef struct strategy_reason {
    char *text;
    strategy_candidate candidate;
} strategy_reason;

typedef struct strategy_search {
    weft_context *context;
    const weft_search_options *options;
    const weft_stop *stop;
    double began, ends; /* time of the start; when the search stops by itself */
    bool done;          /* candidates have been looked at; rows are made */
    bool full;          /* some heads are not listed */
    bool begun; /* the simplest candidate has been looked at; the time counts from then on */
    weft_site site;
    strategy_space space;
    strategy_work work;
    strategy_head *heads;
    size_t head_count, head_capacity;
    strategy_kind *kinds;
    double *rates; /* [kinds] */
    /* Kernel seconds of estimates: of a mesh and its learners, which do not meet, for each ZeRO
     * stage, and whether the exchange updates the parameters. 0: not known. */
    double *kernels;
    size_t *kernels_of; /* [meshes] where those of a mesh begin */
    /* [axes][ranks + 1] whether an axis of this size splits nothing of the model: 1; it does: -1;
     * 0: not known. */
    signed char *idle;
    /* The own steps of the learners, of a mesh, its learners, whether the exchange updates the
     * parameters, and the tail. NULL: not known. */
    weft_own_steps ***own;
    size_t *own_of, own_count; /* [meshes] where those of a mesh begin */
    int kind_count;
    double enough; /* the rate of the last of the best kinds; 0: there are fewer */
    strategy_found *all;
    size_t all_count, all_capacity;
    strategy_reason *reasons;
    size_t reason_count, reason_capacity;
    weft_error refusal; /* of the first candidate that was refused */
    int64_t alike;      /* candidates that were refused for the same reason */
    weft_search_fn fn;
    void *user;
    weft_strategies *out;
} strategy_search;

/* heads.c: lists the heads with their bounds, the greatest first. */
weft_status strategy_list_heads(strategy_search *search) WEFT_NODISCARD;
void strategy_sort_heads(strategy_search *search);

/* idle.c: whether an axis of the head's mesh splits nothing of the model, so that its ranks would
 * compute the same. The mesh of the options that were given is not asked about. */
weft_status strategy_is_idle(strategy_search *search, const strategy_head *head,
                             bool *out) WEFT_NODISCARD;

/* --- found.c --- */
/* Whether a candidate is no faster than one of its kind that fits: its memory does not matter. */
bool strategy_is_slow(const strategy_search *search, int kind, const strategy_found *found);
weft_status strategy_take(strategy_search *search, const strategy_head *head,
                          const strategy_found *found) WEFT_NODISCARD;
/* The last message says why. */
weft_status strategy_take_refusal(strategy_search *search, strategy_kind *kind,
                                  const strategy_candidate *candidate,
                                  weft_status status) WEFT_NODISCARD;
/* Whether a candidate of so many samples a second may be the best of its kind, of a kind that is
 * among the best or that is one learner's. */
bool strategy_is_wanted(const strategy_search *search, const strategy_head *head, double most);
/* The seconds of a step from which on a candidate is not wanted; 0: any number is. */
double strategy_enough(const strategy_search *search, const strategy_head *head);
/* Whether no candidate with an exchange can be estimated: the first ones, whose learners are single
 * ranks, could not, all for one reason. */
bool strategy_is_hopeless(const strategy_search *search, const strategy_head *head);

/* own_steps.c: where learners do not wait for all others, lowers *most, samples a second at most,
 * by the time of the learners' own steps, which are estimated once for all exchanges. *refused: as
 * strategy_estimate. */
weft_status strategy_refine(strategy_search *search, const strategy_head *head,
                            const strategy_candidate *candidate, double *most,
                            bool *refused) WEFT_NODISCARD;
/* The own steps that strategy_refine has found; NULL: none. */
const weft_own_steps *strategy_own(strategy_search *search, const strategy_candidate *candidate);
weft_status strategy_make_own(strategy_search *search) WEFT_NODISCARD;
void strategy_free_own(strategy_search *search);

/* search.c: estimates the time of a candidate. *refused: a run with it is refused, or its time
 * cannot be estimated; the message says why. */
weft_status strategy_estimate(strategy_search *search, const strategy_candidate *candidate,
                              weft_estimate_end *end, weft_step_estimate *out,
                              bool *refused) WEFT_NODISCARD;
/* Likewise, the memory alone. */
weft_status strategy_memory(strategy_search *search, const strategy_candidate *candidate,
                            weft_step_estimate *out, bool *refused) WEFT_NODISCARD;
/* Whether the search is to end; strategy_search *. */
bool strategy_asked_to_stop(void *search);
/* Whether a candidate has the least work of those of its head and ZeRO stage. */
bool strategy_is_least(const strategy_candidate *candidate);
bool strategy_fits(const weft_step_estimate *step);

/* remedy.c: sets *out to what is lacking, and the nearest candidate of the same head that fits, for
 * one that does not. The caller frees it. _nowhere: for a model that does not fit at all, also on
 * more such machines; if a candidate with little memory fits after all, sets *done and *found, with
 * its estimate, instead. */
weft_status strategy_remedy(strategy_search *search, const strategy_found *found,
                            char **out) WEFT_NODISCARD;
weft_status strategy_remedy_nowhere(strategy_search *search, char **out, strategy_found *found,
                                    bool *done) WEFT_NODISCARD;

/* rows.c: fills search->out->at. */
weft_status strategy_make_rows(strategy_search *search) WEFT_NODISCARD;

#endif
