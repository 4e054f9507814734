/*
 * The graph: what a training step computes, as values and the nodes (operators) that make them.
 *
 * A graph is built by adding nodes in order; a node may only use values that exist. Failures
 * stick: after the first one every call returns WEFT_NO_VALUE, and weft_graph_status tells what
 * went wrong, so a model can be written down without a check on every line.
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

/* What a leaf is to training. Whatever resets, averages, spreads or saves leaves goes by it. */
typedef enum weft_role {
    WEFT_ROLE_DATA,      /* an input */
    WEFT_ROLE_PARAMETER, /* learned */
    WEFT_ROLE_OPTIMIZER, /* what an optimiser keeps: moments of a parameter, their age */
    WEFT_ROLE_STATISTIC, /* of the data seen so far: running means. A state that is nothing else */
    WEFT_ROLE_COUNTER,   /* of steps, the same for all who train together */
    WEFT_ROLE_SUM        /* what is being added up within a step, which writes it anew: not kept */
} weft_role;
/* "data", "parameter", ...; NULL past the end. */
WEFT_API const char *weft_role_name(int role);

/* How a parameter or state starts. */
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

/* When a node runs. A step of M micro-batches runs the FORWARD and BACKWARD nodes M times and the
 * UPDATE nodes once after them. What autodiff adds is BACKWARD. */
typedef enum weft_phase {
    WEFT_PHASE_FORWARD,
    WEFT_PHASE_BACKWARD,
    WEFT_PHASE_UPDATE,
    WEFT_PHASE_MICRO /* only for running: FORWARD, then BACKWARD */
} weft_phase;

/* Makes an empty graph whose parameters and activations have type `real` (F32 or F64). */
WEFT_API WEFT_NODISCARD weft_status weft_graph_create(weft_context *context, weft_dtype real,
                                                      weft_graph **out);
WEFT_API void weft_graph_destroy(weft_graph **graph);

/* The first failure, whose message becomes this thread's last message again; or OK. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_status(const weft_graph *graph);

WEFT_API weft_dtype weft_graph_real(const weft_graph *graph);

/* Adds a leaf. Names must be unique among leaves; they are copied. Shapes have positive
 * dimensions. `init` is not used for inputs. */
WEFT_API weft_value weft_graph_leaf(weft_graph *graph, weft_value_kind kind, const char *name,
                                    weft_dtype dtype, const weft_shape *shape, weft_init init);

/* Adds a node: op is an operator's name (weft/registry.h lists them), name a name for people
 * (copied; made unique by the caller or not). Inputs may be WEFT_NO_VALUE only if the graph has
 * already failed. Returns the first output. */
WEFT_API weft_value weft_graph_node(weft_graph *graph, const char *op, const char *name,
                                    const weft_value *inputs, int input_count,
                                    const weft_attr *attrs, int attr_count);

/* Says that `state` (a PARAM or STATE) holds `next` from the next run on. `next` must be made by
 * a node that reads `state` and may write in its place; nothing may read `state` afterwards. */
WEFT_API void weft_graph_assign(weft_graph *graph, weft_value state, weft_value next);

/* Says that who runs the graph is told of this value, the gradient of a parameter as its update
 * reads it, as soon as it is there in a step (weft_listener). Not written afterwards. */
WEFT_API void weft_graph_hand_over(weft_graph *graph, weft_value parameter, weft_value gradient);

/* Says what a state is: OPTIMIZER, STATISTIC (at first), COUNTER or SUM. Moments and the SUM of a
 * gradient are of a parameter, what is of all or of none is of WEFT_NO_VALUE. */
WEFT_API void weft_graph_set_role(weft_graph *graph, weft_value state, weft_role role,
                                  weft_value parameter);
/* The role of a leaf, and its parameter, or WEFT_NO_VALUE; parameter may be NULL. */
WEFT_API weft_role weft_graph_role(const weft_graph *graph, weft_value leaf, weft_value *parameter);

/* Nodes added from now on run in this phase. */
WEFT_API void weft_graph_set_phase(weft_graph *graph, weft_phase phase);

/* Reverse-mode differentiation: adds the nodes that compute d(loss)/d(parameter) for every
 * parameter that loss depends on, and remembers them (weft_graph_gradient). loss is a scalar.
 * ARGUMENT: loss is no scalar; UNSUPPORTED: an operator on the way has no gradient. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_differentiate(weft_graph *graph, weft_value loss);

/* The gradient of a leaf found by weft_graph_differentiate; WEFT_NO_VALUE if loss does not depend
 * on it. Inputs of real type have gradients only if weft_graph_want_gradient asked for it. */
WEFT_API weft_value weft_graph_gradient(const weft_graph *graph, weft_value leaf);
WEFT_API void weft_graph_want_gradient(weft_graph *graph, weft_value input);

/* Looking at a graph. Pointers stay valid as long as the graph does. */
WEFT_API int weft_graph_value_count(const weft_graph *graph);
WEFT_API int weft_graph_node_count(const weft_graph *graph);
WEFT_API const char *weft_graph_value_name(const weft_graph *graph, weft_value value);
WEFT_API weft_type weft_graph_value_type(const weft_graph *graph, weft_value value);
WEFT_API weft_value_kind weft_graph_value_kind(const weft_graph *graph, weft_value value);
/* A leaf by name, or WEFT_NO_VALUE. */
WEFT_API weft_value weft_graph_find(const weft_graph *graph, const char *leaf);

/* The operator, inputs and outputs of node i. *inputs stays owned by the graph. */
WEFT_API const char *weft_graph_node_op(const weft_graph *graph, int node);
WEFT_API const char *weft_graph_node_name(const weft_graph *graph, int node);
WEFT_API int weft_graph_node_inputs(const weft_graph *graph, int node, const weft_value **inputs);
WEFT_API int weft_graph_node_outputs(const weft_graph *graph, int node, weft_value *first);
/* Integers of an attribute (0 if the node has none of that name), or a real number. */
WEFT_API int weft_graph_node_ints(const weft_graph *graph, int node, const char *attr,
                                  const int64_t **ints);

/* What a node costs: floating point operations, and bytes that must move at least. */
typedef struct weft_cost {
    double flops, bytes;
} weft_cost;
WEFT_API weft_cost weft_graph_node_cost(const weft_graph *graph, int node);

/* The node's label signature, such as "b k, k n -> b n"; the caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_node_labels(const weft_graph *graph, int node,
                                                           char **out);

/* Checks a signature against operand shapes: first those of the inputs, then those
 * of the outputs. FORMAT: not a signature, with the column. ARGUMENT: it does not fit the shapes.
 */
WEFT_API WEFT_NODISCARD weft_status weft_labels_check(const char *signature,
                                                      const weft_shape *shapes, int inputs,
                                                      int outputs);

/* The graph as text or as Graphviz; the caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_text(const weft_graph *graph, char **out);
WEFT_API WEFT_NODISCARD weft_status weft_graph_dot(const weft_graph *graph, char **out);

/* Whether an operator moves values between ranks; false if there is none of this name. */
WEFT_API bool weft_operator_is_transfer(const weft_context *context, const char *name);

#ifdef __cplusplus
}
#endif
#endif
