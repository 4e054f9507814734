/*
 * The graph: the computation of a training step, as values and the nodes (operators) that make
 * them.
 *
 * A graph is built by adding nodes in order; a node may only use existing values. Failures are
 * sticky: after the first one every call that adds or changes something does nothing and returns
 * WEFT_NO_VALUE, every call with a weft_status returns the failure, and so does weft_graph_status;
 * inspection and dumps show what the graph had before. So the code of a model need not check every
 * line. A value that the graph does not have makes it fail; inspection of such a value or node
 * returns 0 or NULL.
 *
 * Values are numbered from 0. The outputs of a node have consecutive numbers, and adding a node
 * returns the first of them. A graph is not thread-safe.
 */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include <stdbool.h>

#include "weft/context.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_graph weft_graph;
typedef int32_t weft_value;
#define WEFT_NO_VALUE ((weft_value)-1)

/* Kinds of values. Inputs, parameters and states are leaves. */
typedef enum weft_value_kind {
    WEFT_VALUE_INPUT, /* the caller writes it before each run */
    WEFT_VALUE_PARAM, /* learned; exported weights have it */
    WEFT_VALUE_STATE, /* kept between runs and not learned: moments, counters, running means */
    WEFT_VALUE_RESULT /* made by a node */
} weft_value_kind;

/* The role of a leaf in training, by which leaves are reset, averaged, spread over ranks or
 * saved. */
typedef enum weft_role {
    WEFT_ROLE_DATA,      /* an input */
    WEFT_ROLE_PARAMETER, /* learned */
    WEFT_ROLE_OPTIMIZER, /* optimizer state: moments of a parameter, their step count */
    WEFT_ROLE_STATISTIC, /* statistics of data, such as running means; default of states */
    WEFT_ROLE_COUNTER,   /* a count of steps, equal on all ranks that train together */
    WEFT_ROLE_SUM,       /* an accumulator that each step starts anew; not saved */
    /* State of the sequences of a batch, such as the keys of earlier positions. Each instance of a
     * program has its own, which begins at zero; not saved. */
    WEFT_ROLE_SEQUENCE,
    WEFT_ROLE_SCHEDULE, /* measurements of a schedule, equal on all ranks that train together */
    WEFT_ROLE_CARRIED,  /* states of sequences that the next batch continues */
    WEFT_ROLE_AVERAGE   /* the average of a parameter over its updates, and their count */
} weft_role;
/* The name of a role: "data", "parameter", ...; NULL past the end. */
WEFT_API const char *weft_role_name(int role);

/* The initial value of a parameter or state. */
typedef enum weft_init_kind {
    WEFT_INIT_CONSTANT, /* every element is `scale` */
    WEFT_INIT_UNIFORM,  /* uniform in [-scale, scale) */
    WEFT_INIT_NORMAL    /* normal with mean 0 and deviation `scale` */
} weft_init_kind;

typedef struct weft_init {
    weft_init_kind kind;
    double scale;
} weft_init;

/* An attribute of a node: a named list of integers, a named real number, or a named tensor
 * (weft_attr_tensor). */
#define WEFT_MAX_INTS 16
typedef struct weft_attr {
    const char *name;
    /* Number of integers; 0 for a real number; below 0 for a tensor, which the integers describe.
     */
    int count;
    int64_t ints[WEFT_MAX_INTS];
    double real;
} weft_attr;

#define WEFT_ATTR_INT(attr, value)                                                                 \
    {                                                                                              \
        attr, 1, {value}, 0                                                                        \
    }
#define WEFT_ATTR_PAIR(attr, a, b)                                                                 \
    {                                                                                              \
        attr, 2, {a, b}, 0                                                                         \
    }
#define WEFT_ATTR_REAL(attr, value)                                                                \
    {                                                                                              \
        attr, 0, {0}, value                                                                        \
    }

/* Makes an attribute that is a tensor, from its type and its elements, row-major. A node copies the
 * elements; until then the attribute reads the caller's. */
WEFT_API weft_attr weft_attr_tensor(const char *name, const weft_type *type, const void *data);
/* Makes an attribute that is a text: a vector of U8, which ends with 0. */
WEFT_API weft_attr weft_attr_text(const char *name, const char *text);
/* The elements of an attribute that is a tensor, and its type; NULL: the attribute is none. `type`
 * may be NULL. */
WEFT_API const void *weft_attr_data(const weft_attr *attr, weft_type *type);

/* The phase in which a node runs. A step of M micro-batches runs the FORWARD and BACKWARD nodes M
 * times, and then the UPDATE nodes once. Nodes that weft_graph_differentiate adds are BACKWARD. */
typedef enum weft_phase {
    WEFT_PHASE_FORWARD,
    WEFT_PHASE_BACKWARD,
    WEFT_PHASE_UPDATE,
    WEFT_PHASE_MICRO /* only for running: FORWARD, then BACKWARD */
} weft_phase;

/* Creates an empty graph, whose parameters and activations have the type `real`: F32, F64, or BF16
 * for mixed precision, a graph in F32 to which weft_graph_narrow is applied. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_create(weft_context *context, weft_dtype real,
                                                      weft_graph **out);
WEFT_API void weft_graph_destroy(weft_graph **graph);

/* Returns the first failure, whose message becomes this thread's last message again; OK: there was
 * none. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_status(const weft_graph *graph);

/* Mixed precision (Kalamkar et al., arXiv 1905.12322): in a graph that was created with type BF16,
 * puts in casts, so that activations, their gradients and the operands of products are BF16, while
 * parameters, the optimizer's state, losses, statistics, gradients of parameters and sums over a
 * batch stay F32. Called once, after the last node was added (weft_graph_differentiate,
 * weft_optimizer_build) and before a plan or a program is made; any other graph stays as it is.
 * wanted[count]: addresses of values that are read outside, at most 1024 (WEFT_NO_VALUE is left
 * alone), which are set to those that stand for them, in F32; all other values of the graph become
 * invalid. After a failure the graph and the values are as they were. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_narrow(weft_graph *graph, weft_value *const *wanted,
                                                      int count);

/* Lets weft_graph_narrow make parameters and the optimizer's state of their shapes BF16, too,
 * without copies in F32. Updates are computed in F32 and rounded up or down at random without bias
 * (stochastic rounding, arXiv 2502.20566), by random numbers that depend on the seed, the step, the
 * tensor and the element alone, and on no division of the graph. wide: parameters have such
 * numbers, but stay F32, for an exchange that reads and changes them; state is BF16. The graph was
 * created with type BF16, and weft_graph_narrow is called later. ARGUMENT: the graph has another
 * type. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_keep_weights_narrow(weft_graph *graph, uint64_t seed,
                                                                   bool wide);

/* The type of parameters: F32 or F64. */
WEFT_API weft_dtype weft_graph_real(const weft_graph *graph);

/* Adds a leaf. Its name is copied, and must be unique among the leaves. Dimensions must be
 * positive. `init` is ignored for inputs. */
WEFT_API weft_value weft_graph_leaf(weft_graph *graph, weft_value_kind kind, const char *name,
                                    weft_dtype dtype, const weft_shape *shape, weft_init init);

/* Adds a node, and returns its first output. op is the name of an operator (weft/registry.h lists
 * them), name a descriptive name, which is copied and need not be unique. An input may be
 * WEFT_NO_VALUE only if the graph has failed. */
WEFT_API weft_value weft_graph_node(weft_graph *graph, const char *op, const char *name,
                                    const weft_value *inputs, int input_count,
                                    const weft_attr *attrs, int attr_count);

/* Declares that `state` (a PARAM or STATE) has the value `next`, of its type, from the next run on.
 * The node that makes `next` overwrites `state` if it reads it and can work in place; otherwise
 * `next` is copied there. No later node may read `state`. */
WEFT_API void weft_graph_assign(weft_graph *graph, weft_value state, weft_value next);

/* Exports the gradient of a parameter in the form that its update reads: an instance calls its
 * listener (weft_listener) in each step, as soon as this gradient is final. Nothing writes the
 * gradient after that in the step. */
WEFT_API void weft_graph_export_gradient(weft_graph *graph, weft_value parameter,
                                         weft_value gradient);

/* Sets the role of a state: OPTIMIZER, STATISTIC (default), COUNTER or SUM. parameter: the one that
 * the moments, or the SUM of a gradient, belong to; WEFT_NO_VALUE: none. */
WEFT_API void weft_graph_set_role(weft_graph *graph, weft_value state, weft_role role,
                                  weft_value parameter);
/* Returns the role of a leaf; sets *parameter to the one that it belongs to, or WEFT_NO_VALUE.
 * parameter may be NULL. */
WEFT_API weft_role weft_graph_role(const weft_graph *graph, weft_value leaf, weft_value *parameter);

/* Sets the phase of nodes that are added from now on. */
WEFT_API void weft_graph_set_phase(weft_graph *graph, weft_phase phase);

/* Reverse-mode differentiation: adds the nodes that compute d(loss)/d(parameter) for every
 * parameter that loss depends on; weft_graph_gradient returns these values. ARGUMENT: loss is no
 * real scalar; UNSUPPORTED: an operator between a parameter and loss has no gradient. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_differentiate(weft_graph *graph, weft_value loss);

/* weft_graph_gradient returns the gradient of a leaf that weft_graph_differentiate has added;
 * WEFT_NO_VALUE if loss does not depend on the leaf. Inputs of real type have gradients only if
 * weft_graph_want_gradient was called before. */
WEFT_API weft_value weft_graph_gradient(const weft_graph *graph, weft_value leaf);
WEFT_API void weft_graph_want_gradient(weft_graph *graph, weft_value input);

/* Inspection. Values and nodes are numbered from 0. Pointers stay valid as long as the graph. */
WEFT_API int weft_graph_value_count(const weft_graph *graph);
WEFT_API int weft_graph_node_count(const weft_graph *graph);
WEFT_API const char *weft_graph_value_name(const weft_graph *graph, weft_value value);
WEFT_API weft_type weft_graph_value_type(const weft_graph *graph, weft_value value);
WEFT_API weft_value_kind weft_graph_value_kind(const weft_graph *graph, weft_value value);
/* The leaf with this name, or WEFT_NO_VALUE. */
WEFT_API weft_value weft_graph_find(const weft_graph *graph, const char *leaf);

/* The operator, name, inputs and outputs of node `node`. The last two return a number of values;
 * *inputs is owned by the graph, and the outputs are *first, *first + 1 and so on. */
WEFT_API const char *weft_graph_node_op(const weft_graph *graph, int node);
WEFT_API const char *weft_graph_node_name(const weft_graph *graph, int node);
WEFT_API int weft_graph_node_inputs(const weft_graph *graph, int node, const weft_value **inputs);
WEFT_API int weft_graph_node_outputs(const weft_graph *graph, int node, weft_value *first);
/* Returns the number of integers of an attribute, and sets *ints to them; 0 if the node has no such
 * attribute, or if it is a real number. */
WEFT_API int weft_graph_node_ints(const weft_graph *graph, int node, const char *attr,
                                  const int64_t **ints);

/* Returns an attribute of a node, whose memory is the graph's; NULL: the node has none. */
WEFT_API const weft_attr *weft_graph_node_attr(const weft_graph *graph, int node, const char *attr);

/* The cost of a node: floating-point operations, and the least number of bytes that it must read
 * and write. */
typedef struct weft_cost {
    double flops, bytes;
} weft_cost;
WEFT_API weft_cost weft_graph_node_cost(const weft_graph *graph, int node);

/* Sets *out to the label signature of a node, such as "b k, k n -> b n", which says which
 * dimensions belong together. The caller frees the text with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_node_labels(const weft_graph *graph, int node,
                                                           char **out);

/* Checks a label signature against shapes[inputs + outputs], those of the inputs and then those of
 * the outputs. FORMAT: the text is no signature; the message gives the column. ARGUMENT: the
 * signature does not match the shapes. */
WEFT_API WEFT_NODISCARD weft_status weft_labels_check(const char *signature,
                                                      const weft_shape *shapes, int inputs,
                                                      int outputs);

/* Sets *out to the graph as text, or in the DOT language of Graphviz; the caller frees it with
 * weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_text(const weft_graph *graph, char **out);
WEFT_API WEFT_NODISCARD weft_status weft_graph_dot(const weft_graph *graph, char **out);

/* Sets *out to what the rules of an operator say of its nodes, as in "2 operands; attributes
 * stride, padding; differentiable.". The caller frees the text with weft_free. ARGUMENT: there is
 * no such operator. */
WEFT_API WEFT_NODISCARD weft_status weft_operator_text(const weft_context *context, const char *op,
                                                       char **out);

/* Whether an operator moves values between ranks; false for an unknown name. */
WEFT_API bool weft_operator_is_transfer(const weft_context *context, const char *name);

#ifdef __cplusplus
}
#endif
#endif
