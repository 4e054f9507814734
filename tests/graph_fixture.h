/* Small training graphs of every kind of model, and runs of them on any mesh: what the tests of
 * rewrites have in common. */
#ifndef WEFT_TESTS_GRAPH_FIXTURE_H
#define WEFT_TESTS_GRAPH_FIXTURE_H

#include "ranks.h"

enum { STEPS = 10, MOST_TENSORS = 256 };

/* A model by name, as YAML, or as a function that adds nodes up to the logits. */
typedef struct model_case {
    const char *model, *yaml;
    weft_value (*build)(weft_graph *graph, weft_value x);
    int64_t sample[4];
    int64_t batch;
    int rank; /* of a sample */
    bool f32; /* too slow in double precision */
    double lr;
    int classes; /* 0: 5 */
    bool tokens; /* a sample is a sequence of these: no dimension of space */
    int targets; /* > 0: so many numbers are to be predicted, no class */
} model_case;

typedef struct mesh_case {
    const char *mesh;
    int ranks, zero;
    const char *place, *shard;
} mesh_case;

/* The models of the equivalence suite; a transformer's sequence has SEQUENCE tokens of WIDTH. */
enum { MODELS = 17, SEQUENCE = 6, WIDTH = 16, HEADS = 4 };
extern const model_case models[MODELS];
weft_value transformer(weft_graph *graph, weft_value x);
weft_value mixed_rows(weft_graph *graph, weft_value x);
weft_value mixed_pool(weft_graph *graph, weft_value x);
weft_value mixed_units(weft_graph *graph, weft_value x);

enum { MESHES = 37 };
extern const mesh_case suite_meshes[MESHES];

typedef struct setting {
    const model_case *model;
    const mesh_case *mesh;
    const char *device;
    weft_dtype real;
    int microbatches;
    const char *schedule; /* NULL: one micro-batch after the other */
    const char *optimizer;
    double clip;
    bool recompute;
    size_t bucket_bytes; /* 0: the plan's own */
    weft_update
        update;  /* gradients are handed over: without momentum, so that they tell the step */
    int workers; /* virtual ones: micro-batches times the ranks of the data axis; 0: none */
} setting;

/* Three dense layers of 16 x 32, 32 x 16 and 16 x 5, or x 8, for which formulas are exact:
 * gradients fill whole cache lines. */
enum { W1 = 16 * 32, W2 = 32 * 16, BATCH = 8 };
extern const model_case dense_case, dense8_case;

/* One micro-batch of sgd in single precision on the reference device. */
setting net_setting(const model_case *m, const mesh_case *mesh);

typedef struct net {
    weft_context *context;
    weft_graph *graph;
    weft_model_values values;
    weft_optimizer_values optimizer;
} net;

/* Whether a mesh makes sense for a model; refusals have tests of their own. processes: of MPI,
 * which meet the meshes of as many ranks; 0: threads. */
bool net_fits(const setting *s, const mesh_case *mesh, int processes);

weft_status net_build(net *n, const setting *s);
void net_drop(net *n);

/* One rank of a plan, ready to run. */
typedef struct prepared {
    net n;
    weft_plan *plan;
    weft_rewritten *mine;
    weft_comms comms;
    weft_store *store;
    weft_instance *program;
    weft_schedule schedule;
    int most_under_way; /* micro-batches between forward and backward, after net_train */
    void (*around)(void *user, bool after); /* each step; set after net_prepare; NULL: nobody */
    void *user;
} prepared;

weft_plan_options net_plan_options(const setting *s);
weft_status net_prepare(prepared *p, const setting *s, weft_comm *world);
void net_unprepare(prepared *p);

/* Tensor i in whole on every rank of the data axis (NULL: there is one): each in turn gets it. */
weft_status net_gather(const weft_store *store, int i, weft_comm *data_axis, void *data);

/* Ten steps; losses[step] gets this rank's share. */
weft_status net_train(const setting *s, prepared *p, double losses[STEPS]);

/* What one rank without a rewrite comes to. */
typedef struct result {
    double losses[STEPS];
    int count;
    char *names[MOST_TENSORS];
    weft_shape shapes[MOST_TENSORS];
    void *data[MOST_TENSORS];
} result;

void result_of_one(const setting *s, result *out);
void result_free(result *r);

/* The number at place i of tensor `data`. */
double value_at(const void *data, weft_dtype dtype, int64_t i);

#endif
