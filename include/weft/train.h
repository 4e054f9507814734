/*
 * Training, evaluation and prediction, driven by one table of options.
 *
 * A trainer owns a data set, a model, its optimiser and their programs. It reports through events
 * and never prints. Checkpoints are folders DIR/step-N, written completely or not at all;
 * DIR/latest points to the newest one.
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

/* Whether a run needs a supervisor: its ranks are processes that have not been started yet, or it
 * must be restarted when it fails. */
WEFT_API bool weft_job_needs_supervisor(const weft_train_options *options);

/* Checks the options of weft_job_run. ARGUMENT: they contradict each other. */
WEFT_API WEFT_NODISCARD weft_status weft_job_check(const weft_context *context,
                                                   const weft_train_options *options);

/* Starts the ranks, each with `arguments` (the command line after the program's name, NULL at the
 * end), and waits for them. If the job fails and restarts are left, it is restarted from its newest
 * checkpoint, without the lost ranks; it is not restarted after an error of a rank itself. *code is
 * the exit code of the job. UNSUPPORTED: there is no mpirun; the message says what to install.
 *
 * With engine processes the program is weft, or has its commands coordinator, server and join, and
 * `arguments` are ignored: each process has its own command line, made from the options. A process
 * that dies is restarted alone, and the whole job only if parameters are lost.
 *
 * One job at a time. While it runs this process handles SIGINT, SIGTERM, SIGHUP and SIGTSTP, and
 * adopts orphans (subreaper); it waits only for children that belong to the job, and kills those at
 * the end. */
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
    int64_t step, total_steps; /* finished steps since the beginning of training */
    int64_t epoch, epochs;
    int64_t samples, parameters; /* training samples; number of parameter elements */
    /* For a step: of the reporting learner, or of all in lock step and in a simulation; NaN if no
     * sample of it counted. */
    double loss;
    double lr, samples_per_second;
    double step_seconds;       /* of a step: its duration, without evaluation and checkpoint */
    double seconds;            /* of training since this process started */
    double first_step_seconds; /* from the start of the process to the end of its first step */
    int64_t since; /* summary: the step after which this part of the run began, which `seconds` and
                      `samples_per_second` refer to */
    size_t peak_memory;                 /* of this process */
    int ranks, learners, process_ranks; /* ranks of the job, and those in this process */
    /* For a step: bytes, summed over the ranks of a learner; seconds of a rank; and the fraction of
     * forward and backward in which pipeline stages waited for each other. */
    double comm_bytes, comm_seconds, exposed_comm_seconds, bubble_fraction;
    const double *rank_memory; /* summary: planned bytes of each rank */
    const weft_series *series; /* summary: metrics of the exchange */
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

/* Trains to the end. NUMERIC: the loss became NaN or infinite; the message names the step and the
 * instruction. INTERRUPTED: weft_trainer_stop was called; a checkpoint was written if there is a
 * folder for it. PEER: another rank failed, left or did not come. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_run(weft_trainer *trainer, weft_event_fn fn,
                                                     void *user);

/* Asks the trainer to stop after the current step. Async-signal-safe. */
WEFT_API void weft_trainer_stop(weft_trainer *trainer);

/* The options of the run, also of one that was joined; owned by the trainer. */
WEFT_API const weft_train_options *weft_trainer_options(const weft_trainer *trainer);

/* The training program and graph, for inspection; owned by the trainer. */
WEFT_API const weft_graph *weft_trainer_graph(const weft_trainer *trainer);
WEFT_API const weft_program *weft_trainer_program(const weft_trainer *trainer);

/* Describes memory, computation and communication of each rank as text, without running. dump_rank
 * >= 0 adds that rank's graph and program. The caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_train_plan_text(weft_context *context,
                                                         const weft_train_options *options,
                                                         int dump_rank, char **out);

/* Options of evaluation and prediction with a checkpoint. */
typedef struct weft_eval_options {
    char *checkpoint, *data, *split, *device, *output;
    int64_t batch, threads;
    bool json, quiet, confusion;
} weft_eval_options;

/* The option tables of evaluation and of prediction, for the same struct. */
WEFT_API const weft_option *weft_eval_table(void);
WEFT_API const weft_option *weft_predict_table(void);

/* Evaluates a checkpoint on a part of the data (by default its own data). */
WEFT_API WEFT_NODISCARD weft_status weft_evaluate(weft_context *context,
                                                  const weft_eval_options *options,
                                                  weft_report *out);

/* Predicts each sample. The data need not have a target. */
WEFT_API WEFT_NODISCARD weft_status weft_predict(weft_context *context,
                                                 const weft_eval_options *options,
                                                 weft_predict_fn fn, void *user);

/* A checkpoint as text: step, options, tensors; the caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_text(weft_context *context, const char *path,
                                                         char **out);

/* Writes the parameters of a checkpoint to a safetensors file under their own names, including the
 * running statistics of batch normalisation, without optimiser state. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_export(weft_context *context, const char *path,
                                                           const char *file);
/* Exports to a folder, which is created: weights.safetensors, model.json (network, shape of a
 * sample, normalisation of features, names of classes) and, for a YAML model, model.yaml. Commands
 * that read checkpoints for prediction accept it as well. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_export_folder(weft_context *context,
                                                                  const char *path,
                                                                  const char *folder);

#ifdef __cplusplus
}
#endif
#endif
