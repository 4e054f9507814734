/*
 * The graph: the computation of a training step, as values and the nodes (operators) that make
 * them.
 *
 * A graph is built by adding nodes in order; a node may only use existing values. Failures are
 * sticky: after the first one every call returns WEFT_NO_VALUE, and weft_graph_status reports it,
 * so a model can be written without checking every line.
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

typedef enum weft_value_kind {
    WEFT_VALUE_INPUT, /* fed before each run */
    WEFT_VALUE_PARAM, /* learned; part of exported weights */
    WEFT_VALUE_STATE, /* kept between runs, not learned: moments, counters, running means */
    WEFT_VALUE_RESULT /* made by a node */
} weft_value_kind;

/* The role of a leaf in training, by which leaves are reset, averaged, spread or saved. */
typedef enum weft_role {
    WEFT_ROLE_DATA,      /* an input */
    WEFT_ROLE_PARAMETER, /* learned */
    WEFT_ROLE_OPTIMIZER, /* optimiser state: moments of a parameter, their step count */
    WEFT_ROLE_STATISTIC, /* statistics of data, such as running means; the default for states */
    WEFT_ROLE_COUNTER,   /* a count of steps, equal in all ranks that train together */
    WEFT_ROLE_SUM        /* an accumulator that each step starts anew; not saved */
} weft_role;
/* "data", "parameter", ...; NULL past the end. */
WEFT_API const char *weft_role_name(int role);

/* Initialisation of a parameter or state. */
typedef enum weft_init_kind {
    WEFT_INIT_CONSTANT, /* every element is `scale` */
    WEFT_INIT_UNIFORM,  /* uniform in [-scale, scale) */
    WEFT_INIT_NORMAL    /* normal with deviation `scale` */
} weft_init_kind;

typedef struct weft_init {
    weft_init_kind kind;
    double scale;
} weft_init;

/* Attributes of a node: named lists of integers, or a real number. */
#define WEFT_MAX_INTS 16
typedef struct weft_attr {
    const char *name;
    int count; /* number of integers; 0 for a real number */
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

/* The phase in which a node runs. A step of M micro-batches runs the FORWARD and BACKWARD nodes M
 * times, and then the UPDATE nodes once. Nodes added by autodiff are BACKWARD. */
typedef enum weft_phase {
    WEFT_PHASE_FORWARD,
    WEFT_PHASE_BACKWARD,
    WEFT_PHASE_UPDATE,
    WEFT_PHASE_MICRO /* only for running: FORWARD, then BACKWARD */
} weft_phase;

/* Creates an empty graph whose parameters and activations have type `real` (F32 or F64). */
WEFT_API WEFT_NODISCARD weft_status weft_graph_create(weft_context *context, weft_dtype real,
                                                      weft_graph **out);
WEFT_API void weft_graph_destroy(weft_graph **graph);

/* The first failure, whose message becomes this thread's last message again; or OK. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_status(const weft_graph *graph);

WEFT_API weft_dtype weft_graph_real(const weft_graph *graph);

/* Adds a leaf. Names must be unique among leaves; they are copied. Dimensions must be positive.
 * `init` is ignored for inputs. */
WEFT_API weft_value weft_graph_leaf(weft_graph *graph, weft_value_kind kind, const char *name,
                                    weft_dtype dtype, const weft_shape *shape, weft_init init);

/* Adds a node: op is an operator's name (weft/registry.h lists them), name is a descriptive name
 * (copied; need not be unique). Inputs may be WEFT_NO_VALUE only if the graph has failed. Returns
 * the first output. */
WEFT_API weft_value weft_graph_node(weft_graph *graph, const char *op, const char *name,
                                    const weft_value *inputs, int input_count,
                                    const weft_attr *attrs, int attr_count);

/* Declares that `state` (a PARAM or STATE) holds `next` from the next run on. `next` must be made
 * by a node that reads `state` and may overwrite it; no later node may read `state`. */
WEFT_API void weft_graph_assign(weft_graph *graph, weft_value state, weft_value next);

/* Exports the gradient of a parameter as its update reads it: the listener of an instance
 * (weft_listener) is called as soon as it is ready in a step. It is not written afterwards. */
WEFT_API void weft_graph_export_gradient(weft_graph *graph, weft_value parameter,
                                         weft_value gradient);

/* Sets the role of a state: OPTIMIZER, STATISTIC (default), COUNTER or SUM. Moments and the SUM of
 * a gradient belong to a parameter; otherwise parameter is WEFT_NO_VALUE. */
WEFT_API void weft_graph_set_role(weft_graph *graph, weft_value state, weft_role role,
                                  weft_value parameter);
/* The role of a leaf, and its parameter or WEFT_NO_VALUE; parameter may be NULL. */
WEFT_API weft_role weft_graph_role(const weft_graph *graph, weft_value leaf, weft_value *parameter);

/* Sets the phase of nodes that are added from now on. */
WEFT_API void weft_graph_set_phase(weft_graph *graph, weft_phase phase);

/* Reverse-mode differentiation: adds the nodes that compute d(loss)/d(parameter) for every
 * parameter that loss depends on, see weft_graph_gradient. loss is a scalar. ARGUMENT: loss is no
 * scalar; UNSUPPORTED: an operator on the way has no gradient. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_differentiate(weft_graph *graph, weft_value loss);

/* The gradient of a leaf found by weft_graph_differentiate; WEFT_NO_VALUE if loss does not depend
 * on it. Inputs of real type have gradients only after weft_graph_want_gradient. */
WEFT_API weft_value weft_graph_gradient(const weft_graph *graph, weft_value leaf);
WEFT_API void weft_graph_want_gradient(weft_graph *graph, weft_value input);

/* Inspection. Pointers stay valid as long as the graph. */
WEFT_API int weft_graph_value_count(const weft_graph *graph);
WEFT_API int weft_graph_node_count(const weft_graph *graph);
WEFT_API const char *weft_graph_value_name(const weft_graph *graph, weft_value value);
WEFT_API weft_type weft_graph_value_type(const weft_graph *graph, weft_value value);
WEFT_API weft_value_kind weft_graph_value_kind(const weft_graph *graph, weft_value value);
/* A leaf by name, or WEFT_NO_VALUE. */
WEFT_API weft_value weft_graph_find(const weft_graph *graph, const char *leaf);

/* The operator, inputs and outputs of node i. *inputs is owned by the graph. */
WEFT_API const char *weft_graph_node_op(const weft_graph *graph, int node);
WEFT_API const char *weft_graph_node_name(const weft_graph *graph, int node);
WEFT_API int weft_graph_node_inputs(const weft_graph *graph, int node, const weft_value **inputs);
WEFT_API int weft_graph_node_outputs(const weft_graph *graph, int node, weft_value *first);
/* Integers of an attribute (0 if the node has no such attribute), or a real number. */
WEFT_API int weft_graph_node_ints(const weft_graph *graph, int node, const char *attr,
                                  const int64_t **ints);

/* The cost of a node: floating-point operations, and the least number of bytes to move. */
typedef struct weft_cost {
    double flops, bytes;
} weft_cost;
WEFT_API weft_cost weft_graph_node_cost(const weft_graph *graph, int node);

/* The node's label signature, such as "b k, k n -> b n"; the caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_node_labels(const weft_graph *graph, int node,
                                                           char **out);

/* Checks a signature against the shapes of the inputs, followed by those of the outputs. FORMAT:
 * not a signature, with the column. ARGUMENT: it does not match the shapes. */
WEFT_API WEFT_NODISCARD weft_status weft_labels_check(const char *signature,
                                                      const weft_shape *shapes, int inputs,
                                                      int outputs);

/* The graph as text or as Graphviz; the caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_text(const weft_graph *graph, char **out);
WEFT_API WEFT_NODISCARD weft_status weft_graph_dot(const weft_graph *graph, char **out);

/* Whether an operator moves values between ranks; false for an unknown name. */
WEFT_API bool weft_operator_is_transfer(const weft_context *context, const char *name);

#ifdef __cplusplus
}
#endif
#endif
