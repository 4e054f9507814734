/*
 * The interface between Weft and the implementations of devices.
 *
 * A device implements operators as kernels and chooses the layouts of values in its memory.
 * Lowering asks it in which ways it could run a group of nodes and for the cost of each; the kernel
 * of the chosen candidate determines its layouts. Layouts are interned by their device, so two
 * layouts are the same exactly when their pointers are, except that all plain layouts of one type
 * and one memory are the same.
 *
 * A device computes in host memory, or in its own memory that the host cannot access. In the latter
 * case its operations wait in a queue, and events report its progress.
 *
 * Shapes and types are those of the graph's values (weft/types.h): dense and row-major in a plain
 * layout, otherwise as the device chooses. Times are in seconds, sizes in bytes. The last argument
 * is an output that is set only on success and belongs to the caller unless stated otherwise; other
 * arguments are borrowed. Functions return WEFT_OK or fail with a message (services->fail,
 * weft/services.h), without which only the function is reported. UNSUPPORTED: the device cannot do
 * it; MEMORY: out of memory. They never print, exit or abort.
 *
 * A device is opened, asked for kernels and closed by one thread at a time; several programs share
 * its kernels. docs/howto/add-a-device.md is a tutorial.
 */
#ifndef WEFT_DEVICE_OPS_H
#define WEFT_DEVICE_OPS_H

#include <pthread.h>

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A node of a graph; services describe it. */
typedef struct weft_node weft_node;

enum { WEFT_GROUP_NODES = 4, WEFT_GROUP_VALUES = 24 };

typedef struct weft_device weft_device;
typedef struct weft_kernel weft_kernel;
typedef struct weft_bound weft_bound;
typedef struct weft_queue weft_queue;
typedef struct weft_queue_event weft_queue_event;

/* A range of device memory; implementations extend it. */
typedef struct weft_memory {
    weft_device *device;
    char *base; /* its beginning: a host address if the device shares host memory, else a device
                   address */
} weft_memory;

/* A position in memory. */
typedef struct weft_address {
    weft_memory *memory;
    size_t offset;
} weft_address;

typedef struct weft_layout {
    size_t bytes;
    const weft_device *memory; /* the only device that reads it; NULL: in host memory */
    bool plain;                /* dense, row-major, in the value's own type */
    bool opaque;               /* has no plain form: only kernels of this device read it */
    char text[64];             /* for dumps, such as "plain" or "aBcd16b" */
    struct weft_layout *next;
} weft_layout;

/* Nodes that run as one instruction. node[0] is the main node; the others are its neighbours. */
typedef struct weft_group {
    const weft_graph *graph;
    const weft_node *node[WEFT_GROUP_NODES];
    int count;
    weft_value in[WEFT_GROUP_VALUES]; /* values from outside, without duplicates */
    int in_count;
    weft_value out[WEFT_GROUP_VALUES]; /* values that are read outside */
    int out_count;
} weft_group;

/* A kernel is immutable, and may be bound by several threads at once. */
typedef struct weft_kernel_ops {
    /* Creates a bound kernel, for one user's memory. */
    weft_status (*bind)(const weft_kernel *kernel, weft_bound **out);
    void (*destroy)(weft_kernel *kernel);
} weft_kernel_ops;

typedef struct weft_bound_ops {
    /* Sets the addresses of the group's inputs and outputs. Called before the first run, and again
     * whenever they have changed, while no run is queued. */
    weft_status (*place)(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch);
    /* Does not allocate. A device with its own memory only queues it; for other devices `queue` is
     * NULL. INTERNAL: the library below failed. */
    weft_status (*run)(weft_bound *bound, weft_queue *queue);
    /* Waits for the end of a run that is asynchronous; NULL: runs are synchronous. May be called
     * without a run. */
    weft_status (*finish)(weft_bound *bound);
    /* Makes progress without waiting; *done: there is nothing left to wait for. NULL if finish
     * is. */
    weft_status (*poll)(weft_bound *bound, bool *done);
    void (*destroy)(weft_bound *bound);
} weft_bound_ops;

/* The head of a bound kernel; implementations extend it. Used by one thread at a time. */
struct weft_bound {
    const weft_bound_ops *ops;
    const weft_kernel *kernel;
};

/* The head of every kernel; implementations extend it. */
struct weft_kernel {
    const weft_kernel_ops *ops;
    const weft_layout *in[WEFT_GROUP_VALUES];
    const weft_layout *out[WEFT_GROUP_VALUES];
    unsigned in_place[WEFT_GROUP_VALUES]; /* bit i: the output may overlie input i */
    size_t scratch;                       /* bytes of scratch memory, shared with other kernels */
    char text[64];                        /* implementation, for dumps */
    const weft_device *device;            /* set by the library; NULL: none */
};

enum { WEFT_CANDIDATES = 8 };

/* A way to run a group as one kernel. */
typedef struct weft_candidate {
    const char *name; /* for dumps */
    double seconds;   /* estimate for one run of the kernel alone */
    const void *how;  /* private to the device: identifies the way */
} weft_candidate;

/* Performance of a device, for estimates. The values are constants, measured once on a typical
 * machine (bench/rates.c prints them): ranks of a job and a resumed run must make the same choices,
 * so nothing is timed when programs are made. The number of threads is ignored, since it affects
 * all candidates of a device. */
typedef struct weft_rates {
    double flops;        /* floating-point operations a second */
    double bytes;        /* of its memory, read or written in a second */
    double start;        /* seconds before a kernel or a reorder does anything */
    double copied;       /* bytes a second between its memory and the host's; */
    double copied_start; /* latency in seconds; both 0 if it shares host memory */
} weft_rates;

/* Operations of a device with its own memory. A queue executes its operations in order, and belongs
 * to one thread at a time; memory, events and queues belong to their device. */
typedef struct weft_memory_ops {
    /* Allocates zeroed memory, aligned to 64 bytes. */
    weft_status (*allocate)(weft_device *device, size_t bytes, weft_memory **out);
    void (*release)(weft_memory *memory);
    weft_status (*open_queue)(weft_device *device, weft_queue **out);
    void (*close_queue)(weft_queue *queue);
    /* Queue a copy: host memory must not be changed (copy_in) or accessed (copy_out) until an event
     * that is recorded later has been waited for. */
    weft_status (*copy_in)(weft_queue *queue, weft_address to, const void *from, size_t bytes);
    weft_status (*copy_out)(weft_queue *queue, void *to, weft_address from, size_t bytes);
    weft_status (*copy)(weft_queue *queue, weft_address to, weft_address from, size_t bytes);
    weft_status (*open_event)(weft_device *device, weft_queue_event **out);
    void (*close_event)(weft_queue_event *event);
    /* Records the current end of the queue in the event. */
    weft_status (*record)(weft_queue *queue, weft_queue_event *event);
    /* Waits until the operations before the last record have finished; returns at once if there was
     * none. Reports the first failure of the queue. */
    weft_status (*wait)(weft_queue_event *event);
} weft_memory_ops;

typedef struct weft_device_ops {
    size_t struct_size; /* sizeof(weft_device_ops) */
    const char *name;
    const char *summary;           /* one sentence */
    const weft_memory_ops *memory; /* NULL: it computes in host memory, synchronously */
    /* Allocates a struct that begins with a weft_device, in which only `threads` must be set.
     * arguments: the text after "NAME:", or "". ARGUMENT: unknown arguments. */
    weft_status (*open)(weft_context *context, const char *arguments, weft_device **out);
    /* Frees that struct, after its kernels, memory and layouts have been freed. */
    void (*close)(weft_device *device);

    /* The plain layout of a type. */
    weft_status (*plain)(weft_device *device, const weft_type *type, const weft_layout **out);

    weft_rates rates; /* flops and bytes above 0 */

    /* Lists the ways to run the group as one kernel, the better of equally fast ones first, and
     * returns their number. 0: none. Lowering grows a group as long as there is a candidate that
     * costs no more than the parts, and chooses the cheapest candidate, including those of the
     * reference device and the cost of converting operands. in[i] is the layout of input i, NULL if
     * it is free or not known yet. */
    int (*candidates)(weft_device *device, const weft_group *group, const weft_layout *const *in,
                      weft_candidate out[WEFT_CANDIDATES]);

    /* Makes the kernel of a candidate. UNSUPPORTED: it is impossible after all, and the next
     * candidate is tried. */
    weft_status (*kernel)(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out);

    /* Copies a value of this type from one layout to another. */
    weft_status (*reorder)(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out);
} weft_device_ops;

/* The head of every device; implementations extend it. */
struct weft_device {
    const weft_device_ops *ops; /* set by the library after `open`, like the following: */
    weft_context *context;
    int threads; /* that its kernels use, at least 1; at most weft_context_threads */
    /* Interned layouts and their lock: stores of one model are read by several threads. Layouts are
     * allocated with malloc and freed by the library. */
    pthread_mutex_t lock;
    weft_layout *layouts;
};

/* The host address. Only for memory of devices that share host memory. */
static inline void *weft_host(weft_address address)
{
    /* Uses integers, since a program that is only planned has addresses without memory. */
    return address.memory ? (void *)((uintptr_t)address.memory->base + address.offset) : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
