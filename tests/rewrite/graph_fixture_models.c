/* The models of the equivalence suite, and the training graph of a setting. */
#include <math.h>

#include "graph_fixture.h"

static const char convolutions[] =
    "layers:\n"
    "  - {type: conv, filters: 6, kernel: 3, padding: 1}\n"
    "  - {type: relu}\n"
    "  - {type: conv, filters: 8, kernel: 5, stride: 2, padding: 2}\n"
    "  - {type: gelu}\n"
    "  - {type: maxpool, kernel: 3, stride: 2, padding: 1}\n"
    "  - {type: conv, filters: 8, kernel: 3, dilation: 2, padding: 2}\n"
    "  - {type: avgpool, kernel: 2, stride: 1}\n"
    "  - {type: dropout, rate: 0.25}\n"
    "  - {type: conv, filters: 4, kernel: 1, stride: 2}\n"
    "  - {type: tanh}\n"
    "  - {type: dense, units: 12}\n"
    "  - {type: sigmoid}\n"
    "  - {type: dense, units: classes}\n";
static const char norms[] = "layers:\n"
                            "  - {type: conv, filters: 8, kernel: 3}\n"
                            "  - {type: batch_norm}\n"
                            "  - {type: relu}\n"
                            "  - {type: conv, filters: 8, kernel: 3, groups: 2}\n"
                            "  - {type: global_avgpool}\n"
                            "  - {type: dense, units: 16}\n"
                            "  - {type: layer_norm}\n"
                            "  - {type: relu}\n"
                            "  - {type: dropout, rate: 0.5}\n"
                            "  - {type: dense, units: classes}\n";

/* Models with batch norms while the batch stays split: `pooled` has one before a max-pool, whose
 * index of maxima cannot be resharded; `rows` normalizes vectors; `channels` normalizes the input,
 * whose three channels do not divide. No layer directly before a batch norm has a bias, since the
 * bias would have a gradient of rounding errors alone. */
static const char pooled[] = "layers:\n"
                             "  - {type: conv, filters: 16, kernel: 3, padding: 1, bias: false}\n"
                             "  - {type: batch_norm}\n"
                             "  - {type: relu}\n"
                             "  - {type: maxpool}\n"
                             "  - {type: dense, units: classes}\n";
static const char rows[] = "layers:\n"
                           "  - {type: dense, name: a, units: 6}\n"
                           "  - {type: dense, name: b, from: a, units: 6}\n"
                           "  - {type: add, from: 'b, a'}\n"
                           "  - {type: tanh}\n"
                           "  - {type: batch_norm}\n"
                           "  - {type: dense, units: classes}\n";
static const char channels[] = "layers:\n"
                               "  - {type: batch_norm, name: norm2}\n"
                               "  - {type: avgpool, name: pool, kernel: 4, stride: 3}\n"
                               "  - {type: conv, filters: 3, kernel: 4, stride: 3, padding: 2, "
                               "name: conv1}\n"
                               "  - {type: add, from: 'pool, conv1'}\n"
                               "  - {type: dense, units: classes}\n";

/* Regression models: two targets from vectors, and three from images. */
static const char fitted[] = "layers:\n"
                             "  - {type: dense, units: 9}\n"
                             "  - {type: tanh}\n"
                             "  - {type: batch_norm}\n"
                             "  - {type: dense, units: outputs}\n";
static const char fitted_images[] = "loss: mse\n"
                                    "layers:\n"
                                    "  - {type: conv, filters: 6, kernel: 3, padding: 1}\n"
                                    "  - {type: gelu}\n"
                                    "  - {type: avgpool}\n"
                                    "  - {type: dropout, rate: 0.25}\n"
                                    "  - {type: dense, units: outputs}\n";

/* Convolutions and pools over one spatial dimension (`lines`) and over three (`volumes`), with odd
 * sides and strides that leave a remainder. */
static const char lines[] = "layers:\n"
                            "  - {type: conv, filters: 6, kernel: 4, padding: 2, bias: false}\n"
                            "  - {type: batch_norm}\n"
                            "  - {type: relu}\n"
                            "  - {type: maxpool, kernel: 3, stride: 2, padding: 1}\n"
                            "  - {type: conv, filters: 4, kernel: [3], dilation: 2, groups: 2}\n"
                            "  - {type: avgpool, kernel: 2}\n"
                            "  - {type: dense, units: classes}\n";
static const char volumes[] =
    "layers:\n"
    "  - {type: conv, filters: 4, kernel: [3, 2, 3], stride: [2, 1, 1], padding: [1, 0, 1]}\n"
    "  - {type: tanh}\n"
    "  - {type: maxpool, kernel: [2, 3, 2], stride: [1, 1, 2]}\n"
    "  - {type: conv, filters: 6, kernel: [3, 1, 2], padding: [1, 0, 0], bias: false}\n"
    "  - {type: batch_norm}\n"
    "  - {type: relu}\n"
    "  - {type: global_avgpool}\n"
    "  - {type: dense, units: classes}\n";

/* Sequences of 5 positions, which are read in both directions. */
static const char recurrent[] = "layers:\n"
                                "  - {type: lstm, units: 6, bidirectional: true}\n"
                                "  - {type: gru, units: 5, last: true}\n"
                                "  - {type: dense, units: classes}\n";

const model_case models[MODELS] = {
    {"mlp", .sample = {7}, .batch = 12, .rank = 1, .lr = 0.05},
    {"convolutions", convolutions, .sample = {2, 25, 21}, .batch = 9, .rank = 3, .lr = 0.05},
    {"norms", norms, .sample = {3, 11, 9}, .batch = 8, .rank = 3, .lr = 0.05},
    {"pooled", pooled, .sample = {2, 11, 8}, .batch = 9, .rank = 3, .lr = 0.05},
    {"rows", rows, .sample = {5}, .batch = 12, .rank = 1, .lr = 0.05},
    {"channels", channels, .sample = {3, 6, 4}, .batch = 8, .rank = 3, .lr = 0.05},
    {"fitted", fitted, .sample = {5}, .batch = 9, .rank = 1, .lr = 0.02, .targets = 2},
    {"fitted_images", fitted_images, .sample = {2, 9, 7}, .batch = 8, .rank = 3, .lr = 0.02,
     .targets = 3},
    {"mixed_rows", .build = mixed_rows, .sample = {5}, .batch = 8, .rank = 1, .lr = 0.05},
    {"mixed_pool", .build = mixed_pool, .sample = {2, 10, 9}, .batch = 8, .rank = 3, .lr = 0.05},
    {"mixed_units", .build = mixed_units, .sample = {3, 6, 4}, .batch = 8, .rank = 3, .lr = 0.05},
    {"lenet", .sample = {1, 16, 16}, .batch = 8, .rank = 3, .lr = 0.02},
    {"transformer", .build = transformer, .sample = {SEQUENCE, WIDTH}, .batch = 8, .rank = 2,
     .lr = 0.02, .tokens = true},
    {"recurrent", recurrent, .sample = {5, 4}, .batch = 9, .rank = 2, .lr = 0.2, .tokens = true,
     .recurrent = true},
    {"causal", .build = causal, .sample = {SEQUENCE, WIDTH}, .batch = 8, .rank = 2, .lr = 0.02,
     .tokens = true},
    {"lines", lines, .sample = {3, 27}, .batch = 9, .rank = 2, .lr = 0.05},
    {"volumes", volumes, .sample = {2, 11, 4, 5}, .batch = 8, .rank = 4, .lr = 0.05},
    {"inception", .sample = {3, 16, 16}, .batch = 8, .rank = 3, .f32 = true, .lr = 0.02},
    {"vgg11", .sample = {3, 32, 32}, .batch = 8, .rank = 3, .f32 = true, .lr = 0.001},
};

/* --- a transformer block (Vaswani et al. 2017) with pre-norm, and a mean over its tokens --- */

static weft_value node(weft_graph *g, const char *op, const char *name, const weft_value *in,
                       int count, const weft_attr *attrs, int attr_count)
{
    return weft_graph_node(g, op, name, in, count, attrs, attr_count);
}

static weft_value vector(weft_graph *g, const char *layer, const char *what, int64_t n,
                         double start)
{
    char name[64];
    weft_shape shape = weft_shape_of(1, &n);
    (void)snprintf(name, sizeof(name), "%s/%s", layer, what);
    return weft_graph_leaf(g, WEFT_VALUE_PARAM, name, weft_graph_real(g), &shape,
                           (weft_init){WEFT_INIT_CONSTANT, start});
}

static weft_value linear(weft_graph *g, const char *layer, weft_value x, int64_t in, int64_t out)
{
    char name[64];
    weft_shape shape = weft_shape_of(2, (int64_t[]){in, out});
    (void)snprintf(name, sizeof(name), "%s/weight", layer);
    weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, name, weft_graph_real(g), &shape,
                                   (weft_init){WEFT_INIT_UNIFORM, 1 / sqrt((double)in)});
    return node(g, "dense", layer, (weft_value[]){x, w}, 2, NULL, 0);
}

static weft_value biased(weft_graph *g, const char *layer, weft_value x, int64_t n)
{
    weft_attr axis = WEFT_ATTR_INT("axis", 2);
    return node(g, "bias", layer, (weft_value[]){x, vector(g, layer, "bias", n, 0.1)}, 2, &axis, 1);
}

static weft_value normed(weft_graph *g, const char *layer, weft_value x)
{
    weft_value gamma = vector(g, layer, "gamma", WIDTH, 1),
               beta = vector(g, layer, "beta", WIDTH, 0);
    return node(g, "layer_norm", layer, (weft_value[]){x, gamma, beta}, 3, NULL, 0);
}

/* Splits [batch, tokens, width] into heads, [batch, heads, tokens, width / heads]; from_heads joins
 * them again. */
static weft_value to_heads(weft_graph *g, weft_value x, int64_t batch)
{
    weft_attr shape = {
        .name = "shape", .count = 4, .ints = {batch, SEQUENCE, HEADS, WIDTH / HEADS}};
    weft_attr perm = {.name = "perm", .count = 4, .ints = {0, 2, 1, 3}};
    x = node(g, "reshape", "heads", &x, 1, &shape, 1);
    return node(g, "transpose", "heads", &x, 1, &perm, 1);
}

static weft_value from_heads(weft_graph *g, weft_value x, int64_t batch)
{
    weft_attr shape = {.name = "shape", .count = 3, .ints = {batch, SEQUENCE, WIDTH}};
    weft_attr perm = {.name = "perm", .count = 4, .ints = {0, 2, 1, 3}};
    x = node(g, "transpose", "joined", &x, 1, &perm, 1);
    return node(g, "reshape", "joined", &x, 1, &shape, 1);
}

static weft_value attention(weft_graph *g, weft_value x, int64_t batch)
{
    weft_value q = to_heads(g, linear(g, "query", x, WIDTH, WIDTH), batch);
    weft_value k = to_heads(g, linear(g, "key", x, WIDTH, WIDTH), batch);
    weft_value v = to_heads(g, linear(g, "value", x, WIDTH, WIDTH), batch);
    weft_attr turned = WEFT_ATTR_INT("tb", 1);
    weft_attr factor = WEFT_ATTR_REAL("factor", 1 / sqrt((double)WIDTH / HEADS));
    weft_value scores = node(g, "matmul", "scores", (weft_value[]){q, k}, 2, &turned, 1);
    scores = node(g, "scale", "scores", &scores, 1, &factor, 1);
    scores = node(g, "softmax", "attention", &scores, 1, NULL, 0);
    weft_value mixed = node(g, "matmul", "mixed", (weft_value[]){scores, v}, 2, NULL, 0);
    return linear(g, "output", from_heads(g, mixed, batch), WIDTH, WIDTH);
}

/* Causal attention by one operator, in which two heads of queries share a head of keys. */
static weft_value causal_attention(weft_graph *g, weft_value x, int64_t batch)
{
    enum { D = WIDTH / HEADS, SHARED = HEADS / 2 };
    static const char *const names[] = {"query", "key", "value"};
    weft_attr joined = {.name = "shape", .count = 3, .ints = {batch, SEQUENCE, WIDTH}};
    weft_attr mask = WEFT_ATTR_INT("causal", 1);
    weft_value in[3];
    for (int i = 0; i < 3; i++) {
        int64_t heads = i ? SHARED : HEADS;
        weft_attr to = {.name = "shape", .count = 4, .ints = {batch, SEQUENCE, heads, D}};
        in[i] = linear(g, names[i], x, WIDTH, heads * D);
        in[i] = node(g, "reshape", "heads", &in[i], 1, &to, 1);
    }
    weft_value y = node(g, "attention", "attention", in, 3, &mask, 1);
    y = node(g, "reshape", "joined", &y, 1, &joined, 1);
    return linear(g, "output", y, WIDTH, WIDTH);
}

static weft_value block(weft_graph *g, weft_value x,
                        weft_value (*attend)(weft_graph *g, weft_value x, int64_t batch))
{
    int64_t batch = weft_graph_value_type(g, x).shape.dim[0];
    weft_value y = attend(g, normed(g, "norm1", x), batch);
    x = node(g, "add", "residual1", (weft_value[]){x, y}, 2, NULL, 0);
    y = biased(g, "up", linear(g, "up", normed(g, "norm2", x), WIDTH, 4 * WIDTH), 4 * WIDTH);
    y = node(g, "gelu", "gelu", &y, 1, NULL, 0);
    y = biased(g, "down", linear(g, "down", y, 4 * WIDTH, WIDTH), WIDTH);
    x = node(g, "add", "residual2", (weft_value[]){x, y}, 2, NULL, 0);
    weft_attr axes = {.name = "axes", .count = 1, .ints = {1}};
    x = node(g, "reduce_mean", "mean", &x, 1, &axes, 1);
    return linear(g, "classify", x, WIDTH, 5);
}

weft_value transformer(weft_graph *g, weft_value x)
{
    return block(g, x, attention);
}

weft_value causal(weft_graph *g, weft_value x)
{
    return block(g, x, causal_attention);
}

/* --- the training graph of a setting --- */

static weft_status build_by_hand(weft_graph *g, const weft_model_options *o, const model_case *m,
                                 weft_model_values *out)
{
    const weft_shape *sample = &o->input[0].shape;
    weft_shape x = {.rank = sample->rank + 1, .dim = {o->batch}}, scalar = {0};
    weft_shape batch = weft_shape_of(1, &o->batch);
    weft_dtype real = weft_graph_real(g);
    const weft_init none = {WEFT_INIT_CONSTANT, 0};
    for (int i = 0; i < sample->rank; i++) x.dim[i + 1] = sample->dim[i];
    weft_value in = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", real, &x, none);
    weft_value labels = weft_graph_leaf(g, WEFT_VALUE_INPUT, "labels", WEFT_I32, &batch, none);
    weft_value weights = weft_graph_leaf(g, WEFT_VALUE_INPUT, "weights", real, &batch, none);
    weft_value first =
        weft_graph_leaf(g, WEFT_VALUE_INPUT, "first_sample", WEFT_I32, &scalar, none);
    weft_value logits = m->build(g, in);
    weft_value loss = weft_graph_node(g, "softmax_xent", "loss",
                                      (weft_value[]){logits, labels, weights}, 3, NULL, 0);
    weft_value prediction = loss + 1;
    if (m->shifted) {
        weft_value shift = weft_graph_leaf(g, WEFT_VALUE_PARAM, "shift", real, &scalar, none);
        loss = weft_graph_node(g, "add", "sum", (weft_value[]){loss, shift}, 2, NULL, 0);
    }
    *out = (weft_model_values){.count = 7,
                               .ports = {{"x", WEFT_PORT_FEATURES, in},
                                         {"labels", WEFT_PORT_TARGET, labels},
                                         {"weights", WEFT_PORT_WEIGHTS, weights},
                                         {"first_sample", WEFT_PORT_POSITION, first},
                                         {"logits", WEFT_PORT_LOGITS, logits},
                                         {"prediction", WEFT_PORT_PREDICTION, prediction},
                                         {"loss", WEFT_PORT_LOSS, loss}}};
    return weft_graph_status(g);
}

static weft_status build_model(weft_graph *g, const setting *s, bool training,
                               weft_model_values *out)
{
    const model_case *m = s->model;
    weft_model_options o;
    weft_model_options_init(&o);
    o.model = m->model;
    weft_model_options_set_sample(&o, weft_shape_of(m->rank, m->sample));
    o.batch = m->batch / s->microbatches;
    o.classes = m->targets ? 0 : m->classes ? m->classes : 5;
    o.targets = m->targets;
    o.training = training;
    o.seed = 3;
    if (m->build) return build_by_hand(g, &o, m, out);
    if (m->yaml) return weft_model_build_text(g, &o, m->model, m->yaml, strlen(m->yaml), out);
    return weft_model_build(g, &o, out);
}

static weft_status recompute(net *n)
{
    weft_graph *again;
    weft_value *map = calloc((size_t)weft_graph_value_count(n->graph), sizeof(*map));
    weft_status status = weft_graph_recompute(n->graph, &again, map);
    for (int i = 0; i < n->values.count && status == WEFT_OK; i++)
        n->values.ports[i].value = map[n->values.ports[i].value];
    if (status == WEFT_OK && n->optimizer.keep != WEFT_NO_VALUE)
        n->optimizer.keep = map[n->optimizer.keep];
    weft_graph_destroy(&n->graph);
    n->graph = again;
    free(map);
    return status;
}

static const char dense_net[] = "layers:\n"
                                "  - {type: dense, units: 32, bias: false}\n"
                                "  - {type: relu}\n"
                                "  - {type: dense, units: 16, bias: false}\n"
                                "  - {type: relu}\n"
                                "  - {type: dense, units: classes, bias: false}\n";
const model_case dense_case = {"dense",        dense_net, .sample = {16},
                               .batch = BATCH, .rank = 1, .lr = 0.05};
const model_case dense8_case = {"dense",   dense_net,  .sample = {16}, .batch = BATCH,
                                .rank = 1, .lr = 0.05, .classes = 8};

weft_status net_build(net *n, const setting *s)
{
    weft_optimizer_options opt;
    weft_status status = weft_context_create(&n->context);
    if (status == WEFT_OK) status = weft_context_set_threads(n->context, 1);
    if (status == WEFT_OK) status = weft_graph_create(n->context, s->real, &n->graph);
    if (status == WEFT_OK) status = build_model(n->graph, s, true, &n->values);
    if (status == WEFT_OK) status = weft_graph_differentiate(n->graph, PORT(n->values, LOSS));
    weft_optimizer_options_init(&opt);
    opt.name = s->optimizer;
    opt.lr = strcmp(s->optimizer, "sgd") == 0 ? s->model->lr : 0.04 * s->model->lr;
    opt.momentum = s->update == WEFT_UPDATE_HERE ? 0.5 : 0;
    opt.update = s->update;
    opt.accumulate = s->microbatches;
    opt.clip_norm = s->clip;
    if (status == WEFT_OK) status = weft_optimizer_build(n->graph, &opt, &n->optimizer);
    return status == WEFT_OK && s->recompute ? recompute(n) : status;
}

weft_status net_build_forward(net *n, const setting *s)
{
    *n = (net){.optimizer.keep = WEFT_NO_VALUE};
    weft_status status = weft_context_create(&n->context);
    if (status == WEFT_OK) status = weft_context_set_threads(n->context, 1);
    if (status == WEFT_OK) status = weft_graph_create(n->context, s->real, &n->graph);
    return status == WEFT_OK ? build_model(n->graph, s, false, &n->values) : status;
}

void net_drop(net *n)
{
    weft_graph_destroy(&n->graph);
    weft_context_destroy(&n->context);
}
