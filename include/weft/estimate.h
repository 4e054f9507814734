/*
 * Predictions: how long a step of a run takes on a cluster, without running it.
 *
 * weft_measure runs a few small networks on this machine and writes a cluster file with the times
 * of their kernels and transfers. weft_estimate_step makes the programs of all ranks of a run, as a
 * run would, and plays a step of them with these times in the place of numbers: instructions in the
 * order of the schedule, transfers that begin and end where the programs say, and links that carry
 * one message at a time.
 */
#ifndef WEFT_ESTIMATE_H
#define WEFT_ESTIMATE_H

#include "weft/members.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_measure_options {
    size_t struct_size; /* sizeof(weft_measure_options) */
    char *output;       /* cluster file; its times go to a file of that name with ".times" */
    double seconds;     /* measuring ends after so many seconds, with what it has */
    bool overwrite;     /* replaces an existing file */
    uint64_t room[8];   /* of later versions: 0 */
} weft_measure_options;
/* The option table; weft_options_init sets the defaults. */
WEFT_API const weft_option *weft_measure_table(const weft_context *context);

/* A message about what is measured now, and the share that is done. */
typedef void (*weft_measure_fn)(void *user, const char *what, double done);

/* Measures this machine, and writes the cluster file. *times: the number of kernels that were
 * measured; *spread: how far two runs of one kernel differ, in the mean, as a share. INTERRUPTED:
 * it was asked to stop, and writes nothing. ARGUMENT: one of the files exists. stop and fn may be
 * NULL. */
WEFT_API WEFT_NODISCARD weft_status weft_measure(weft_context *context,
                                                 const weft_measure_options *options,
                                                 const weft_stop *stop, weft_measure_fn fn,
                                                 void *user, size_t *times, double *spread);

/* A step of a run; with an exchange the mean over its steps, of which some end with a meeting of
 * the learners. Seconds of ranks are means over the ranks. */
typedef struct weft_step_estimate {
    size_t struct_size;
    double seconds; /* of a step, in the mean */
    /* Where a step is expected to lie: nine of ten, if machines take longer at random (jitter,
     * slow), and by how much kernels may take less or more than estimated. */
    double low, high;
    double samples_per_second; /* of all learners */
    double computed;           /* kernels */
    double transferred;        /* work of the ranks on transfers */
    double waited;             /* for other ranks and the network */
    double rest;               /* loading of batches, and everything else that a step does */
    double wire_bytes;         /* a step, between machines */
    double busiest_link;       /* share of the step for which the busiest machine sends */
    /* Shares of `computed` that were estimated from measurements of the same size, of other sizes
     * of the same kernel, of other kernels of the operator, and from rates alone. */
    double by_size, by_kind, by_operator, by_rates;
    /* Bytes of the programs of all ranks on the machine that is the fullest beside its memory, and
     * that memory (0: unknown): weights, optimizer state, gradients, activations and staging, as
     * weft plan has them. The process itself, its libraries and data come on top. */
    double memory, memory_limit;
    uint64_t room[6]; /* of later versions: 0 */
} weft_step_estimate;

/* Predicts a step of a run on the cluster of a file. Nothing runs, and nothing is written.
 * ARGUMENT: the file is invalid, has no times, or is of another processor than its machines say; or
 * the time of an option of the run cannot be predicted: the message says which. */
WEFT_API WEFT_NODISCARD weft_status weft_estimate_step(weft_context *context,
                                                       const weft_train_options *options,
                                                       const char *cluster,
                                                       weft_step_estimate *out);

#ifdef __cplusplus
}
#endif
#endif
