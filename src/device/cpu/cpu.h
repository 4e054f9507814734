/* Internals of the cpu device: oneDNN primitives for compute-bound operators, plain loops for those
 * that pass over memory once. */
#ifndef WEFT_DEVICE_CPU_H
#define WEFT_DEVICE_CPU_H

#include "device/cpu/onednn.h"
#include "device/device.h"

typedef struct cpu_device {
    weft_device head;
    onednn *library;
} cpu_device;

static inline onednn *cpu_onednn(weft_device *device)
{
    return ((cpu_device *)device)->library;
}

/* A layout that is not plain. `plain` describes the value in its plain layout, with the logical
 * dimensions of md: dense weights are [k, n] for us and (n, k) for oneDNN. */
typedef struct cpu_layout {
    weft_layout head;
    cpu_md md, plain;
} cpu_layout;

/* --- descriptors --- */

/* Row-major f32 of these dimensions. */
weft_status cpu_md_plain(weft_device *device, int rank, const int64_t *dim,
                         cpu_md *out) WEFT_NODISCARD;
weft_status cpu_md_of_type(weft_device *device, const weft_type *type, cpu_md *out) WEFT_NODISCARD;
/* The descriptor of a value in `layout`, whose plain descriptor is `plain`; `plain` itself if the
 * layout is unknown or has other dimensions. */
cpu_md cpu_md_of(const weft_layout *layout, cpu_md plain);
/* The layout for a descriptor. opaque: only this device's kernels read it. */
weft_status cpu_layout_of(weft_device *device, cpu_md md, cpu_md plain, bool opaque,
                          const weft_layout **out) WEFT_NODISCARD;

/* Whether the channels, the second axis, and no other axis are in blocks of 16. */
bool cpu_in_channel_blocks(cpu_md md);

/* A value [b, c, rest] whose channels may be blocked: element (b, c, i) of a plane of `inner`
 * positions is at b * batch + c / block * channel + i * step + c % block. */
typedef struct cpu_planes {
    int64_t batch_count, channel_count, inner;
    int64_t batch, channel, step, block;
} cpu_planes;
/* false: the layout is not of that form. */
bool cpu_planes_of(const weft_type *type, const weft_layout *layout, cpu_planes *out);

/* --- kernels that are one primitive --- */

enum { CPU_MAX_ARGS = 12 };
typedef enum cpu_place { CPU_IN, CPU_OUT, CPU_SCRATCH, CPU_SCALE, CPU_SHIFT } cpu_place;

/* A batch normalisation with given statistics that is folded into the preceding primitive: before
 * each run its four vectors become a scale and a shift for each channel, in scratch memory. */
typedef struct cpu_fold {
    int64_t channels; /* 0: none is folded */
    double epsilon;
    int operand[4]; /* indices of the group's inputs gamma, beta, mean, variance */
    size_t offset;  /* in scratch memory */
} cpu_fold;

typedef struct cpu_primitive {
    weft_kernel head;
    weft_device *device;
    onednn_primitive *primitive;
    struct {
        onednn_role role;
        cpu_md md;
        cpu_place place;
        int index;
    } args[CPU_MAX_ARGS];
    int count;
    cpu_fold fold;
} cpu_primitive;

/* An operand of a primitive: its role, and the group's input or output. */
typedef struct cpu_arg {
    onednn_role role;
    cpu_place place; /* CPU_IN or CPU_OUT */
    int operand;
    cpu_md plain;
    bool opaque;
} cpu_arg;

/* Creates a kernel from a described primitive, which it takes over in any case. */
weft_status cpu_primitive_make(weft_device *device, onednn_primitive *described,
                               const cpu_arg *args, int count, weft_kernel **out) WEFT_NODISCARD;
/* The same, and describes the primitive. */
weft_status cpu_spec_make(weft_device *device, const onednn_spec *spec, const cpu_arg *args,
                          int count, weft_kernel **out) WEFT_NODISCARD;

/* --- kernels that are a loop --- */

typedef struct cpu_loop cpu_loop;
typedef void (*cpu_loop_fn)(const cpu_loop *loop);
struct cpu_loop {
    weft_kernel head;
    cpu_loop_fn fn;
    weft_group group;
    const void *in[WEFT_GROUP_VALUES]; /* of the node's operands, while it is bound */
    void *out[WEFT_MAX_OUTPUTS];
    void *scratch;
    int64_t size; /* elements of the first operand in memory, including padding */
    int threads;
    cpu_planes planes;
};

/* Creates a kernel for the group's single node; layouts are set in `head`. */
weft_status cpu_loop_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                          cpu_loop **out) WEFT_NODISCARD;

/* --- implementations, by operator --- */

typedef struct cpu_entry {
    const char *op;   /* of the group's main node; each row is a candidate */
    const char *name; /* for dumps */
    bool (*supports)(const weft_group *group);
    weft_status (*make)(weft_device *device, const weft_group *group, const weft_layout *const *in,
                        weft_kernel **out);
    /* NULL: by the device's rates. */
    double (*seconds)(const weft_group *group, const weft_layout *const *in);
} cpu_entry;

#define CPU_FILES(X) X(conv) X(dense) X(pool) X(eltwise) X(shape) X(update) X(norm) X(batch_norm)
#define CPU_DECLARE(file) extern const cpu_entry cpu_##file##_entries[];
CPU_FILES(CPU_DECLARE)

/* Chains: bias, normalisation, addition and activation after the main node, in this order. */
typedef struct cpu_chain {
    weft_value bias, addend; /* WEFT_NO_VALUE: none */
    const weft_node *norm;   /* batch_norm_infer, or NULL */
    onednn_function activation;
    int64_t channels;
    int rank; /* of the result in oneDNN: its own rank for images, 2 for rows */
} cpu_chain;
/* false: the group is not such a chain with its last result as only output. */
bool cpu_chain_of(const weft_group *group, cpu_chain *out);
/* The post-operations of a chain; addend: layout of that operand, NULL only if there is none. */
weft_status cpu_chain_tail(weft_device *device, const cpu_chain *chain, cpu_md addend,
                           onednn_tail *out) WEFT_NODISCARD;
/* Completes a kernel that was created with this tail. */
weft_status cpu_chain_finish(const weft_group *group, const cpu_chain *chain,
                             weft_kernel *kernel) WEFT_NODISCARD;
/* Adds an operand to a primitive kernel. */
weft_status cpu_primitive_add(cpu_primitive *k, onednn_role role, cpu_md md, cpu_place place,
                              int index) WEFT_NODISCARD;

/* --- convolutions and inner products --- */

/* Plain descriptors of the operands. */
typedef struct cpu_weighted {
    cpu_md x, w, bias, y;
} cpu_weighted;

/* Kernels of main nodes (x, w) -> y, (dy, w) -> dx and (x, dy) -> dw; dw computes the bias gradient
 * as well if the group has it. spec: operands in the layouts that the primitive may choose, without
 * pass and tail; m: in plain layout. */
weft_status cpu_forward_make(weft_device *device, const weft_group *group, const cpu_chain *chain,
                             const onednn_spec *spec, const cpu_weighted *m,
                             weft_kernel **out) WEFT_NODISCARD;
weft_status cpu_dx_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                        const cpu_weighted *m, weft_kernel **out) WEFT_NODISCARD;
weft_status cpu_dw_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                        const cpu_weighted *m, weft_kernel **out) WEFT_NODISCARD;

/* Whether the group is the main node and the sum of operand `dy` over all axes but `channel`. */
bool cpu_with_bias_sum(const weft_group *group, int dy, int channel);
bool cpu_single(const weft_group *group);

#endif
