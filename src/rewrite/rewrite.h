/* Declares the rewrite of a training graph to the graph of one rank of a mesh (SPMD partitioning).
 *
 * A rewriter walks the nodes of a graph once, in order. For each node it decides which labels are
 * split over which axis (propagate.c), reshards the inputs (reshard.c), and emits the node into the
 * graph of its own rank (emit.c). Decisions depend only on the graph and the plan, so all ranks
 * make the same decisions; only the emitted graphs differ. */
#ifndef WEFT_REWRITE_REWRITE_H
#define WEFT_REWRITE_REWRITE_H

#include "graph/map.h"
#include "ops/ops.h"
#include "weft/plan.h"

/* The mesh axes. The axes that shard values come before the pipeline axis, which cuts the graph
 * into stages. */
enum { AXIS_DATA, AXIS_DOMAIN, AXIS_TENSOR, SHARD_AXES, AXIS_PIPELINE = SHARD_AXES, AXES };

/* The sharding of a value along an axis is the dimension that is split (at least 0), or one of
 * these constants. */
enum {
    WHOLE = -1,   /* each rank of the axis has the whole value */
    PARTIAL = -2, /* each rank has an addend; the value is the sum */
    OWN = -3,     /* data axis: statistics of the rank's own virtual workers, not summed */
    FLAT = -4     /* data axis: each rank has a range of the elements in memory order (ZeRO) */
};
typedef struct sharding {
    int16_t at[SHARD_AXES];
} sharding;

/* The sharding and place of a leaf, by name. The user has pinned some axes; the first rewrite of
 * the plan decides the others, and later rewrites use the same. */
typedef struct leaf_plan {
    char *name;
    sharding split;
    bool fixed[SHARD_AXES]; /* whether the axis is decided */
    int place;
} leaf_plan;

/* The user's placement: forward nodes whose names match `pattern` run at a place. */
typedef struct place_rule {
    char *pattern;
    int place;
} place_rule;

struct weft_plan {
    weft_context *context;
    weft_plan_options options;
    int size[AXES];
    bool named[AXES]; /* axes that the mesh gives a size */
    int places;       /* pipeline stages, or ranks of the user's placement */
    leaf_plan *leaves;
    size_t leaf_count, leaf_capacity;
    weft_names leaf_names;
    place_rule *rules;
    size_t rule_count, rule_capacity;
    double *shares; /* of the data axis, each with those before it, as parts of 1; or NULL */
    double *costs;  /* measured costs of the nodes of the plan's first graph, or NULL */
    int cost_count;
    bool rewritten;          /* the first graph was rewritten; later ones are of the same model */
    bool splits[SHARD_AXES]; /* axes over which some node was split */
};

/* The index at which the part of coordinate c of an axis begins, of `count` positions of a
 * dimension that is split over the axis; the part ends where that of c + 1 begins. */
int64_t weft_plan_part_start(const weft_plan *plan, int axis, int64_t count, int c);

enum { ANYWHERE = -1 }; /* a place: every place computes the value itself */

/* A form of a value: its copy with one sharding at one place. */
typedef struct form {
    weft_value value;
    int next; /* next form of the same value, or -1 */
    int place;
    sharding split;
    bool rounded; /* a parameter as bf16, for readers that round it (weft_node_rounds) */
    bool halo;    /* the part with its halo, split along `axis` and `dim` */
    int axis, dim;
    int64_t window[4];
    weft_phase phase; /* in which the form was made */
    weft_value local; /* in this rank's graph; WEFT_NO_VALUE at other places */
    int parts;        /* number of values, sums of virtual workers' subtrees; 0: one value */
} form;

/* The rewriter's state for a value of the original graph. */
typedef struct value_state {
    sharding split;
    bool known;                  /* leaf: its sharding is decided; result: it was made */
    bool weak;                   /* leaf: split for storage only (ZeRO 3); readers gather it */
    int place;                   /* place that makes the value */
    weft_value param;            /* parameter whose gradient it is, also if summed or scaled */
    weft_value owner;            /* parameter whose new value it is computed for, in the update */
    int tag;                     /* of messages with the value to other places */
    uint64_t readers;            /* bit set of the places that read the value */
    bool in_update, update_only; /* some readers, or all, are in the update */
    bool early;                  /* a reader before the update needs the sum, not an addend */
    bool waits;                  /* in a bucket, for its sum */
    int first_form, last_form;   /* -1: none */
} value_state;

/* A bucket of gradients that are summed as one message. */
typedef struct bucket {
    weft_value *values;
    size_t count, capacity;
    int64_t bytes;
    int until; /* last node that might be fused with a producer of a value in the bucket */
} bucket;

/* A question that a rewrite asks about its rank, see alike.c. */
typedef enum question_kind {
    ASKED_SIZE,      /* of its part of `count` positions that an axis splits */
    ASKED_CUT,       /* likewise, and where in a block of a layout the part begins */
    ASKED_RANGE,     /* the size of its range of `count` elements (FLAT) */
    ASKED_COORDINATE /* on an axis */
} question_kind;
typedef struct question {
    question_kind kind;
    int axis;
    int64_t count;
} question;
typedef struct questions {
    question *list;
    size_t count, capacity;
} questions;

typedef struct rewriter {
    weft_plan *plan;
    const weft_graph *from;
    weft_graph *to;
    int rank, place, coordinate[AXES];
    value_state *values;
    int *node_place;
    weft_graph_mapper *map;
    bool *counts;              /* of each value, see weft_rewritten_counts */
    int (*chosen)[SHARD_AXES]; /* of each node: position of its split label on each axis, or -1 */
    form *forms;
    size_t form_count, form_capacity;
    bucket buckets[2 << SHARD_AXES]; /* by mask of axes; odd: ranks keep ranges */
    int *last_mate;                  /* of each node: the last node that might be fused with it */
    weft_phase phase;                /* of the node being emitted */
    int tags;
    /* The ranks of the data axis share out, as FLAT ranges: the optimizer's state, the gradients,
     * the parameters. */
    struct {
        bool state, gradients, parameters;
    } ranges;
    int workers, own_workers, first_worker; /* virtual workers; 0: none */
    /* The number of subtrees that cover the virtual workers of this rank, and the largest such
     * number of any rank, so that all ranks agree on the values that they send. Both are 0 if one
     * subtree covers each rank's workers, since the tree over the workers is then the tree over the
     * ranks. */
    int subtrees, most_subtrees;
    questions *asked;
} rewriter;

struct weft_rewritten {
    weft_graph *graph;
    weft_value *local; /* of each value of the original graph: its value here, or WEFT_NO_VALUE */
    bool *counts;      /* of each value: whether this rank counts it, see weft_rewritten_counts */
    int values;
    questions asked;
};

/* --- plan.c --- */
leaf_plan *weft_plan_leaf(const weft_plan *plan, const char *name);
weft_status weft_plan_add_leaf(weft_plan *plan, const char *name, leaf_plan **out) WEFT_NODISCARD;
int weft_plan_rank_at(const weft_plan *plan, int rank, int place);
/* The first axis of several ranks over which no node of the graphs that were rewritten is split, so
 * that these ranks compute the same; NULL: none. */
const char *weft_plan_idle_axis(const weft_plan *plan);

/* collectives.c: the index of a rank among those that the axes of a mask span, as in their
 * communicator; *ranks: how many these are. */
int64_t weft_plan_index(const weft_plan *plan, int mask, int rank, int64_t *ranks);

/* --- alike.c --- */
/* Records a question. Every use of the rank's coordinates asks one. */
void weft_rewrite_ask(const rewriter *r, question_kind kind, int axis, int64_t count);
/* Whether the part of rank `other` has the nodes of that of `rank`, which is `mine`: equal kernels
 * and transfers, at other places of the whole tensors. The plan is the one of the rewrite. blocks:
 * a cut of a value may need another kernel where it lies within a block of the value's layout. */
bool weft_rewritten_alike(const weft_plan *plan, const weft_rewritten *mine, int rank, int other,
                          bool blocks);

/* --- placement.c --- */
/* Places nodes and leaves: fills node_place, and the places and readers of values. */
weft_status weft_rewrite_place(rewriter *r) WEFT_NODISCARD;
/* Fails unless every pattern of the user's placement places some node; else the pattern is
 * misspelt, or an earlier pattern takes all nodes that it matches. */
weft_status weft_place_check(const weft_plan *plan, const weft_graph *graph) WEFT_NODISCARD;

/* --- propagate.c --- */

/* The sharding decision for a node: the label that is split over each axis, if any. */
typedef struct decision {
    weft_signature labels;
    const char *label[SHARD_AXES]; /* into labels; NULL: none */
    bool carried[SHARD_AXES];      /* partial sums pass through */
    const weft_shape *flat;        /* operands of this shape are FLAT; NULL: none */
    bool own;                      /* the node reads statistics of the rank's own virtual workers */
} decision;
weft_status weft_rewrite_decide(rewriter *r, const weft_node *node, decision *out) WEFT_NODISCARD;
/* The sharding that a decision requires of an input, or gives an output; operands are inputs, then
 * outputs. */
sharding weft_decision_split(const decision *d, const weft_node *node, int operand);
/* The dimension of operand i with this label, or -1. */
int weft_label_dim(const decision *d, int operand, const char *label);

/* --- halo_window.c --- */

/* The rows that a node's window reads along a split dimension with a windowed label (mark '~'). */
typedef struct touched_rows {
    int axis, dim;                       /* dim < 0: no windowed label is split */
    int64_t window[4], rows, begin, end; /* window and rows as in weft_window_rows; [begin, end) */
    bool aligned; /* no rank needs rows of other ranks, see weft_window_aligned */
} touched_rows;
weft_status weft_window_touched(const rewriter *r, const weft_node *node, const decision *d,
                                int operand, touched_rows *out) WEFT_NODISCARD;
/* Sets the attributes of the node `part` that tell sizes, padding and positions to those of this
 * rank's part. */
weft_status weft_window_localize(const rewriter *r, const weft_node *node, const decision *d,
                                 weft_node *part) WEFT_NODISCARD;

/* --- leaf.c --- */

/* Splits the batch over the data axis, and the height of images over the domain axis. */
weft_status weft_leaf_split_input(rewriter *r, weft_value v) WEFT_NODISCARD;
/* Emits the leaf into the graph of this rank. */
weft_status weft_leaf_emit(rewriter *r, weft_value v) WEFT_NODISCARD;
/* Applies the sharding of a leaf that the user has pinned or an earlier rewrite has decided. */
void weft_leaf_recall(rewriter *r, weft_value v);
/* Decides the sharding of the optimizer state that an update node reads: that of its parameter, or
 * a range of that over the data axis. */
void weft_leaf_place_moments(rewriter *r, const weft_node *node);
/* Gives leaves without a decision the sharding that this node, their first reader, needs, and emits
 * them. */
weft_status weft_leaf_settle(rewriter *r, const weft_node *node, const decision *d) WEFT_NODISCARD;

/* --- collectives.c: each function adds nodes that convert x, this rank's copy of value v --- */
weft_value weft_move_emit(rewriter *r, const char *op, weft_value v, const weft_value *in,
                          int count, const weft_attr *attrs, int attr_count);
/* Casts x to a type, unless it has that. */
weft_value weft_move_cast(rewriter *r, weft_value v, weft_value x, weft_dtype dtype);
/* The type in which v crosses ranks where it is summed: bf16 for gradients, if the plan says so. A
 * gradient that a reader before the update needs keeps its type. */
weft_dtype weft_move_type(const rewriter *r, weft_value v);
/* The type in which v crosses ranks that have parts or addends of it by `split`. Parts of an f32
 * value that is a bf16 value widened cross as bf16, which loses nothing. */
weft_dtype weft_move_type_of_part(const rewriter *r, weft_value v, sharding split);
/* Slices this rank's part of dimension `dim` along an axis. */
weft_value weft_move_slice(rewriter *r, weft_value v, weft_value x, int axis, int dim);
/* Adds a collective over one axis, which splits dimension `dim` or gathers it; `from`: the
 * dimension that is split before, -1: none. */
weft_value weft_move_collective(rewriter *r, const char *op, weft_value v, weft_value x, int axis,
                                int dim, int from);
/* Sums several values of one weft_move_type over the axes of a mask, as one message. parts > 0:
 * each value consists of that many sums of virtual workers' subtrees, which are added over the data
 * axis in the fixed tree, after the sum over the other axes. */
weft_value weft_move_sum(rewriter *r, weft_value v, const weft_value *x, int count, int mask,
                         int parts);
/* weft_move_join gathers the FLAT ranges of all ranks of the data axis to a part with this split.
 * weft_move_range takes this rank's range: with `sum` of the sum over the data axis
 * (reduce-scatter), else of a replicated value. */
weft_value weft_move_join(rewriter *r, weft_value v, weft_value x, sharding split);
weft_value weft_move_range(rewriter *r, weft_value v, weft_value x, sharding split, bool sum);
/* Finds for which parameter each node of the update computes: the one that an operand or a result
 * of the same shape belongs to. Ranges of all of them then have the order of its elements. */
void weft_update_owners(rewriter *r);
/* The local value whose layout determines the order of elements where a parameter, or a value that
 * belongs to it, is FLAT; WEFT_NO_VALUE: the order is row-major. */
weft_value weft_flat_like(const rewriter *r, weft_value param);

/* --- reshard.c --- */
/* The form of a value with this sharding at a place that can be read in `phase`, or NULL. */
form *weft_rewrite_form(const rewriter *r, weft_value v, int place, sharding split,
                        weft_phase phase);
weft_status weft_rewrite_add_form(rewriter *r, form f) WEFT_NODISCARD;
/* Converts value v to a sharding at a place, and adds the transfers that this needs. *local is the
 * converted value; WEFT_NO_VALUE if this rank is at another place. */
weft_status weft_rewrite_reshard(rewriter *r, weft_value v, int place, sharding want,
                                 weft_value *local) WEFT_NODISCARD;
/* weft_rewrite_reshard for a reader that rounds the parameter v to bf16 (weft_node_rounds): what is
 * gathered from ranges (ZeRO 3) is rounded before it crosses ranks, in half the bytes. */
weft_status weft_rewrite_gather_rounded(rewriter *r, weft_value v, int place, sharding want,
                                        weft_value *local) WEFT_NODISCARD;
/* Sums inputs of a node as one message: those that need nothing but a sum over the same axes. */
weft_status weft_rewrite_sum_inputs(rewriter *r, const weft_node *node, int place,
                                    const sharding *want) WEFT_NODISCARD;
/* weft_rewrite_halo gets this rank's part of v with the rows of other ranks that its windows read.
 * weft_rewrite_halo_add, the transpose, adds rows that several ranks have computed at their
 * owners. */
weft_status weft_rewrite_halo(rewriter *r, weft_value v, int place, sharding split, int axis,
                              int dim, const int64_t window[4], weft_value *local) WEFT_NODISCARD;
weft_value weft_rewrite_halo_add(rewriter *r, weft_value v, weft_value touched, int axis, int dim,
                                 const int64_t window[4]);
/* Sends a value that was just made to the other places that read it. A range of the elements of a
 * parameter (ZeRO) is joined first, since only the parameter's place knows their order. */
weft_status weft_rewrite_send(rewriter *r, weft_value v) WEFT_NODISCARD;

/* --- gradient.c --- */
/* Prepares the sums of gradients: fills last_mate. */
weft_status weft_gradient_begin(rewriter *r) WEFT_NODISCARD;
void weft_gradient_end(rewriter *r);
/* Says that result v of a node was emitted, which may be a gradient. */
weft_status weft_gradient_made(rewriter *r, const weft_node *node, weft_value v) WEFT_NODISCARD;
/* Sums a gradient over the ranks on which it is partial, to the sharding that the update needs. The
 * gradient may wait in a bucket until then. */
weft_status weft_rewrite_gradient(rewriter *r, weft_value v) WEFT_NODISCARD;
/* Sum gradients that wait in buckets: before node n, if it reads one; after node n, those of full
 * buckets; all. */
weft_status weft_gradient_before(rewriter *r, size_t n) WEFT_NODISCARD;
weft_status weft_gradient_after(rewriter *r, size_t n) WEFT_NODISCARD;
weft_status weft_gradient_flush(rewriter *r) WEFT_NODISCARD;
/* Exports the gradient of a parameter to the exchange, in the sharding that the update reads: that
 * of the parameter, or with ZeRO this rank's range of it. */
weft_status weft_gradient_export(rewriter *r, weft_value leaf) WEFT_NODISCARD;
/* Whether the gradient and the optimizer state of a parameter are spread over the data axis as
 * ranges. */
bool weft_gradient_spreads(const rewriter *r, weft_value param);

/* --- zero.c, virtual_workers.c: strategies --- */
/* A strategy: what it adds to the rewrite of a graph. Functions may be NULL, except for begin. */
typedef struct weft_strategy {
    /* ARGUMENT: the options of the plan do not fit together. */
    weft_status (*check)(const weft_plan *plan);
    /* Prepares the rewrite for one rank. */
    weft_status (*begin)(rewriter *r);
    /* Emits a node at a place, and sets *done, if the strategy has its own way of computing it. */
    weft_status (*node)(rewriter *r, const weft_node *node, int place, bool *done);
    /* Assigns a leaf its next value, and sets *done, if the strategy has its own way of doing so.
     */
    weft_status (*assign)(rewriter *r, weft_value leaf, weft_value next, bool *done);
    /* ARGUMENT: the strategy does not fit to an exchange that makes the update itself. */
    weft_status (*updated_elsewhere)(const weft_plan_options *options, const char *exchange);
} weft_strategy;
enum { STRATEGIES = 2 };
extern const weft_strategy *const weft_strategies[STRATEGIES];
/* Fails unless the strategies fit to an exchange that makes the update itself. */
weft_status weft_plan_check_exchange(const weft_plan_options *options,
                                     const char *exchange) WEFT_NODISCARD;

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
/* The bit set of other places that read the value. */
static inline uint64_t readers_elsewhere(const value_state *s)
{
    return s->place == ANYWHERE ? 0 : s->readers & ~((uint64_t)1 << s->place);
}
static inline int64_t whole_dim(const rewriter *r, weft_value v, int dim)
{
    return r->from->values[v].type.shape.dim[dim];
}

/* This rank's part of a shape: its sizes and its start. A FLAT part is a vector, whose start[0] is
 * its first element in memory order. */
void weft_rewrite_part(const rewriter *r, const weft_shape *whole, sharding split, weft_shape *part,
                       int64_t *start);

/* Registers the built-in schedules. */
weft_status weft_schedules_register(weft_context *context) WEFT_NODISCARD;

/* mesh_comms.c: the sizes of the communicators that weft_plan_split makes; returns their number. */
int weft_plan_comms(const weft_plan *plan, int sizes[WEFT_MESH_MASKS]);

#endif
