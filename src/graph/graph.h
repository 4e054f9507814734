/* Declares the inside of a graph (operators, nodes, values, labels), which operators, rewrites and
 * lowering use. */
#ifndef WEFT_GRAPH_GRAPH_H
#define WEFT_GRAPH_GRAPH_H

#include "base/base.h"
#include "weft/operator_ops.h"

/* The most results that a node may have; the shape rule of an operator must refuse more. */
enum { WEFT_MAX_OUTPUTS = 16 };

typedef struct weft_window weft_window;
typedef struct weft_op weft_op;
typedef struct weft_incremental weft_incremental;
typedef struct weft_graph_mapper weft_graph_mapper;

/* Whether the output of an operator shares the memory of its input: never; always, as the same
 * elements in another shape; where it is contiguous, as a slice along attribute `axis` from `start`
 * on. */
typedef enum weft_view_kind { WEFT_VIEW_NEVER, WEFT_VIEW_WHOLE, WEFT_VIEW_SLICE } weft_view_kind;

/* How an operator moves values between ranks. */
typedef struct weft_transfer_traits {
    /* From one rank to another, `peer`: the node runs even if nothing reads its result. Else a
     * collective over the mesh `axes`. */
    bool message;
    bool adds;                /* values that arrive for the same elements are added */
    bool sums;                /* a collective that sums over the ranks */
    bool whole_in, whole_out; /* operands, or results, have the same shape on all ranks */
    /* The elements that this rank sends. */
    int64_t (*sent)(const weft_graph *graph, const weft_node *node);
} weft_transfer_traits;

/* Sets of types: WEFT_TYPE(I32) | WEFT_TYPE(I64). */
#define WEFT_TYPE(dtype) (1u << WEFT_##dtype)
#define WEFT_REAL_TYPES (WEFT_TYPE(F32) | WEFT_TYPE(F64) | WEFT_TYPE(BF16))
#define WEFT_INDEX_TYPES (WEFT_TYPE(I32) | WEFT_TYPE(I64))
#define WEFT_ALL_TYPES (WEFT_REAL_TYPES | WEFT_INDEX_TYPES | WEFT_TYPE(U8) | WEFT_TYPE(BOOL))
/* The names of a set of types, as "i32, i64". */
const char *weft_types_text(unsigned types, char *text, size_t room);

/* An operator: the rules by which graphs, autodiff, rewrites and devices treat its nodes. */
struct weft_op {
    const char *name;
    const char *before; /* an earlier name, which graphs may still use; NULL: none */
    const char *summary;
    int min_inputs, max_inputs; /* max_inputs < 0: any number */
    const char *const *attrs;   /* names of its attributes, NULL-terminated; NULL: none */
    /* The types that each operand may have, as sets of WEFT_TYPE, which graphs check; the last one
     * is that of all further operands. 0: real types, and those that `shape` checks. */
    unsigned takes[3];
    /* Bit o: only nodes of the device that made output o can read it. */
    unsigned opaque;

    /* Computes output types from input types and attributes, and sets node->out_count. It may add
     * missing attributes with weft_node_set. */
    weft_status (*shape)(const weft_graph *graph, weft_node *node, weft_type *out);

    /* Adds nodes for the gradients of the inputs. dy[i] is WEFT_NO_VALUE where the loss does not
     * depend on output i. want[i] says whether dx[i] is needed; dx starts as WEFT_NO_VALUE. NULL:
     * not differentiable. */
    void (*gradient)(weft_graph *graph, const weft_node *node, const weft_value *dy,
                     const bool *want, weft_value *dx);

    /* Appends the label signature of a node (see labels.c). */
    void (*labels)(const weft_graph *graph, const weft_node *node, weft_text *text);

    /* The floating-point operations of a node, for its cost; NULL: one for each output element. */
    double (*flops)(const weft_graph *graph, const weft_node *node);

    /* The function of each element that the operator is, or NULL. */
    const weft_element *element;

    /* Computes a node in host memory, as the reference device does where it has no kernel of its
     * own; NULL: it has one. */
    weft_status (*compute)(const weft_operator_call *call);

    /* Bit i of in_place[o]: output o may overwrite input i, element by element. */
    unsigned in_place[WEFT_MAX_OUTPUTS];

    /* Whether the output shares the memory of the input. as_it_lies: its elements are in the order
     * of the layout of value `like` (an attribute), instead of row-major. */
    weft_view_kind view;
    bool as_it_lies;

    /* --- for rewrites: how a part of the node is computed --- */

    /* Bit i: the outputs are jointly linear in the inputs with a bit, so these inputs may be
     * partial (addends of a sum over ranks); the outputs are then partial, too. */
    unsigned linear;
    /* Bit i: input i may be partial over the data axis. The output is then the sum over the ranks
     * of what each makes of its own addend, and no function of the sum. */
    unsigned addends;
    /* Bit i: input i is a sum over the batch. A virtual worker, which computes its own part of the
     * batch, uses its own addend of that sum. */
    unsigned statistics;
    /* Values of a channel, over the samples that count and their positions (attribute "positions"),
     * that the operator needs: with one value a channel has no variance. 0: any number. */
    int least_values;
    /* The name of the attribute that holds the output's dimensions from `dims_from` on, which a
     * rewrite sets to those of the part; NULL: none. */
    const char *dims;
    int dims_from;
    /* The window that relates the windowed labels of inputs and outputs, over the operands'
     * dimensions from 2 on. */
    weft_window (*window)(const weft_graph *graph, const weft_node *node);
    /* Sets additional attributes of a node that computes the part of output 0 at `start`; NULL:
     * none. */
    weft_status (*localize)(const weft_graph *graph, const weft_node *node, const int64_t *start,
                            weft_node *part);
    /* Adds the nodes that compute one position of the node's results in incremental decoding, where
     * that takes states (graph/incremental.h). in[]: what stands for the node's inputs in
     * s->graph; out[]: the results that later nodes may read. NULL: by the labels. */
    weft_status (*one_position)(weft_incremental *s, const weft_graph *graph, const weft_node *node,
                                const weft_value *in, weft_value *out);
    /* --- for mixed precision (graph/precision.h) --- */

    /* Bit i: input i may be bf16 where the node computes in f32: the operands of products, and
     * activations. The others stay f32. An output with a bit in `narrow_out` is bf16 if all inputs
     * with a bit are that are neither scalars nor parameters; any other output is f32. */
    unsigned narrow, narrow_out;
    /* Mixed precision begins here: the inputs with a bit, or without one the outputs, are cast to
     * bf16. Parameters stay f32; where the other inputs are bf16, kernels round those with a bit to
     * bf16 as they read them. Other operators take bf16 where their operands have it. */
    bool narrows;
    /* Recurrent states that a batch may take over from the one before: inputs from min_inputs on,
     * and outputs from 1 on; 0: none. */
    int carried;
    /* Sets what stands for the results of node n in a graph that only predicts (graph/inference.h);
     * NULL: a copy of the node. */
    weft_status (*inference)(weft_graph_mapper *m, int n, weft_value *out);
    /* The operator moves values between ranks, and a communicator runs it instead of a device. If a
     * result may overwrite its operand and has its shape, both may have any layout, unless
     * attribute `plain` is set; if it is smaller, it is this rank's part of the operand, and may
     * stay there. NULL: it does not. */
    const weft_transfer_traits *transfer;
};
/* Defines weft_op_NAME: the operator NAME with its numbers of inputs, and further fields. */
#define WEFT_OPERATOR(name_, summary_, least_, most_, ...)                                         \
    const weft_op weft_op_##name_ = {.name = #name_,                                               \
                                     .summary = summary_,                                          \
                                     .min_inputs = least_,                                         \
                                     .max_inputs = most_,                                          \
                                     __VA_ARGS__}

struct weft_node {
    const weft_op *op;
    char *name;
    weft_value *in;
    int in_count;
    weft_value out; /* first output */
    int out_count;
    weft_attr *attrs;
    int attr_count;
    size_t attr_capacity;
    weft_phase phase;
    int origin;      /* forward node of which this is the gradient or a recomputation; else -1 */
    bool recomputed; /* this node recomputes node `origin` */
};

typedef struct weft_value_info {
    char *name;
    weft_type type;
    weft_value_kind kind;
    weft_init init;
    int node;            /* producer, or -1 for a leaf */
    weft_value assigned; /* leaf: the value that it gets for the next run, or WEFT_NO_VALUE */
    weft_value next_of;  /* first leaf that this value is assigned to, or WEFT_NO_VALUE */
    weft_value gradient; /* leaf: its gradient, or WEFT_NO_VALUE */
    weft_value exported; /* parameter: the gradient that is exported, or WEFT_NO_VALUE */
    /* range: the exported gradient is a range of the parameter, from element exported_begin on in
     * the order of operator flat. plain: the exported gradient is row-major instead of in the
     * parameter's layout. */
    bool exported_range, exported_plain;
    int64_t exported_begin;
    weft_value gradient_of; /* result: the parameter whose gradient it is, or WEFT_NO_VALUE */
    bool weight;        /* a parameter, or in the graph of a rank what holds one or a part of it */
    bool want_gradient; /* input: its gradient was requested */
    /* input: the dimension that the domain axis splits, the first of space or that of positions; 0:
     * none */
    int domain;
    weft_role role;               /* leaf */
    weft_value role_of;           /* leaf: the parameter that it belongs to, or WEFT_NO_VALUE */
    weft_shape whole;             /* shape of the tensor of which this is a part, or its own */
    int64_t start[WEFT_MAX_RANK]; /* index of the part's first element */
    /* flat: the leaf is a range of a part of shape flat_shape: the elements from flat_begin on, in
     * the order of operator flat with this `like`. */
    bool flat;
    weft_value like;
    weft_shape flat_shape;
    int64_t flat_begin;
} weft_value_info;

struct weft_graph {
    weft_context *context;
    weft_dtype real;
    bool mixed; /* the pass of mixed precision is still to be applied */
    /* The pass rounds what updates make of parameters and state to bf16, with this seed. Parameters
     * stay f32 with bf16 numbers if `wide`, for exchanges, which read and change them. */
    bool bf16_weights, wide_weights;
    uint64_t seed;
    weft_node **nodes;
    size_t node_count, node_capacity;
    weft_value_info *values;
    size_t value_count, value_capacity;
    weft_names leaves;
    weft_phase phase;
    int origin; /* weft_node.origin of new nodes */
    /* Leaves that rewrites and layers request, or WEFT_NO_VALUE: the number of finished steps, and
     * the input that holds the index of the micro-batch in its step. The caller of the optimizer
     * may set `rate`, a scalar by which the update multiplies its learning rate. */
    weft_value step, micro, rate;
    /* The optimizer adds norms for the noise scale of gradients, if it is asked to: the root of the
     * sum of squares of the gradients of all parts of a batch, and the norm of their sum. Parts are
     * micro-batches, and what ranks of the data axis compute of each. */
    bool measures_noise;
    weft_value part_norm, whole_norm;
    bool differentiated; /* weft_graph_differentiate has added gradients */
    weft_error error;    /* the first failure; later additions are ignored */
};

/* Adds a leaf of the library itself: an input (role DATA), or a state with another role, which
 * begins at zero and belongs to `parameter` or to none. If the name is taken in this graph or in
 * `beside` (may be NULL), underscores are appended, so that the user's names take precedence. */
weft_value weft_graph_own_leaf(weft_graph *graph, const weft_graph *beside, const char *name,
                               const weft_type *type, weft_role role, weft_value parameter);

/* Appends the graph as text, under the name of the pass that has made it. text NULL: nothing. */
weft_status weft_graph_show(const weft_graph *graph, const char *pass,
                            weft_text *text) WEFT_NODISCARD;

/* Exchanges the contents of two graphs. */
static inline void weft_graph_swap(weft_graph *a, weft_graph *b)
{
    weft_graph c = *a;
    *a = *b;
    *b = c;
}

/* Declares that value is the part of a tensor of shape `whole` at `start`. */
void weft_graph_set_part(weft_graph *graph, weft_value value, const weft_shape *whole,
                         const int64_t *start);

/* Declares that a vector leaf is a range of a part of shape `part`: the elements from `begin` on in
 * the order of operator flat with `like`. weft_graph_set_part has declared where the part is. */
void weft_graph_set_flat(weft_graph *graph, weft_value leaf, weft_value like,
                         const weft_shape *part, int64_t begin);

/* Declares the dimension of an input that the domain axis splits. Without this it is dimension 2 of
 * real inputs [batch, channels, ...]. */
void weft_graph_set_domain(weft_graph *graph, weft_value input, int dim);

/* "forward", "backward" or "update". */
const char *weft_phase_name(weft_phase phase);

/* Whether the graph has this value; if not, this thread's message says so. */
bool weft_graph_has(const weft_graph *graph, weft_value value);

/* Makes the graph fail with this thread's message; returns WEFT_NO_VALUE. */
weft_value weft_graph_stick(weft_graph *graph, weft_status status);

static inline const weft_type *weft_value_type(const weft_graph *graph, weft_value value)
{
    return &graph->values[value].type;
}
static inline const weft_type *weft_in(const weft_graph *graph, const weft_node *node, int i)
{
    return &graph->values[node->in[i]].type;
}
/* The real type that a node computes with: its attribute `dtype`, else the type of the first real
 * operand, else the graph's. */
weft_dtype weft_node_float(const weft_graph *graph, const weft_node *node);
static inline const weft_type *weft_out(const weft_graph *graph, const weft_node *node, int i)
{
    return &graph->values[node->out + i].type;
}

/* The set of types that operand i of an operator may have. */
unsigned weft_operator_takes(const weft_op *op, int i);
/* Whether the operator of that name has the attribute. */
bool weft_operator_has(const weft_context *context, const char *name, const char *attr);

/* Read and set attributes of a node. A node without the attribute, or with fewer numbers, has
 * `otherwise`. */
const weft_attr *weft_node_attr(const weft_node *node, const char *name);
/* Appends the attributes of a node: " name=value" each. */
void weft_node_attrs_text(const weft_node *node, weft_text *text);
int64_t weft_node_int(const weft_node *node, const char *name, int i, int64_t otherwise);
double weft_node_real(const weft_node *node, const char *name, double otherwise);
weft_status weft_node_set(weft_node *node, const weft_attr *attr) WEFT_NODISCARD;
/* For graphs: copies the tensors that are attributes of a new node; frees them. */
weft_status weft_node_keep_tensors(weft_node *node) WEFT_NODISCARD;
void weft_node_free_attrs(weft_node *node);

/* A window over the `dims` spatial dimensions, which follow batch and channels in a tensor.
 * weft_node_window reads it from attributes with a number for each dimension; "padding" has two for
 * each, first those of the begin, if the sides differ. */
enum { WEFT_MAX_SPACE = 3 };
struct weft_window {
    int dims;
    int64_t kernel[WEFT_MAX_SPACE], stride[WEFT_MAX_SPACE], padding[WEFT_MAX_SPACE],
        padding_end[WEFT_MAX_SPACE], dilation[WEFT_MAX_SPACE];
};
weft_window weft_node_window(const weft_node *node, int dims);

/* A recurrence over the positions of a sequence (lstm, gru), or the gradient of one. The optional
 * inputs are those that the node has: see ops/recurrence.c. */
typedef struct weft_recurrence {
    int gates;     /* lstm: 4, gru: 3 */
    bool backward; /* from the last position to the first */
    int64_t batch, positions, units;
    int h0, c0, lengths, dy, dh, dc; /* indices of the optional inputs; -1: not given */
    int inputs;                      /* the number of inputs that these make */
} weft_recurrence;
/* Reads the node of an lstm (4 gates) or gru (3), or of its gradient. */
weft_recurrence weft_node_recurrence(const weft_graph *graph, const weft_node *node, int gates,
                                     bool gradient);
/* The number of positions of row b; all of them if `lengths` is NULL. -1: the length is not one
 * from 0 to the number of positions. */
int64_t weft_recurrence_length(const weft_recurrence *r, const int32_t *lengths, int64_t b);
/* Whether position t counts in a row of this length. In a row whose length is wrong all positions
 * count, and its states are NaN, which the run's check of finite losses reports. */
static inline bool weft_recurrence_counts(int64_t length, int64_t t)
{
    return length < 0 || t < length;
}
/* The position that is computed before position t, or -1 if that is the first one of its row. */
int64_t weft_recurrence_before(const weft_recurrence *r, int64_t length, int64_t t);

/* Sets p and q of a node whose operator has an element function. */
void weft_node_parameters(const weft_node *node, double parameters[2]);

/* Fails with ARGUMENT and the message, after a prefix such as "node 'conv1' (conv): ". */
weft_status weft_node_fail(const weft_node *node, const char *format, ...)
    WEFT_PRINTF(2, 3) WEFT_NODISCARD;

/* Checks the types of a node's operands (weft_op.takes). */
weft_status weft_node_check_types(const weft_graph *graph, const weft_node *node) WEFT_NODISCARD;

/* The type rule of a node: its operator's shape rule, which sees bf16 operands as f32 if the
 * operator computes, and then the outputs that are bf16 (weft_op.narrow). */
weft_status weft_node_types(weft_graph *graph, weft_node *node, weft_type *out) WEFT_NODISCARD;

/* Whether an operator computes with real numbers, so that it may do so in f32 where values are
 * bf16; others move values of any type. */
bool weft_operator_computes(const weft_op *op);
/* Whether kernels of a node round input i, a parameter in f32, to bf16. */
bool weft_node_rounds(const weft_graph *graph, const weft_node *node, int i);

/* Checks that every channel has the values that operators need (weft_op.least_values) where
 * `samples` samples of a batch count. ARGUMENT: a channel has too few; the message ends with
 * `remedy`. */
weft_status weft_graph_check_samples(const weft_graph *graph, int64_t samples,
                                     const char *remedy) WEFT_NODISCARD;

/* The readers of each value, without duplicates and in order, in a finished graph. */
typedef struct weft_readers {
    int *first; /* [value_count + 1]: index into node[] of the first reader of each value */
    int *node;
} weft_readers;
weft_status weft_readers_find(const weft_graph *graph, weft_readers *out) WEFT_NODISCARD;
void weft_readers_free(weft_readers *readers);
static inline int weft_readers_count(const weft_readers *r, weft_value v)
{
    return r->first[v + 1] - r->first[v];
}

/* Calls `each` for the nodes that might be fused with `node`: the readers of its results, and the
 * nodes that share an operand with it. A node may be passed more than once. Shared leaves and
 * scalars are not considered, since they have too many readers. */
void weft_readers_adjoining(const weft_graph *graph, const weft_readers *readers,
                            const weft_node *node, void (*each)(void *user, int node), void *user);

/* A formatted name, which the caller frees. NULL: memory is exhausted; the graph has then failed
 * and ignores further additions. */
char *weft_graph_format(weft_graph *graph, const char *format, ...) WEFT_PRINTF(2, 3);

/* Adds a node with one input and no attributes, as is common in gradients. */
weft_value weft_graph_unary(weft_graph *graph, const char *op, const char *name, weft_value x);

/* --- broadcasting --- */

/* The shape of a function of each element of two operands; false: their shapes do not fit. */
bool weft_broadcast_shape(const weft_shape *a, const weft_shape *b, weft_shape *out);
/* The distance between the elements of an operand that neighbours along each dimension of the
 * result read; 0: the same element. stride[full->rank]. */
void weft_broadcast_strides(const weft_shape *operand, const weft_shape *full, int64_t *stride);

/* --- labels --- */

enum { WEFT_MAX_LABELS = 32, WEFT_LABEL_SIZE = 12 };

typedef struct weft_label {
    char name[WEFT_LABEL_SIZE];
    bool whole;    /* mark !: the dimension is never split */
    bool ordered;  /* mark >: whole, since each position needs the one before it */
    bool windowed; /* mark ~: parts of an input need a halo, parts of an output overlap */
    bool scaled;   /* mark *: sizes differ by a factor; parts correspond in proportion */
} weft_label;

typedef struct weft_operand_labels {
    int rank;
    weft_label label[WEFT_MAX_RANK];
} weft_operand_labels;

typedef struct weft_signature {
    int inputs, outputs;
    weft_operand_labels operand[WEFT_MAX_LABELS]; /* inputs, then outputs */
} weft_signature;

/* Parses a label signature. FORMAT: the message gives the column of the error. */
weft_status weft_labels_parse(const char *text, weft_signature *out) WEFT_NODISCARD;
weft_status weft_node_signature(const weft_graph *graph, const weft_node *node,
                                weft_signature *out) WEFT_NODISCARD;

#endif
