/* What the cpu device needs of oneDNN, in words of its own: descriptors of memory, primitives that
 * are described, built and run. Only the folder onednn/ speaks to oneDNN's interface, in the words
 * of its version 3; where version 2 is installed (Debian 12), version2.c says them in its own. That
 * file and its header can go when Debian 12 does. */
#ifndef WEFT_DEVICE_CPU_ONEDNN_H
#define WEFT_DEVICE_CPU_ONEDNN_H

#include "base/base.h"

enum { ONEDNN_MOST_DIMS = 12 };

typedef struct onednn onednn; /* the library at work */
typedef struct onednn_primitive onednn_primitive;
typedef struct onednn_run onednn_run;

/* A descriptor of memory. They are kept until the library is closed, each once: two are the same
 * exactly when their pointers are. */
typedef const struct onednn_md *cpu_md;

weft_status onednn_open(onednn **out) WEFT_NODISCARD;
void onednn_close(onednn *o);

/* --- descriptors, of single precision --- */

weft_status onednn_md_strided(onednn *o, int rank, const int64_t *dim, const int64_t *stride,
                              cpu_md *out) WEFT_NODISCARD;
/* A tensor [b, c, ...] with 1 to 3 dimensions of space in blocks of 16 channels. */
weft_status onednn_md_blocked(onednn *o, const weft_shape *shape, cpu_md *out) WEFT_NODISCARD;
/* The same dimensions in whatever layout a primitive likes. */
weft_status onednn_md_any(onednn *o, cpu_md md, cpu_md *out) WEFT_NODISCARD;
/* A part of the tensor where it lies; fails where a cut falls into a block. */
weft_status onednn_md_part(onednn *o, cpu_md whole, const int64_t *dim, const int64_t *start,
                           cpu_md *out) WEFT_NODISCARD;
size_t onednn_md_bytes(cpu_md md);

/* A descriptor taken apart. Axes with blocks have strides of whole blocks; the blocks lie within,
 * the last innermost. Nothing but ndims and dims holds where it is not blocked. */
typedef struct cpu_blocks {
    int ndims;
    const int64_t *dims, *strides;
    bool blocked;
    int64_t offset; /* of the first element */
    int count;
    const int64_t *size, *axis; /* of each of the blocks */
} cpu_blocks;
cpu_blocks cpu_blocks_of(cpu_md of);

/* --- primitives --- */

typedef enum onednn_kind {
    ONEDNN_CONV,
    ONEDNN_INNER,
    ONEDNN_MAXPOOL,
    ONEDNN_AVGPOOL,
    ONEDNN_ELTWISE,
    ONEDNN_MATMUL,  /* x times w */
    ONEDNN_CONCAT,  /* sources into y */
    ONEDNN_REORDER, /* x into y */
} onednn_kind;

typedef enum onednn_pass {
    ONEDNN_FORWARD,
    ONEDNN_INFERENCE, /* forward, and nothing is kept for the gradient */
    ONEDNN_BACKWARD,  /* the gradient of x */
    ONEDNN_WEIGHTS,   /* the gradient of w, and of the bias */
} onednn_pass;

typedef enum onednn_function {
    ONEDNN_NO_FUNCTION,
    ONEDNN_RELU,
    ONEDNN_GELU,
    ONEDNN_SIGMOID,
    ONEDNN_TANH,
} onednn_function;

/* What follows a convolution or an inner product within the same primitive, in this order. */
typedef struct onednn_tail {
    cpu_md vector; /* times ONEDNN_SCALE, plus ONEDNN_SHIFT; NULL: neither */
    cpu_md addend; /* plus ONEDNN_ADDEND; NULL: nothing */
    onednn_function function;
} onednn_tail;

typedef struct onednn_spec {
    onednn_kind kind;
    onednn_pass pass;
    onednn_function function; /* of ONEDNN_ELTWISE */
    cpu_md x, w, bias, y;     /* the operands, and what is like their gradients; bias may be NULL */
    const cpu_md *sources;    /* of ONEDNN_CONCAT */
    int source_count, axis;
    /* Of windows; a dilation of 0 leaves no gaps, the kernel is that of pooling. */
    int64_t stride[ONEDNN_MOST_DIMS], kernel[ONEDNN_MOST_DIMS], dilation[ONEDNN_MOST_DIMS];
    int64_t padding[ONEDNN_MOST_DIMS], padding_end[ONEDNN_MOST_DIMS];
    onednn_tail tail;
} onednn_spec;

/* Operands by what they are. Gradients of functions by their result read Y, others X. */
typedef enum onednn_role {
    ONEDNN_X,
    ONEDNN_W,
    ONEDNN_BIAS,
    ONEDNN_Y,
    ONEDNN_DX,
    ONEDNN_DW,
    ONEDNN_DBIAS,
    ONEDNN_DY,
    ONEDNN_INDEX, /* of maxpool: what its gradient reads */
    ONEDNN_SCRATCH,
    ONEDNN_SCALE,
    ONEDNN_SHIFT,
    ONEDNN_ADDEND,
    ONEDNN_SOURCE, /* the first; the others have the numbers after it */
} onednn_role;

/* Chooses an implementation; it cannot be run before it has been built. Called, like building,
 * with weft_reserve_enter. UNSUPPORTED: oneDNN has none. */
weft_status onednn_describe(onednn *o, const onednn_spec *spec,
                            onednn_primitive **out) WEFT_NODISCARD;
weft_status onednn_build(onednn_primitive *p) WEFT_NODISCARD;
void onednn_drop(onednn_primitive *p);
/* How the primitive wants an operand to lie; NULL: it has no such operand. */
weft_status onednn_wants(const onednn_primitive *p, onednn_role role, cpu_md *out) WEFT_NODISCARD;
/* The implementation's name; it may be NULL. */
const char *onednn_name(const onednn_primitive *p);
/* Whether the gradient of a function reads its result. */
bool onednn_by_result(onednn_function function);

/* --- runs: a primitive with memory of one user; several may run at once --- */

typedef struct onednn_operand {
    onednn_role role;
    cpu_md md;
} onednn_operand;

/* Of a primitive that has been built; with weft_reserve_enter. */
weft_status onednn_run_new(const onednn_primitive *p, int count, onednn_run **out) WEFT_NODISCARD;
/* Operand i of those is this one. */
weft_status onednn_run_take(onednn_run *run, int i, onednn_role role, cpu_md md) WEFT_NODISCARD;
/* Operand i is there. */
weft_status onednn_run_place(onednn_run *run, int i, void *data) WEFT_NODISCARD;
weft_status onednn_run_go(onednn_run *run) WEFT_NODISCARD;
void onednn_run_free(onednn_run *run);

#endif
