/* Declares what the ranks of a run do in a step: one track for ranks that do the same, and the
 * timeline of all ranks, of which those that do the same at the same time are one. */
#ifndef WEFT_TRAIN_ESTIMATE_TRACKS_H
#define WEFT_TRAIN_ESTIMATE_TRACKS_H

#include "cost/cluster.h"
#include "cost/timeline.h"
#include "cost/times.h"
#include "train/trainer.h"
#include "weft/estimate.h"

/* When an estimate ends before it is made, as INTERRUPTED. */
typedef struct weft_estimate_end {
    bool (*asked)(void *user); /* asked often: whether to end now */
    void *user;
    /* The seconds of a step of learners that do not wait for all others, of which a bound says that
     * they are `least` or more. Once they are certain to be more than `most`, it ends, too, and
     * `slower` is set. most 0: it does not. */
    double least, most;
    bool slower;
} weft_estimate_end;
/* INTERRUPTED: to end is asked for. end may be NULL. */
weft_status weft_estimate_go_on(const weft_estimate_end *end) WEFT_NODISCARD;

/* The machines of a run. */
typedef struct weft_hosts {
    int machines, each; /* each: most ranks of a machine */
    int threads;        /* of a rank */
    int *machine;       /* [ranks] */
    double *speed;      /* [ranks] of its machine */
    double *bytes;      /* [machines] of the programs of their ranks; weft_tracks_make adds them */
    weft_wire *wires;   /* [machines] */
    const weft_machine_group **group; /* [machines]: the cluster's */
} weft_hosts;

/* --- machines.c --- */
/* Reads the times that a cluster file names. */
weft_status weft_machines_times(const char *path, const weft_cluster *cluster,
                                weft_times **out) WEFT_NODISCARD;
/* Threads of each of so many ranks of a machine, where none are given: at most those of a run. */
static inline int64_t weft_usual_threads(int64_t cores, int64_t ranks)
{
    enum { MOST_THREADS = 1024 };
    return WEFT_MIN(WEFT_MAX(cores / ranks, (int64_t)1), (int64_t)MOST_THREADS);
}
/* Ranks fill the machines in the order of the file, equally many on each. */
weft_status weft_machines_place(const weft_trainer *t, const weft_cluster *cluster,
                                weft_hosts *h) WEFT_NODISCARD;
void weft_machines_free(weft_hosts *hosts);

/* --- tracks.c: the programs of a run --- */

/* With whom a rank transfers: the ranks that differ from it on the axes of a mask, all of its
 * learner, those of its position in all learners, or one rank at another place. */
enum { WEFT_WITH_LEARNER = -1, WEFT_WITH_LEARNERS = -2, WEFT_WITH_PLACE = -3 };

/* A transfer that a rank begins. */
typedef struct weft_track_part {
    weft_transfer_kind kind;
    weft_dtype dtype;
    int with;       /* a mask of axes, or one of the above */
    int place, tag; /* of a message */
    int name;       /* of `names` */
    int label;      /* of `labels`, from 1; 0: none */
    double bytes;   /* that a rank sends */
    double passes;  /* bytes of memory that it reads and writes beside that */
} weft_track_part;

typedef enum weft_track_kind {
    WEFT_TRACK_COMPUTE,
    WEFT_TRACK_START,
    WEFT_TRACK_FINISH
} weft_track_kind;
typedef struct weft_track_task {
    weft_track_kind kind;
    int part;       /* of `parts`: begun, or waited for */
    double seconds; /* of a machine of speed 1 */
    int label;      /* of `labels`, from 1; 0: none */
    bool polls;
} weft_track_task;

/* The tasks of a rank in a step. */
typedef struct weft_track {
    weft_track_task *tasks;
    weft_track_part *parts;
    size_t task_count, task_capacity, part_count, part_capacity;
    size_t mark; /* the first task of steps that end with a meeting of the learners */
    /* Seconds of kernels by the way of their estimates, and the sum of seconds times error. */
    double by[WEFT_ESTIMATES], errors[WEFT_ESTIMATES];
    double *kernels; /* seconds of kernels by their names */
    size_t kernel_count, kernel_capacity;
    double rest;    /* what a step does beside its program */
    double bytes;   /* of its program */
    double sent[2]; /* bytes in transfers of the program, and of a meeting of the learners */
} weft_track;

/* The label of an instruction: its name as a trace has it, and its phase. */
typedef struct weft_track_label {
    char *text;
    weft_phase phase;
} weft_track_label;

typedef struct weft_tracks {
    weft_timeline *line;
    double by[WEFT_ESTIMATES], errors[WEFT_ESTIMATES]; /* sums over the ranks */
    double rest;                                       /* mean over the ranks */
    /* Set by the caller. meets: learners add up their parameters; with_state: and the state of
     * optimizers. apart: every rank has a program and a place in the timeline of its own, to test
     * that this changes nothing. */
    bool meets, with_state, apart;
    /* Also set by the caller: how many times the bytes of parameters and of the optimizer's state a
     * learner reads and writes then. */
    double pass_parameters, pass_state;
    bool labelled; /* set by the caller: instructions have labels */
    /* Set by the caller: who else looks at the programs, and a rank that is planned beside the
     * first of each kind. */
    weft_planned planned[2];
    int also;
    const weft_estimate_end *end; /* set by the caller; may be NULL */
    weft_track_label *labels;
    size_t label_count, label_capacity;
    weft_track *tracks;
    int count;      /* of the tracks, and of programs made */
    size_t kernels; /* made for the programs */
    int *of, *kind; /* [ranks of a mesh] its track; its kind, as of weft_trainer_plan_kinds */
    int *position;  /* [ranks of a mesh, axes] coordinates */
    int axes, places;
    weft_known *known;
    bool named;         /* set by the caller: instructions and transfers have names */
    weft_names numbers; /* of the names of instructions and transfers */
    char **names;
    size_t name_count, name_capacity;
    /* equal_ranks.c: the ranks of the timeline, and its machines, for those of the run. */
    int *rank_of, *machine_of, line_ranks, line_machines;
} weft_tracks;

/* The seconds of a pass over memory that reads and writes so many bytes, by a thread of a rank. */
weft_status weft_pass_seconds(weft_known *known, const char *kind, double bytes, int ranks,
                              double *seconds) WEFT_NODISCARD;

/* Makes the programs of the ranks of a learner that differ, one after the other, and the timeline
 * of the ranks of all learners; what learners do when they meet comes behind a mark. The trainer is
 * one of weft_trainer_prepare. The caller frees *out, also after a failure. UNSUPPORTED: a device
 * with memory of its own. */
weft_status weft_tracks_make(weft_trainer *t, const weft_times *times, const weft_hosts *hosts,
                             weft_tracks *out) WEFT_NODISCARD;
void weft_tracks_free(weft_tracks *tracks);

/* limits.c: UNSUPPORTED: a rank has another device than the measured one. */
weft_status weft_estimate_check_devices(const weft_trainer *t) WEFT_NODISCARD;
/* Logs that keys about single messages have no effect, where the file has them. */
void weft_estimate_note_unused(const weft_context *context, const weft_cluster *cluster,
                               bool actors);
/* spans.c: plays a step once more, with no machine slower than at its best, and tells fn the spans
 * of all ranks and machines of the run. whole: with a meeting of the learners. */
weft_status weft_tracks_tell(const weft_tracks *tracks, const weft_trainer *t,
                             const weft_hosts *hosts, bool whole, weft_span_fn fn,
                             void *user) WEFT_NODISCARD;

/* The kind of a transfer in tables of times: its name and the engine, as "all_reduce threads", and
 * "all_reduce threads bf16" for sums of bf16. */
enum { WEFT_TRANSFER_KIND = 64 };
void weft_transfer_timed(weft_transfer_kind kind, weft_dtype dtype, const char *engine,
                         char out[WEFT_TRANSFER_KIND]);
/* The kind of the work of a codec there: "encode topk". */
void weft_codec_timed(bool encodes, const char *codec, char out[WEFT_TRANSFER_KIND]);
/* The kind of what a step does beside its program; its operations are the instructions, its bytes
 * those of the inputs. */
#define WEFT_STEP_TIMED "step"
/* The kinds of the share that each end has in a message: encrypted, between machines or processes,
 * and over an ipc socket; where it was not measured, passes over its bytes stand for it. */
#define WEFT_MESSAGE_TIMED "pass message"
#define WEFT_IPC_MESSAGE_TIMED "pass ipc message"

/* --- groups.c: ranks that transfer together --- */

/* The groups of ranks that transfer with each other in one way. */
typedef struct weft_rank_groups {
    int with;
    int count;
    int *of;             /* [ranks] */
    int *begin, *member; /* group g: member[begin[g]] to before member[begin[g + 1]], ascending */
} weft_rank_groups;
typedef struct weft_groups {
    weft_rank_groups *ways;
    size_t count, capacity;
} weft_groups;

/* The groups of all ways in which the tracks transfer, but for messages. */
weft_status weft_groups_make(const weft_trainer *t, const weft_tracks *tracks,
                             weft_groups *out) WEFT_NODISCARD;
void weft_groups_free(weft_groups *groups);
const weft_rank_groups *weft_groups_with(const weft_groups *groups, int with);
/* The rank at another place with the other coordinates of a rank. */
int weft_rank_at_place(const weft_trainer *t, const weft_tracks *tracks, int rank, int place);

/* --- equal_ranks.c --- */
/* Finds the ranks that are at any time in equal states, and sets rank_of, machine_of and the counts
 * of the timeline. Ranks of the timeline are in an order that does not depend on `apart`. */
weft_status weft_equal_ranks_find(const weft_trainer *t, const weft_hosts *hosts,
                                  const weft_groups *groups, weft_tracks *out) WEFT_NODISCARD;

/* --- line.c --- */
/* Makes the timeline of the ranks that differ. */
weft_status weft_line_make(const weft_trainer *t, const weft_hosts *hosts,
                           const weft_groups *groups, weft_tracks *out) WEFT_NODISCARD;

#endif
