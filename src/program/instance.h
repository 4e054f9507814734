/* Declares the inside of instances, which are programs bound to memory and to a store: their queues
 * and the order of runs on one store, work that the host puts off, steps that are queued ahead, and
 * the execution of instructions. */
#ifndef WEFT_PROGRAM_INSTANCE_H
#define WEFT_PROGRAM_INSTANCE_H

#include "program/program.h"

/* The part of an instruction that an event is. */
typedef enum trace_kind {
    TRACE_RAN,    /* its run, or the start of a transfer */
    TRACE_WAIT,   /* the wait for a transfer, or for the device */
    TRACE_QUEUED, /* the host's work to queue it */
    TRACE_DEVICE, /* its run by the device */
    TRACE_LANDED  /* the copies of the gradients that it completes to the host */
} trace_kind;
typedef struct trace_event {
    double start, duration;
    /* STEP_BEGINS: no instruction, but the begin of step `slot`; `duration` is then the instance's
     * host_seconds until there. */
    int instruction;
    int slot;
    trace_kind kind;
} trace_event;
/* The instruction of events of no instruction: a step begins; the host waits for the device; the
 * ranks of the learner sum up the loss; transfers make progress between two kernels. */
enum { STEP_BEGINS = -1, DEVICE_WAIT = -2, LOSS_SUM = -3, POLLS = -4 };

/* deferred.c: host work in the order in which it was put off, a ring of `capacity` entries. */
typedef struct deferral {
    int slot, instruction;
    bool reports;            /* gradients that the instruction completes; else it begins then */
    weft_queue_event *event; /* opened when the entry is first used */
} deferral;
typedef struct deferrals {
    deferral *ring;
    size_t begin, count, capacity;
    weft_queue *copies;   /* in which gradients are copied to the host */
    weft_memory *landing; /* host memory of all exported gradients */
    bool *landed;         /* of each exported gradient: it is there */
} deferrals;

struct weft_instance {
    weft_program *program;
    weft_store *store;
    const weft_comms *comms; /* NULL: one rank */
    bool differs; /* a sum's layouts differ between ranks; found when transfers are bound */
    int slot;     /* current micro-batch */
    bases at;
    weft_memory lent;
    weft_memory *scratch[SPACES];
    weft_queue *queue;        /* NULL: the device shares host memory */
    weft_queue *transfers;    /* of transfers on the device; NULL: there are none */
    weft_queue_event *ended;  /* end of the last run */
    bool wrote;               /* a run before `ended` wrote the store */
    weft_instance *next;      /* of the store */
    weft_queue_event *copied; /* event of all copies between spaces; NULL: one space */
    bool copying;             /* the host has not waited for the last copies yet */
    bool whole;               /* a step is queued whole: the host waits for its end alone */
    weft_bound **bound;       /* [code_count, slots] bound kernels; the update uses slot 0 */
    struct {
        int slot, instruction;
        bool deferred; /* it has not begun, since its operands are being copied to the host */
    } * pending;       /* transfers in progress, in this order */
    int pending_count;
    deferrals deferred;
    struct ahead *ahead;    /* NULL: the host waits for each step */
    int64_t replays;        /* steps that were replayed from a capture */
    double host_seconds;    /* of writing inputs and of all runs, without waits */
    double waited;          /* seconds of waits for the device and for other ranks */
    weft_listener listener; /* hooks; NULL functions without a listener */
    bool announces;         /* gradients that are made now are final: call `ready` */
    bool awaits;            /* parameters may not have arrived: call `needed` */

    trace_event *trace;
    size_t trace_count, trace_capacity;
    struct device_use *use; /* how busy and full the device is; NULL: it shares host memory */
    struct timing *traced;  /* device times of events of the trace; NULL: the host waits for them */
};

/* --- instance_queue.c: an instance has a queue of its own. Accesses to a store that could conflict
 * are ordered by events: the device waits, the host does not. --- */
weft_status weft_instance_open_queue(weft_instance *x) WEFT_NODISCARD;
/* Closes the queues, which waits for their commands also after a failure. */
void weft_instance_end_commands(weft_instance *x);
void weft_instance_close_queue(weft_instance *x);
/* Adds the instance to its store's list, or removes it. */
void weft_instance_attach(weft_instance *x);
void weft_instance_detach(weft_instance *x);
/* Makes a run wait for earlier runs of other instances that wrote the store or, if this run will
 * write it, that used it. */
weft_status weft_instance_begin_run(weft_instance *x, bool writes) WEFT_NODISCARD;
/* Records the end of what was queued; wrote: it changes the store. */
weft_status weft_instance_end_run(weft_instance *x, bool wrote) WEFT_NODISCARD;
/* Takes another event for the ends of runs. */
void weft_instance_end_in(weft_instance *x, weft_queue_event *event);
/* Waits for the instance's queue. */
weft_status weft_instance_synchronize(const weft_instance *x) WEFT_NODISCARD;

/* --- instance.c --- */
static inline weft_address weft_instance_address(const weft_instance *x, int b)
{
    return weft_buffer_address(x->program, &x->at, b, x->slot);
}

/* forget.c: after a phase, in the current slot and in one memory space. */
weft_status weft_instance_forget(const weft_instance *x, weft_phase phase,
                                 int space) WEFT_NODISCARD;

/* sequence_state.c: sets the states of sequences of a new instance to zero. */
weft_status weft_sequences_begin(weft_instance *x) WEFT_NODISCARD;

/* deferred.c: host work that waits for the device. A transfer begins once its operands have been
 * copied to the host, and the hook `ready` is called for a gradient once that has been copied,
 * while the host goes on queuing instructions. The order of all of it stays that of the program, so
 * ranks begin the same collectives in the same order. */
/* Puts off an instruction that was reached: the begin of a transfer, or (reports) the hook for
 * exported gradients whose last kernel or transfer has been queued. */
weft_status weft_deferred_add(weft_instance *x, int i, int slot, bool reports) WEFT_NODISCARD;
/* Does the work that is due; wait: all of it. The host must do all of it before it waits for
 * another rank, which may wait for one of these transfers. */
weft_status weft_deferred_advance(weft_instance *x, bool wait) WEFT_NODISCARD;
/* The host address of exported gradient k if it has been copied there in this step, or NULL. */
const void *weft_deferred_landed(const weft_instance *x, int k);
/* Forgets the copies of the last step. */
void weft_deferred_begin(weft_instance *x);
void weft_deferred_close(weft_instance *x);

/* run_ahead.c (see program.h) */
/* Closes the captures of steps; called before addresses change. */
weft_status weft_run_ahead_forget(weft_instance *x) WEFT_NODISCARD;
void weft_run_ahead_close(weft_instance *x);

/* execute.c: weft_instance_start begins a transfer. weft_instance_run_one runs instruction i in the
 * current slot; weft_instance_end_before waits for the transfers that must end before it, and
 * weft_instance_begin_phase for those that must end before a phase runs in the current slot. */
weft_status weft_instance_begin_phase(weft_instance *x, weft_phase phase) WEFT_NODISCARD;
weft_status weft_instance_start(weft_instance *x, int i, int slot) WEFT_NODISCARD;
weft_status weft_instance_end_before(weft_instance *x, int i) WEFT_NODISCARD;
weft_status weft_instance_run_one(weft_instance *x, int i) WEFT_NODISCARD;
/* Waits for an event of the device; the time is not that of the host's work. */
weft_status weft_instance_wait(weft_instance *x, weft_queue_event *event) WEFT_NODISCARD;
/* Waits for the last copy between spaces, so that the host may access its memory. */
weft_status weft_instance_wait_copies(weft_instance *x) WEFT_NODISCARD;

#endif
