/* Internals of played actors: their state, and the figures of the steady state. */
#ifndef WEFT_TRAIN_ESTIMATE_PLAY_INTERNAL_H
#define WEFT_TRAIN_ESTIMATE_PLAY_INTERNAL_H

#include "exchange/simulated.h"
#include "train/estimate/placed_learners.h"
#include "train/estimate/play.h"

/* The steps of a learner. */
typedef struct play_course {
    int64_t done, of; /* of so many */
    double *ends;     /* [of]: virtual times */
    double posted[2]; /* by that the actors had sent at the end of the warm-up, and after `counted`
                         steps more, which are whole periods */
    int64_t counted;
} play_course;

/* Totals at one time of the run. */
typedef struct play_mark {
    bool there;
    double at;
    weft_sim_use *uses;   /* [actors] */
    double updates, aged; /* updates that servers have counted, and the sum of their staleness */
    bool counts;          /* the exchange counts staleness */
} play_mark;
enum { PLAY_BEGIN, PLAY_END, PLAY_MARKS };
enum { PLAY_KINDS = 3 }; /* of learners on machines of one group */

typedef struct play {
    const weft_play_options *o;
    weft_rank rank; /* of a learner, for its program */
    weft_program *program;
    weft_store *store; /* short vectors in the place of parameters */
    weft_dtype dtype;
    int64_t count;                           /* elements of the store */
    double scale;                            /* parameters for which each stands */
    void **parameters, **gradients, *change; /* [learners]; all gradients are `change` */
    double *weights;
    bool *empty;
    weft_sim_exchange *exchange;
    weft_placed_actors at;
    weft_optimizer_options optimizer;
    double *needs, *makes;
    int parts;
    weft_sim *sim;
    int learners;
    weft_actor_id *node; /* [actors]: the first actor of its node */
    /* [learners]: learners of one kind differ by chance alone. Their machines are equal, and all or
     * none of them have a server there, or in their process: messages to it cross no link, or none
     * at all. */
    int *kind;
    double longer; /* how many times as many steps are played, so that some messages are lost */
    int64_t steps, warm, period;
    int64_t done;               /* steps of all learners */
    double ended;               /* virtual time of the last one */
    int pacer;                  /* the learner that ends its warm-up first */
    int ready;                  /* learners that have ended a period after it */
    bool over;                  /* enough has been played */
    bool slower;                /* for steps take more seconds than are of interest */
    double events, most_events; /* so far; more are no run that goes on */
    play_course *courses;
    double *windows; /* [steps]: seconds of a step in each period */
    play_mark marks[PLAY_MARKS];
} play;

/* play_figures.c: notes that a learner has ended a step; sums up after the run. */
weft_status weft_play_count(play *p, int learner, double now) WEFT_NODISCARD;
void weft_play_sum_up(const play *p, weft_played *out);

#endif
