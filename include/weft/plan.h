/*
 * Plans: the distribution of a graph over ranks.
 *
 * Ranks form a mesh with up to four axes. `data` splits the batch, `domain` the height of images,
 * `tensor` the weights and the values computed from them, `pipeline` the layers. Rank numbers run
 * over tensor first, then domain, data, pipeline. Instead of a pipeline, nodes may be placed on
 * ranks by name.
 *
 * A plan rewrites a graph into the graph of one rank: values become parts of values, and transfers
 * are added where a node needs another part than there is. One rule covers all operators, by their
 * label signatures; there is none for strategies. All ranks must make the same plan of the same
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
    const char *mesh; /* "data=2,tensor=2": sizes, whose product is `ranks`; NULL: data=ranks */
    /* 1: optimiser state is split over the data axis (Rajbhandari et al. 2020); 2: also gradients;
     * 3: also parameters. 0: none. */
    int zero;
    /* "LEAF:DIM=AXIS,...": splits a leaf along a dimension (a number, a label of the first operator
     * that reads it, or in/out for weights) over a mesh axis. NULL: none. */
    const char *shard;
    /* "PATTERN=cpu:K,...": nodes whose names match (shell patterns) run on rank K of the mesh.
     * rank:K means the same. Other nodes run where their first input is. NULL: none. */
    const char *place;
    /* V > 0: the batch is computed by V virtual workers, each with its own part of the batch, whose
     * gradients are added in a fixed binary tree; the data axis must divide V. The graph is that of
     * as many workers as the data axis has ranks. No leaf may be pinned to the data axis then. */
    int virtual_workers;
    /* Sums over ranks use plain layouts. Otherwise they use the device layouts, which are compared
     * when the program is created: UNSUPPORTED if ranks have different layouts of a value, as with
     * uneven parts or different kinds of machines. */
    bool plain_sums;
    /* Bytes of gradients of a rank that are summed in one message; 0: 1 MiB. Results do not depend
     * on it. */
    size_t bucket_bytes;
    /* Costs of the nodes of the graph, forward and gradient together, in any unit, for balancing
     * pipeline stages; NULL: estimates. */
    const double *node_costs;
} weft_plan_options;

WEFT_API void weft_plan_options_init(weft_plan_options *options);

/* ARGUMENT: the mesh does not multiply to the ranks, or pins or places match nothing. The graph is
 * not stored. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_create(const weft_graph *graph,
                                                     const weft_plan_options *options,
                                                     weft_plan **out);
WEFT_API void weft_plan_destroy(weft_plan **plan);

/* Mesh axes: name, size in this plan. NULL past the end. */
WEFT_API const char *weft_axis_name(int axis);
WEFT_API int weft_plan_axis(const weft_plan *plan, int axis);
/* The coordinate of a rank along an axis. */
WEFT_API int weft_plan_coordinate(const weft_plan *plan, int rank, int axis);
/* Places: pipeline stages, or ranks that nodes are placed on; at least 1. */
WEFT_API int weft_plan_places(const weft_plan *plan);
WEFT_API int weft_plan_place(const weft_plan *plan, int rank);

/* Recomputation (Chen et al. 2016): the same training graph, but backward computes most results of
 * forward again instead of keeping them. map[v] becomes the value in the new graph for v in the old
 * one; it has room for all values of the old one. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_recompute(const weft_graph *graph, weft_graph **out,
                                                         weft_value *map);

/* The product of a mesh's sizes, and the size of one axis (1 if the mesh does not name it). */
WEFT_API WEFT_NODISCARD weft_status weft_mesh_ranks(const char *mesh, int64_t *out);
WEFT_API WEFT_NODISCARD weft_status weft_mesh_axis(const char *mesh, const char *axis,
                                                   int64_t *out);

/* Collective: splits a communicator of all ranks of the plan into those of each set of axes. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_split(const weft_plan *plan, weft_comm *all,
                                                    weft_comms *out);
/* Closes the communicators of weft_plan_split. */
WEFT_API void weft_plan_close_comms(weft_comms *comms);

/* --- schedules --- */

typedef struct weft_action {
    weft_phase phase; /* FORWARD or BACKWARD */
    int micro;        /* index of the micro-batch */
} weft_action;

/* The passes of a stage in a step, before the update. */
typedef struct weft_schedule {
    weft_action *actions;
    int count;
    int slots; /* most micro-batches between forward and backward */
} weft_schedule;

/* "gpipe": all forward, then all backward (Huang et al. 2019). "1f1b": backward as early as
 * possible, with at most stages - stage micro-batches in flight (Narayanan et al. 2019). With
 * one stage micro-batches run one after the other. ARGUMENT: no such schedule, or one that
 * deadlocks. */
WEFT_API WEFT_NODISCARD weft_status weft_schedule_make(const weft_context *context,
                                                       const char *kind, int stages, int stage,
                                                       int microbatches, weft_schedule *out);
/* The schedule of a rank of a plan: that of its stage, or, if nodes were placed by name, the same
 * for all ranks. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_schedule(const weft_plan *plan, int rank,
                                                       const char *kind, int microbatches,
                                                       weft_schedule *out);
WEFT_API void weft_schedule_free(weft_schedule *schedule);
/* Simulates all stages of a schedule. forward[s] and backward[s] are the times of a micro-batch at
 * stage s; messages take no time. *makespan and *bubble (the fraction of all stages' time spent
 * waiting) may be NULL. ARGUMENT: a stage would deadlock or have nothing to do; the message names
 * it. */
WEFT_API WEFT_NODISCARD weft_status weft_schedule_check(const weft_context *context,
                                                        const char *kind, int stages,
                                                        int microbatches, const double *forward,
                                                        const double *backward, double *makespan,
                                                        double *bubble);

/* The graph of one rank. */
typedef struct weft_rewritten weft_rewritten;

/* Rewrites the graph (the plan's, or another one of the same model: common leaves are split in the
 * same way). Any value may be looked up in the result, or fetched where the rank has it. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_rewrite(weft_plan *plan, const weft_graph *graph,
                                                      int rank, weft_rewritten **out);
WEFT_API void weft_rewritten_destroy(weft_rewritten **rewritten);
WEFT_API const weft_graph *weft_rewritten_graph(const weft_rewritten *rewritten);

/* This rank's part of a value of the original graph, or WEFT_NO_VALUE. */
WEFT_API weft_value weft_rewritten_value(const weft_rewritten *rewritten, weft_value value);
/* Whether this rank's part contributes when the parts of all ranks are added: each part, and each
 * partial sum, is counted once. */
WEFT_API bool weft_rewritten_counts(const weft_rewritten *rewritten, weft_value value);
/* The start of a leaf's part, and the whole shape. The part's shape is that of
 * weft_graph_value_type. */
WEFT_API void weft_graph_part(const weft_graph *graph, weft_value value, weft_shape *whole,
                              int64_t *start);

#ifdef __cplusplus
}
#endif
#endif
