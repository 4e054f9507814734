/*
 * Predictions: how long a step of a run takes on a cluster, without running it.
 *
 * weft_measure runs a few small networks on this machine and writes a cluster file with the times
 * of their kernels and transfers. weft_estimate_step makes the programs of all ranks of a run, as a
 * run would, and plays a step of them with these times in the place of numbers: instructions in the
 * order of the schedule, transfers that begin and end where the programs say, and links that carry
 * one message at a time. weft_estimate_memory says how much memory the processes of a run take.
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
    /* The engine whose ranks transfer. With one whose ranks are processes, each of which calls
     * weft_measure, transfers alone are measured, and the first rank writes their times to the
     * output. */
    char *engine;
    char *transfers; /* such a file, whose times are added; NULL: none */
    int64_t ranks;   /* that transfer at most; 0: as many as there are cores, or processes */
    /* Not NULL, with an engine whose ranks are processes, of which one is on each machine: all of
     * them measure their machine and the links between them, and the first writes the cluster file,
     * in which equal machines are one kind. Warnings in the log name machines that are busy or have
     * another processor, and links that are unlike the others of their ends. */
    char *hosts;
    bool check;       /* the processes of `hosts` only meet, and nothing is written */
    uint64_t room[3]; /* of later versions: 0 */
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
 * the learners. Where learners do not wait for all others, a step is the time in which each takes
 * one in the mean; handlers of the exchange count as transfers. Seconds of ranks are means over the
 * ranks. */
typedef struct weft_step_estimate {
    size_t struct_size;
    double seconds; /* of a step, in the mean; of the slowest machines if learners go apart */
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
    /* Bytes of all processes on the machine that is the fullest beside its memory, as
     * weft_estimate_memory has them, and that memory (0: unknown). */
    double memory, memory_limit;
    /* A step, by a learner, in transfers of its ranks and messages of the exchange, as --metrics
     * counts them. */
    double sent_bytes;
    /* Where learners do not wait for each other: the mean staleness of updates (below 0: the
     * exchange counts none), and the share of the time for which the busiest server works. */
    double staleness, server_busy;
    /* The cause that takes most of the step: "compute", "transfers", "link", "bubble" (of a
     * pipeline), "straggler", "server", "waiting", "host", or "memory" if the run does not fit.
     * Static. */
    const char *limited_by;
    double link_bytes; /* a step, from the machine that sends most */
    /* Learners of the run, and those that can go on when any one machine ends; 0: the run stops,
     * and a checkpoint resumes. Learners go on in an elastic run or with --engine processes. */
    int32_t learners, learners_left;
    /* Most bytes of the programs of the ranks of a machine: weights, optimizer state, gradients,
     * activations and staging, as weft plan has them. */
    double programs;
    /* 1: messages of the exchange depend on chance or on the order in which others arrive, so
     * sent_bytes is an expectation. counted_learners: those whose messages are the exchange_bytes
     * of a run's metrics; 0: it has none. */
    int32_t sent_by_chance, counted_learners;
    uint64_t room[6]; /* of later versions: 0 */
} weft_step_estimate;

/* Predicts a step of a run on the cluster of a file. Nothing runs, and nothing is written.
 * ARGUMENT: the file is invalid, has no times, or is of another processor than its machines say; or
 * the time of an option of the run cannot be predicted: the message says which. */
WEFT_API WEFT_NODISCARD weft_status weft_estimate_step(weft_context *context,
                                                       const weft_train_options *options,
                                                       const char *cluster,
                                                       weft_step_estimate *out);

/* As weft_estimate_step. INTERRUPTED: `stop` was set meanwhile. */
WEFT_API WEFT_NODISCARD weft_status weft_estimate_step_until(weft_context *context,
                                                             const weft_train_options *options,
                                                             const char *cluster,
                                                             const weft_stop *stop,
                                                             weft_step_estimate *out);

/* The acts of a rank in an estimated step, and of the link of a machine. */
typedef enum weft_span_kind {
    WEFT_SPAN_KERNEL,   /* an instruction runs */
    WEFT_SPAN_REST,     /* loading of a batch, and everything else that a step does */
    WEFT_SPAN_TRANSFER, /* the rank works on a transfer */
    WEFT_SPAN_WAIT,     /* the rank waits for other ranks or the network */
    WEFT_SPAN_SEND,     /* the link of a machine sends to others */
    WEFT_SPAN_RECEIVE
} weft_span_kind;
typedef struct weft_span {
    weft_span_kind kind;
    int where;         /* the rank; of SEND and RECEIVE the machine */
    const char *name;  /* of the instruction, as a trace has it: "conv+bias conv1"; NULL: of none */
    weft_phase phase;  /* of the instruction */
    double start, end; /* seconds from the begin of the step */
    uint64_t room[4];  /* of later versions: 0 */
} weft_span;
/* The span is valid during the call. */
typedef void (*weft_span_fn)(void *user, const weft_span *span);
/* As weft_estimate_step; then calls fn for all spans of one step, those of a rank in their order,
 * which fill the time until the last rank ends. Machines that vary (jitter, slow) take no longer
 * than at their best in it; with an exchange the step ends with a meeting of the learners.
 * UNSUPPORTED: an exchange whose learners do not wait for each other. */
WEFT_API WEFT_NODISCARD weft_status weft_estimate_spans(weft_context *context,
                                                        const weft_train_options *options,
                                                        const char *cluster, weft_span_fn fn,
                                                        void *user, weft_step_estimate *out);

/* Sets *machines to the number of machines of a cluster's file. ARGUMENT, FORMAT, IO: as above. */
WEFT_API WEFT_NODISCARD weft_status weft_cluster_machines(const char *cluster, int64_t *machines);
/* Why a step takes its time. */
typedef enum weft_step_cause {
    WEFT_CAUSE_KERNELS,   /* a rank computes */
    WEFT_CAUSE_TRANSFERS, /* it works on a transfer */
    WEFT_CAUSE_LINKS,     /* it waits for data that all ranks have sent */
    WEFT_CAUSE_WAITING,   /* it waits for other ranks, as in the bubble of a pipeline */
    WEFT_CAUSE_REST,      /* loading of batches, and everything else */
    WEFT_CAUSE_BUSY       /* no part of a step: the link of a machine sends */
} weft_step_cause;
#define WEFT_CAUSES 5 /* of those that are parts of a step */
/* The name of a cause; NULL: there is none of this number. */
WEFT_API const char *weft_step_cause_name(int cause);
/* A part of a step: seconds in the mean over the ranks, by the cause and by a layer with its
 * operator or transfer, as "conv1 conv". */
typedef void (*weft_step_part_fn)(void *user, weft_step_cause cause, const char *name,
                                  double seconds);
/* As weft_estimate_step, and calls fn with all parts of the step, whose seconds have the sum
 * out->seconds, but for rounding, and with the links that send. */
WEFT_API WEFT_NODISCARD weft_status weft_estimate_parts(weft_context *context,
                                                        const weft_train_options *options,
                                                        const char *cluster, weft_step_part_fn fn,
                                                        void *user, weft_step_estimate *out);

/* Whether the times of a cluster were measured on a processor as this one. *processor: the name of
 * theirs, which the caller frees with weft_free. ARGUMENT: it is another one, and *processor is
 * set, or the file has no times, or those of another version, and *processor is NULL. */
WEFT_API WEFT_NODISCARD weft_status weft_measured_here(const char *cluster, char **processor);

/* The uses of a rank's memory. */
typedef enum weft_memory_part {
    WEFT_MEMORY_WEIGHTS,
    WEFT_MEMORY_STATE, /* of the optimizer, and statistics */
    WEFT_MEMORY_GRADIENTS,
    WEFT_MEMORY_ACTIVATIONS, /* and inputs */
    WEFT_MEMORY_SCRATCH,     /* of kernels, and what they pack */
    WEFT_MEMORY_STAGING,     /* of transfers */
    WEFT_MEMORY_EVALUATION,  /* the program that evaluates beside the training */
    WEFT_MEMORY_BATCHES,     /* made ahead */
    WEFT_MEMORY_EXCHANGE,    /* of the exchange, and of servers in this process */
    WEFT_MEMORY_PROGRAMS,    /* graphs, programs and what the host keeps for them */
    WEFT_MEMORY_PARTS
} weft_memory_part;
/* Its name, as "activations". */
WEFT_API const char *weft_memory_part_name(weft_memory_part part);

/* The memory of a run: bytes of host memory that are resident at its peak, without mapped files, as
 * peak_rss_bytes of a run (--metrics). */
typedef struct weft_memory_estimate {
    size_t struct_size;
    int ranks;             /* of a learner; those of other learners take as much */
    int processes, each;   /* that have ranks, on all machines; most ranks of a process */
    double *part;          /* [ranks, WEFT_MEMORY_PARTS] */
    double *moment;        /* [ranks] the most that a rank takes for a moment, as to evaluate */
    double shared;         /* of a process: the program, its libraries, kernels and data */
    double process;        /* all of the fullest process that has ranks */
    double machine, limit; /* as weft_step_estimate.memory, memory_limit */
    double parameters;     /* the number of parameters of the model */
    /* Processes without ranks, on the first machine: bytes of each server that is a process, and
     * their number; of the coordinator; and of what starts the processes. 0: there is none. */
    double server, coordinator, supervisor;
    int32_t servers, unused;
    double first_process; /* all of the process that has rank 0 */
    uint64_t room[3];     /* of later versions: 0 */
} weft_memory_estimate;

/* Predicts the memory of a run. cluster: the file whose machines have the ranks, or NULL: one
 * machine has them all. The memory of a process beside its ranks is measured in the process that
 * calls. The caller frees the arrays with weft_memory_estimate_free. */
WEFT_API WEFT_NODISCARD weft_status weft_estimate_memory(weft_context *context,
                                                         const weft_train_options *options,
                                                         const char *cluster,
                                                         weft_memory_estimate *out);
/* The texts and numbers of weft_train_plan_text, weft_estimate_memory and weft_estimate_step, for
 * which each program is planned once. cluster NULL: that of weft_estimate_memory; step NULL: the
 * time is not wanted. The caller frees *text with weft_free, and the arrays of *memory. ARGUMENT:
 * as those functions; or a step is wanted without a cluster. */
WEFT_API WEFT_NODISCARD weft_status weft_estimate_plan(weft_context *context,
                                                       const weft_train_options *options,
                                                       int dump_rank, const char *cluster,
                                                       char **text, weft_memory_estimate *memory,
                                                       weft_step_estimate *step);
WEFT_API void weft_memory_estimate_free(weft_memory_estimate *estimate);

#ifdef __cplusplus
}
#endif
#endif
