/* Declares mesh programs: the program of a graph that runs forward only, for each rank of a mesh
 * whose ranks are threads of this process. The rewrite is that of training; with one rank the
 * program is that of the graph itself. */
#ifndef WEFT_TRAIN_MESH_PROGRAM_H
#define WEFT_TRAIN_MESH_PROGRAM_H

#include "checkpoint/checkpoint.h"
#include "train/rank_team.h"
#include "weft/program.h"

/* The weights of a model on the ranks of a mesh, which all its programs share. Owned by the caller;
 * zero before it is opened. */
typedef struct weft_mesh_weights {
    int ranks;
    const char *mesh;     /* NULL: one rank */
    weft_plan *plan;      /* of the first program's graph; NULL: there is none yet, or one rank */
    weft_store **stores;  /* [ranks]: the weights, or each rank's shard of them */
    const char *tuned_by; /* file of weft_mesh_weights_tune; NULL: there was none */
    size_t measured;      /* lines that the file had */
} weft_mesh_weights;

/* Sets *out to the ranks of a mesh, 1 for NULL or "". ARGUMENT: it is no mesh, or has too many. */
WEFT_PRIVATE_API weft_status weft_mesh_rank_count(const char *mesh, int *out) WEFT_NODISCARD;
/* mesh: its sizes, such as "tensor=2", which must outlive the weights; NULL or "": one rank.
 * checkpoint: its table of measurements chooses kernels, if it has one. ARGUMENT: it is no mesh.
 * Close the weights also after a failure. */
WEFT_PRIVATE_API weft_status weft_mesh_weights_open(weft_context *context, const char *device,
                                                    uint64_t seed, const char *mesh,
                                                    const weft_checkpoint *checkpoint,
                                                    weft_mesh_weights *out) WEFT_NODISCARD;
/* Lets programs choose kernels by a file of weft train --tune, which must outlive the weights and
 * need not be there yet; groups that it lacks are measured until then (weft_seconds). ARGUMENT: it
 * is of another machine; FORMAT: it is damaged. `_keep_tuning` writes new measurements to the file,
 * after the programs have been made; *grown: there are some, so that programs that are made anew
 * may choose other kernels. */
WEFT_PRIVATE_API weft_status weft_mesh_weights_tune(weft_mesh_weights *weights, const char *file,
                                                    double until) WEFT_NODISCARD;
WEFT_PRIVATE_API weft_status weft_mesh_weights_keep_tuning(const weft_mesh_weights *weights,
                                                           bool *grown) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_mesh_weights_close(weft_mesh_weights *weights);
/* Loads a checkpoint, once there is a program, which determines the layouts of the weights. graph:
 * that of the model, which must have all tensors of the checkpoint. */
WEFT_PRIVATE_API weft_status weft_mesh_weights_load(const weft_mesh_weights *weights,
                                                    const weft_checkpoint *checkpoint,
                                                    const weft_graph *graph) WEFT_NODISCARD;
/* The fewest rows that a batch may have: one for each rank of the data axis. */
WEFT_PRIVATE_API weft_status weft_mesh_weights_rows(const weft_mesh_weights *weights,
                                                    int64_t *out) WEFT_NODISCARD;

typedef struct weft_mesh_part {
    weft_rewritten *rewritten; /* NULL: there is one rank, and it runs the whole graph */
    const weft_graph *graph;   /* of this rank: rewritten, or the whole one */
    weft_program *program;
} weft_mesh_part;

typedef struct weft_mesh_program {
    int ranks;
    weft_mesh_part *parts; /* [ranks] */
} weft_mesh_program;

/* Creates the programs of all ranks, whose outputs are the values `fetch` of the graph; the graph
 * must outlive them. Free the program also after a failure. */
WEFT_PRIVATE_API weft_status weft_mesh_program_create(weft_mesh_weights *weights,
                                                      const weft_graph *graph,
                                                      const weft_value *fetch, int count,
                                                      weft_rank_team *team,
                                                      weft_mesh_program *out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_mesh_program_free(weft_mesh_program *program);
/* Creates an instance for each rank of a team: instances[ranks]. prepare: also prepares the weights
 * for the program, which must be done once. */
WEFT_PRIVATE_API weft_status weft_mesh_program_instances(const weft_mesh_program *program,
                                                         const weft_mesh_weights *weights,
                                                         weft_rank_team *team, bool prepare,
                                                         weft_instance **instances) WEFT_NODISCARD;

/* The value of a rank's graph that is its part of a value of the whole graph; WEFT_NO_VALUE: the
 * rank has none. */
WEFT_PRIVATE_API weft_value weft_mesh_program_value(const weft_mesh_program *program, int rank,
                                                    weft_value value);
/* Sets `to`, a dense tensor of this type, to a value of the whole graph that was fetched. */
WEFT_PRIVATE_API void weft_mesh_program_gather(const weft_mesh_program *program,
                                               weft_instance *const *instances, weft_value value,
                                               const weft_type *type, void *to);

#endif
