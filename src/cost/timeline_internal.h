/* Declares the inside of timelines. */
#ifndef WEFT_COST_TIMELINE_INTERNAL_H
#define WEFT_COST_TIMELINE_INTERNAL_H

#include "cost/timeline.h"

typedef enum line_kind { LINE_COMPUTE, LINE_START, LINE_FINISH } line_kind;
typedef struct line_task {
    line_kind kind;
    bool polls;
    int label;
    int start; /* the number of the transfer among those of the rank */
    double seconds;
} line_task;

/* The stages that a member of a transfer reaches: it has begun it, done its first part, its
 * second. */
enum { LINE_BEGUN, LINE_FIRST, LINE_SECOND, LINE_STAGES };

typedef struct line_transfer {
    weft_meeting meeting;
    int *member, count;
    int *carrier, carriers;    /* members, by their index, whose bytes cross links */
    weft_part_cost *cost;      /* [count] */
    double *reached;           /* [count, LINE_STAGES] when each member has reached a stage */
    int in[LINE_STAGES];       /* members that have reached it */
    double met[LINE_STAGES];   /* when all have, or the sender of a message has */
    double ready[LINE_STAGES]; /* when the data are then where the next stage needs them */
} line_transfer;

typedef struct line_active {
    int transfer, member, part, stage; /* part: its number among those of the rank */
} line_active;

/* A transfer that a rank begins, and its index among the members. */
typedef struct line_part {
    int transfer, member, label;
    weft_part_times times;
} line_part;

/* The rank waits for no transfer; it polls all of them next. */
enum { WAITS_NOT = -1, POLLS = -2 };
typedef struct line_rank {
    int label;           /* of the next task */
    int machine, leader; /* leader: the rank whose tasks it has, perhaps itself */
    line_task *tasks;    /* of a leader */
    size_t task_count, task_capacity, next;
    size_t mark, end; /* mark: tasks from here on are of some runs; end: of this run */
    line_part *parts; /* that it begins, in order */
    size_t part_count, part_capacity;
    line_active *active; /* transfers that it has begun and not done, oldest first */
    size_t active_count, active_capacity;
    int waits;                   /* for this transfer, or one of the following */
    double speed, clock, factor; /* factor: of the seconds that it computes */
    uint64_t stamp;              /* of its entry in the heap; others of this rank are out of date */
    weft_rank_times times;
} line_rank;

typedef struct line_link {
    weft_wire wire;
    double until[2], busy[2], bytes; /* out, in */
} line_link;

/* Events that follow from others of the same time come in a later turn. */
typedef struct line_event {
    double at;
    uint64_t stamp;
    int turn, rank;
} line_event;

typedef struct line_entry {
    uint64_t key; /* 0: free */
    int number;
} line_entry;
typedef struct line_keys {
    line_entry *entries;
    size_t count, capacity;
} line_keys;

struct weft_timeline {
    int ranks, machines;
    line_rank *rank;
    line_link *link;
    line_transfer *transfers;
    size_t transfer_count, transfer_capacity;
    line_keys keys;
    line_event *heap;
    size_t heap_count, heap_capacity;
    uint64_t stamps;
    double now; /* of the event that was taken last, and its turn */
    int turn;
    weft_line_fn fn; /* is told what happens; NULL: nobody */
    void *user;
};

#endif
