/* Small training graphs of every kind of model, run on any mesh, for the tests of rewrites. */
#ifndef WEFT_TESTS_GRAPH_FIXTURE_H
#define WEFT_TESTS_GRAPH_FIXTURE_H

#include "ranks.h"

enum { STEPS = 10, MOST_TENSORS = 256 };

/* A model: a built-in one by name, a YAML text, or a function that adds the nodes from the input x
 * to the logits. */
typedef struct model_case {
    const char *model, *yaml;
    weft_value (*build)(weft_graph *graph, weft_value x);
    int64_t sample[4];
    int64_t batch;
    int rank; /* number of dimensions of a sample */
    bool f32; /* trained in single precision only, since double precision is too slow */
    double lr;
    int classes;    /* number of classes; 0: 5 */
    bool tokens;    /* a sample is a sequence of tokens, without spatial dimensions */
    bool recurrent; /* its positions cannot be split by the domain axis */
    bool shifted;   /* `build`: a scalar parameter is added to the loss */
    int targets;    /* > 0: the model predicts so many numbers, and no class */
} model_case;

typedef struct mesh_case {
    const char *mesh;
    int ranks, zero;
    const char *place, *shard;
} mesh_case;

/* The models of the equivalence suite; a transformer's sequence has SEQUENCE tokens of WIDTH. */
enum { MODELS = 19, SEQUENCE = 6, WIDTH = 16, HEADS = 4 };
extern const model_case models[MODELS];
weft_value transformer(weft_graph *graph, weft_value x);
weft_value causal(weft_graph *graph, weft_value x);
weft_value mixed_rows(weft_graph *graph, weft_value x);
weft_value mixed_pool(weft_graph *graph, weft_value x);
weft_value mixed_units(weft_graph *graph, weft_value x);
weft_value shared_weight(weft_graph *graph, weft_value x);
weft_value side_reader(weft_graph *graph, weft_value x);

enum { MESHES = 44 };
extern const mesh_case suite_meshes[MESHES];

typedef struct setting {
    const model_case *model;
    const mesh_case *mesh;
    const char *device;
    weft_dtype real;
    int microbatches;
    const char *schedule; /* pipeline schedule; NULL: one micro-batch after the other */
    const char *optimizer;
    double clip;
    bool recompute;
    size_t bucket_bytes; /* 0: the plan's default */
    weft_update update;  /* not HERE: gradients are exported, and momentum is 0 */
    bool bf16_sums;      /* gradients cross ranks in bf16 */
    int workers; /* virtual workers: micro-batches times the ranks of the data axis; 0: none */
} setting;

/* Three dense layers of 16 x 32, 32 x 16 and 16 x 5 (dense8_case: 16 x 8) without bias. The
 * formulas for bytes are exact for them, since their gradients fill whole cache lines. */
enum { W1 = 16 * 32, W2 = 32 * 16, BATCH = 8 };
extern const model_case dense_case, dense8_case;

/* A setting with one micro-batch, sgd and single precision, on the reference device. */
setting net_setting(const model_case *m, const mesh_case *mesh);

typedef struct net {
    weft_context *context;
    weft_graph *graph;
    weft_model_values values;
    weft_optimizer_values optimizer;
} net;

/* Whether the suite runs a model on this mesh: false if the mesh makes no sense for the model
 * (tests of their own check the refusals) or the build is too slow. processes: number of MPI
 * processes, which run only meshes of so many ranks; 0: ranks are threads. */
bool net_fits(const setting *s, const mesh_case *mesh, int processes);

weft_status net_build(net *n, const setting *s);
/* Builds only the model, for inference. */
weft_status net_build_forward(net *n, const setting *s);
void net_drop(net *n);

/* One rank of a plan: its graph, store and instance, ready to run. */
typedef struct prepared {
    net n;
    weft_plan *plan;
    weft_rewritten *mine;
    weft_comms comms;
    weft_store *store;
    weft_instance *program;
    weft_schedule schedule;
    int most_under_way; /* most micro-batches between forward and backward, with a schedule */
    /* Called before and after each step; set after net_prepare; NULL: not called. */
    void (*around)(void *user, bool after);
    void *user;
} prepared;

weft_plan_options net_plan_options(const setting *s);
weft_status net_prepare(prepared *p, const setting *s, weft_comm *world);
void net_unprepare(prepared *p);

/* Gathers tensor i on every rank of the data axis, which receive it one after the other (NULL:
 * there is one rank). */
weft_status net_gather(const weft_store *store, int i, weft_comm *data_axis, void *data);

/* Runs STEPS steps; losses[step] gets this rank's share of the loss. */
weft_status net_train(const setting *s, prepared *p, double losses[STEPS]);

/* Evaluates the model on one more batch; *loss gets this rank's share of the loss. */
weft_status net_evaluate(const setting *s, const prepared *p, int rank, double *loss);

/* Runs the model forward on one more batch, on this rank of the plan of p (no plan: alone). With
 * `all` every value that a node makes can be read afterwards, otherwise the loss alone. */
weft_status net_run_forward(const setting *s, const prepared *p, int rank, bool all, prepared *e);
void net_drop_forward(prepared *e);

/* Losses and tensors after STEPS steps of one rank without a rewrite; the last loss is that of the
 * evaluation. */
typedef struct result {
    double losses[STEPS + 1];
    int count;
    char *names[MOST_TENSORS];
    weft_shape shapes[MOST_TENSORS];
    void *data[MOST_TENSORS];
} result;

void result_of_one(const setting *s, result *out);
void result_free(result *r);

/* Element i of `data`. */
double value_at(const void *data, weft_dtype dtype, int64_t i);

#endif
