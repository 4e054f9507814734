/*
 * A device implements operators as kernels and chooses how values lie in its memory.
 *
 * Lowering asks a device for a kernel per group of nodes; the kernel answers with the layouts it
 * wants. A layout is interned by its device, so two layouts are the same exactly when their
 * pointers are, except that all plain layouts of one type are the same.
 */
#ifndef WEFT_DEVICE_DEVICE_H
#define WEFT_DEVICE_DEVICE_H

#include "graph/graph.h"

enum { WEFT_GROUP_NODES = 4, WEFT_GROUP_VALUES = 24 };

typedef struct weft_device weft_device;
typedef struct weft_kernel weft_kernel;
typedef struct weft_bound weft_bound;

typedef struct weft_layout {
    size_t bytes;
    bool plain;    /* dense, row-major, in the value's own type */
    bool opaque;   /* has no plain form: only kernels of this device read it */
    char text[64]; /* for dumps, such as "plain" or "aBcd16b" */
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

/* Where value v stands among the group's inputs (or outputs); -1: not there. */
int weft_group_in(const weft_group *group, weft_value v);
int weft_group_out(const weft_group *group, weft_value v);

/* A kernel changes no more once it is made, and may be bound by several threads at once. */
typedef struct weft_kernel_ops {
    /* What one user needs to run the kernel in memory of its own. */
    weft_status (*bind)(const weft_kernel *kernel, weft_bound **out);
    void (*destroy)(weft_kernel *kernel);
} weft_kernel_ops;

typedef struct weft_bound_ops {
    /* Says where to compute, with one pointer for each of the group's inputs and outputs. Before
     * the first run, and again whenever they have changed. */
    weft_status (*place)(weft_bound *bound, void *const *in, void *const *out, void *scratch);
    /* Does not allocate. INTERNAL: the library below failed. */
    weft_status (*run)(weft_bound *bound);
    /* Waits for what `run` has only begun; NULL: run does it all. May be called without a run. */
    weft_status (*finish)(weft_bound *bound);
    /* Lets what `run` has begun go on without waiting; NULL with finish. */
    weft_status (*poll)(weft_bound *bound);
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
};

typedef struct weft_device_ops {
    const char *name;
    const char *summary;
    weft_status (*open)(weft_context *context, weft_device **out);
    void (*close)(weft_device *device);

    /* The plain layout of a type. */
    weft_status (*plain)(weft_device *device, const weft_type *type, const weft_layout **out);

    /* Whether the group can be one kernel. Lowering grows groups as long as this holds, and falls
     * back to the reference device where it does not hold for a single node. */
    bool (*supports)(weft_device *device, const weft_group *group);

    /* Makes a kernel. in[i] is the layout that input i lies in, NULL where it is still free. */
    weft_status (*kernel)(weft_device *device, const weft_group *group,
                          const weft_layout *const *in, weft_kernel **out);

    /* Copies a value of this type from one layout to another. */
    weft_status (*reorder)(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out);
} weft_device_ops;

/* The head of every device. */
struct weft_device {
    const weft_device_ops *ops;
    weft_context *context;
    int threads;
    pthread_mutex_t lock; /* of what is interned: stores of one model are read by several threads */
    weft_layout *layouts;
};

extern const weft_device_ops *const weft_devices[];
extern const weft_device_ops weft_device_reference;
extern const weft_device_ops weft_device_cpu;

weft_status weft_device_open(weft_context *context, const char *name,
                             weft_device **out) WEFT_NODISCARD;
void weft_device_close(weft_device **device);

static inline bool weft_layout_same(const weft_layout *a, const weft_layout *b)
{
    return a == b || (a->plain && b->plain);
}

/* The interned plain layout; what most devices use for their `plain`. */
weft_status weft_layout_plain(weft_device *device, const weft_type *type,
                              const weft_layout **out) WEFT_NODISCARD;

/* The plain layout of a vector whose elements stand in the order of another layout, as its text
 * says.
 */
weft_status weft_layout_flat(weft_device *device, const weft_layout *order,
                             const weft_layout **out) WEFT_NODISCARD;

/* For kernels that write all results of the group's only node: results that nobody reads go to
 * scratch memory. _size adds their bytes to the kernel's scratch; _bind fills to[] for all results
 * from the group's outputs and the end of that scratch. */
void weft_kernel_unread_size(const weft_group *group, weft_kernel *kernel);
void weft_kernel_unread_bind(const weft_group *group, const weft_kernel *kernel, void *const *out,
                             void *scratch, void **to);

/* A struct of `size` bytes, zeroed, that begins with a weft_bound; free with free(). */
weft_status weft_bound_new(const weft_kernel *kernel, const weft_bound_ops *ops, size_t size,
                           weft_bound **out) WEFT_NODISCARD;

/* In-place rights of a group of one node, as its operator declares them. */
void weft_kernel_in_place(const weft_group *group, weft_kernel *kernel);

#endif
