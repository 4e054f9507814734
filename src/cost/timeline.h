/* Declares timelines: a step of all ranks with durations in the place of numbers. Each rank has a
 * list of tasks; transfers tie the lists together as a communicator does: a rank takes part in a
 * transfer when it polls, between its tasks, or when it waits. */
#ifndef WEFT_COST_TIMELINE_H
#define WEFT_COST_TIMELINE_H

#include "base/base.h"

typedef struct weft_timeline weft_timeline;

/* A network between machines. Each machine sends one message at a time and receives one at a time,
 * so no link carries more than its bandwidth times the time. */
typedef struct weft_wire {
    double latency;   /* seconds */
    double bandwidth; /* bytes a second, each way; 0: unlimited */
} weft_wire;

/* Ranks that do the same at the same time may be one rank here, and so may their machines
 * (weft_timeline_carriers). machine: [ranks] the machine of each rank; wires: [machines] the end of
 * each machine. The lowest of ranks with events at the same time goes first. */
weft_status weft_timeline_new(int ranks, const int *machine, int machines, const weft_wire *wires,
                              weft_timeline **out) WEFT_NODISCARD;
void weft_timeline_free(weft_timeline **timeline);

/* The rank has the tasks of another one, which has them all already; the transfers that it begins
 * are given by weft_timeline_start, in the order of the other's. */
void weft_timeline_follow(weft_timeline *t, int rank, int leader);
/* The rank computes so many times as fast as its tasks say; 1 if it is not called. */
void weft_timeline_speed(weft_timeline *t, int rank, double speed);

/* The rank computes for so many seconds; it polls transfers afterwards, if `polls`. */
weft_status weft_timeline_compute(weft_timeline *t, int rank, double seconds,
                                  bool polls) WEFT_NODISCARD;

/* The part of a rank in a transfer. */
typedef struct weft_part_cost {
    double work;     /* seconds of the rank's processor in each stage */
    double bytes[2]; /* that it sends to, and receives from, other machines in each stage */
    double rounds;   /* of messages in each stage, each of which takes the latency; 0: one */
} weft_part_cost;
/* The kinds of transfers, by what a rank waits for. */
typedef enum weft_meeting {
    WEFT_MEET_ONCE,  /* a collective: a part is worked on when all ranks are in it */
    WEFT_MEET_TWICE, /* as an all-reduce: sums of parts, then their copies */
    WEFT_MEET_PASS   /* a message: member 0 sends, member 1 receives */
} weft_meeting;
/* Begins a transfer. Ranks that give the same key, each as often as the others before, are in it;
 * `members` lists them, the same for all. *out: its number among those of the rank, for
 * weft_timeline_finish. */
weft_status weft_timeline_start(weft_timeline *t, int rank, uint64_t key, weft_meeting meeting,
                                const int *members, int count, const weft_part_cost *cost,
                                int *out) WEFT_NODISCARD;
weft_status weft_timeline_finish(weft_timeline *t, int rank, int transfer) WEFT_NODISCARD;
/* The ranks whose bytes cross links in a transfer that a rank has begun, in order: a rank that
 * stands for several on one machine is listed once for each. Without this, its members. */
weft_status weft_timeline_carriers(weft_timeline *t, int rank, int transfer, const int *carriers,
                                   int count) WEFT_NODISCARD;

/* The following tasks of the rank are those of some runs alone. */
void weft_timeline_mark(weft_timeline *t, int rank);

/* The times of a rank: its end, and the seconds in which it computed, worked on transfers, and
 * waited. */
typedef struct weft_rank_times {
    double end, computed, transferred, waited;
} weft_rank_times;
/* The times of a rank in one of its transfers: the seconds in which it worked on it, waited for the
 * data of all ranks, which were under way, and waited for other ranks. Their sums are its
 * `transferred` and `waited`. */
typedef struct weft_part_times {
    double worked, linked, waited;
} weft_part_times;
/* The label of the following tasks and transfers of a rank, for weft_timeline_watch; 0 if it is not
 * called. */
void weft_timeline_label(weft_timeline *t, int rank, int label);
/* The acts of a rank, and of a machine's link. A rank waits until the last rank has ended. label:
 * of the task, or of the transfer; of waits and links 0. */
typedef enum weft_line_act {
    WEFT_LINE_COMPUTES,
    WEFT_LINE_TRANSFERS,
    WEFT_LINE_WAITS,
    WEFT_LINE_SENDS,
    WEFT_LINE_RECEIVES
} weft_line_act;
typedef void (*weft_line_fn)(void *user, weft_line_act act, int where, int label, double start,
                             double end);
/* From now on runs tell fn all that happens, each rank's in order; NULL: no longer. */
void weft_timeline_watch(weft_timeline *t, weft_line_fn fn, void *user);

/* Runs all tasks from time 0, any number of times; whole: also those behind a mark. factors:
 * [ranks] how many times as long each rank computes this time; NULL: all 1. INTERNAL: ranks wait
 * for each other for ever, or a link has carried more than it can. */
weft_status weft_timeline_run(weft_timeline *t, bool whole, const double *factors) WEFT_NODISCARD;
weft_rank_times weft_timeline_rank(const weft_timeline *t, int rank);
weft_part_times weft_timeline_part(const weft_timeline *t, int rank, int transfer);
/* The tasks that are kept, and the ranks times tasks of a run. */
size_t weft_timeline_tasks(const weft_timeline *t);
double weft_timeline_events(const weft_timeline *t);
/* Bytes that a machine has sent to others, and the seconds in which its link was busy. */
void weft_timeline_link(const weft_timeline *t, int machine, double *bytes, double *busy);

#endif
