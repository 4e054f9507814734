/*
 * Training, evaluation and prediction, driven by one table of options.
 *
 * A trainer owns a data set, a model, its optimiser and their programs. It reports through events
 * and never prints. Checkpoints are folders DIR/step-N, written whole or not at all; DIR/latest
 * points at the newest.
 */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "weft/context.h"
#include "weft/data.h"
#include "weft/graph.h"
#include "weft/job.h"
#include "weft/options.h"
#include "weft/program.h"
#include "weft/report.h"
#include "weft/train_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- jobs of several processes --- */

/* Whether a run wants a supervisor: its ranks are processes that nobody has started yet, or it is
 * to be restarted when it dies. */
WEFT_API bool weft_job_needs_supervisor(const weft_train_options *options);

/* Whether weft_job_run would begin with these options. ARGUMENT: they contradict each other. */
WEFT_API WEFT_NODISCARD weft_status weft_job_check(const weft_context *context,
                                                   const weft_train_options *options);

/* Starts the ranks, each with `arguments` (the command line behind the program's name, NULL at the
 * end), and waits for them. If the job dies and restarts are left, starts it again from its newest
 * checkpoint, without the ranks that were lost; what a rank fails in by itself is not started
 * again. *code is the exit code of the job. UNSUPPORTED: there is no mpirun, and what to install.
 *
 * With engine processes the program is weft, or takes its commands coordinator, server and join,
 * and `arguments` are not looked at: each process has a command line of its own, made from the
 * options. What dies is started again by itself, and the whole job only when parameters are lost.
 *
 * One job at a time. While it runs the process takes SIGINT, SIGTERM, SIGHUP and SIGTSTP, and
 * adopts orphans; of its children only those of the job are waited for, and ended at the end. */
WEFT_API WEFT_NODISCARD weft_status weft_job_run(const weft_context *context,
                                                 const weft_train_options *options,
                                                 const char *program, char *const *arguments,
                                                 weft_job_fn tell, void *user, int *code);

typedef enum weft_event_kind {
    WEFT_EVENT_START,      /* everything is ready; total_steps, epochs, parameters are set */
    WEFT_EVENT_BEGIN,      /* the state is there with which the first step begins: step, epoch */
    WEFT_EVENT_STEP,       /* a step ended */
    WEFT_EVENT_EVAL,       /* an evaluation of the test part ended: report */
    WEFT_EVENT_CHECKPOINT, /* path was written */
    WEFT_EVENT_SUMMARY     /* the run ended */
} weft_event_kind;

typedef struct weft_event {
    weft_event_kind kind;
    int64_t step, total_steps; /* finished steps since the very first */
    int64_t epoch, epochs;
    int64_t samples, parameters; /* training samples; learned numbers */
    /* Of a step: of the learner that tells of it, or of all where they step together and in a
     * simulation; not a number where no sample of it counted. */
    double loss;
    double lr, samples_per_second;
    double step_seconds; /* of a step: how long it took, with no evaluation or checkpoint in it */
    double seconds;      /* of training since this process began */
    double first_step_seconds; /* from the start of the process to the end of its first step */
    int64_t since; /* summary: the step after which this part of the run began, of which `seconds`
                      and `samples_per_second` are */
    size_t peak_memory;                 /* of this process */
    int ranks, learners, process_ranks; /* ranks of the job, and those in this process */
    /* Steps: of all ranks of a learner together; seconds a rank; the share of forward and backward
     * in which pipeline stages waited for each other. */
    double comm_bytes, comm_seconds, exposed_comm_seconds, bubble_fraction;
    const double *rank_memory; /* summary: planned bytes of each rank */
    const weft_series *series; /* summary: figure i of the exchange is series[i] */
    int series_count;
    const weft_report *report;
    const char *path;
} weft_event;

/* Called in the thread that runs the trainer; the event is valid during the call. */
typedef void (*weft_event_fn)(void *user, const weft_event *event);

typedef struct weft_trainer weft_trainer;

/* Opens the data, builds and lowers the model, and with `resume` loads the newest checkpoint.
 * Options are copied. Collective over the processes of the job, as running is. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_create(weft_context *context,
                                                        const weft_train_options *options,
                                                        weft_trainer **out);
WEFT_API void weft_trainer_destroy(weft_trainer **trainer);

/* Trains to the end. NUMERIC: the loss became not-a-number; the message names the step and the
 * instruction. INTERRUPTED: weft_trainer_stop was called; a checkpoint was written if there is a
 * folder for it. PEER: another rank failed, left or did not come. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_run(weft_trainer *trainer, weft_event_fn fn,
                                                     void *user);

/* Asks the trainer to end after the present step. Safe in a signal handler. */
WEFT_API void weft_trainer_stop(weft_trainer *trainer);

/* The options of the run, also of one that was joined; the trainer's. */
WEFT_API const weft_train_options *weft_trainer_options(const weft_trainer *trainer);

/* The training program and graph, for inspection; owned by the trainer. */
WEFT_API const weft_graph *weft_trainer_graph(const weft_trainer *trainer);
WEFT_API const weft_program *weft_trainer_program(const weft_trainer *trainer);

/* What each rank of such a run would hold, compute and send, as text, without running it. dump_rank
 * >= 0 adds that rank's graph and program. The caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_train_plan_text(weft_context *context,
                                                         const weft_train_options *options,
                                                         int dump_rank, char **out);

/* What is done with a checkpoint. */
typedef struct weft_eval_options {
    char *checkpoint, *data, *split, *device, *output;
    int64_t batch, threads;
    bool json, quiet, confusion;
} weft_eval_options;

/* The options of evaluation, and of prediction, on one struct. */
WEFT_API const weft_option *weft_eval_table(void);
WEFT_API const weft_option *weft_predict_table(void);

/* Evaluates a checkpoint on a part of the data (its own data unless said). */
WEFT_API WEFT_NODISCARD weft_status weft_evaluate(weft_context *context,
                                                  const weft_eval_options *options,
                                                  weft_report *out);

/* Says what the model makes of each sample. The data need not have a target. */
WEFT_API WEFT_NODISCARD weft_status weft_predict(weft_context *context,
                                                 const weft_eval_options *options,
                                                 weft_predict_fn fn, void *user);

/* A checkpoint as text: step, options, tensors; the caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_text(weft_context *context, const char *path,
                                                         char **out);

/* Writes the parameters of a checkpoint as one safetensors file under their own names. Running
 * statistics of batch normalisation come along; optimiser state does not. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_export(weft_context *context, const char *path,
                                                           const char *file);
/* The same as a folder, which is made: weights.safetensors, model.json, which says what network it
 * is, the shape of a sample, how features were normalised, and names of classes, and model.yaml of
 * a YAML model. Whatever reads checkpoints to predict reads it, too. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_export_folder(weft_context *context,
                                                                  const char *path,
                                                                  const char *folder);

#ifdef __cplusplus
}
#endif
#endif
