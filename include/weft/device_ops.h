/*
 * What a device is made of: the interface between Weft and those who compute for it.
 *
 * A device implements operators as kernels and chooses how values lie in its memory. Lowering asks
 * it in which ways it could run a group of nodes and what each would cost; the kernel of one of
 * them answers with the layouts it wants. A layout is interned by its device, so two layouts are
 * the same exactly when their pointers are, except that all plain layouts of one type and one
 * memory are the same.
 *
 * A device computes in the host's memory, or in memory of its own that the host cannot look at.
 * Then what it is asked to run waits in a queue, and events tell how far that has come.
 *
 * Shapes and types are those of the graph's values (weft/types.h): dense and row-major where a
 * layout is plain, and otherwise as the device likes. Times are in seconds, sizes in bytes. What a
 * function hands out in its last argument it sets only if it succeeds, and belongs to the caller
 * unless something else is said; what it is handed it only borrows. Functions return WEFT_OK or
 * fail with a message (services->fail, weft/services.h), without which only the function is told;
 * UNSUPPORTED says that the device cannot do it, MEMORY that there is not enough. They print
 * nothing and end nothing.
 *
 * A device is opened, asked for kernels and closed by one thread at a time; several programs share
 * what it makes. docs/howto/add-a-device.md goes through it.
 */
#ifndef WEFT_DEVICE_OPS_H
#define WEFT_DEVICE_OPS_H

#include <pthread.h>

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a graph; services tell what it does. */
typedef struct weft_node weft_node;

enum { WEFT_GROUP_NODES = 4, WEFT_GROUP_VALUES = 24 };

typedef struct weft_device weft_device;
typedef struct weft_kernel weft_kernel;
typedef struct weft_bound weft_bound;
typedef struct weft_queue weft_queue;
typedef struct weft_queue_event weft_queue_event;

/* A range of memory of a device; implementations extend it. */
typedef struct weft_memory {
    weft_device *device;
    char *base; /* where it begins: for the host where the device shares its memory, else only for
                 * the device */
} weft_memory;

/* A place in it. */
typedef struct weft_address {
    weft_memory *memory;
    size_t offset;
} weft_address;

typedef struct weft_layout {
    size_t bytes;
    const weft_device *memory; /* the only one that reads it; NULL: it lies in the host's memory */
    bool plain;                /* dense, row-major, in the value's own type */
    bool opaque;               /* has no plain form: only kernels of this device read it */
    char text[64];             /* for dumps, such as "plain" or "aBcd16b" */
    struct weft_layout *next;
} weft_layout;

/* Nodes that run as one instruction. node[0] is the main one; the others are its neighbours. */
typedef struct weft_group {
    const weft_graph *graph;
    const weft_node *node[WEFT_GROUP_NODES];
    int count;
    weft_value in[WEFT_GROUP_VALUES]; /* values from outside, each once */
    int in_count;
    weft_value out[WEFT_GROUP_VALUES]; /* values that others read */
    int out_count;
} weft_group;

/* A kernel changes no more once it is made, and may be bound by several threads at once. */
typedef struct weft_kernel_ops {
    /* What one user needs to run the kernel in memory of its own. */
    weft_status (*bind)(const weft_kernel *kernel, weft_bound **out);
    void (*destroy)(weft_kernel *kernel);
} weft_kernel_ops;

typedef struct weft_bound_ops {
    /* Says where to compute, with one address for each of the group's inputs and outputs. Before
     * the first run, and again whenever they have changed; nothing of it is in a queue then. */
    weft_status (*place)(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch);
    /* Does not allocate. A device with memory of its own only puts it into the queue; for others
     * that is NULL. INTERNAL: the library below failed. */
    weft_status (*run)(weft_bound *bound, weft_queue *queue);
    /* Waits for what `run` has only begun; NULL: run does it all. May be called without a run. */
    weft_status (*finish)(weft_bound *bound);
    /* Lets what `run` has begun go on without waiting; *done: there is nothing left to wait for.
     * NULL with finish. */
    weft_status (*poll)(weft_bound *bound, bool *done);
    void (*destroy)(weft_bound *bound);
} weft_bound_ops;

/* The head of what runs; implementations extend it. One thread at a time. */
struct weft_bound {
    const weft_bound_ops *ops;
    const weft_kernel *kernel;
};

/* The head of every kernel; implementations extend it. */
struct weft_kernel {
    const weft_kernel_ops *ops;
    const weft_layout *in[WEFT_GROUP_VALUES];
    const weft_layout *out[WEFT_GROUP_VALUES];
    unsigned in_place[WEFT_GROUP_VALUES]; /* bit i: output may lie over input i */
    size_t scratch;                       /* bytes of scratch memory, shared with other kernels */
    char text[64];                        /* which implementation, for dumps */
    const weft_device *device;            /* filled in by the library; NULL: of none */
};

enum { WEFT_CANDIDATES = 8 };

/* A way to run a group as one kernel. */
typedef struct weft_candidate {
    const char *name; /* for dumps */
    double seconds;   /* of one run of the kernel alone, estimated */
    const void *how;  /* the device's own: which of its ways this is */
} weft_candidate;

/* What a device can do, for estimates. Constants, measured once on a machine like those it is for
 * (bench/rates.c prints them): ranks of a job and a run that is resumed have to choose alike, so
 * nothing is timed when programs are made, and the number of threads, which helps all candidates of
 * a device, does not count. */
typedef struct weft_rates {
    double flops;        /* floating point operations a second */
    double bytes;        /* of its memory read or written in a second */
    double start;        /* seconds before a kernel or a reorder does anything */
    double copied;       /* bytes between its memory and the host's in a second; */
    double copied_start; /* seconds before; both 0 where it shares the host's */
} weft_rates;

/* What a device does that has memory of its own. Queues do things in the order in which they were
 * asked to, and belong to one thread at a time; memory, events and queues to their device. */
typedef struct weft_memory_ops {
    /* Zeroed, aligned to 64 bytes. */
    weft_status (*allocate)(weft_device *device, size_t bytes, weft_memory **out);
    void (*release)(weft_memory *memory);
    weft_status (*open_queue)(weft_device *device, weft_queue **out);
    void (*close_queue)(weft_queue *queue);
    /* Put into the queue: host memory must stay as it is (copy_in) or alone (copy_out) until an
     * event that was recorded later has been waited for. */
    weft_status (*copy_in)(weft_queue *queue, weft_address to, const void *from, size_t bytes);
    weft_status (*copy_out)(weft_queue *queue, void *to, weft_address from, size_t bytes);
    weft_status (*copy)(weft_queue *queue, weft_address to, weft_address from, size_t bytes);
    weft_status (*open_event)(weft_device *device, weft_queue_event **out);
    void (*close_event)(weft_queue_event *event);
    /* The event stands for all that is in the queue by now. */
    weft_status (*record)(weft_queue *queue, weft_queue_event *event);
    /* Until what it stood for when it was last recorded has been done; nothing, if it never was.
     * The first failure of what was in the queue is told here. */
    weft_status (*wait)(weft_queue_event *event);
} weft_memory_ops;

typedef struct weft_device_ops {
    size_t struct_size; /* sizeof(weft_device_ops) */
    const char *name;
    const char *summary;           /* one sentence */
    const weft_memory_ops *memory; /* NULL: it computes in the host's memory, at once */
    /* Makes a struct that begins with a weft_device, of which only `threads` has to be filled in.
     * arguments: what stands behind "NAME:", or ""; what it does not know it refuses. ARGUMENT. */
    weft_status (*open)(weft_context *context, const char *arguments, weft_device **out);
    /* Frees that struct. Kernels and memory of it are gone by then, and what has been interned. */
    void (*close)(weft_device *device);

    /* The plain layout of a type. */
    weft_status (*plain)(weft_device *device, const weft_type *type, const weft_layout **out);

    weft_rates rates; /* flops and bytes above 0 */

    /* Writes in which ways the group can be one kernel, the better of equal ones first, and returns
     * how many they are. 0: it cannot; lowering grows groups as long as it can and that costs no
     * more than the parts, and of all candidates, those of the reference device included, takes
     * the one that costs least with what its operands take to be where it wants them. in[i] is the
     * layout that input i lies in, NULL where that is still free or not known yet. */
    int (*candidates)(weft_device *device, const weft_group *group, const weft_layout *const *in,
                      weft_candidate out[WEFT_CANDIDATES]);

    /* Makes the kernel of a candidate. UNSUPPORTED: not after all; the next one is asked for. */
    weft_status (*kernel)(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out);

    /* Copies a value of this type from one layout to another. */
    weft_status (*reorder)(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out);
} weft_device_ops;

/* The head of every device; implementations extend it. */
struct weft_device {
    const weft_device_ops *ops; /* filled in by the library, when `open` has returned, as are: */
    weft_context *context;
    int threads; /* that its kernels use, at least 1; weft_context_threads are to be had */
    /* What is interned, and its lock: stores of one model are read by several threads. Layouts are
     * made with malloc and freed by the library. */
    pthread_mutex_t lock;
    weft_layout *layouts;
};

/* Where the host finds it. Only for memory of devices that share the host's. */
static inline void *weft_host(weft_address address)
{
    /* As numbers: a program that is only planned has addresses in no memory at all. */
    return address.memory ? (void *)((uintptr_t)address.memory->base + address.offset) : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
