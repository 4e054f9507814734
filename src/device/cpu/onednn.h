/* Declares the cpu device's interface to oneDNN: memory descriptors, and primitives that are
 * described, built and run. Only the folder onednn/ calls oneDNN, by the interface of its version
 * 3, which version2.c emulates with version 2 (Debian 12). version2.c and version2.h can be removed
 * with the support of Debian 12. */
#ifndef WEFT_DEVICE_CPU_ONEDNN_H
#define WEFT_DEVICE_CPU_ONEDNN_H

#include "base/base.h"

enum { ONEDNN_MOST_DIMS = 12 };

typedef struct onednn onednn; /* an open library */
typedef struct onednn_primitive onednn_primitive;
typedef struct onednn_run onednn_run;

/* A memory descriptor. Descriptors are interned until the library is closed, so two descriptors are
 * equal exactly if their pointers are. */
typedef const struct onednn_md *cpu_md;

weft_status onednn_open(onednn **out) WEFT_NODISCARD;
void onednn_close(onednn *o);
/* The name of the processor's instructions for products of bf16 numbers, if oneDNN may use them
 * (its variable ONEDNN_MAX_CPU_ISA); NULL: there are none. */
const char *onednn_bf16(void);
/* Whether oneDNN may use AVX-512, with products of bf16 numbers if `narrow`, and AMX. */
bool onednn_has_avx512(bool narrow);
bool onednn_has_amx(void);

/* --- descriptors, of type f32 or bf16 --- */

weft_status onednn_md_strided(onednn *o, weft_dtype dtype, int rank, const int64_t *dim,
                              const int64_t *stride, cpu_md *out) WEFT_NODISCARD;
/* A tensor [b, c, ...] with 1 to 3 spatial dimensions in blocks of 16 channels. */
weft_status onednn_md_blocked(onednn *o, const weft_type *type, cpu_md *out) WEFT_NODISCARD;
weft_dtype onednn_md_dtype(cpu_md md);
/* A descriptor with the dimensions of md, whose layout a primitive chooses. */
weft_status onednn_md_any(onednn *o, cpu_md md, weft_dtype dtype, cpu_md *out) WEFT_NODISCARD;
/* The descriptor of a part of a tensor, in the memory of the tensor; fails if a cut is inside a
 * block. */
weft_status onednn_md_part(onednn *o, cpu_md whole, const int64_t *dim, const int64_t *start,
                           cpu_md *out) WEFT_NODISCARD;
size_t onednn_md_bytes(cpu_md md);

/* The parts of a descriptor. Blocked axes have the strides of whole blocks, and the last block is
 * innermost. If `blocked` is false, the layout is private to oneDNN and only ndims and dims are
 * valid. */
typedef struct cpu_blocks {
    int ndims;
    const int64_t *dims, *strides;
    bool blocked;
    int64_t offset; /* of the first element */
    int count;
    const int64_t *size, *axis; /* of each block */
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
    ONEDNN_CONCAT,  /* sources to y */
    ONEDNN_REORDER, /* x to y */
} onednn_kind;

typedef enum onednn_pass {
    ONEDNN_FORWARD,
    ONEDNN_INFERENCE, /* forward, without keeping anything for the gradient */
    ONEDNN_BACKWARD,  /* gradient of x */
    ONEDNN_WEIGHTS,   /* gradients of w and of the bias */
} onednn_pass;

typedef enum onednn_function {
    ONEDNN_NO_FUNCTION,
    ONEDNN_GELU,
    ONEDNN_SILU,
    ONEDNN_SIGMOID,
    ONEDNN_TANH,
} onednn_function;

/* Post-operations on the result of a convolution or an inner product, in this order. */
typedef struct onednn_tail {
    cpu_md vector; /* of the factors ONEDNN_SCALE and the addends ONEDNN_SHIFT; NULL: none */
    cpu_md addend; /* of the tensor ONEDNN_ADDEND that is added; NULL: none */
    onednn_function function;
} onednn_tail;

typedef struct onednn_spec {
    onednn_kind kind;
    onednn_pass pass;
    onednn_function function; /* of ONEDNN_ELTWISE */
    cpu_md x, w, bias, y;     /* operands, also describing their gradients; bias may be NULL */
    const cpu_md *sources;    /* of ONEDNN_CONCAT */
    int source_count, axis;
    /* Windows: dilation 0 means adjacent elements, and `kernel` is used by pooling. */
    int64_t stride[ONEDNN_MOST_DIMS], kernel[ONEDNN_MOST_DIMS], dilation[ONEDNN_MOST_DIMS];
    int64_t padding[ONEDNN_MOST_DIMS], padding_end[ONEDNN_MOST_DIMS];
    onednn_tail tail;
} onednn_spec;

/* Roles of operands. The gradient of an activation reads either its result Y or its input X, see
 * onednn_by_result. */
typedef enum onednn_role {
    ONEDNN_X,
    ONEDNN_W,
    ONEDNN_BIAS,
    ONEDNN_Y,
    ONEDNN_DX,
    ONEDNN_DW,
    ONEDNN_DBIAS,
    ONEDNN_DY,
    ONEDNN_INDEX, /* of maxpool: the workspace of its gradient */
    ONEDNN_SCRATCH,
    ONEDNN_SCALE,
    ONEDNN_SHIFT,
    ONEDNN_ADDEND,
    ONEDNN_SOURCE, /* the first source; the others follow */
} onednn_role;

/* onednn_describe chooses an implementation, which onednn_build must build before it can run. The
 * caller is within weft_reserve_enter in both. UNSUPPORTED: oneDNN has no implementation. */
weft_status onednn_describe(onednn *o, const onednn_spec *spec,
                            onednn_primitive **out) WEFT_NODISCARD;
weft_status onednn_build(onednn_primitive *p) WEFT_NODISCARD;
void onednn_drop(onednn_primitive *p);
/* The layout that the primitive requires of an operand; NULL: it has no such operand. */
weft_status onednn_wants(const onednn_primitive *p, onednn_role role, cpu_md *out) WEFT_NODISCARD;
/* The implementation's name; may be NULL. */
const char *onednn_name(const onednn_primitive *p);
/* Whether the gradient of a function reads its result. */
bool onednn_by_result(onednn_function function);

/* --- runs: a primitive bound to memory; several may run at once --- */

typedef struct onednn_operand {
    onednn_role role;
    cpu_md md;
} onednn_operand;

/* Creates a run of a built primitive; the caller is within weft_reserve_enter. */
weft_status onednn_run_new(const onednn_primitive *p, int count, onednn_run **out) WEFT_NODISCARD;
/* Declares the role and the descriptor of operand i. */
weft_status onednn_run_take(onednn_run *run, int i, onednn_role role, cpu_md md) WEFT_NODISCARD;
/* Sets the address of operand i. */
weft_status onednn_run_place(onednn_run *run, int i, void *data) WEFT_NODISCARD;
weft_status onednn_run_go(onednn_run *run) WEFT_NODISCARD;
void onednn_run_free(onednn_run *run);

#endif
