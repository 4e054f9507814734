/*
 * Training, evaluation and prediction, driven by one table of options.
 *
 * A trainer owns a data set, a model, its optimizer and their programs. A trainer reports progress
 * through events and never prints. Checkpoints are folders DIR/step-N, written completely or not at
 * all; DIR/latest points to the newest one.
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

/* Whether a run needs a supervisor (weft_job_run): its ranks are processes that have not been
 * started yet, or it must be restarted when it fails. */
WEFT_API bool weft_job_needs_supervisor(const weft_train_options *options);

/* The processes that weft_job_run starts, as in "4 learners as processes of MPI". *out NULL: the
 * ranks are threads of one process. The caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_job_text(const weft_train_options *options, char **out);

/* For a process that mpirun or srun may have started (weft_job_rank): options with the default
 * engine then get that of the launcher, and one rank becomes as many as it has started. */
WEFT_API WEFT_NODISCARD weft_status weft_job_fit_launcher(const weft_context *context,
                                                          weft_train_options *options);

/* Checks the options of weft_job_run; starts nothing. ARGUMENT: options contradict each other. */
WEFT_API WEFT_NODISCARD weft_status weft_job_check(const weft_context *context,
                                                   const weft_train_options *options);

/* Supervises a job: starts `program` for the ranks, with `arguments` (the command line after the
 * program's name, NULL at the end), and waits for them. If the job fails and restarts are left, the
 * job is restarted from its newest checkpoint, without the lost ranks. A failure that a rank has
 * reported as its own error is not followed by a restart, since it would recur. *code is the exit
 * code of the job. tell gets the supervisor's messages. UNSUPPORTED: there is no mpirun; the
 * message says what to install.
 *
 * With the engine "processes" the program is weft, or has its commands coordinator, server and
 * join. `arguments` are ignored: each process has a command line of its own, made from the options.
 * A process that dies is restarted alone; the whole job is restarted only if parameters are lost.
 *
 * A process runs one job at a time. While the job runs, the calling process handles SIGINT,
 * SIGTERM, SIGHUP and SIGTSTP, and adopts the job's orphans (as subreaper). This process
 * waits only for children that belong to the job, and kills the remaining ones at the end. */
WEFT_API WEFT_NODISCARD weft_status weft_job_run(const weft_context *context,
                                                 const weft_train_options *options,
                                                 const char *program, char *const *arguments,
                                                 weft_job_fn tell, void *user, int *code);

/* Kinds of events, with the fields of weft_event that are set for each. */
typedef enum weft_event_kind {
    WEFT_EVENT_START,      /* the trainer is ready: total_steps, epochs, parameters */
    WEFT_EVENT_BEGIN,      /* the state of the first step is loaded or received: step, epoch */
    WEFT_EVENT_STEP,       /* a step ended */
    WEFT_EVENT_EVAL,       /* an evaluation of the validation or the test split ended: report */
    WEFT_EVENT_CHECKPOINT, /* a checkpoint was written: path */
    WEFT_EVENT_SUMMARY,    /* the run ended; see the fields marked `summary` */
    WEFT_EVENT_CHOICE      /* the next epoch was chosen (rechoose): ways, noise_scale */
} weft_event_kind;

/* A way in which a run may go on: its options as words, the estimated seconds of a step, the batch
 * that a step counts as, and the seconds in which it gets as far as a step without noise. */
typedef struct weft_way {
    const char *words;
    double step_seconds, batch, cost;
} weft_way;

/* An event of a run. */
typedef struct weft_event {
    weft_event_kind kind;
    int64_t step, total_steps; /* finished steps since training began; steps at its end */
    /* The epoch, from 1, of the last finished step; for START and BEGIN that of the next step.
     * Epochs of the run; 0: it has a number of steps. */
    int64_t epoch, epochs;
    int64_t samples, parameters; /* samples of the training split; elements of all parameters */
    /* For a step: its loss, in a simulation of all learners, otherwise of the reporting learner;
     * NaN if no sample of the step had a weight. */
    double loss;
    /* Learning rate; samples per second that all learners have processed in the time of the step,
     * or of the steps, whatever their speeds (in an elastic run: this learner). */
    double lr, samples_per_second;
    double step_seconds; /* for a step: its duration, without evaluation and checkpoint */
    double seconds;      /* of training in this process */
    /* Summary: from the start of the process to the end of its first step. */
    double first_step_seconds;
    /* Summary: the step after which `seconds` and `samples_per_second` begin. */
    int64_t since;
    size_t peak_memory; /* summary: bytes of this process */
    /* Ranks and learners of the job; ranks in this process. */
    int ranks, learners, process_ranks;
    /* Threads of a rank, and the variable that has set them; NULL: cores and --threads
     * alone. */
    int threads;
    const char *threads_by;
    /* For a step, if metrics are written: bytes sent by all ranks of the learner; seconds of
     * transfers, and those of them in which the rank waited, mean over the ranks; fraction of
     * forward and backward in which pipeline stages waited for each other. */
    double comm_bytes, comm_seconds, exposed_comm_seconds, bubble_fraction;
    const double *rank_memory; /* summary: [ranks] planned bytes */
    const weft_series *series; /* summary: [series_count] metrics of the exchange */
    int series_count;
    const weft_report *report; /* metrics of an evaluation */
    /* The folder of a checkpoint that was written, or whose weights were evaluated (NULL: those
     * that the run has). */
    const char *path;
    /* For a step: seconds in which the host wrote the batch and queued the kernels of the reporting
     * rank, without waits; on a device that shares host memory also those of the kernels. */
    double host_seconds;
    /* The words of rank 0's device about itself: hardware, libraries with their versions; NULL:
     * none. */
    const char *device;

    /* For a step, if metrics are written: means over the learner's ranks on devices with memory of
     * their own, see weft_device_use. 0: unknown. */
    double device_busy, device_used, device_total;
    /* For an evaluation of the split that is evaluated during the run: the mean training loss of
     * the steps since the last one, else NaN; and whether it is the best one (keep-best, patience).
     */
    double train_loss;
    bool best;
    /* For a step: the noise scale of gradients, in samples (noise-scale); 0: not measured after
     * this step, or not known yet. */
    double noise_scale;
    /* For a choice: [way_count] the ways, and the index of the chosen one (-1: none of them, the
     * run goes on as it is). */
    const weft_way *ways;
    int way_count, chosen;
} weft_event;

/* Receives events, in the thread that runs the trainer; the event is valid during the call. */
typedef void (*weft_event_fn)(void *user, const weft_event *event);

typedef struct weft_trainer weft_trainer;

/* Creates a trainer: opens the data, builds and lowers the model, and with `resume` loads the
 * newest checkpoint. The options are copied. Collective over the processes of the job, as
 * weft_trainer_run is. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_create(weft_context *context,
                                                        const weft_train_options *options,
                                                        weft_trainer **out);
/* Creates a trainer for inspection only: it has the graph and the program of the first rank, but no
 * memory for values and no checkpoint, and cannot run. Its ranks are threads of this process,
 * whatever the engine of the options is. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_create_dry(weft_context *context,
                                                            const weft_train_options *options,
                                                            weft_trainer **out);
WEFT_API void weft_trainer_destroy(weft_trainer **trainer);

/* Trains to the end. NUMERIC: the loss became NaN or infinite; the message names the step and the
 * instruction. INTERRUPTED: weft_trainer_stop was called; a checkpoint was written if the options
 * name a folder. PEER: another rank failed, left or did not come. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_run(weft_trainer *trainer, weft_event_fn fn,
                                                     void *user);

/* After weft_trainer_run: whether the run has another phase, since parameters that were frozen are
 * to be trained from now on (--unfreeze): a trainer that resumes from the checkpoint, with the same
 * options, goes on with it. */
WEFT_API bool weft_trainer_goes_on(const weft_trainer *trainer);

/* Asks the trainer to stop after the current step, which on a device with memory of its own may be
 * the one after the step that was reported last; without a run in progress, after the first step of
 * the next one. The request ends with the run. Any thread or a signal handler may call it. */
WEFT_API void weft_trainer_stop(weft_trainer *trainer);

/* The options of the run, also if the trainer has joined the run (weft_trainer_join); owned by the
 * trainer. */
WEFT_API const weft_train_options *weft_trainer_options(const weft_trainer *trainer);

/* ARGUMENT: the output file `path` (NULL: none), which the option named `option` gives, is an input
 * of this training: its model file, a file of its data or of --init, or one of a checkpoint. */
WEFT_API WEFT_NODISCARD weft_status weft_train_refuse_overwrite(const weft_train_options *options,
                                                                const char *option,
                                                                const char *path);

/* Sets *out to the tables of the first rank of this process after a run with --trace
 * (weft_instance_trace_table); the caller frees the text with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_trace_text(const weft_trainer *trainer,
                                                            char **out);

/* The training graph and program of the first rank of this process, for inspection; owned by the
 * trainer. */
WEFT_API const weft_graph *weft_trainer_graph(const weft_trainer *trainer);
WEFT_API const weft_program *weft_trainer_program(const weft_trainer *trainer);
/* The data of the run; owned by the trainer. */
WEFT_API const weft_dataset *weft_trainer_data(const weft_trainer *trainer);
/* Sets *out to output i of the model (weft_model_output_at); false past the end. */
WEFT_API bool weft_trainer_output(const weft_trainer *trainer, int i, weft_model_output *out);

/* A layer of a model, with the figures of one sample. Its nodes are those of the graph that
 * predicts whose names begin with its own; parameters that several layers share are those of the
 * first. */
typedef struct weft_layer_summary {
    const char *name;
    const char *kind;   /* the operator of the node that has its name alone, or of its first one */
    weft_shape output;  /* of its last node */
    int64_t parameters; /* elements */
    int64_t frozen;     /* of them those that the option freeze keeps */
    double flops;       /* of a forward pass */
    double activation_bytes; /* of the output */
    uint64_t room[4];        /* of later versions: 0 */
} weft_layer_summary;
/* Called once for each layer, in the order of the graph; the summary is valid during the call. */
typedef void (*weft_layer_fn)(void *user, const weft_layer_summary *layer);

/* Sums up the layers of the model of a run, of which nothing is run. input: the shape of a sample
 * of real numbers, as in "3x224x224", and classes the number of classes (0: the target is a
 * number); NULL: the data of the options have both, and classes is ignored. ARGUMENT: the shape is
 * none, or does not suit the model. */
WEFT_API WEFT_NODISCARD weft_status weft_train_summary(weft_context *context,
                                                       const weft_train_options *options,
                                                       const char *input, int classes,
                                                       weft_layer_fn fn, void *user);
/* As weft_train_summary, for the model of a checkpoint, whose data are not opened. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_summary(weft_context *context, const char *path,
                                                            weft_layer_fn fn, void *user);

/* Sets *out to a text about memory, computation and communication of each rank, without training.
 * dump_rank >= 0 adds that rank's graph and program. The caller frees the text with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_train_plan_text(weft_context *context,
                                                         const weft_train_options *options,
                                                         int dump_rank, char **out);

/* Sets *out to a text with the graph after each pass, from the model to the part of a rank, and
 * with those that predict; nothing is run. The caller frees the text with weft_free. ARGUMENT: the
 * mesh has no such rank. */
WEFT_API WEFT_NODISCARD weft_status weft_train_passes_text(weft_context *context,
                                                           const weft_train_options *options,
                                                           int rank, char **out);

/* Options of evaluation and prediction with a checkpoint. The struct owns its strings. */
typedef struct weft_eval_options {
    size_t struct_size; /* sizeof(weft_eval_options) */
    char *checkpoint, *data, *split, *device, *output;
    int64_t batch, threads;
    bool json, quiet, confusion;
    char *metric;    /* names, with commas between them */
    bool by_class;   /* whether the command prints the metrics of each class */
    bool join;       /* predictions have the fields of the table's row */
    char *masks;     /* of weft_predict: a new folder for pictures of predicted classes of pixels */
    char *mask_size; /* "sample": masks have the size of samples; NULL, "picture": of pictures */
} weft_eval_options;

/* The option tables of weft_evaluate and of weft_predict, for the same struct. */
WEFT_API const weft_option *weft_eval_table(void);
WEFT_API const weft_option *weft_predict_table(void);

/* Evaluates a checkpoint on a part of the data; NULL as `data`: the data of the training run.
 * split: "train", "test" or "all"; NULL: of the training data and of data that name their parts
 * themselves the test part (or, without one, that of validation), of another file what test= gives,
 * or else all. NUMERIC: a prediction
 * or the loss is not finite. */
WEFT_API WEFT_NODISCARD weft_status weft_evaluate(weft_context *context,
                                                  const weft_eval_options *options,
                                                  weft_report *out);

/* Predicts each sample of such a part, and passes each prediction to fn. The data need not have a
 * target. With `masks`, DIR, the classes of the pixels of each picture also become DIR/NAME.png, a
 * palette of weft_class_color, of the size that the picture has of its own; pixels that were cut
 * off the picture are 255. ARGUMENT: DIR is not empty, or pixels have no classes. NUMERIC:
 * predictions of some samples, which fn has got as they are, are not finite. */
WEFT_API WEFT_NODISCARD weft_status weft_predict(weft_context *context,
                                                 const weft_eval_options *options,
                                                 weft_predict_fn fn, void *user);

/* Writes a checkpoint of a training loop of the caller's own, which has one rank: DIR/step-N, as
 * weft_trainer_run does, with DIR/latest. Functions and commands that read a checkpoint for
 * evaluation, prediction, export or serving accept it.
 * options: `checkpoint` is DIR, `keep` how many checkpoints stay; `model` (which a graph of
 * weft_model_build has, or one with the same parameters) and `dtype` are what the checkpoint's
 * model is built of later; `data` is what `data` was opened with. The other options are only
 * stored. store: of the parameters and the state of the graph. data: gives the shapes, the
 * normalisation and the names of classes; both of its splits are prepared if they are not yet.
 * step: N, from 0, above those of the checkpoints in DIR. *path (path may be NULL) is the folder
 * written; the caller frees it with weft_free. ARGUMENT: an option is wrong, `checkpoint` is not
 * set, the parameters of the graph are not those of the model (the message names the first one), or
 * another run uses DIR. IO: nothing is left of the folder. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_save_loop(
    weft_context *context, const weft_train_options *options, weft_store *store,
    const weft_graph *graph, weft_dataset *data, int64_t step, char **path);

/* Sets *out to a text about a checkpoint: step, options, tensors; the caller frees it with
 * weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_text(weft_context *context, const char *path,
                                                         char **out);

/* Writes the parameters of a checkpoint to a safetensors file under their own names, with the
 * running statistics of batch normalisation and without optimizer state. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_export(weft_context *context, const char *path,
                                                           const char *file);
/* As weft_checkpoint_export, under the names and in the layouts of another program, which a run
 * reads with --init FILE:MAP: map is "torch", for PyTorch, or a file of rules. The running
 * statistics of a batch normalisation have a counter, the steps of the checkpoint, where the map
 * has one. ARGUMENT: there is no such map, or it has no rule for a tensor of the model. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_export_mapped(weft_context *context,
                                                                  const char *path, const char *map,
                                                                  const char *file);
/* Exports a checkpoint to a folder, which is created: weights.safetensors, model.json (network,
 * shape of a sample, normalisation of features, names of classes) and, for a YAML model,
 * model.yaml. Functions that read a checkpoint for evaluation, prediction or serving accept the
 * folder as well. */
WEFT_API WEFT_NODISCARD weft_status weft_checkpoint_export_folder(weft_context *context,
                                                                  const char *path,
                                                                  const char *folder);

#ifdef __cplusplus
}
#endif
#endif
