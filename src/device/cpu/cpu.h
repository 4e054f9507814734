/* Declares the inside of the cpu device: kernels that are oneDNN primitives, for compute-bound
 * operators, and kernels that are plain loops, for operators that pass over memory once. */
#ifndef WEFT_DEVICE_CPU_H
#define WEFT_DEVICE_CPU_H

#include "device/cpu/onednn.h"
#include "device/cpu/tile.h"
#include "device/device.h"
#include "device/widen.h"

typedef struct cpu_device {
    weft_device head;
    onednn *library;
    bool narrow; /* the processor multiplies bf16 numbers */
    bool amx;    /* and oneDNN does so by AMX */
} cpu_device;

static inline onednn *cpu_onednn(weft_device *device)
{
    return ((cpu_device *)device)->library;
}

/* A layout that is not plain, with its descriptor md. `plain` describes the same value in its plain
 * layout, with the logical dimensions of md, since oneDNN's may differ from Weft's: a dense weight
 * is [k, n] in Weft and (n, k) in oneDNN. md NULL: panels, packed from the plain layout (packed.h).
 */
typedef struct cpu_layout {
    weft_layout head;
    cpu_md md, plain;
    const struct cpu_packed *packed;
} cpu_layout;

/* --- descriptors --- */

/* The descriptor of a row-major tensor of type f32 or bf16. */
weft_status cpu_md_plain(weft_device *device, weft_dtype dtype, int rank, const int64_t *dim,
                         cpu_md *out) WEFT_NODISCARD;
weft_status cpu_md_of_type(weft_device *device, const weft_type *type, cpu_md *out) WEFT_NODISCARD;
/* The descriptor of a value in `layout`, whose plain descriptor is `plain`. Returns `plain` if the
 * layout is plain, unknown (NULL), or for other dimensions. */
cpu_md cpu_md_of(const weft_layout *layout, cpu_md plain);
/* The type in which a product reads its operand i: bf16 where it rounds a parameter. */
weft_dtype cpu_read_type(const weft_graph *graph, const weft_node *node, int i);
/* The interned layout for a descriptor. opaque: only kernels of this device read the value. */
weft_status cpu_layout_of(weft_device *device, cpu_md md, cpu_md plain, bool opaque,
                          const weft_layout **out) WEFT_NODISCARD;

/* The offset of index `at` of an axis, to which its blocks contribute, and those of all indices. */
int64_t cpu_axis_offset(const cpu_blocks *b, int axis, int64_t at);
void cpu_axis_offsets(const cpu_blocks *b, int axis, int64_t *to);
/* Whether a block splits the axis; whether indices from a multiple of `count` on lie in sequence.
 */
bool cpu_axis_split(const cpu_blocks *b, int axis);
bool cpu_axis_follows(const cpu_blocks *b, int axis, int64_t count);

/* Whether the channels, the second axis, and no other axis are in blocks of 16. */
bool cpu_in_channel_blocks(cpu_md md);

/* A value [b, c, rest] whose channels may be blocked: element (b, c, i) of a plane of `inner`
 * positions is at b * batch + c / block * channel + i * step + c % block. */
typedef struct cpu_planes {
    int64_t batch_count, channel_count, inner;
    int64_t batch, channel, step, block;
    bool narrow; /* the numbers are bf16 */
} cpu_planes;
/* Describes a layout as planes; false if it does not have that form. */
bool cpu_planes_of(const weft_type *type, const weft_layout *layout, cpu_planes *out);

/* --- kernels that are one primitive --- */

enum { CPU_MAX_ARGS = 12 };
/* Where an operand of a primitive is: input or output `index` of the group, scratch memory, or the
 * scale or shift of a folded batch normalization. */
typedef enum cpu_place { CPU_IN, CPU_OUT, CPU_SCRATCH, CPU_SCALE, CPU_SHIFT } cpu_place;

/* A batch normalisation with given statistics that is folded into the preceding primitive. Before
 * each run its four vectors are converted to a scale and a shift for each channel, in scratch
 * memory. */
typedef struct cpu_fold {
    int64_t channels; /* 0: none is folded */
    double epsilon;
    int operand[4]; /* indices of the group's inputs gamma, beta, mean, variance */
    size_t offset;  /* byte offset in scratch memory */
} cpu_fold;

typedef struct cpu_primitive cpu_primitive;
struct cpu_primitive {
    weft_kernel head;
    weft_device *device;
    onednn_primitive *primitive;
    int threads; /* for which it was created, and with which it has to run */
    struct {
        onednn_role role;
        cpu_md md;
        cpu_place place;
        int index;
    } args[CPU_MAX_ARGS];
    int count;
    cpu_fold fold;
    /* Runs after the primitive, on its operands X and Y; NULL: nothing does. */
    void (*after)(const cpu_primitive *k, const void *x, void *y);
    const weft_graph *graph; /* for `after` */
    const weft_node *node;
    int after_out;     /* the index of the group's output that is Y */
    weft_dtype result; /* type of Y */
};

/* An operand of a primitive: its role, and which input or output of the group it is. */
typedef struct cpu_arg {
    onednn_role role;
    cpu_place place; /* CPU_IN or CPU_OUT */
    int operand;
    cpu_md plain;
    bool opaque;
} cpu_arg;

/* Creates a kernel from a described primitive, which the kernel owns; on failure the primitive is
 * freed. */
weft_status cpu_primitive_make(weft_device *device, onednn_primitive *described,
                               const cpu_arg *args, int count, weft_kernel **out) WEFT_NODISCARD;
/* Describes a primitive, and creates a kernel from it. */
weft_status cpu_spec_make(weft_device *device, const onednn_spec *spec, const cpu_arg *args,
                          int count, weft_kernel **out) WEFT_NODISCARD;

/* --- kernels that are a loop --- */

typedef struct cpu_loop cpu_loop;
typedef void (*cpu_loop_fn)(const cpu_loop *loop);
struct cpu_loop {
    weft_kernel head;
    cpu_loop_fn fn;
    weft_group group;
    const void *in[WEFT_GROUP_VALUES]; /* addresses of the node's operands, when bound */
    void *out[WEFT_MAX_OUTPUTS];
    void *result;     /* the group's first output */
    void *sum;        /* the result of the group's second node, of two; or NULL */
    const void *bias; /* of a chain, if it is an input of the group; or NULL */
    int bias_at;      /* one more than its index */
    void *scratch;
    int64_t size; /* elements of the first operand in memory, including padding */
    int threads;
    tile_operands pairs; /* how products of bf16 numbers are computed */
    cpu_planes planes;
    void *table; /* numbers that are computed when the kernel is made; freed with it */
};

/* Creates a kernel for the group's single node; layouts are set in `head`. */
weft_status cpu_loop_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                          cpu_loop **out) WEFT_NODISCARD;
/* As cpu_loop_make; all operands are plain, and results that nothing reads go to scratch memory,
 * behind the `scratch` bytes of the loop itself. */
weft_status cpu_plain_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                           size_t scratch, cpu_loop **out) WEFT_NODISCARD;
/* Element i of a tensor of f32 numbers, or if `narrow` of bf16 numbers, and the number there. */
static inline void *cpu_element(const void *data, int64_t i, bool narrow)
{
    return (char *)(uintptr_t)data + (size_t)i * (narrow ? sizeof(uint16_t) : sizeof(float));
}
WEFT_INLINE float cpu_get(const void *data, int64_t i, bool narrow)
{
    return narrow ? weft_wide_of(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}
WEFT_INLINE void cpu_put(void *data, int64_t i, bool narrow, float x)
{
    if (narrow)
        ((uint16_t *)data)[i] = weft_narrow_of(x);
    else
        ((float *)data)[i] = x;
}
/* Takes the next `count` numbers of four bytes, in whole cache lines, of memory at `base`, of which
 * *used bytes are taken. To find the size of the memory, base may be NULL. */
static inline void *cpu_take(void *base, size_t *used, int64_t count)
{
    size_t at = *used;
    *used += ((size_t)count * sizeof(float) + 63) / 64 * 64;
    return (void *)((uintptr_t)base + at);
}
/* Defines name_make, which creates the kernel for name_loop with plain operands. */
#define CPU_PLAIN(name)                                                                            \
    static weft_status name##_make(weft_device *device, const weft_group *group,                   \
                                   const weft_layout *const *in, weft_kernel **out)                \
    {                                                                                              \
        cpu_loop *k;                                                                               \
        (void)in;                                                                                  \
        WEFT_TRY(cpu_plain_make(device, group, name##_loop, 0, &k));                               \
        *out = &k->head;                                                                           \
        return WEFT_OK;                                                                            \
    }

/* --- implementations, by operator --- */

/* When an entry takes bf16 values: never; always; or if the processor has instructions for products
 * of them, without which oneDNN has none or slow ones. Products of CPU_PAIRS are our own, by
 * AVX512-BF16. AMX multiplies at several times that rate: where the processor has it, oneDNN's
 * candidates, which use it, are faster. */
typedef enum cpu_narrow { CPU_WIDE, CPU_ANY, CPU_HARDWARE, CPU_PAIRS } cpu_narrow;

/* A candidate that the rule of its file finds slower takes so many times as long as the others: so
 * much that conversions of operands, which the others may need, do not outweigh it. So the choice,
 * and the bits of results, depend on types, shapes and the processor, and not on layouts. */
static const double CPU_SLOWER = 8;

typedef struct cpu_entry {
    const char *op;   /* operator of the group's main node; each row is a candidate */
    const char *name; /* for dumps */
    bool (*supports)(const weft_group *group);
    weft_status (*make)(weft_device *device, const weft_group *group, const weft_layout *const *in,
                        weft_kernel **out);
    /* Estimated seconds; NULL: estimated by the device's rates. */
    double (*seconds)(const weft_group *group, const weft_layout *const *in);
    cpu_narrow narrow; /* when it also takes bf16 values */
} cpu_entry;

#define CPU_FILES(X)                                                                               \
    X(conv)                                                                                        \
    X(dense)                                                                                       \
    X(pool)                                                                                        \
    X(eltwise)                                                                                     \
    X(bias)                                                                                        \
    X(shape)                                                                                       \
    X(update)                                                                                      \
    X(update_bf16)                                                                                 \
    X(norm)                                                                                        \
    X(batch_norm)                                                                                  \
    X(layer_norm)                                                                                  \
    X(reduce)                                                                                      \
    X(rotary)                                                                                      \
    X(dropout)                                                                                     \
    X(embedding)                                                                                   \
    X(softmax)                                                                                     \
    X(recurrence)                                                                                  \
    X(attention)
#define CPU_DECLARE(file) extern const cpu_entry cpu_##file##_entries[];
CPU_FILES(CPU_DECLARE)
/* elementwise.c: groups of operators with an element function, where no other entry fits. */
extern const cpu_entry cpu_element_entry;

/* A chain of nodes after the main node that run as its post-operations: bias, normalisation,
 * addition and activation, in this order; each may be missing. */
typedef struct cpu_chain {
    weft_value bias, addend; /* WEFT_NO_VALUE: none */
    const weft_node *norm;   /* batch_norm_infer, or NULL */
    onednn_function activation;
    bool relu; /* in place of the function */
    int64_t channels;
    int rank; /* of the result in oneDNN: its own for conv, 2 for dense */
} cpu_chain;
/* Reads a group as a chain; false if it is none, or has another output than its last result. */
bool cpu_chain_of(const weft_group *group, cpu_chain *out);
/* Whether only a bias and a relu follow the main node; the loop of such a group reads the bias by
 * itself, and is told whether there is a relu. */
bool cpu_chain_is_simple(const weft_group *group);
weft_status cpu_loop_take_bias(weft_device *device, const weft_group *group, cpu_loop *k,
                               bool *relu) WEFT_NODISCARD;
/* The type of a chain's result. */
static inline const weft_type *cpu_chain_type(const weft_group *group)
{
    return weft_value_type(group->graph, group->out[0]);
}
/* The post-operations of a chain. addend: the descriptor of the added operand, or NULL to leave the
 * addition out. */
weft_status cpu_chain_tail(weft_device *device, const cpu_chain *chain, cpu_md addend,
                           onednn_tail *out) WEFT_NODISCARD;
/* Adds the operands of the chain's normalisation to a kernel whose primitive has its
 * post-operations, and its relu, which runs after the primitive. */
weft_status cpu_chain_finish(const weft_group *group, const cpu_chain *chain,
                             weft_kernel *kernel) WEFT_NODISCARD;
/* y = max(y, 0) in place, of type f32 or bf16; NaN stays NaN, which becomes 0 in oneDNN's relu. */
void cpu_relu(int threads, weft_dtype dtype, void *y, size_t bytes);

/* narrow.c: loops over bf16 values, of which `count` follow each other. */
void cpu_narrow_relu(const uint16_t *x, uint16_t *y, int64_t count);
void cpu_narrow_relu_grad(const uint16_t *y, const uint16_t *dy, uint16_t *dx, int64_t count);
/* Whether one of them is infinite or NaN. */
bool cpu_narrow_infinite(const uint16_t *x, int64_t count);
/* Adds an operand to a primitive kernel. */
weft_status cpu_primitive_add(cpu_primitive *k, onednn_role role, cpu_md md, cpu_place place,
                              int index) WEFT_NODISCARD;

/* --- convolutions and inner products --- */

/* Plain descriptors of the operands of a convolution or inner product. */
typedef struct cpu_weighted {
    cpu_md x, w, bias, y;
} cpu_weighted;

/* Create kernels for the main nodes (x, w) -> y, (dy, w) -> dx and (x, dy) -> dw. The kernel of dw
 * also computes the bias gradient if the group has it. spec: the operands, in layouts that the
 * primitive may choose, without pass and tail; m: the operands in plain layouts. */
weft_status cpu_forward_make(weft_device *device, const weft_group *group, const cpu_chain *chain,
                             const onednn_spec *spec, const cpu_weighted *m,
                             weft_kernel **out) WEFT_NODISCARD;
weft_status cpu_dx_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                        const cpu_weighted *m, weft_kernel **out) WEFT_NODISCARD;
weft_status cpu_dw_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                        const cpu_weighted *m, weft_kernel **out) WEFT_NODISCARD;

/* An operand of a kernel that is no primitive, and whose layout is chosen. */
typedef struct cpu_operand {
    onednn_role role;
    weft_value value;
    cpu_md plain, md; /* md: the choice */
    bool kept;        /* an input that is read as it lies, if the kernel can */
} cpu_operand;
enum { CPU_OPERANDS = 3 };
/* Chooses the layouts that oneDNN's primitive of this pass would, without bias and tail, but keeps
 * those of `kept` inputs that reads(md) accepts; if none is kept, `in` and reads may be NULL.
 * `_set_layouts` gives them to the kernel, and the plain one to a bias gradient. */
weft_status cpu_choose_layouts(weft_device *device, const weft_group *group,
                               const onednn_spec *spec, onednn_pass pass,
                               const weft_layout *const *in, bool (*reads)(cpu_md md),
                               cpu_operand operands[CPU_OPERANDS]) WEFT_NODISCARD;
weft_status cpu_set_layouts(weft_device *device, const weft_group *group,
                            const cpu_operand operands[CPU_OPERANDS],
                            weft_kernel *kernel) WEFT_NODISCARD;

/* Whether the group is the main node plus the bias gradient: the sum of the main node's operand
 * number `dy` over all axes but `channel`. */
bool cpu_with_bias_sum(const weft_group *group, int dy, int channel);
bool cpu_single(const weft_group *group);
bool cpu_single_of_any(const weft_group *group);
/* A single node whose real values have one type. */
bool cpu_one_type(const weft_group *group);
/* A single node whose real values are f32, or whose real values are bf16 that may be
 * (weft_op.narrow, narrow_out) and the others f32. */
bool cpu_one_precision(const weft_group *group);

#endif
