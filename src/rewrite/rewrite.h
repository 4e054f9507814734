/* Internals of the rewrite to one rank of a mesh.
 *
 * A rewriter walks the nodes of a graph once, in order. For each node it decides which labels are
 * split over which axis (propagate.c), reshards the inputs (reshard.c), and emits the node into the
 * graph of its own rank (emit.c). Decisions depend only on the graph and the plan, so all ranks
 * make the same ones; only the emitted graphs differ. */
#ifndef WEFT_REWRITE_REWRITE_H
#define WEFT_REWRITE_REWRITE_H

#include "ops/ops.h"
#include "weft/plan.h"

/* The axes that shard values precede the one that cuts the graph. */
enum { AXIS_DATA, AXIS_DOMAIN, AXIS_TENSOR, SHARD_AXES, AXIS_PIPELINE = SHARD_AXES, AXES };

/* The sharding of a value along an axis: the dimension that is split, or one of these. */
enum {
    WHOLE = -1,
    PARTIAL = -2,
    OWN = -3, /* data axis: statistics of the rank's own virtual workers */
    FLAT = -4 /* data axis: a range of the elements in memory order */
};
typedef struct sharding {
    int16_t at[SHARD_AXES];
} sharding;

/* The sharding of a leaf by name, from pins and from the first rewrite. */
typedef struct leaf_plan {
    char *name;
    sharding split;
    bool fixed[SHARD_AXES];
    int place;
} leaf_plan;

typedef struct place_rule {
    char *pattern;
    int place;
} place_rule;

struct weft_plan {
    weft_context *context;
    weft_plan_options options;
    int size[AXES];
    bool named[AXES]; /* axes that the mesh gives a size */
    int places;
    leaf_plan *leaves;
    size_t leaf_count, leaf_capacity;
    weft_names leaf_names;
    place_rule *rules;
    size_t rule_count, rule_capacity;
    double *costs; /* measured, of the nodes of the plan's first graph; or NULL */
    int cost_count;
    bool rewritten; /* its graph was rewritten; further ones are of the same model */
};

enum { ANYWHERE = -1 };

/* A value with one sharding at one place. */
typedef struct form {
    weft_value value;
    int next; /* next form of the same value, or -1 */
    int place;
    sharding split;
    bool halo; /* rows that windows touch, along `axis` and `dim` */
    int axis, dim;
    int64_t window[4];
    weft_phase phase; /* of a form that each phase makes again; else FORWARD */
    weft_value local; /* WEFT_NO_VALUE at other places */
    int parts;        /* number of values, one for each subtree of virtual workers; 0: one value */
} form;

typedef struct value_state {
    sharding split;
    bool known;                  /* leaf: its sharding is decided; result: it was made */
    bool weak;                   /* leaf: split for storage only */
    int place;                   /* place that makes it */
    weft_value param;            /* the parameter whose gradient it is, possibly summed or scaled */
    int tag;                     /* of the messages that carry it to other places */
    uint64_t readers;            /* bit set of the places that read it */
    bool in_update, update_only; /* some readers, or all, are in the update */
    bool early;                  /* some reader before the update needs the sum, not addends */
    bool waits;                  /* in a bucket */
    int first_form, last_form;   /* -1: none */
} value_state;

/* A bucket of gradients that are summed as one message. */
typedef struct bucket {
    weft_value *values;
    size_t count, capacity;
    int64_t bytes;
    int until; /* the last node that might be fused with a producer of the bucket */
} bucket;

typedef struct rewriter {
    weft_plan *plan;
    const weft_graph *from;
    weft_graph *to;
    int rank, place, coordinate[AXES];
    value_state *values;
    int *node_place;
    int (*chosen)[SHARD_AXES]; /* of each node: position of its split label, or -1 */
    int *emitted;              /* of each node: the node of `to` that computes it */
    form *forms;
    size_t form_count, form_capacity;
    bucket buckets[2 << SHARD_AXES]; /* by axes of the sum, and whether ranges are kept */
    int *last_mate;                  /* of each node: the last node that might be fused with it */
    weft_phase phase;                /* of the node being emitted */
    int tags;
    int workers, own_workers, first_worker; /* virtual workers; 0: none */
    /* The number of subtrees that cover the workers of this rank, and of the rank with most of
     * them. Both are 0 if every rank has one worker: the tree over the workers is then that over
     * the ranks. So all ranks agree on what is sent as subtrees. */
    int subtrees, most_subtrees;
} rewriter;

struct weft_rewritten {
    weft_graph *graph;
    weft_value *local; /* of each value of the original graph */
    bool *counts;
    int values;
};

/* --- plan.c --- */
leaf_plan *weft_plan_leaf(const weft_plan *plan, const char *name);
weft_status weft_plan_add_leaf(weft_plan *plan, const char *name, leaf_plan **out) WEFT_NODISCARD;
int weft_plan_rank_at(const weft_plan *plan, int rank, int place);

/* --- placement.c --- */
/* Fills node_place and the places of leaves. */
weft_status weft_rewrite_place(rewriter *r) WEFT_NODISCARD;
/* Every pattern must decide for some operator, or it is misspelt or shadowed by an earlier one. */
weft_status weft_place_check(const weft_plan *plan, const weft_graph *graph) WEFT_NODISCARD;

/* --- propagate.c --- */

/* The decision for a node: a label for each axis, or none. */
typedef struct decision {
    weft_signature labels;
    const char *label[SHARD_AXES]; /* into labels; NULL: none */
    bool carried[SHARD_AXES];      /* partial sums pass through */
    const weft_shape *flat;        /* operands of this shape are FLAT; NULL: none */
    bool own;                      /* reads statistics of the rank's own workers */
} decision;
weft_status weft_rewrite_decide(rewriter *r, const weft_node *node, decision *out) WEFT_NODISCARD;
/* The sharding that operand i must have, or has. */
sharding weft_decision_split(const decision *d, const weft_node *node, int operand);
/* The dimension of operand i with this label, or -1. */
int weft_label_dim(const decision *d, int operand, const char *label);

/* --- halo_window.c --- */

/* The window along the dimension of a split, windowed label. */
typedef struct touched_rows {
    int axis, dim; /* dim < 0: no windowed label is split */
    int64_t window[4], rows, begin, end;
    bool aligned; /* every part is exactly what its windows touch */
} touched_rows;
weft_status weft_window_touched(const rewriter *r, const weft_node *node, const decision *d,
                                int operand, touched_rows *out) WEFT_NODISCARD;
/* Adapts attributes about shapes and positions to the part. */
weft_status weft_window_localize(const rewriter *r, const weft_node *node, const decision *d,
                                 weft_node *part) WEFT_NODISCARD;

/* --- leaf.c --- */

/* Splits the batch over the data axis, and the height of images over the domain axis. */
weft_status weft_leaf_split_input(rewriter *r, weft_value v) WEFT_NODISCARD;
/* Emits the leaf into the graph of this rank. */
weft_status weft_leaf_emit(rewriter *r, weft_value v) WEFT_NODISCARD;
/* Applies an earlier sharding of the leaf, or the user's. Only all axes together decide it. */
void weft_leaf_recall(rewriter *r, weft_value v);
/* Optimiser state is sharded like its parameter, and with ZeRO in ranges of that. */
void weft_leaf_place_moments(rewriter *r, const weft_node *node);
/* Leaves without a decision get the sharding that this node needs. */
weft_status weft_leaf_settle(rewriter *r, const weft_node *node, const decision *d) WEFT_NODISCARD;

/* --- collectives.c: each adds nodes for value v, of which this rank has x --- */
weft_value weft_move_emit(rewriter *r, const char *op, weft_value v, const weft_value *in,
                          int count, const weft_attr *attrs, int attr_count);
/* This rank's part of a dimension. */
weft_value weft_move_slice(rewriter *r, weft_value v, weft_value x, int axis, int dim);
/* A collective over one axis and dimension `dim`; all_to_all gathers `from`. */
weft_value weft_move_collective(rewriter *r, const char *op, weft_value v, weft_value x, int axis,
                                int dim, int from);
/* Sums several values over the axes of a mask, as one message. parts > 0: each consists of that
 * many subtrees of virtual workers, which are added in their own order, after the other axes. */
weft_value weft_move_sum(rewriter *r, weft_value v, const weft_value *x, int count, int mask,
                         int parts);
/* join: gathers all ranges to a part with this split. range: this rank's range, of the sum over the
 * data axis or of a replicated value. */
weft_value weft_move_join(rewriter *r, weft_value v, weft_value x, sharding split);
weft_value weft_move_range(rewriter *r, weft_value v, weft_value x, sharding split, bool sum);
/* The local value whose layout determines the element order of a parameter, and of values that
 * belong to it, where they are FLAT; WEFT_NO_VALUE: plain. */
weft_value weft_flat_like(const rewriter *r, weft_value param);

/* --- reshard.c --- */
form *weft_rewrite_form(const rewriter *r, weft_value v, int place, sharding split,
                        weft_phase phase);
weft_status weft_rewrite_add_form(rewriter *r, form f) WEFT_NODISCARD;
/* The value at a place with this sharding; emits transfers as needed. *local is WEFT_NO_VALUE at
 * other places. */
weft_status weft_rewrite_reshard(rewriter *r, weft_value v, int place, sharding want,
                                 weft_value *local) WEFT_NODISCARD;
/* Sums the inputs of a node that need only a sum over the same axes, as one message. */
weft_status weft_rewrite_sum_inputs(rewriter *r, const weft_node *node, int place,
                                    const sharding *want) WEFT_NODISCARD;
weft_status weft_rewrite_halo(rewriter *r, weft_value v, int place, sharding split, int axis,
                              int dim, const int64_t window[4], weft_value *local) WEFT_NODISCARD;
weft_value weft_rewrite_halo_add(rewriter *r, weft_value v, weft_value touched, int axis, int dim,
                                 const int64_t window[4]);
/* Sends a value that was just made to the other places that read it. */
weft_status weft_rewrite_send(rewriter *r, weft_value v) WEFT_NODISCARD;

/* --- gradient.c --- */
/* Fills workers and last_mate. */
weft_status weft_gradient_begin(rewriter *r) WEFT_NODISCARD;
void weft_gradient_end(rewriter *r);
/* Sums a gradient over all ranks, in the form that the update needs; it may be deferred. */
weft_status weft_rewrite_gradient(rewriter *r, weft_value v) WEFT_NODISCARD;
/* Sums deferred gradients: before node n reads them; after node n, where a message is full; all. */
weft_status weft_gradient_before(rewriter *r, size_t n) WEFT_NODISCARD;
weft_status weft_gradient_after(rewriter *r, size_t n) WEFT_NODISCARD;
weft_status weft_gradient_flush(rewriter *r) WEFT_NODISCARD;
/* Exports the gradient of a parameter in the sharding that the update reads: that of the parameter,
 * or this rank's range of it. */
weft_status weft_gradient_hand_over(rewriter *r, weft_value leaf) WEFT_NODISCARD;
/* Adds a value of each micro-batch to the stack of virtual workers' subtrees, in states named after
 * the leaf `sum`; *local is the first of weft_tree_parts values. */
weft_status weft_rewrite_add_up(rewriter *r, weft_value v, int place, weft_value index,
                                weft_value sum, weft_value *local) WEFT_NODISCARD;
/* Sums such subtrees over the data axis. */
weft_value weft_rewrite_reduce_tree(rewriter *r, weft_value v, weft_value local, int parts);
/* Whether a parameter's gradient and state are spread over the data axis (ZeRO). */
bool weft_zero_spreads(const rewriter *r, weft_value param);

/* --- emit.c --- */
/* Marks the local form of a gradient, so that it is placed in the flat range of gradients. */
void weft_rewrite_mark_gradient(rewriter *r, weft_value v);

/* --- shared --- */
static inline bool sharding_same(sharding a, sharding b)
{
    return memcmp(a.at, b.at, sizeof(a.at)) == 0;
}
static const sharding all_whole = {{WHOLE, WHOLE, WHOLE}};
static inline bool weft_rewrite_here(const rewriter *r, int place)
{
    return place == ANYWHERE || place == r->place;
}
static inline int64_t whole_dim(const rewriter *r, weft_value v, int dim)
{
    return r->from->values[v].type.shape.dim[dim];
}

/* This rank's part of a shape: its sizes and start. A FLAT part is a vector. */
void weft_rewrite_part(const rewriter *r, const weft_shape *whole, sharding split, weft_shape *part,
                       int64_t *start);

/* Registers the built-in schedules. */
weft_status weft_schedules_register(weft_context *context) WEFT_NODISCARD;

#endif
