/* Declares lower bounds of the estimates of candidates, which need no program of a candidate. */
#ifndef WEFT_TRAIN_STRATEGIES_BOUND_H
#define WEFT_TRAIN_STRATEGIES_BOUND_H

#include "train/estimate/site.h"
#include "train/strategies/space.h"

/* The work of every strategy: what it has to compute and to send, from the program of one rank. */
typedef struct strategy_work {
    /* Forward and backward of a batch, at least, by one thread: without and with recomputation. */
    double thread_seconds[2];
    double gradient_bytes;  /* that cross between ranks which share a batch; 0: not known */
    double parameter_bytes; /* of the model */
    double evenness;        /* the least of its operators, see weft_times_evenness */
    bool refused;           /* the run of one rank is */
    /* [exchanges] steps from one meeting to the next; 0 or less: none. Below 0: learners do not
     * wait for all others. */
    int64_t *meetings;
    weft_dtype dtype; /* of the parameters as they are exchanged, at least */
} strategy_work;

/* Makes the program of a single rank, and measures the memory of a process. A run that is refused
 * there has no bound: all are 0. */
weft_status strategy_work_find(const weft_site *site, const strategy_space *space,
                               strategy_work *out) WEFT_NODISCARD;
void strategy_work_free(strategy_work *work);

/* The ranks of a candidate on the machines, as estimates place them. */
typedef struct strategy_place {
    const weft_cluster *cluster;
    int ranks, each, machines;
    double each_threads; /* of a rank */
    double threads;      /* of these, less where they take turns */
    double bandwidth;    /* of all machines' links; INFINITY: one is unlimited */
    double latency;      /* of a message between two of them, at least; 0: there is one machine */
    double memory;       /* of all machines; INFINITY: one is not known */
} strategy_place;

strategy_place strategy_place_of(const weft_site *site, const strategy_space *space, int ranks);

/* The means of the candidates of a head: the threads of all ranks, and those of the strongest stage
 * of a learner, times the speeds of their machines; the seconds that links take at least, and those
 * that ranks wait at least for a message from another machine. */
typedef struct strategy_means {
    double threads, stage, links, late;
    int stages, learners;
    double samples; /* of a step, of all learners */
    bool fits;      /* the parameters may fit into the memory of the machines */
} strategy_means;

void strategy_means_find(const weft_site *site, const strategy_space *space,
                         const strategy_work *work, const strategy_candidate *c,
                         strategy_means *out);

/* Figures of an estimate of a candidate with the same mesh, learners and ZeRO stage, which bound
 * one that cuts the batch into more pieces: the mean seconds of kernels, and the bytes of the
 * busiest link; 0: not known. */
typedef struct strategy_known {
    double kernels, links;
} strategy_known;

/* Samples a second of a candidate, at most; INFINITY: not known. */
double strategy_bound(const strategy_space *space, const strategy_work *work,
                      const strategy_means *means, const strategy_candidate *candidate,
                      const strategy_known *known);

/* least.c: the seconds of a step, at least, of a candidate whose learners do not wait for all
 * others. own[learners]: those of the own step of each, see weft_site_learners. */
weft_status strategy_least_seconds(const weft_site *site, const strategy_space *space,
                                   const strategy_work *work, const strategy_candidate *candidate,
                                   const double *own, double *seconds) WEFT_NODISCARD;

#endif
