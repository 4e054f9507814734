/* Draws random networks layer by layer, of all types of layers that the library has. */
#include <stdio.h>
#include <string.h>

#include "hunt.h"

static const char *const kind_names[KINDS] = {
    [CONV] = "conv",
    [CONV_TRANSPOSE] = "conv_transpose",
    [DENSE] = "dense",
    [MAXPOOL] = "maxpool",
    [AVGPOOL] = "avgpool",
    [GLOBAL_AVGPOOL] = "global_avgpool",
    [ADAPTIVE_AVGPOOL] = "adaptive_avgpool",
    [UPSAMPLE] = "upsample",
    [BATCH_NORM] = "batch_norm",
    [LAYER_NORM] = "layer_norm",
    [GROUP_NORM] = "group_norm",
    [INSTANCE_NORM] = "instance_norm",
    [DROPOUT] = "dropout",
    [CHANNELS_LAST] = "channels_last",
    [FLATTEN] = "flatten",
    [RELU] = "relu",
    [GELU] = "gelu",
    [SILU] = "silu",
    [SOFTMAX] = "softmax",
    [LEAKY_RELU] = "leaky_relu",
    [ELU] = "elu",
    [RELU6] = "relu6",
    [HARDSIGMOID] = "hardsigmoid",
    [HARDSWISH] = "hardswish",
    [SIGMOID] = "sigmoid",
    [TANH] = "tanh",
    [CAST] = "cast",
    [CONCAT] = "concat",
    [ADD] = "add",
    [MUL] = "mul",
    [LINEAR] = "linear",
    [RMS_NORM] = "rms_norm",
    [POSITIONS] = "positions",
    [ATTENTION] = "attention",
    [LSTM] = "lstm",
    [GRU] = "gru",
    [EMBEDDING] = "embedding",
    [SEQUENCE_MEAN] = "sequence_mean",
};

const char *kind_name(kind k)
{
    return kind_names[k];
}

const char *undrawn_layer(void)
{
    weft_context *context;
    const char *type;
    bool undrawn = false;
    if (weft_context_create(&context) != WEFT_OK) return weft_last_message();
    for (int i = 0; !undrawn && (type = weft_context_name(context, WEFT_KIND_LAYER, i)); i++) {
        int k = 0;
        while (k < KINDS && strcmp(kind_names[k], type) != 0) k++;
        undrawn = k == KINDS;
    }
    weft_context_destroy(&context);
    return undrawn ? type : NULL;
}

void layer_name(const layer *l, char *out, size_t room)
{
    (void)snprintf(out, room, "%s%d", kind_names[l->kind], l->id);
}

/* --- drawing --- */

static const kind activations[] = {RELU,       GELU, SILU,  SIGMOID,     TANH,     CAST,
                                   LEAKY_RELU, ELU,  RELU6, HARDSIGMOID, HARDSWISH};

/* Draws the type of a layer behind a sample of so many dimensions of space: none, one, more. */
static kind draw_kind(dice *d, int dims)
{
    static const struct {
        kind kind;
        int share[3];
    } shares[] = {{CONV, {0, 10, 30}},    {MAXPOOL, {0, 4, 8}},      {AVGPOOL, {0, 4, 8}},
                  {DENSE, {40, 4, 4}},    {FLATTEN, {1, 1, 1}},      {GLOBAL_AVGPOOL, {0, 2, 2}},
                  {DROPOUT, {8, 5, 5}},   {ADD, {10, 10, 10}},       {BATCH_NORM, {10, 5, 10}},
                  {CONCAT, {8, 8, 8}},    {RELU, {20, 16, 20}},      {LAYER_NORM, {6, 6, 4}},
                  {MUL, {5, 5, 3}},       {LINEAR, {5, 12, 3}},      {RMS_NORM, {3, 4, 2}},
                  {POSITIONS, {0, 5, 0}}, {ATTENTION, {0, 12, 0}},   {LSTM, {0, 6, 0}},
                  {GRU, {0, 6, 0}},       {SEQUENCE_MEAN, {0, 4, 0}}};
    int which = dims < 2 ? dims : 2, all = 0, n = (int)(sizeof(shares) / sizeof(shares[0]));
    for (int i = 0; i < n; i++) all += shares[i].share[which];
    int at = between(d, 0, all - 1), i = 0;
    while ((at -= shares[i].share[which]) >= 0) i++;
    int last = (int)(sizeof(activations) / sizeof(activations[0])) - 1;
    return shares[i].kind == RELU ? activations[between(d, 0, last)] : shares[i].kind;
}

bool has_weight(kind k)
{
    return k == CONV || k == POSITIONS || has_units(k);
}

bool has_units(kind k)
{
    return k == DENSE || k == LINEAR || k == LSTM || k == GRU || k == EMBEDDING;
}

bool has_gamma(kind k)
{
    return k == BATCH_NORM || k == LAYER_NORM || k == RMS_NORM;
}

int shared_layer(const hunt_case *c, int i)
{
    for (int j = 0; j < i; j++)
        if (c->layers[i].share && c->layers[j].id == c->layers[i].share) return j;
    return -1;
}

/* Lets a layer share the weights of an earlier one: of the same type and input, and it takes over
 * all numbers of that. */
static void draw_share(dice *d, const hunt_case *c, layer *l)
{
    sample_shape in, other;
    bool can = (has_weight(l->kind) || l->kind == ATTENTION || has_gamma(l->kind)) &&
               l->kind != BATCH_NORM;
    for (int i = 0; can && i < c->layer_count - 1; i++) {
        const layer *e = &c->layers[i];
        if (e->kind != l->kind || e->share || !id_shape(c, e->from[0], &other) ||
            !id_shape(c, l->from[0], &in) || !same_shape(&in, &other) || !chance(d, 0.5))
            continue;
        layer own = *l;
        *l = *e;
        l->id = own.id;
        l->from[0] = own.from[0];
        l->share = e->id;
        return;
    }
}

/* Draws the window of a layer. Most windows have the same numbers in all dimensions of space, as in
 * most networks; the others differ in some dimensions. */
static void draw_window(dice *d, layer *l)
{
    bool alike = chance(d, 0.6), keeps = l->kind == CONV && chance(d, 0.3);
    for (int i = 0; i < MOST_DIMS; i++) {
        bool as_before = i > 0 && (alike || chance(d, 0.3));
        l->kernel[i] = as_before ? l->kernel[i - 1] : between(d, 1, 4);
        l->stride[i] = as_before ? l->stride[i - 1] : chance(d, 0.6) ? 1 : between(d, 1, 3);
        l->dilation[i] = as_before                           ? l->dilation[i - 1]
                         : l->kind == CONV && chance(d, 0.2) ? between(d, 2, 3)
                                                             : 1;
        l->padding[i] = as_before ? l->padding[i - 1] : chance(d, 0.5) ? 0 : between(d, 0, 3);
        if (!keeps) continue; /* output as large as the input, so an add layer can join both */
        l->kernel[i] = 3;
        l->padding[i] = l->dilation[i];
        l->stride[i] = 1;
    }
}

/* Lets an add or concat layer read further layers: of the same shape for add, of shapes that differ
 * only along the concatenated axis for concat. */
static void draw_joined(dice *d, hunt_case *c, layer *l)
{
    sample_shape shape;
    int want = l->kind == CONCAT ? between(d, 2, MOST_JOINED) : 2;
    l->axis = l->kind == CONCAT ? (chance(d, 0.7) ? 1 : between(d, 1, 4)) : 0;
    for (int tries = 0; tries < 12 && l->inputs < want; tries++) {
        int i = between(d, -1, c->layer_count - 2);
        l->from[l->inputs++] = i < 0 ? INPUT : c->layers[i].id;
        if (!layer_shape(c, c->layer_count - 1, &shape)) l->inputs--;
    }
    if (chance(d, 0.5)) { /* swaps the first and the last input */
        int first = l->from[0];
        l->from[0] = l->from[l->inputs - 1];
        l->from[l->inputs - 1] = first;
    }
}

/* Whether the layer can read the numbers of positions that count. The data give them for sequences
 * in arrays; a sample of the layer must have as many positions as one of the data. */
static bool may_have_lengths(const hunt_case *c, const layer *l, const sample_shape *in)
{
    bool reads =
        l->kind == LSTM || l->kind == GRU || l->kind == ATTENTION || l->kind == SEQUENCE_MEAN;
    return reads && c->samples.format == NPY && c->samples.shape.dims == 1 && in->dims == 1 &&
           in->channels >= c->samples.shape.channels;
}

bool reads_lengths(const hunt_case *c)
{
    for (int i = 0; i < c->layer_count; i++)
        if (c->layers[i].lengths) return true;
    return false;
}

static void draw_layer(dice *d, hunt_case *c, layer *l)
{
    int groups = 1;
    sample_shape in = c->samples.shape;
    (void)id_shape(c, l->from[0], &in);
    l->kind = draw_kind(d, in.dims);
    if (chance(d, 0.3)) groups = between(d, 1, 4);
    while (in.channels % groups) groups--;
    draw_window(d, l);
    l->groups = groups;
    l->filters = l->kind == CONV ? groups * between(d, 1, 12 / groups) : between(d, 1, 13);
    l->bias = chance(d, 0.75);
    l->he = chance(d, 0.25);
    l->rate = chance(d, 0.5) ? 0.5 : 0.2;
    l->heads = l->key_heads = 1;
    for (int h = 2; l->kind == ATTENTION && h <= 4; h++)
        if (in.side[0] % h == 0 && chance(d, 0.5)) l->heads = l->key_heads = h;
    if (chance(d, 0.3)) l->key_heads = 1;
    l->causal = chance(d, 0.5);
    l->rotary = in.dims == 1 && in.side[0] / l->heads % 2 == 0 && chance(d, 0.4);
    l->stack = chance(d, 0.3) ? 2 : 1;
    l->both = chance(d, 0.3);
    l->last = chance(d, 0.3);
    l->lengths = may_have_lengths(c, l, &in) && chance(d, 0.4);
    if (l->kind == ADD || l->kind == MUL || l->kind == CONCAT)
        draw_joined(d, c, l);
    else if (chance(d, 0.3))
        draw_share(d, c, l);
}

/* Whether the last layer has enough inputs, and its output is small enough for a quick run. */
static bool fits(const hunt_case *c)
{
    sample_shape shape;
    const layer *l = &c->layers[c->layer_count - 1];
    if ((l->kind == ADD || l->kind == MUL) && l->inputs != 2) return false;
    if (l->kind == CONCAT && l->inputs < 2) return false;
    return layer_shape(c, c->layer_count - 1, &shape) && sample_size(&shape) <= 900;
}

static bool is_read(const hunt_case *c, int i)
{
    for (int j = i + 1; j < c->layer_count; j++)
        for (int k = 0; k < c->layers[j].inputs; k++)
            if (c->layers[j].from[k] == c->layers[i].id) return true;
    return i == c->layer_count - 1;
}

/* Drops all layers whose output no other layer reads, except for the last layer. */
static void prune(hunt_case *c)
{
    for (int i = c->layer_count; i-- > 0;) {
        if (is_read(c, i)) continue;
        c->layer_count--;
        memmove(&c->layers[i], &c->layers[i + 1], (size_t)(c->layer_count - i) * sizeof(layer));
    }
}

/* The last layer, whose output is one number for each class or target: of a sample, or of each
 * position if the samples are tokens. */
static void draw_end(dice *d, hunt_case *c, int last)
{
    bool tokens = c->samples.format == TOKENS;
    sample_shape shape;
    while (tokens && (!id_shape(c, last, &shape) || shape.dims != 1 ||
                      shape.channels != c->samples.shape.channels))
        last--; /* the embedding, which has the id 1, is a sequence of all positions */
    /* Two products behind each other, of which an axis may split the first by its outputs and so
     * the second by its inputs: the logits are then sums of all ranks. */
    if (tokens && c->layer_count < MOST_LAYERS - 1 && chance(d, 0.4)) {
        layer *l = &c->layers[c->layer_count++];
        *l = (layer){.kind = LINEAR, .id = c->layer_count, .inputs = 1, .from = {last}};
        l->filters = chance(d, 0.5) ? c->layers[0].filters : between(d, 2, 8);
        l->bias = chance(d, 0.5);
        last = l->id;
        (void)id_shape(c, last, &shape);
    }
    layer *end = &c->layers[c->layer_count++];
    *end =
        (layer){.kind = tokens ? LINEAR : DENSE, .id = c->layer_count, .inputs = 1, .from = {last}};
    end->outputs = true;
    end->bias = chance(d, 0.7);
    if (tokens && shape.side[0] == c->layers[0].filters && chance(d, 0.3)) {
        end->share = c->layers[0].id; /* the table of the embedding, without a bias */
        end->bias = true;
    }
}

void draw_network(dice *d, hunt_case *c)
{
    int wanted = between(d, 0, chance(d, 0.3) ? MOST_LAYERS - 1 : 6), last = INPUT;
    if (c->samples.format == TOKENS) {
        c->layers[c->layer_count++] = (layer){
            .kind = EMBEDDING, .id = 1, .inputs = 1, .from = {INPUT}, .filters = between(d, 1, 12)};
        last = 1;
    }
    for (int tries = 0; tries < 60 && c->layer_count < wanted; tries++) {
        layer *l = &c->layers[c->layer_count++];
        *l = (layer){.id = c->layer_count, .inputs = 1, .from = {last}};
        if (chance(d, 0.12)) /* begins a branch from an earlier layer */
            l->from[0] = between(d, 0, c->layer_count - 1)
                             ? c->layers[between(d, 0, c->layer_count - 1)].id
                             : INPUT;
        if (l->from[0] == l->id) l->from[0] = INPUT;
        if (l->from[0] == INPUT && c->samples.format == TOKENS) l->from[0] = 1;
        draw_layer(d, c, l);
        if (!fits(c))
            c->layer_count--;
        else if (!chance(d, 0.03)) /* otherwise perhaps no layer reads this one */
            last = l->id;
    }
    draw_end(d, c, last);
    if (chance(d, 0.85)) prune(c);
}

bool rounding_decides(const hunt_case *c)
{
    bool normed = false, pooled = false;
    for (int i = 0; i < c->layer_count; i++) {
        sample_shape s;
        kind k = c->layers[i].kind;
        /* A layer norm makes the mean of its output zero, so a pool that averages the output
         * returns only rounding errors. */
        normed = normed || k == LAYER_NORM || (k == BATCH_NORM && least_samples(c) == 1);
        pooled = pooled || k == AVGPOOL || k == GLOBAL_AVGPOOL;
        if (k != BATCH_NORM || !layer_shape(c, i, &s)) continue;
        if (least_samples(c) * (sample_size(&s) / s.channels) == 1) return true;
    }
    return normed && pooled;
}

void smooth_over(hunt_case *c)
{
    bool rounding = rounding_decides(c);
    for (int i = 0; i < c->layer_count && rounding; i++) {
        kind k = c->layers[i].kind;
        if (k == RELU || (k >= LEAKY_RELU && k <= HARDSWISH)) c->layers[i].kind = GELU;
        if (c->layers[i].kind == MAXPOOL) c->layers[i].kind = AVGPOOL;
    }
}
