/*
 * Plans: the distribution of a graph over ranks.
 *
 * Ranks form a mesh with up to four axes. `data` splits the batch, `domain` the height of images,
 * `tensor` the weights and the values computed from them, `pipeline` the layers. Rank numbers run
 * over tensor first, then domain, data, pipeline. Instead of giving a mesh, the user may place
 * nodes on ranks by name.
 *
 * A plan rewrites a graph into the graph of one rank: values become parts of values, and transfers
 * are added where a node needs another part than its rank has. One rule covers all operators: their
 * label signatures say which dimensions may be split. Data, tensor and domain parallelism follow
 * from it; ZeRO, virtual workers and pipelines add rules of where leaves are kept, of the order of
 * sums, and of stages. All ranks must make the same plan of the same graph.
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
    int ranks;          /* ranks of the mesh, 1 to 1024 */
    /* "data=2,tensor=2": axis sizes, whose product is `ranks`; NULL: data=ranks. */
    const char *mesh;
    /* ZeRO stage (Rajbhandari et al. 2020). 1: the optimizer state is split over the data axis; 2:
     * also the gradients; 3: also the parameters. 0: none. */
    int zero;
    /* "LEAF:DIM=AXIS,...": splits a leaf along a dimension over a mesh axis. DIM is a number from
     * 0, a label of the first operator that reads the leaf, or in/out for the inputs and outputs of
     * a weight. NULL: none. */
    const char *shard;
    /* "PATTERN=cpu:K,...": forward nodes whose names match a shell pattern run on rank K; rank:K
     * means the same as cpu:K. The first pattern that matches decides. Other nodes run where their
     * first placed input is. NULL: none. */
    const char *place;
    /* V > 0: the batch of a step is computed by V virtual workers, each with its own part of the
     * batch; their gradients are added in a fixed binary tree, whatever the number of ranks. The
     * data axis, of size N, must divide V. The graph then has a batch of N workers, and a step runs
     * V / N micro-batches. No leaf may be pinned to the data axis. 0: none. */
    int virtual_workers;
    /* true: sums over ranks use plain layouts. false: they use the device's layouts, which must be
     * the same on all ranks; weft_instance_create compares them, and is UNSUPPORTED if they differ,
     * as with uneven parts or different kinds of machines. */
    bool plain_sums;
    /* Bytes of the gradients of a rank that are summed in one message (a bucket); 0: 1 MiB. Results
     * do not depend on it. */
    size_t bucket_bytes;
    /* For balancing pipeline stages: the cost of each node of the graph, forward and gradient
     * together, in any unit (weft_instance_profile measures it). NULL: estimates. */
    const double *node_costs;
    /* The shares of the ranks of the data axis in each batch, in any unit: one positive number for
     * each coordinate. A rank gets its share of the samples, rounded, and at least one. Values that
     * ranks would have to gather by samples or scatter are refused. NULL: equal shares. */
    const double *shares;
    /* true: gradients of parameters cross ranks in BF16. Each rank's own sum, over its samples and
     * micro-batches, is not rounded; it is rounded to the nearest BF16 where it leaves the rank,
     * and so is each sum of the fixed tree over N ranks. A sum differs by at most (1 + ceil(log2
     * N)) 2^-8 of the sum of the magnitudes of its addends. Not with virtual_workers. */
    bool bf16_sums;
} weft_plan_options;

WEFT_API void weft_plan_options_init_size(weft_plan_options *options, size_t size);
#define weft_plan_options_init(options) weft_plan_options_init_size(options, sizeof(*(options)))

/* Makes a plan of a graph, which is not stored. ARGUMENT: the sizes of the mesh do not multiply to
 * the ranks, or a pin or a placement matches nothing. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_create(const weft_graph *graph,
                                                     const weft_plan_options *options,
                                                     weft_plan **out);
WEFT_API void weft_plan_destroy(weft_plan **plan);

/* The name of mesh axis `axis`, numbered from 0; NULL past the end. The size of that axis in a
 * plan. */
WEFT_API const char *weft_axis_name(int axis);
WEFT_API int weft_plan_axis(const weft_plan *plan, int axis);
/* The coordinate of a rank along a mesh axis, from 0. */
WEFT_API int weft_plan_coordinate(const weft_plan *plan, int rank, int axis);
/* The number of places, at least 1: pipeline stages, or ranks if nodes were placed by name; and the
 * place of a rank. */
WEFT_API int weft_plan_places(const weft_plan *plan);
WEFT_API int weft_plan_place(const weft_plan *plan, int rank);

/* Recomputation (Chen et al. 2016): copies a training graph so that backward computes most results
 * of forward again instead of keeping them. map[v] becomes the value of the new graph that stands
 * for value v; the caller gives map room for all values of `graph`. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_recompute(const weft_graph *graph, weft_graph **out,
                                                         weft_value *map);

/* Sets *out to the product of a mesh's sizes, or to the size of one axis, which is 1 if the mesh
 * does not name it. */
WEFT_API WEFT_NODISCARD weft_status weft_mesh_ranks(const char *mesh, int64_t *out);
WEFT_API WEFT_NODISCARD weft_status weft_mesh_axis(const char *mesh, const char *axis,
                                                   int64_t *out);

/* Collective: splits a communicator of all ranks of the plan into communicators for each set of the
 * axes data, domain and tensor. out->learner is `all`, which stays the caller's. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_split(const weft_plan *plan, weft_comm *all,
                                                    weft_comms *out);
/* Closes the communicators that weft_plan_split has made. */
WEFT_API void weft_plan_close_comms(weft_comms *comms);

/* --- schedules --- */

/* One pass of a stage over one micro-batch. */
typedef struct weft_action {
    weft_phase phase; /* FORWARD or BACKWARD */
    int micro;        /* index of the micro-batch in its step, from 0 */
} weft_action;

/* The passes of one stage in one step, in order; the update follows them. */
typedef struct weft_schedule {
    weft_action *actions;
    int count;
    int slots; /* most micro-batches that have run forward and not yet backward */
} weft_schedule;

/* Makes the schedule of a stage, numbered from 0. "gpipe" (Huang et al. 2019): all forward passes,
 * then all backward passes. "1f1b" (Narayanan et al. 2019): each backward pass as early as
 * possible, with at most `stages` - `stage` micro-batches in flight. With one stage each
 * micro-batch runs forward and backward before the next one. ARGUMENT: no schedule has this
 * name. */
WEFT_API WEFT_NODISCARD weft_status weft_schedule_make(const weft_context *context,
                                                       const char *kind, int stages, int stage,
                                                       int microbatches, weft_schedule *out);
/* Makes the schedule of a rank: that of its stage; if nodes were placed by name, all ranks have
 * that of the first stage. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_schedule(const weft_plan *plan, int rank,
                                                       const char *kind, int microbatches,
                                                       weft_schedule *out);
WEFT_API void weft_schedule_free(weft_schedule *schedule);
/* Simulates all stages of a schedule together. forward[s] and backward[s] are the times of a
 * micro-batch at stage s; messages take no time. *makespan is the time of a step without its
 * update, *bubble the fraction of all stages' time that they spend waiting; both may be NULL.
 * ARGUMENT: a stage would wait for ever or has nothing to do; the message names it. */
WEFT_API WEFT_NODISCARD weft_status weft_schedule_check(const weft_context *context,
                                                        const char *kind, int stages,
                                                        int microbatches, const double *forward,
                                                        const double *backward, double *makespan,
                                                        double *bubble);

/* The result of a rewrite: the graph of one rank, and a map to it from the original graph. */
typedef struct weft_rewritten weft_rewritten;

/* Rewrites a graph for a rank: the plan's graph, or another one of the same model, whose leaves of
 * the same name are then split in the same way. Every value of `graph` may be looked up in the
 * result. */
WEFT_API WEFT_NODISCARD weft_status weft_plan_rewrite(weft_plan *plan, const weft_graph *graph,
                                                      int rank, weft_rewritten **out);
WEFT_API void weft_rewritten_destroy(weft_rewritten **rewritten);
WEFT_API const weft_graph *weft_rewritten_graph(const weft_rewritten *rewritten);

/* The value of the rank's graph that is its part of a value of the original graph; WEFT_NO_VALUE:
 * it has none. */
WEFT_API weft_value weft_rewritten_value(const weft_rewritten *rewritten, weft_value value);
/* Whether this rank's part counts when a caller adds up the parts of all ranks: of equal copies
 * only one counts, and each part and each partial sum counts once. */
WEFT_API bool weft_rewritten_counts(const weft_rewritten *rewritten, weft_value value);
/* Sets *whole to the shape of a value on all ranks, and start[] to the index in each dimension
 * where this rank's part begins. The shape of the part is that of weft_graph_value_type. */
WEFT_API void weft_graph_part(const weft_graph *graph, weft_value value, weft_shape *whole,
                              int64_t *start);

#ifdef __cplusplus
}
#endif
#endif
