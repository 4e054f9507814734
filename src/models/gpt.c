/* Builds the model gpt, a decoder of transformer blocks with learned positions and normalisation
 * before each part (Radford et al. 2019). */
#include "base/spec.h"
#include "models/models.h"

/* The published sizes of GPT-2. */
static const struct {
    const char *name;
    double layers, heads, width;
} sizes[] = {{"gpt2", 12, 12, 768},
             {"gpt2-medium", 24, 16, 1024},
             {"gpt2-large", 36, 20, 1280},
             {"gpt2-xl", 48, 25, 1600}};

typedef struct gpt_keys {
    double layers, heads, width, context, dropout;
    bool tied;
} gpt_keys;

static const char *size_candidate(const void *user, int i)
{
    (void)user;
    return i < (int)WEFT_COUNT(sizes) ? sizes[i].name : NULL;
}

/* Fills the keys that are not given: those of the named size, or of a small model. */
static weft_status complete(gpt_keys *k, const char *size)
{
    double layers = 6, heads = 6, width = 384;
    char near[64];
    bool found = !size;
    for (size_t i = 0; i < WEFT_COUNT(sizes) && !found; i++) {
        found = strcmp(sizes[i].name, size) == 0;
        if (!found) continue;
        layers = sizes[i].layers;
        heads = sizes[i].heads;
        width = sizes[i].width;
    }
    if (!found)
        return weft_fail(WEFT_ERR_ARGUMENT, "model 'gpt': there is no size '%s'%s", size,
                         weft_suggest(near, sizeof(near), size, size_candidate, NULL));
    if (k->layers == 0) k->layers = layers;
    if (k->heads == 0) k->heads = heads;
    if (k->width == 0) k->width = width;
    return WEFT_OK;
}

static weft_status read_keys(const char *arguments, gpt_keys *k)
{
    char *size = NULL;
    const weft_spec_key keys[] = {
        {.name = "size", .text = &size},
        {.name = "layers", .number = &k->layers, .low = 1, .high = 1024, .integer = true},
        {.name = "heads", .number = &k->heads, .low = 1, .high = 1024, .integer = true},
        {.name = "width", .number = &k->width, .low = 1, .high = 65536, .integer = true},
        {.name = "context", .number = &k->context, .low = 1, .high = 1e6, .integer = true},
        {.name = "dropout", .number = &k->dropout, .low = 0, .high = 0.999},
        {.name = "tied", .flag = &k->tied},
        {.name = NULL}};
    weft_status status = *arguments ? weft_spec_parse("model 'gpt'", arguments, keys) : WEFT_OK;
    if (status == WEFT_OK) status = complete(k, size);
    free(size);
    return status;
}

static weft_status check_data(const weft_model_builder *net, const gpt_keys *k)
{
    const weft_input *x = &net->options->input[0];
    WEFT_TRY(weft_model_builder_tokens(net, "gpt"));
    if (k->context > 0 && (double)x->shape.dim[0] > k->context)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the sequences have %lld positions, and the model has context=%.0f; give "
                         "the data context=%.0f, or the model a longer one",
                         (long long)x->shape.dim[0], k->context, k->context);
    return WEFT_OK;
}

/* The standard deviation of GPT-2's initial weights, tokens and positions. */
static const double DEVIATION = 0.02;

static weft_value build(weft_model_builder *net, weft_value x)
{
    gpt_keys k = {0};
    weft_status status = read_keys(net->arguments, &k);
    if (status == WEFT_OK) status = check_data(net, &k);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    const weft_layer tokens = {
        .name = "tokens", .filters = (int64_t)k.width, .deviation = DEVIATION};
    x = weft_layer_embedding(net, x, &tokens);
    const weft_blocks blocks = {.layers = (int)k.layers,
                                .heads = (int)k.heads,
                                .width = (int64_t)k.width,
                                .dropout = k.dropout,
                                .deviation = DEVIATION,
                                .causal = true};
    x = weft_layer_positioned_blocks(net, x, &blocks);
    return weft_layer_linear(net, x,
                             &(weft_layer){.name = "head",
                                           .filters = weft_model_builder_outputs(net),
                                           .deviation = DEVIATION,
                                           .no_bias = true,
                                           .share = k.tied ? "tokens" : NULL});
}

const weft_model weft_model_gpt = {
    .name = "gpt",
    .form = "gpt[:size=gpt2|gpt2-medium|gpt2-large|gpt2-xl,layers=6,heads=6,width=384,context=N,"
            "dropout=0,tied]",
    .summary = "transformer that predicts the next token; tied: the last layer uses the table of "
               "the embedding",
    .build = build,
};
