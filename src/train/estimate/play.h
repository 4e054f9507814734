/* Plays the actors of an exchange without the numbers of a model: learners compute nothing and take
 * the seconds that they are told, and a short vector stands for the parameters. Messages take the
 * time, and handlers do the work, of as many parameters as there are. So the actors that a run has
 * tell its time, whatever they exchange. */
#ifndef WEFT_TRAIN_ESTIMATE_PLAY_H
#define WEFT_TRAIN_ESTIMATE_PLAY_H

#include "train/estimate/tracks.h"

typedef struct weft_play_options {
    weft_trainer *job; /* of weft_trainer_prepare */
    const weft_cluster *cluster;
    /* [learners] the machine of a learner, on which also the actors are that its process runs, and
     * the number of machines over which its ranks exchange parameters. NULL: each actor has a
     * machine of its own, and learner i is machine i, as in weft simulate. */
    const int *machine, *links;
    bool processes;   /* with `machine`: learners are processes, not threads of one */
    int64_t elements; /* that stand for the parameters, at most about so many */
    int64_t steps;    /* of each learner; 0: enough for a steady state */
    double (*step)(void *user, int learner); /* the seconds of the next step of a learner */
    /* The time of work of an actor in the process of a learner, as weft_sim_work_fn. NULL: handlers
     * take no time. */
    weft_sim_delay (*work)(void *user, int learner, weft_work_kind kind, const char *codec,
                           double bytes, int computing);
    void *user;
    weft_estimate_end *end; /* may be NULL */
    /* [machines] gets, for each with `machine`, the seconds added for which it sends in a step;
     * NULL: nobody asks. */
    double *sending;
} weft_play_options;

/* All but `whole`, `ended` and `scale` are of the steady state: from the end of the first learner's
 * warm-up to the last step of the first learner of the slowest kind. A run gives all learners
 * as many steps: the slowest group of machines sets `seconds`, each learner by its own steps after
 * the warm-up. */
typedef struct weft_played {
    double seconds;    /* of a step, in the mean over the learners of the slowest machines */
    double low, high;  /* of the periods of these, nine of ten lie between */
    double longer;     /* set by weft_apart_estimate: how many times as long steps take at random */
    double worked;     /* by the handlers of these learners in a step, in the mean */
    double bytes;      /* between machines, in so many seconds */
    double posted;     /* of all messages, in a step of a learner, as metrics count them */
    bool by_chance;    /* set by weft_apart_estimate: the bytes depend on when messages arrive */
    double most_bytes; /* of these, those that one machine sends */
    double link;       /* share of the time for which the busiest link carries messages, one way */
    double server;     /* share for which the busiest actor that is no learner works */
    double staleness;  /* mean, of updates; below 0: the exchange counts none */
    double scale;      /* parameters for which each element stood */
    double ended;      /* virtual time at the end of the last step */
    weft_sim_report whole;
} weft_played;

/* INTERRUPTED: as `end` says. PEER: the links deliver too little for learners to go on. Errors of
 * the exchange as of weft simulate. */
weft_status weft_play_actors(const weft_play_options *options, weft_played *out) WEFT_NODISCARD;

#endif
