/*
 * Plans: how a graph is spread over ranks.
 *
 * Ranks form a mesh with up to four axes. `data` splits the batch, `domain` the height of images,
 * `tensor` the weights and what is computed from them, `pipeline` the layers. Rank numbers run over
 * tensor first, then domain, data, pipeline. Instead of a pipeline, nodes may be placed on ranks by
 * name.
 *
 * A plan rewrites a graph into the graph of one rank: values become parts of values, and transfers
 * are inserted where a node needs another part than there is. There is one rule for all operators,
 * their label signatures, and none for strategies. All ranks must make the same plan of the same
 * graph.
 */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "weft/comm.h"
#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_plan weft_plan;

typedef struct weft_plan_options {
    size_t struct_size; /* sizeof(weft_plan_options) */
    int ranks;
    const char *mesh; /* "data=2,tensor=2": sizes, their product is `ranks`; NULL: data=ranks */
    /* 1: optimiser state is split over the data axis (Rajbhandari et al. 2020); 2: also gradients;
     * 3: also parameters. 0: none. */
    int zero;
    /* "LEAF:DIM=AXIS,...": splits a leaf along a dimension (a number, a label of the first operator
     * that reads it, or in/out for weights) over a mesh axis. NULL: none. */
    const char *shard;
    /* "PATTERN=cpu:K,...": nodes whose names match (shell patterns) run on rank K of the mesh.
     * rank:K means the same. Others run where their first input is. NULL: none. */
    const char *place;
    /* V > 0: the batch is computed as V workers, each a batch of its own, whose gradients are added
     * in a fixed binary tree; the data axis must divide V. The graph is that of data-axis many
     * workers. No leaf may be pinned to the data axis then. */
    int virtual_workers;
    /* Sums over ranks in plain layout. Otherwise they go as they lie, and creating the program
     * compares: UNSUPPORTED if the ranks lay a value differently, as those of uneven parts, or
     * machines of different kinds, may do. */
    bool plain_sums;
    /* Bytes of gradients of a rank that are summed in one message; 0: 1 MiB. Changes no bit. */
    size_t bucket_bytes;
    /* What each node of the graph costs, forward and gradient together, in any unit, to balance the
     * stages of a pipeline by; NULL: an estimate. */
    const double *node_costs;
} weft_plan_options;

WEFT_API void weft_plan_options_init(weft_plan_options *options);

/* ARGUMENT: a mesh that does not multiply to the ranks, pins or places that match nothing. The
 * graph is not kept. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_create(const weft_graph *graph,
                                                     const weft_plan_options *options,
                                                     weft_plan **out);
WEFT_API void weft_plan_destroy(weft_plan **plan);

/* Mesh axes: name, size in this plan. NULL past the end. */
WEFT_API const char *weft_axis_name(int axis);
WEFT_API int weft_plan_axis(const weft_plan *plan, int axis);
/* Coordinate of a rank along an axis. */
WEFT_API int weft_plan_coordinate(const weft_plan *plan, int rank, int axis);
/* Places: pipeline stages, or ranks that nodes are placed on; at least 1. */
WEFT_API int weft_plan_places(const weft_plan *plan);
WEFT_API int weft_plan_place(const weft_plan *plan, int rank);

/* The same training graph, but most results of forward are computed again in backward instead of
 * being kept (Chen et al. 2016). map[v] becomes the value in the new graph that v was in the old
 * one; it has room for all values of the old one. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_recompute(const weft_graph *graph, weft_graph **out,
                                                         weft_value *map);

/* The product of a mesh's sizes, and that of one axis (1 if the mesh does not name it). */
WEFT_API WEFT_NODISCARD weft_status weft_mesh_ranks(const char *mesh, int64_t *out);
WEFT_API WEFT_NODISCARD weft_status weft_mesh_axis(const char *mesh, const char *axis,
                                                   int64_t *out);

/* Collective: the communicators of each set of axes, split off from one of all ranks of the plan.
 */
WEFT_API WEFT_NODISCARD weft_status weft_plan_split(const weft_plan *plan, weft_comm *all,
                                                    weft_comms *out);
/* Closes those that weft_plan_split has made. */
WEFT_API void weft_plan_close_comms(weft_comms *comms);

/* --- schedules --- */

typedef struct weft_action {
    weft_phase phase; /* FORWARD or BACKWARD */
    int micro;        /* which micro-batch */
} weft_action;

/* What a stage does in a step, before the update. */
typedef struct weft_schedule {
    weft_action *actions;
    int count;
    int slots; /* micro-batches that are between forward and backward at most */
} weft_schedule;

/* "gpipe": all forward, then all backward (Huang et al. 2019). "1f1b": backward as early as may be,
 * at most stages - stage in flight (Narayanan et al. 2019). With one stage micro-batches run one
 * after the other. ARGUMENT: no such schedule, or one that cannot be run to its end. */
WEFT_API WEFT_NODISCARD weft_status weft_schedule_make(const weft_context *context,
                                                       const char *kind, int stages, int stage,
                                                       int microbatches, weft_schedule *out);
/* What a rank of a plan does in a step: its stage's schedule, or, where nodes were placed by name,
 * the same on all ranks. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_schedule(const weft_plan *plan, int rank,
                                                       const char *kind, int microbatches,
                                                       weft_schedule *out);
WEFT_API void weft_schedule_free(weft_schedule *schedule);
/* Runs all stages of a schedule in thought. forward[s] and backward[s] are what a micro-batch takes
 * at stage s; messages take no time. *makespan and *bubble (the share of all stages' time in which
 * they wait) may be NULL. ARGUMENT: some stage would wait for ever, or have nothing to do; the
 * message names it. */
WEFT_API WEFT_NODISCARD weft_status weft_schedule_check(const weft_context *context,
                                                        const char *kind, int stages,
                                                        int microbatches, const double *forward,
                                                        const double *backward, double *makespan,
                                                        double *bubble);

/* A graph as one rank runs it. */
typedef struct weft_rewritten weft_rewritten;

/* Rewrites the graph (the plan's, or another one of the same model: leaves that both have are split
 * alike). Any value may be looked up in the result, or be fetched where the rank has it. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_rewrite(weft_plan *plan, const weft_graph *graph,
                                                      int rank, weft_rewritten **out);
WEFT_API void weft_rewritten_destroy(weft_rewritten **rewritten);
WEFT_API const weft_graph *weft_rewritten_graph(const weft_rewritten *rewritten);

/* This rank's part of a value of the graph that was rewritten, or WEFT_NO_VALUE if it has none. */
WEFT_API weft_value weft_rewritten_value(const weft_rewritten *rewritten, weft_value value);
/* Whether this rank counts it when all ranks' parts are added up: each part, and each partial sum,
 * once. */
WEFT_API bool weft_rewritten_counts(const weft_rewritten *rewritten, weft_value value);
/* Where the part of a leaf begins, and the whole shape. Parts of weft_graph_value_type. */
WEFT_API void weft_graph_part(const weft_graph *graph, weft_value value, weft_shape *whole,
                              int64_t *start);

#ifdef __cplusplus
}
#endif
#endif
