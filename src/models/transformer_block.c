/* Adds the blocks of a transformer with normalisation before each half of a block (Radford et al.
 * 2019). */
#include <math.h>
#include <stdio.h>

#include "models/models.h"

static const weft_block_names usual = {.block = "block",
                                       .first = 1,
                                       .attention_norm = "attention_norm",
                                       .attention = "attention",
                                       .mlp_norm = "mlp_norm",
                                       .mlp_in = "mlp_in",
                                       .mlp_gelu = "mlp_gelu",
                                       .mlp_out = "mlp_out",
                                       .norm = "norm"};

/* A layer of a block by its name in the block. */
typedef struct part_name {
    char text[96];
} part_name;

static const char *name_in(part_name *name, const char *block, const char *part)
{
    (void)snprintf(name->text, sizeof(name->text), "%s/%s", block, part);
    return name->text;
}

/* Adds x + dropout(y), the end of each half of a block. */
static weft_value add_residual(weft_model_builder *net, const weft_blocks *k, const char *block,
                               const char *half, weft_value x, weft_value y)
{
    char part[32];
    part_name name;
    (void)snprintf(part, sizeof(part), "%s_dropout", half);
    y = weft_layer_dropout(net, y,
                           &(weft_layer){.name = name_in(&name, block, part), .rate = k->dropout});
    (void)snprintf(part, sizeof(part), "%s_add", half);
    return weft_layer_add(net, x, y, &(weft_layer){.name = name_in(&name, block, part)});
}

/* If a deviation is given, weights are normal; those of the layers that end a half of a block are
 * smaller, by the square root of the number of halves. */
static weft_value add_block(weft_model_builder *net, const weft_blocks *k, const char *block,
                            weft_value x)
{
    const weft_block_names *names = k->names ? k->names : &usual;
    part_name name;
    const double deviation = k->deviation, smaller = 1 / sqrt(2.0 * k->layers);
    weft_value y = weft_layer_layer_norm(
        net, x,
        &(weft_layer){.name = name_in(&name, block, names->attention_norm), .epsilon = k->epsilon});
    y = weft_layer_attention(net, y,
                             &(weft_layer){.name = name_in(&name, block, names->attention),
                                           .heads = k->heads,
                                           .causal = k->causal,
                                           .lengths = k->lengths,
                                           .deviation = deviation,
                                           .output_deviation = deviation * smaller});
    x = add_residual(net, k, block, "attention", x, y);
    y = weft_layer_layer_norm(
        net, x,
        &(weft_layer){.name = name_in(&name, block, names->mlp_norm), .epsilon = k->epsilon});
    y = weft_layer_linear(net, y,
                          &(weft_layer){.name = name_in(&name, block, names->mlp_in),
                                        .filters = k->hidden ? k->hidden : 4 * k->width,
                                        .deviation = deviation});
    y = weft_layer_activation(net, y, "gelu", name_in(&name, block, names->mlp_gelu));
    if (names->mlp_dropout)
        y = weft_layer_dropout(
            net, y,
            &(weft_layer){.name = name_in(&name, block, names->mlp_dropout), .rate = k->dropout});
    y = weft_layer_linear(net, y,
                          &(weft_layer){.name = name_in(&name, block, names->mlp_out),
                                        .filters = k->width,
                                        .deviation = deviation * smaller});
    return add_residual(net, k, block, "mlp", x, y);
}

weft_value weft_layer_blocks(weft_model_builder *net, weft_value x, const weft_blocks *blocks)
{
    const weft_block_names *names = blocks->names ? blocks->names : &usual;
    for (int b = 0; b < blocks->layers; b++) {
        char *name = weft_graph_format(net->graph, "%s%d", names->block, names->first + b);
        if (name) x = add_block(net, blocks, name, x);
        free(name);
    }
    return weft_layer_layer_norm(net, x,
                                 &(weft_layer){.name = names->norm, .epsilon = blocks->epsilon});
}

weft_value weft_layer_positioned_blocks(weft_model_builder *net, weft_value x,
                                        const weft_blocks *blocks)
{
    x = weft_layer_positions(net, x,
                             &(weft_layer){.name = "positions", .deviation = blocks->deviation});
    x = weft_layer_dropout(net, x, &(weft_layer){.name = "dropout", .rate = blocks->dropout});
    return weft_layer_blocks(net, x, blocks);
}
