/* Inside of the rewrites.
 *
 * A rewriter walks the nodes of a graph once, in order, and decides for each which of its labels
 * are split over which axis (propagate.c), brings the inputs into the parts it needs (reshard.c),
 * and adds the node to the graph of its own rank (emit.c). Decisions depend on the graph and the
 * plan alone, so all ranks come to the same ones; only what a rank emits differs. */
#ifndef WEFT_REWRITE_REWRITE_H
#define WEFT_REWRITE_REWRITE_H

#include "ops/ops.h"
#include "weft/plan.h"

/* Axes that shard comes before the one that cuts. */
enum { AXIS_DATA, AXIS_DOMAIN, AXIS_TENSOR, SHARD_AXES, AXIS_PIPELINE = SHARD_AXES, AXES };

/* How a value is spread over each axis: the dimension that is split, or one of these. */
enum {
    WHOLE = -1,
    PARTIAL = -2,
    OWN = -3, /* data axis: what the rank's own workers make of their statistics */
    FLAT = -4 /* data axis: a range of the elements in the order in which they lie */
};
typedef struct sharding {
    int16_t at[SHARD_AXES];
} sharding;

/* What is known of a leaf by name, from pins and from the first rewrite. */
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
    bool named[AXES]; /* the mesh says how long it is */
    int places;
    leaf_plan *leaves;
    size_t leaf_count, leaf_capacity;
    weft_names leaf_names;
    place_rule *rules;
    size_t rule_count, rule_capacity;
    double *costs; /* measured, of the nodes of the graph the plan was made for; or NULL */
    int cost_count;
    bool rewritten; /* its graph has been; what follows are others of the same model */
};

enum { ANYWHERE = -1 };

/* A value in one form at one place. */
typedef struct form {
    weft_value value;
    int next; /* the next one of the same value, or -1 */
    int place;
    sharding split;
    bool halo; /* rows that windows touch, along `axis` and `dim` */
    int axis, dim;
    int64_t window[4];
    weft_phase phase; /* of a form that is made anew in each phase; else FORWARD */
    weft_value local; /* WEFT_NO_VALUE at other places */
    int parts; /* subtrees of virtual workers: so many values, one behind the other; 0: one */
} form;

typedef struct value_state {
    sharding split;
    bool known;                  /* leaf: its splitting is decided; result: made */
    bool weak;                   /* leaf: split for storage only */
    int place;                   /* where it is made */
    weft_value param;            /* the parameter whose gradient it is, possibly summed or scaled */
    int tag;                     /* of the messages that carry it to other places */
    uint64_t readers;            /* places that read it (as far as they are below 64) */
    bool in_update, update_only; /* some readers, or all, are in the update */
    bool early;                  /* some reader before it needs all of it, not addends */
    bool waits;                  /* in a bucket */
    int first_form, last_form;   /* -1: none */
} value_state;

/* Gradients that wait for a common sum. */
typedef struct bucket {
    weft_value *values;
    size_t count, capacity;
    int64_t bytes;
    int until; /* the last node that might be one kernel with what made one of them */
} bucket;

typedef struct rewriter {
    weft_plan *plan;
    const weft_graph *from;
    weft_graph *to;
    int rank, place, coordinate[AXES];
    value_state *values;
    int *node_place;
    int (*chosen)[SHARD_AXES]; /* of each node: where its split label stands first, or -1 */
    int *emitted;              /* of each node: the one of `to` that computes it */
    form *forms;
    size_t form_count, form_capacity;
    bucket buckets[2 << SHARD_AXES]; /* by what is summed over, and whether ranges are kept */
    int *last_mate;   /* of each node: the last one that might be one kernel with it */
    weft_phase phase; /* of the node that is being emitted */
    int tags;
    int workers, own_workers, first_worker; /* virtual ones; 0: none */
    /* The subtrees that make up the workers of this rank, and of the rank with most of them. Both 0
     * where every rank has one, which is a value like any other: the tree over the workers goes on
     * as that over the ranks. So all ranks know alike what goes as subtrees. */
    int subtrees, most_subtrees;
} rewriter;

struct weft_rewritten {
    weft_graph *graph;
    weft_value *local; /* of each value of the original */
    bool *counts;
    int values;
};

/* --- plan.c --- */
leaf_plan *weft_plan_leaf(const weft_plan *plan, const char *name);
weft_status weft_plan_add_leaf(weft_plan *plan, const char *name, leaf_plan **out) WEFT_NODISCARD;
int weft_plan_rank_at(const weft_plan *plan, int rank, int place);

/* --- place.c --- */
/* Fills node_place and the places of leaves. */
weft_status weft_rewrite_place(rewriter *r) WEFT_NODISCARD;
/* Every pattern must decide for some operator: else it is misspelt, or stands too late. */
weft_status weft_place_check(const weft_plan *plan, const weft_graph *graph) WEFT_NODISCARD;

/* --- propagate.c --- */

/* What a node computes of the whole: a label of each axis, or none. */
typedef struct decision {
    weft_signature labels;
    const char *label[SHARD_AXES]; /* into labels; NULL: none */
    bool carried[SHARD_AXES];      /* partial sums pass through */
    const weft_shape *flat;        /* operands of this shape are FLAT; NULL: none */
    bool own;                      /* reads statistics of the rank's own workers */
} decision;
weft_status weft_rewrite_decide(rewriter *r, const weft_node *node, decision *out) WEFT_NODISCARD;
/* How operand i of the node must be split, or is. */
sharding weft_decision_split(const decision *d, const weft_node *node, int operand);
/* The dimension of operand i that has this label, or -1. */
int weft_label_dim(const decision *d, int operand, const char *label);

/* --- window.c --- */

/* The window along the dimension of a split, windowed label. */
typedef struct touched_rows {
    int axis, dim; /* dim < 0: no windowed label is split */
    int64_t window[4], rows, begin, end;
    bool aligned; /* every part is just what its windows touch */
} touched_rows;
weft_status weft_window_touched(const rewriter *r, const weft_node *node, const decision *d,
                                int operand, touched_rows *out) WEFT_NODISCARD;
/* Attributes that speak of shapes and places speak of the part's. */
weft_status weft_window_localize(const rewriter *r, const weft_node *node, const decision *d,
                                 weft_node *part) WEFT_NODISCARD;

/* --- leaf.c --- */

/* The batch is split over the data axis, the height of images over the domain axis. */
weft_status weft_leaf_split_input(rewriter *r, weft_value v) WEFT_NODISCARD;
/* The leaf in the graph of this rank. */
weft_status weft_leaf_emit(rewriter *r, weft_value v) WEFT_NODISCARD;
/* What a leaf was found to be before, or what the user wants. Only all axes together decide it. */
void weft_leaf_recall(rewriter *r, weft_value v);
/* Optimiser state lies like its parameter, and with ZeRO in ranges of that. */
void weft_leaf_place_moments(rewriter *r, const weft_node *node);
/* Leaves that nothing has decided yet lie as this node wants them. */
weft_status weft_leaf_settle(rewriter *r, const weft_node *node, const decision *d) WEFT_NODISCARD;

/* --- move.c: each adds nodes for value v, of which this rank has x --- */
weft_value weft_move_emit(rewriter *r, const char *op, weft_value v, const weft_value *in,
                          int count, const weft_attr *attrs, int attr_count);
/* This rank's part of a dimension. */
weft_value weft_move_slice(rewriter *r, weft_value v, weft_value x, int axis, int dim);
/* A collective over one axis and dimension `dim`; all_to_all gathers `from`. */
weft_value weft_move_collective(rewriter *r, const char *op, weft_value v, weft_value x, int axis,
                                int dim, int from);
/* Sums of several values over the axes of a mask, as one message. parts > 0: each is that many
 * subtrees of virtual workers, which add up in their own order, after the other axes. */
weft_value weft_move_sum(rewriter *r, weft_value v, const weft_value *x, int count, int mask,
                         int parts);
/* All ranks' ranges joined, as a part split like this; and this rank's range, of the sum over the
 * data axis or of what all of it hold. */
weft_value weft_move_join(rewriter *r, weft_value v, weft_value x, sharding split);
weft_value weft_move_range(rewriter *r, weft_value v, weft_value x, sharding split, bool sum);
/* The local value whose layout says in which order the elements of a parameter, or of what belongs
 * to it, lie where they are FLAT; WEFT_NO_VALUE: plain. */
weft_value weft_flat_like(const rewriter *r, weft_value param);

/* --- reshard.c --- */
form *weft_rewrite_form(const rewriter *r, weft_value v, int place, sharding split,
                        weft_phase phase);
weft_status weft_rewrite_add_form(rewriter *r, form f) WEFT_NODISCARD;
/* The value at a place, split in this way; transfers are emitted as needed. *local is
 * WEFT_NO_VALUE at other places. */
weft_status weft_rewrite_reshard(rewriter *r, weft_value v, int place, sharding want,
                                 weft_value *local) WEFT_NODISCARD;
/* Inputs of a node that only have to be summed over the same axes, as one message. */
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
/* A gradient over all ranks, in the form in which the update will want it; it may wait. */
weft_status weft_rewrite_gradient(rewriter *r, weft_value v) WEFT_NODISCARD;
/* Sums what waits: before node n reads it; after node n, where that is enough for a message; all.
 */
weft_status weft_gradient_before(rewriter *r, size_t n) WEFT_NODISCARD;
weft_status weft_gradient_after(rewriter *r, size_t n) WEFT_NODISCARD;
weft_status weft_gradient_flush(rewriter *r) WEFT_NODISCARD;
/* Hands the gradient of a parameter over in the form in which the update reads it: as the parameter
 * is split, or this rank's range of that. */
weft_status weft_gradient_hand_over(rewriter *r, weft_value leaf) WEFT_NODISCARD;
/* Adds a value of each micro-batch to the stack of virtual workers' subtrees, in states that are
 * named after the leaf `sum` and belong to what it does; *local is the first of weft_tree_parts
 * values. */
weft_status weft_rewrite_add_up(rewriter *r, weft_value v, int place, weft_value index,
                                weft_value sum, weft_value *local) WEFT_NODISCARD;
/* The sum over the data axis of such subtrees. */
weft_value weft_rewrite_reduce_tree(rewriter *r, weft_value v, weft_value local, int parts);
/* Whether what belongs to a parameter is spread over the data axis. */
bool weft_zero_spreads(const rewriter *r, weft_value param);

/* --- emit.c --- */
/* The gradient's local form stands for its parameter in the flat range of gradients. */
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

/* This rank's part of a shape: sizes and where it begins. A FLAT part is a vector. */
void weft_rewrite_part(const rewriter *r, const weft_shape *whole, sharding split, weft_shape *part,
                       int64_t *start);

/* The schedules that are built in, to what a context knows. */
weft_status weft_schedules_register(weft_context *context) WEFT_NODISCARD;

#endif
