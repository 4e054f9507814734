/*
 * The interface between Weft and the implementations of devices.
 *
 * A device implements operators as kernels and chooses the layouts of values in its memory.
 * Lowering asks the device in which ways it could run a group of nodes and for the cost of each
 * way; the kernel of the chosen candidate determines the layouts of its operands. A device interns
 * its layouts, so two layouts are the same exactly when their pointers are equal, except that all
 * plain layouts of one type and one memory are the same.
 *
 * A device computes in host memory, or in memory of its own that the host cannot access. In the
 * latter case the device's operations wait in a queue, and events report its progress.
 *
 * Shapes and types are those of the graph's values (weft/types.h). A plain layout is dense and
 * row-major; any other is the device's choice. Times are in seconds, sizes in bytes. The last
 * argument of a function is an output, which is set only on success and belongs to the caller
 * unless stated otherwise; other arguments are borrowed. Functions return WEFT_OK or fail with a
 * message (services->fail, weft/services.h); without a message only the function's name is
 * reported. UNSUPPORTED: the device cannot do it; MEMORY: out of memory. Functions never print,
 * exit or abort.
 *
 * One thread at a time opens a device, asks it for kernels and closes it; several programs share
 * its kernels. docs/howto/add-a-device.md is a tutorial.
 */
#ifndef WEFT_DEVICE_OPS_H
#define WEFT_DEVICE_OPS_H

#include <pthread.h>

#include "weft/comm.h"
#include "weft/operator_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most nodes of a group; most inputs, and most outputs, of a group. */
enum { WEFT_GROUP_NODES = 16, WEFT_GROUP_VALUES = 24 };

typedef struct weft_device weft_device;
typedef struct weft_kernel weft_kernel;
typedef struct weft_bound weft_bound;
typedef struct weft_queue weft_queue;
typedef struct weft_queue_event weft_queue_event;
typedef struct weft_capture weft_capture;

/* A range of memory of a device; implementations extend the struct. */
typedef struct weft_memory {
    weft_device *device;
    /* Address of its first byte: of the host if the device shares host memory, else of the
     * device. */
    char *base;
} weft_memory;

/* A position in the memory of a device. */
typedef struct weft_address {
    weft_memory *memory;
    size_t offset;
} weft_address;

/* How a tensor lies in memory. */
typedef struct weft_layout {
    size_t bytes;
    const weft_device *memory; /* the device whose own memory it is; NULL: host memory */
    bool plain;                /* dense and row-major, in the value's own type */
    /* There is no conversion to plain: only kernels of this device read it. */
    bool opaque;
    /* Its numbers are less precise than the value's type: kernels read it, and nothing is converted
     * from it. */
    bool rounds;
    char text[64];            /* name for dumps, such as "plain" or "aBcd16b" */
    struct weft_layout *next; /* next interned layout of the device */
} weft_layout;

/* A group: nodes that run as one instruction. node[0] is the main node; the others are its
 * neighbours in the graph. */
typedef struct weft_group {
    const weft_graph *graph;
    const weft_node *node[WEFT_GROUP_NODES];
    int count;
    /* Values that the group reads from outside, without duplicates. */
    weft_value in[WEFT_GROUP_VALUES];
    int in_count;
    weft_value out[WEFT_GROUP_VALUES]; /* results of the group that are read outside */
    int out_count;
} weft_group;

/* The functions of a kernel. A kernel is immutable, so several threads may bind it at once. */
typedef struct weft_kernel_ops {
    /* Creates a bound kernel, which runs on the memory of one instance. */
    weft_status (*bind)(const weft_kernel *kernel, weft_bound **out);
    void (*destroy)(weft_kernel *kernel);
} weft_kernel_ops;

/* The functions of a bound kernel. */
typedef struct weft_bound_ops {
    /* Sets the addresses of the group's inputs and outputs, and of scratch memory. Called before
     * the first run, and again whenever an address has changed, while no run is queued. */
    weft_status (*place)(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch);
    /* Runs the kernel without allocating memory. A device with its own memory only queues the run;
     * for other devices `queue` is NULL. INTERNAL: the library that the device uses failed. */
    weft_status (*run)(weft_bound *bound, weft_queue *queue);
    /* Waits for the end of the last run; may be called without one. Only transfers of the library
     * have this function, and a program calls it for them alone: a kernel of a device leaves it
     * NULL, and has ended, or is queued, when `run` returns. */
    weft_status (*finish)(weft_bound *bound);
    /* Makes progress without waiting; *done: the last run has ended. NULL if finish is. */
    weft_status (*poll)(weft_bound *bound, bool *done);
    void (*destroy)(weft_bound *bound);
} weft_bound_ops;

/* The head of a bound kernel; implementations extend the struct. One thread at a time uses a bound
 * kernel. */
struct weft_bound {
    const weft_bound_ops *ops;
    const weft_kernel *kernel;
};

/* The head of every kernel; implementations extend the struct. */
struct weft_kernel {
    const weft_kernel_ops *ops;
    const weft_layout *in[WEFT_GROUP_VALUES];  /* layouts of the group's inputs */
    const weft_layout *out[WEFT_GROUP_VALUES]; /* layouts of its outputs */
    unsigned in_place[WEFT_GROUP_VALUES];      /* of each output; bit i: it may overlie input i */
    size_t scratch;                            /* bytes of scratch memory, which kernels share */
    char text[64];                             /* name of the implementation, for dumps */
    /* Set by the library; NULL: a transfer or a copy of the library. */
    const weft_device *device;
};

enum { WEFT_CANDIDATES = 10 }; /* most candidates for a group */

/* A candidate: a way to run a group as one kernel. */
typedef struct weft_candidate {
    const char *name; /* name of the way, for dumps */
    double seconds;   /* estimated time of one run of the kernel alone */
    const void *how;  /* identifies the way for `kernel`; private to the device */
} weft_candidate;

/* Performance of a device, for estimates of costs. The values are constants, measured once on a
 * typical machine (bench/rates.c prints them). Nothing is timed when programs are made, because the
 * ranks of a job and a resumed run must make the same choices; a table of measurements (weft train
 * --tune) replaces estimates of candidates, and leaves the rates as they are. The number of threads
 * is ignored, since it affects all candidates of a device alike. */
typedef struct weft_rates {
    double flops;        /* floating-point operations per second */
    double bytes;        /* bytes per second that it reads or writes in its memory */
    double start;        /* seconds before a kernel or a reorder begins to work */
    double copied;       /* bytes per second copied between its memory and the host's */
    double copied_start; /* latency of a copy in seconds; both 0: it shares host memory */
} weft_rates;

/* The functions of a device with memory of its own. A queue executes its operations in order, and
 * belongs to one thread at a time; any thread may wait for an event, also while another one records
 * it. Memory, events and queues belong to their device. */
typedef struct weft_memory_ops {
    /* Allocates memory, aligned to 64 bytes. Its contents are undefined: the devices of the library
     * set all of its bits, so that it holds no numbers, and a result that was read before it was
     * written shows. */
    weft_status (*allocate)(weft_device *device, size_t bytes, weft_memory **out);
    void (*release)(weft_memory *memory);
    weft_status (*open_queue)(weft_device *device, weft_queue **out);
    void (*close_queue)(weft_queue *queue);
    /* Queue a copy from host memory (copy_in), to host memory (copy_out), or within the device's
     * memory. The host must not change the memory of a copy_in, nor access that of a copy_out,
     * until it has waited for an event that is recorded later. */
    weft_status (*copy_in)(weft_queue *queue, weft_address to, const void *from, size_t bytes);
    weft_status (*copy_out)(weft_queue *queue, void *to, weft_address from, size_t bytes);
    weft_status (*copy)(weft_queue *queue, weft_address to, weft_address from, size_t bytes);
    weft_status (*open_event)(weft_device *device, weft_queue_event **out);
    void (*close_event)(weft_queue_event *event);
    /* Records the current end of the queue in the event. */
    weft_status (*record)(weft_queue *queue, weft_queue_event *event);
    /* Waits until the operations that were queued before the last record have ended; returns at
     * once if nothing was recorded. Reports the first failure of the queue. */
    weft_status (*wait)(weft_queue_event *event);
    /* Like wait, but returns at once; *done: the operations have ended. */
    weft_status (*test)(weft_queue_event *event, bool *done);
    /* Makes later operations of the queue wait for the last record of the event, which is of
     * another queue of the device or of one that it reaches, without the host. The event may be
     * recorded again at once. A failure of the other queue becomes one of this queue. */
    weft_status (*wait_queue)(weft_queue *queue, weft_queue_event *event);
    /* Allocates zeroed host memory, aligned to 64 bytes, that copies of this device are fastest
     * from and to (pinned memory). Both NULL: any host memory is as good. */
    weft_status (*allocate_host)(weft_device *device, size_t bytes, void **out);
    void (*release_host)(weft_device *device, void *data);
    /* Sets the bytes of the device's memory in all, and of those that are free now, for messages
     * and plans. NULL: unknown. */
    weft_status (*usage)(weft_device *device, size_t *total, size_t *free);
    /* Opens an event that also keeps the time of the device's clock at which it was reached. */
    weft_status (*open_timer)(weft_device *device, weft_queue_event **out);
    /* Sets the seconds from the last record of a timer to that of another one, which may be of
     * another queue of the device; the caller has waited for both. Both NULL: the device has no
     * clock, so a trace waits for each instruction, and there is no share of busy time. */
    weft_status (*elapsed)(weft_queue_event *from, weft_queue_event *to, double *seconds);
} weft_memory_ops;

/* A capture records operations of a queue, so that all of them are queued again with one call, at
 * the same addresses, in a queue of its device. The memory and the bound kernels that it names must
 * exist as long as it does. */
typedef struct weft_capture_ops {
    /* From `begin` on, kernels and copies of this thread in the queue are recorded, and not
     * executed; the thread does nothing else with the device until `end`. `end` also follows a
     * failure in between, and may then fail itself. */
    weft_status (*begin)(weft_queue *queue);
    weft_status (*end)(weft_queue *queue, weft_capture **out);
    /* Queues all that was recorded; to any queue of the device, of the thread that captured. */
    weft_status (*replay)(weft_queue *queue, weft_capture *capture);
    /* No replay may be queued. */
    void (*close)(weft_capture *capture);
} weft_capture_ops;

/* Collectives between ranks with a device each, by a library of the device in place of copies and
 * sums of the ranks' own. Its order of additions is its own; all ranks get the same bits. One
 * thread at a time uses a communicator of such a library, and no function waits for other ranks
 * except `close`. */
typedef struct weft_collective weft_collective;
enum { WEFT_COLLECTIVE_ID = 128 }; /* bytes */
typedef struct weft_collective_ops {
    /* Name and version of the library, such as "nccl 2.32.3", if the device was told to use it,
     * else NULL; valid while the device is open. */
    const char *(*library)(const weft_device *device);
    /* Writes a text of less than `size` bytes that names the hardware among all hosts: two ranks
     * must not have one device. */
    weft_status (*identify)(const weft_device *device, char *out, size_t size);
    /* Makes the name of a new communicator, on one rank, which gives it to the others. */
    weft_status (*invite)(weft_device *device, char id[WEFT_COLLECTIVE_ID]);
    /* Begins to open the communicator; all its ranks do so. `poll` says when
     * it is open. */
    weft_status (*open)(weft_device *device, const char *id, int ranks, int rank,
                        weft_collective **out);
    /* *done: it is open, and what was queued is in its queue. Fails if an operation has failed
     * since, also on the device: PEER: because of another rank. */
    weft_status (*poll)(weft_collective *collective, bool *done);
    /* Queues WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER or WEFT_ALL_TO_ALL, of any type
     * of numbers; counts: [2 ranks], sent and received, as in the transfer. The operation is in the
     * queue when `poll` has said so. */
    weft_status (*queue)(weft_collective *collective, const weft_transfer *transfer,
                         const int64_t *counts, weft_address send, weft_address receive,
                         weft_queue *queue);
    /* Makes what is queued end, whatever other ranks do; the results are undefined. */
    void (*give_up)(weft_collective *collective);
    void (*close)(weft_collective *collective);
} weft_collective_ops;

/* The functions of a kind of devices. */
typedef struct weft_device_ops {
    size_t struct_size;            /* sizeof(weft_device_ops) */
    const char *name;              /* name in the registry */
    const char *summary;           /* one sentence for lists */
    const weft_memory_ops *memory; /* NULL: the device computes in host memory, synchronously */
    /* Opens a device: allocates a struct that begins with a weft_device, in which only `threads`
     * must be set. arguments: the text after "NAME:", or "". ARGUMENT: unknown arguments. */
    weft_status (*open)(weft_context *context, const char *arguments, weft_device **out);
    /* Closes a device: frees its struct. Its kernels, memory and layouts have been freed before. */
    void (*close)(weft_device *device);

    /* Sets *out to the interned plain layout of a type. */
    weft_status (*plain)(weft_device *device, const weft_type *type, const weft_layout **out);

    weft_rates rates; /* flops and bytes must be above 0 */

    /* Lists the ways to run the group as one kernel, the better of equally fast ones first, and
     * returns their number; 0: none. Lowering adds a neighbour to a group as long as there is a
     * candidate that costs no more than the parts apart. For the final group it chooses the
     * cheapest candidate, with the cost of converting operands. Candidates of the devices along
     * `next` take part too, with an extra millisecond, so that work stays on this device. in[i] is
     * the layout of input i; NULL: it is free, or not known yet. */
    int (*candidates)(weft_device *device, const weft_group *group, const weft_layout *const *in,
                      weft_candidate out[WEFT_CANDIDATES]);

    /* Makes the kernel of a candidate. UNSUPPORTED: this candidate is impossible after all;
     * lowering tries the next one. */
    weft_status (*kernel)(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out);

    /* Makes a kernel that copies a value of this type from one layout to another. */
    weft_status (*reorder)(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out);

    /* Name of the device, in host memory, that computes the groups for which this device has no
     * kernel, and so on along its own `next`; NULL: "reference", which has every operator. */
    const char *next;

    /* How the device computes with values of a real type, for the log of a run in that type, such
     * as "the processor has AVX512-BF16, which computes products". Constant text; NULL, also as the
     * function: devices along `next` compute with it. */
    const char *(*precision)(const weft_device *device, weft_dtype dtype);

    /* Writes, as a text of less than `size` bytes, the hardware and the version of what computes on
     * it: devices with equal texts give the same bits. NULL: the name of the device. */
    void (*hardware)(const weft_device *device, char *out, size_t size);

    /* With the next two the host queues a step before it knows the loss of the one before it, and a
     * loss that is not finite stops on the device what follows. NULL: the host waits for each loss.
     *
     * Makes a kernel of one input, plain numbers of this type in the device's memory, and one
     * output, a 32-bit integer there, which it sets to 1 if a number is not finite, and otherwise
     * leaves as it is. UNSUPPORTED: not for this type. */
    weft_status (*watch)(weft_device *device, const weft_type *type, weft_kernel **out);
    /* From the next `place` on, runs of a bound kernel of this device write nothing if the 32-bit
     * integer at `flag`, in its memory, is not 0 when they are executed; flag.memory NULL: they
     * always write, as at first. UNSUPPORTED: this kernel cannot. */
    weft_status (*guard)(weft_bound *bound, weft_address flag);
    const weft_capture_ops *capture; /* NULL: each step is queued anew */

    /* The hardware of an open device, and what its results depend on, such as the libraries that it
     * uses with their versions; the device's, while it is open. NULL: there is nothing to say. */
    const char *(*about)(const weft_device *device);

    /* Whether copies and kernels of `device`, which has memory of its own, can read memory of
     * `other`, another device of this kind in this process, and its queues wait for events of
     * `other`. Asked once for each pair of ranks, before either uses the other's memory; it may
     * prepare the access. NULL: never. */
    bool (*reaches)(weft_device *device, weft_device *other);
    const weft_collective_ops *collectives; /* NULL: it has no library for them */
    /* The address of a position in the device's memory (without memory: none), and its kind, for
     * communicators that read and write such memory once the host has waited for the device. NULL:
     * none does. */
    void *(*pointer)(weft_address address, weft_pointer_kind *kind);

    /* For devices of tests: queues that memory holds no numbers, since what lies there is not read
     * before it is written. Host memory of the device's programs is treated likewise. NULL: it
     * stays as it is. */
    weft_status (*forget)(weft_queue *queue, weft_address at, size_t bytes);
} weft_device_ops;

/* The head of every device; implementations extend the struct. */
struct weft_device {
    /* Set by the library after `open`, like context, lock and layouts. */
    const weft_device_ops *ops;
    weft_context *context;
    int threads; /* threads that its kernels use: 1 to weft_context_threads */
    /* Interned layouts and their lock, since several threads read the stores of one model. Layouts
     * are allocated with malloc, and the library frees them. */
    pthread_mutex_t lock;
    weft_layout *layouts;
    /* Set by `open`: the hardware and its driver, if they are not the processor of the host, so
     * that times measured on other hardware are told apart; valid while the device is open. NULL:
     * the host's processor. */
    const char *hardware;
    /* Set by the library: kernels are chosen by measured times, so `candidates` may list ways that
     * no estimate tells apart, such as sizes of tiles. */
    bool tuned;
    /* Set by the library while the device may wait for other ranks; each wait of the host for an
     * event calls it now and then, with the seconds that it has waited; the call fails once these
     * ranks have left, and has then made the device give up. NULL: the device waits for nobody. */
    weft_status (*waiting)(void *user, double seconds);
    void *waiting_user;
};

/* The host address of a position. Only for memory of devices that share host memory. */
static inline void *weft_host(weft_address address)
{
    /* Computes with integers, since a program that is only planned has addresses without memory. */
    return address.memory ? (void *)((uintptr_t)address.memory->base + address.offset) : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
