/* The trainer: the part of a training job in this process, with the ranks that run here, the data,
 * the checkpoint and the outputs. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/learning_rate.h"
#include "job/job.h"
#include "train/engine/engine.h"
#include "train/train.h"

/* The place of a run in the schedule of its learning rate: its clock, the last step of the
 * schedule, and the steps of the schedule in an epoch. */
typedef struct weft_schedule_place {
    weft_schedule_clock clock;
    int64_t total, epoch;
} weft_schedule_place;

/* A request to stop, which another thread may make at any time; stop may be NULL. */
static inline bool weft_stop_wanted(const weft_stop *stop)
{
    return stop && __atomic_load_n(&stop->wanted, __ATOMIC_RELAXED) != 0;
}

/* Lets the caller of a run in virtual time pause it between two steps or events (pauses.c, sim/).
 */
typedef struct weft_pauses {
    /* Whether the run is to pause before this virtual time. */
    bool (*due)(void *user, double next);
    /* Returns when the run may go on to `next`. now: the time until then; judged: an evaluation of
     * the model with which a run that ends now would end (NULL: there are no data, or no step was
     * taken); met: when the learners will have met, or have; INFINITY: not known yet. */
    void (*pause)(void *user, double now, double next, const weft_report *judged, double met);
    void *user;
} weft_pauses;

/* The clock of a run in virtual time whose ranks wait for each other (sim/synchronous.c). */
typedef struct weft_step_clock {
    double seconds;            /* of a step; 0: the run is in real time */
    double utilisation, bytes; /* share of it in which ranks compute; bytes between machines */
    const weft_pauses *pauses; /* NULL: none */
} weft_step_clock;

/* The state of a run on one rank. */
typedef struct weft_run {
    weft_trainer *job;
    weft_rank rank;
    /* The steps of the last checkpoint and of the last evaluation of each split (-1: none), and the
     * one after which this part of the run began. */
    int64_t saved_step, evaluated_step[WEFT_SPLITS], first_step;
    double watched_loss; /* of the last evaluation of the split that is watched */
    weft_watch watch;
    const char *weights; /* the checkpoint that is evaluated; NULL: the run's own weights */
    bool changes;        /* the run goes on in another phase, which it has chosen */
    bool dismissed;      /* the learner was asked to leave (weft leave), and the run continues */
    double started;      /* time of the start */
    /* For the throughput (throughput.c). */
    double last_step;                      /* time at which the last step ended */
    double counted;                        /* samples of all learners until then */
    double working;                        /* seconds of the steps since the last event */
    double worked;                         /* samples of all learners in these steps */
    double own;                            /* samples of this learner in these steps */
    double recent_samples, recent_seconds; /* sums over this learner's steps, which decay */
    double first_step_seconds;             /* from process start to the end of the first step */
    double *planned;                       /* [ranks]: bytes of each rank's program */
    /* The last step that was queued (weft_rank_queue), until it is reported: its batch, of which
     * only the numbers are valid. */
    weft_batch queued_batch;
    weft_step_consensus queued;
    pthread_t thread;
    weft_status (*task)(struct weft_run *run);
} weft_run;

struct weft_trainer {
    weft_context *context, *own; /* own: this run's, with its number of threads; replaces context */
    weft_train_options options;
    weft_settings settings; /* the options as text */
    const weft_train_engine *engine;
    weft_dataset *data;
    weft_bytes model;   /* text of a YAML model, allocated */
    weft_bytes tuning;  /* table of measurements, allocated; empty: none */
    char *tuned_by;     /* its file, for messages */
    double tuning_took; /* the limit in seconds that ended measuring; 0: nothing was left to do;
                           below 0: this run has not measured */
    weft_checkpoint resumed;
    weft_split_id splits[WEFT_SPLITS]; /* of the data */
    weft_split watched;                /* split that is evaluated during the run */
    weft_comm *worlds[WEFT_MAX_RANKS];
    weft_run_spec run_spec;
    weft_initial *initial; /* weights of --init, until the ranks are built; NULL: none */
    weft_run *runs;        /* the ranks of this process */
    weft_program *dry;     /* of a trainer that cannot run (weft_trainer_create_dry); else NULL */
    int local;
    int size, mesh, learners; /* ranks of the job; ranks of a learner; size / mesh */
    int64_t samples, micro, total_steps, parameters; /* micro: samples of a micro-batch */
    atomic_int stop;        /* lock-free: set by a signal handler, read by the ranks' threads */
    const weft_stop *stops; /* a request from before the caller has the trainer; NULL: none */

    struct weft_first_steps *first_steps; /* compared with their estimate; NULL: not */
    char *metric_names;                   /* of evaluations beside the usual ones; NULL: none */
    weft_metrics *metrics;
    weft_output *trace; /* of rank 0, from the start of the run on; NULL: none */
    weft_event_fn fn;
    void *user;

    int folder_lock; /* see weft_folder_lock; -1 if this process does not write checkpoints */

    weft_learner_link link; /* the learner's link to an elastic run, if `linked` */
    bool linked;         /* a learner of an elastic run, or only describes it for its coordinator */
    bool rejoins;        /* the learner was removed from the run, and joins it again */
    bool advises_rejoin; /* see weft_joining */
    weft_removal removal;
    char *link_texts[6]; /* of the link: coordinator, model, data, listen, device, otherwise */
    weft_position begun; /* start position of the elastic run */
    int64_t run_steps;   /* steps of the elastic run; 0: unknown */
    int64_t phase_end;   /* epochs after which this phase of the run ends; 0: it is the last */
    struct weft_rechoice *rechoice; /* NULL: the run does not choose its phases */
    bool begins_phase;         /* the checkpoint that it resumes is the end of the phase before */
    weft_schedule_place place; /* of the run in the schedule of the learning rate */
    weft_step_clock clock;     /* set between creation and run */

    const char *threads_by; /* what limits the threads of a rank, for the user; NULL: nothing */
    weft_core_sets *cores;  /* of the ranks on this machine; NULL: not bound */
    int listed_cores;       /* cores of the longest list that --device names; 0: none */
    weft_supervisor_channel line; /* to the supervisor */

    pthread_mutex_t lock; /* guards `error`, and `line` while it is read */
    weft_error error;     /* of the rank that failed first, rather than of one that noticed it */
};

/* metrics.c: writes the forward pass of the learner, and samples, where an output has these. */
weft_status weft_metrics_begin(const weft_trainer *trainer, const weft_rank *rank) WEFT_NODISCARD;
/* Writes the distribution of each parameter, where an output has asked for it. Collective over the
 * learner that reports. */
weft_status weft_metrics_parameters(const weft_trainer *trainer, weft_rank *rank) WEFT_NODISCARD;

/* schedule_place.c: the learning rate of these options as a function of the step. */
weft_learning_rate weft_schedule_rate(const weft_context *context,
                                      const weft_optimizer_options *options);
/* schedule_place.c: sets *out to a line about the learning rate with which a run goes on from a
 * checkpoint, for the user; empty: it cannot be told. The caller frees it. */
weft_status weft_schedule_text(const weft_context *context, const weft_checkpoint *checkpoint,
                               char **out) WEFT_NODISCARD;

/* measured_rate.c: for a schedule of the learning rate by measurements, after a step with this
 * training loss, and at the end of an epoch, after its evaluation. Collective over all ranks. */
weft_status weft_run_note_loss(weft_run *run, double loss, double weight) WEFT_NODISCARD;
weft_status weft_run_measure(weft_run *run) WEFT_NODISCARD;

/* watch.c: ARGUMENT: --keep-best or --patience has no validation split, or no such metric. */
weft_status weft_watch_check(const weft_trainer *t) WEFT_NODISCARD;
/* Goes on with what the checkpoint has, if the run resumes. */
void weft_watch_begin(weft_run *run);
/* Counts the loss of a step. */
void weft_watch_step(weft_run *run, double loss, double weight);
/* The mean training loss since the last call; NaN: there was none. */
double weft_watch_mean(weft_watch *watch);
/* Compares an evaluation with the best one; *best: it is better. Collective over all ranks. */
weft_status weft_watch_evaluated(weft_run *run, const weft_report *report,
                                 bool *best) WEFT_NODISCARD;
/* Whether the run ends, since its evaluations no longer become better; and logs it. */
bool weft_watch_ends(const weft_run *run);
void weft_watch_note_end(const weft_run *run);

/* loop.c: the options of the loader of a rank, which has its plan. */
weft_loader_options weft_run_loader(const weft_run *run);
/* loop.c: whether the run has come to the end of its phase (weft_trainer_goes_on). */
bool weft_run_ends_phase(const weft_run *run);

/* phases.c: a phase of a list: the option that has it, the epochs that have ended before it (0: it
 * is no phase yet, but may become one), and its options. */
typedef struct weft_run_phase {
    const char *option;
    int64_t before;
    const char *words;
} weft_run_phase;
typedef weft_status (*weft_run_phase_fn)(void *user, const weft_run_phase *phase);
/* Calls fn for each phase of a list, the first one first; NULL: there is none. ARGUMENT: epochs do
 * not ascend. */
weft_status weft_run_phases_each(const char *list, weft_run_phase_fn fn, void *user) WEFT_NODISCARD;
/* Sets the options of a phase. */
weft_status weft_run_phase_take(const weft_context *context, const weft_run_phase *phase,
                                weft_train_options *options) WEFT_NODISCARD;
/* Checks the options of a phase that is yet to come, as far as they alone can be. *lockstep: all
 * learners end it together. */
weft_status weft_run_phase_check(const weft_trainer *t, const weft_run_phase *phase,
                                 bool *lockstep) WEFT_NODISCARD;
/* rechoose.c: the phases that a run chooses. _begin reads the list of --rechoose, and takes the
 * phases that were chosen before from the checkpoint, else the first way of the list. _estimate
 * finds how long a step of each way takes, on rank 0 of the job. weft_run_rechoose chooses at the
 * end of an epoch, before its checkpoint, and sets run->changes; collective over all ranks. */
typedef struct weft_rechoice weft_rechoice;
weft_status weft_rechoice_begin(weft_trainer *t) WEFT_NODISCARD;
weft_status weft_rechoice_estimate(weft_trainer *t) WEFT_NODISCARD;
weft_status weft_run_rechoose(weft_run *run) WEFT_NODISCARD;
void weft_rechoice_free(weft_rechoice **rechoice);

/* phases.c: sets the options of the phase that begins, or began, before the epoch of the
 * checkpoint. ARGUMENT: the list of phases is wrong. */
weft_status weft_trainer_enter_phase(weft_trainer *t) WEFT_NODISCARD;
/* Prepares each phase that is yet to come, on rank 0 of the job, and runs nothing. ARGUMENT: the
 * run cannot have its options. */
weft_status weft_trainer_prepare_phases(const weft_trainer *t) WEFT_NODISCARD;
/* Frozen parameters are trained from the epoch of --unfreeze on, with new optimizer state. */
void weft_trainer_unfreeze(weft_trainer *t);
/* ARGUMENT: the next phase cannot go on from a checkpoint of this one. */
weft_status weft_trainer_check_phases(const weft_trainer *t) WEFT_NODISCARD;

/* run_outputs.c: whether this rank's learner writes outputs and reports events. In a job only
 * learner 0 does; elastic learners that users start themselves have outputs of their own. */
bool weft_run_reports(const weft_run *run);
/* Writes an event to the metrics file and gives it to the caller's function. Only rank 0 of a
 * learner that reports does this. */
weft_status weft_run_report(const weft_run *run, weft_event *e) WEFT_NODISCARD;
/* Evaluates a split, if it has samples and was not evaluated after this step. Collective over all
 * ranks. */
weft_status weft_run_evaluate(weft_run *run, weft_split split) WEFT_NODISCARD;
/* Whether the last step is the best one, which is kept. */
bool weft_run_is_best(const weft_run *run);
/* Saves a checkpoint of the current step, unless that was done: rank 0 gathers the parts of the
 * other ranks, and writes. Learners that are not saved return at once. */
weft_status weft_run_save(weft_run *run) WEFT_NODISCARD;
/* pauses.c: pauses before the next step, if that is due. Collective over the world. */
weft_status weft_run_pause(weft_run *run) WEFT_NODISCARD;
/* The last evaluations and checkpoint. A run that is done evaluates the test part with the weights
 * that it has kept as the best ones, which then take the places of the last ones. Collective over
 * all ranks. */
weft_status weft_run_finish_outputs(weft_run *run, bool done) WEFT_NODISCARD;

/* throughput.c: begins the time of the next step, which leaves out what came before. */
void weft_throughput_begin(weft_run *run);
/* Counts a step that has ended: sets its seconds and samples per second in the event, and the rate
 * of the learner's heartbeats. */
void weft_throughput_step(weft_run *run, const weft_batch *batch, weft_event *event);
/* Called after the end of the exchange; collective over all ranks of the job: sums the samples of
 * learners that this process cannot see. */
weft_status weft_throughput_end(weft_run *run) WEFT_NODISCARD;

/* ARGUMENT: there are more servers than parameters. The ranks must have been built. */
weft_status weft_trainer_check_servers(const weft_trainer *t) WEFT_NODISCARD;

/* Runs task on all ranks of this process concurrently; returns the first error. */
weft_status weft_trainer_everywhere(weft_trainer *t,
                                    weft_status (*task)(weft_run *run)) WEFT_NODISCARD;

/* Whether the run is asked to stop: by weft_trainer_stop, or by the supervisor, whose request the
 * process of rank 0 reads. `trainer` is a weft_trainer. */
bool weft_trainer_stop_requested(void *trainer);

/* The place of a learner in an elastic run: slot `slot`, where `learners` were planned. model: text
 * of the YAML model as the coordinator sends it; NULL: the model is built in. coordinator NULL: the
 * trainer does not train, and only describes the run for its coordinator. */
typedef struct weft_joining {
    const char *coordinator, *listen; /* listen: see weft_learner_link */
    uint64_t run; /* id of the run; 0: a coordinator looks at it before it begins */
    int slot, learners;
    const char *model;
    const char *tuning;    /* table of measurements of the run; NULL: none */
    bool plain_parameters; /* see weft_rank; also of the run that a coordinator describes */
    uint64_t layout;       /* weft_store_form of the run; 0: not known */
    const char *device, *otherwise; /* see weft_learner_link */
    weft_position begun;            /* start position of the run */
    int64_t steps;                  /* steps of the run; 0: unknown */
    weft_schedule_place place;      /* in the schedule, if `steps` is known */
    bool job;                       /* see weft_learner_link */
    bool rejoins;                   /* the learner was removed from the run, and joins it again */
    bool advises_rejoin;            /* the message of a removed learner names the option --rejoin */
    const weft_stop *stop;          /* ends the measuring of kernels; NULL: nothing does */
} weft_joining;
weft_status weft_trainer_create_joining(weft_context *context, const weft_train_options *options,
                                        const weft_joining *joining,
                                        weft_trainer **out) WEFT_NODISCARD;
/* Frees the ranks, with their memory, and the data: of a trainer that was only looked at. */
void weft_trainer_release(weft_trainer *trainer);
/* As weft_trainer_create, for a run of which nothing is kept: it ends within a step once `stop`,
 * which may be NULL, is set. traced: each rank records the times of its first steps. */
weft_status weft_trainer_create_passing(weft_context *context, const weft_train_options *options,
                                        const weft_stop *stop, bool traced,
                                        weft_trainer **out) WEFT_NODISCARD;

/* Creates a trainer for a plan or a simulation: opens data and model for the ranks of the options,
 * but opens no communicator and builds no rank. engine NULL: that of the options. */
weft_status weft_trainer_prepare(weft_context *context, const weft_train_options *options,
                                 const weft_train_engine *engine,
                                 weft_trainer **out) WEFT_NODISCARD;
/* Looks at a rank whose program is planned on the store; kind: as of weft_trainer_plan_kinds. For
 * the first function of a list nothing has been allocated since `before` (weft_allocated_memory)
 * beside both. */
typedef weft_status weft_planned_fn(void *user, weft_rank *rank, weft_store *store,
                                    const weft_program *program, size_t before, const int *kind);
typedef struct weft_planned {
    weft_planned_fn *fn; /* NULL: nobody looks */
    /* NULL, but for the first of a list: gets the bytes that have been allocated since `before` and
     * stay when the program and the store have gone, without those of the other functions. */
    void (*stays)(void *user, int rank, double bytes, const int *kind);
    void *user;
} weft_planned;
/* alike_ranks.c: plans the program of a rank of each kind, and calls the functions of the list with
 * it, in turn; all: of every rank; also: of this rank, too (below 0: none). kind: [mesh] set to the
 * kind of each rank, in the order of their lowest ranks; ranks of a kind have equal programs. The
 * trainer is one of weft_trainer_prepare; it keeps the plan of rank 0, and the learner's graph. */
weft_status weft_trainer_plan_kinds(weft_trainer *t, bool all, int also, int *kind,
                                    const weft_planned *list, int count) WEFT_NODISCARD;
/* Whether a rank is the first of its kind. */
static inline bool weft_kind_first(const int *kind, int rank)
{
    for (int r = 0; r < rank; r++)
        if (kind[r] == kind[rank]) return false;
    return true;
}
/* plan_report.c: the text of weft_train_plan_text, of a prepared trainer; _add is a
 * weft_planned_fn, whose user is the report. _take gives the text once all kinds were planned, and
 * dump_rank (below 0: none) beside them. The caller frees the report, also after a failure. */
typedef struct weft_plan_report weft_plan_report;
weft_status weft_plan_report_new(weft_trainer *t, int dump_rank,
                                 weft_plan_report **out) WEFT_NODISCARD;
weft_status weft_plan_report_add(void *report, weft_rank *rank, weft_store *store,
                                 const weft_program *program, size_t before,
                                 const int *kind) WEFT_NODISCARD;
weft_status weft_plan_report_take(weft_plan_report *d, char **out) WEFT_NODISCARD;
void weft_plan_report_free(weft_plan_report **report);
/* validate.c: _check_ranks checks that the number of ranks is known, before they are opened.
 * _check_devices checks the list of devices. ARGUMENT: it has more than there are ranks.
 * _check_launched (engine/engine.c): see weft_job_check_launched.
 * _learners sets *mesh to the ranks of one learner (without --mesh: one) and *learners to their
 * number. _count_learners checks all other options and sets t->mesh and t->learners. ARGUMENT:
 * options exclude each other, one needs a missing one, or the ranks are no multiple of *mesh. */
weft_status weft_train_check_ranks(const weft_train_options *o) WEFT_NODISCARD;
weft_status weft_train_check_devices(weft_context *context, const weft_train_options *o,
                                     int ranks) WEFT_NODISCARD;
weft_status weft_train_check_launched(const weft_train_options *o) WEFT_NODISCARD;
weft_status weft_train_learners(const weft_train_options *o, int64_t ranks, int64_t *mesh,
                                int *learners) WEFT_NODISCARD;
weft_status weft_trainer_count_learners(weft_trainer *t) WEFT_NODISCARD;
/* ARGUMENT: an option about pipeline stages is given, and the mesh has no pipeline. */
weft_status weft_train_check_stages(const weft_context *context,
                                    const weft_parallel_choice *o) WEFT_NODISCARD;
/* resume.c: locks the checkpoint folder and opens its newest checkpoint, if there is one. ARGUMENT:
 * the options do not fit the checkpoint, or a new run would write into the folder of an old one. */
weft_status weft_trainer_find_resumed(weft_trainer *t) WEFT_NODISCARD;
/* Logs that --resume finds no checkpoint in the folder. */
void weft_log_new_run(const weft_context *context, const char *folder);
/* Reads the text of a YAML model into t->model, so that checkpoints do not depend on the file.
 * ARGUMENT: the checkpoint has another model; the message names the first difference. */
weft_status weft_trainer_read_model(weft_trainer *t) WEFT_NODISCARD;
/* Opens the checkpoint folder and the metrics file; no output is created or cut before the run
 * begins. Rank 0 calls this once, before step `step` + 1. */
weft_status weft_trainer_open_outputs(weft_trainer *t, int64_t step) WEFT_NODISCARD;
/* training_data.c: opens the data, as the checkpoint had them, and finds the steps of the run.
 * ARGUMENT: they have changed since, lack what an option needs, or are fewer than a batch.
 * _describe_data puts a text about them into the link: the coordinator compares it, since the data
 * of all learners must have the same shape, size, names and rows. */
weft_status weft_trainer_open_data(weft_trainer *t) WEFT_NODISCARD;
weft_status weft_trainer_describe_data(weft_trainer *t) WEFT_NODISCARD;
/* batch_split.c: sets the number of micro-batches, the rows of a batch with padding (slots) and the
 * rows of a micro-batch. ARGUMENT: the batch cannot be split like this, or not over the ranks. */
weft_status weft_trainer_share_out(weft_trainer *t) WEFT_NODISCARD;
/* Fills run_spec.least_samples, once the length of the run is known. */
void weft_trainer_find_least(weft_trainer *t);
/* tuning.c: sets t->tuning and lets the ranks choose kernels by it: the table of --tune, which is
 * measured first if there is no such file, else that of the checkpoint from which the run resumes.
 * Rank 0 decides, and the others receive its table. ARGUMENT: the file is of another processor,
 * card or version of Weft. FORMAT: it is damaged. INTERRUPTED: the run was asked to stop while it
 * measured; all ranks get this. */
weft_status weft_trainer_tune(weft_trainer *t) WEFT_NODISCARD;
/* Reads a file of measurements. FORMAT: it is empty. */
weft_status weft_tuning_read_file(const char *file, weft_bytes *out) WEFT_NODISCARD;
/* Logs how many groups of rank 0's programs the table lacks. */
void weft_trainer_note_untuned(const weft_trainer *t);
/* run_spec.c: sets t->run_spec from the options, after data and model have been opened. ARGUMENT:
 * options of the optimizer contradict each other. */
weft_status weft_trainer_write_run_spec(weft_trainer *t) WEFT_NODISCARD;

/* core_sets.c: sets t->cores for the `here` ranks of this machine. */
weft_status weft_trainer_find_cores(weft_trainer *t, int here) WEFT_NODISCARD;

/* place_devices.c: if --place names devices, rewrites it to ranks, and sets --device and the number
 * of ranks unless they are given. */
weft_status weft_train_place_devices(const weft_context *context,
                                     weft_train_options *options) WEFT_NODISCARD;
/* Sets *out to the optimizer of the options, for a run at this place of its schedule. */
weft_status weft_optimizer_chosen(const weft_context *context, const weft_train_options *options,
                                  const weft_schedule_place *place,
                                  weft_optimizer_options *out) WEFT_NODISCARD;

/* schedule_place.c: fills t->place, once the length of the run is known. _position completes a
 * position of the run for a checkpoint. _place_by sets *out to t->place in a run of another length.
 */
void weft_trainer_find_place(weft_trainer *t);
weft_position weft_trainer_position(const weft_trainer *t, weft_position position);
void weft_trainer_place_by(const weft_trainer *t, const weft_length_choice *length,
                           weft_schedule_place *out);
/* resume_rules.c: the table of options. */
typedef enum weft_resume_rule {
    WEFT_RESUME_UNKNOWN, /* there is no such option */
    WEFT_RESUME_NETWORK, /* it may be written otherwise, but must mean the same network */
    WEFT_RESUME_KEEPS,   /* a change is refused */
    WEFT_RESUME_STORED,  /* a type: refused if weights are stored in another one, else as NAMES */
    WEFT_RESUME_NAMES,   /* it may change, and a line names it */
    WEFT_RESUME_RATE,    /* likewise, in the line about the learning rate */
    WEFT_RESUME_LENGTH,  /* likewise, if the schedule of the learning rate depends on the length */
    WEFT_RESUME_FREE     /* it may change without a line */
} weft_resume_rule;
/* The rule of an option. state: whether state of the checkpoint depends on it. A change of state is
 * refused without --drop-state, whatever the option's rule is. */
weft_resume_rule weft_resume_rule_of(const char *option, bool *state);
/* Whether phases of a run may differ in the option. */
bool weft_resume_in_phase(const char *option);
/* Whether an option is as in the checkpoint: the same text, or a specification or a share that
 * means the same. */
weft_status weft_resume_same(const weft_trainer *t, const weft_option *option,
                             bool *same) WEFT_NODISCARD;
/* Fills t->resumed.changed. */
weft_status weft_resume_find_changes(weft_trainer *t) WEFT_NODISCARD;
/* resume_changes.c: logs in which options that change training a resumed run differs from its
 * checkpoint, and how its learning rate goes on. */
weft_status weft_trainer_note_changes(const weft_trainer *t) WEFT_NODISCARD;

#endif
