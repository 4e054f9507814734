/* Creates the kernels of convolutions by Winograd's transform, and estimates their costs. */
#include "device/cpu/winograd.h"

/* Bytes of the transformed tiles of a chunk, and its least number of tiles. */
static const int64_t CHUNK_BYTES = 6 << 20, CHUNK_TILES = 44;

/* Most tiles whose products are added up one after the other, which limits the rounding error. */
static const int64_t SUMMED_TILES = 512;

/* The three products of a convolution: of which operands, in which roles, by which pass. */
typedef struct pass {
    const char *op;
    onednn_pass pass;
    onednn_role from, w, to;
    void (*loop)(const cpu_loop *k);
} pass;
static const pass passes[] = {
    {"conv", ONEDNN_FORWARD, ONEDNN_X, ONEDNN_W, ONEDNN_Y, winograd_loop},
    {"conv_dx", ONEDNN_BACKWARD, ONEDNN_DY, ONEDNN_W, ONEDNN_DX, winograd_loop},
    {"conv_dw", ONEDNN_WEIGHTS, ONEDNN_X, ONEDNN_DW, ONEDNN_DY, winograd_grad_loop},
};

static const pass *pass_of(const weft_group *group)
{
    const pass *p = passes;
    while (strcmp(p->op, group->node[0]->op->name) != 0) p++;
    return p;
}

/* The operands of the convolution that `from`, the weight and `to` are; those that the node has as
 * inputs, or that are its result. */
typedef struct values {
    weft_value from, w, to;
} values;

static values values_of(const weft_group *group)
{
    const weft_node *node = group->node[0];
    if (pass_of(group)->pass == ONEDNN_WEIGHTS)
        return (values){node->in[0], node->out, node->in[1]};
    return (values){node->in[0], node->in[1], group->out[0]};
}

bool cpu_winograd_supports(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const pass *p = pass_of(group);
    values v = values_of(group);
    const weft_type *from = weft_value_type(g, v.from), *w = weft_value_type(g, v.w);
    if (from->shape.rank != 4 || from->dtype != WEFT_F32 || w->dtype != WEFT_F32 ||
        weft_value_type(g, v.to)->dtype != WEFT_F32 || weft_node_rounds(g, node, 1) ||
        weft_node_int(node, "groups", 0, 1) != 1 || node->in[0] == node->in[1])
        return false;
    weft_window window = weft_node_window(node, 2);
    for (int i = 0; i < 2; i++)
        if (w->shape.dim[2 + i] != 3 || window.stride[i] != 1 || window.dilation[i] != 1 ||
            window.padding[i] > 2 || window.padding_end[i] > 2 || w->shape.dim[i] % 16 != 0)
            return false;
    return p->pass == ONEDNN_FORWARD    ? cpu_chain_is_simple(group)
           : p->pass == ONEDNN_BACKWARD ? group->count == 1
                                        : group->count == 1 || cpu_with_bias_sum(group, 1, 1);
}

/* --- costs --- */

/* Multiply-adds that take the time of writing and reading one transformed weight, and one number of
 * a transformed tile or of its products. */
static const double OF_WEIGHT = 56, OF_TILE = 24;

static int64_t tiles_of(int64_t size)
{
    return (size + WINO_TILE - 1) / WINO_TILE;
}

/* Pairs of a result and a tap that read a number inside of the image, along one dimension. */
static int64_t pairs(int64_t from, int64_t to, int64_t padding)
{
    int64_t count = 0;
    for (int64_t i = 0; i < to; i++)
        for (int64_t t = 0; t < 3; t++) count += i + t - padding >= 0 && i + t - padding < from;
    return count;
}

/* The transform is used if its multiply-adds, and those that take as long as its copies, are
 * clearly fewer than the sum's. */
double cpu_winograd_seconds(const weft_group *group, const weft_layout *const *in)
{
    (void)in;
    values v = values_of(group);
    const weft_shape *x = &weft_value_type(group->graph, v.from)->shape;
    const weft_shape *y = &weft_value_type(group->graph, v.to)->shape;
    weft_window window = weft_node_window(group->node[0], 2);
    double images = (double)x->dim[0], from = (double)x->dim[1], to = (double)y->dim[1];
    double tiles = images * (double)(tiles_of(y->dim[2]) * tiles_of(y->dim[3]));
    double direct = images * from * to;
    for (int i = 0; i < 2; i++) {
        bool turned = pass_of(group)->pass == ONEDNN_BACKWARD;
        int64_t padding = turned ? 2 - window.padding[i] : window.padding[i];
        direct *= (double)pairs(x->dim[2 + i], y->dim[2 + i], padding);
    }
    double own =
        WINO_PRODUCTS * (tiles * from * to + OF_WEIGHT * from * to + OF_TILE * tiles * (from + to));
    double seconds = weft_group_seconds(&weft_device_cpu.rates, group);
    return seconds * (own < 0.85 * direct ? 0.7 : CPU_SLOWER);
}

/* --- kernels --- */

static bool fill_image(cpu_md md, wino_image *out)
{
    cpu_blocks b = cpu_blocks_of(md);
    if (!b.blocked || cpu_axis_split(&b, 0) || cpu_axis_split(&b, 2) || cpu_axis_split(&b, 3))
        return false;
    *out = (wino_image){.images = b.dims[0],
                        .image = b.strides[0],
                        .channels = b.dims[1],
                        .block = cpu_axis_offset(&b, 1, 16),
                        .height = b.dims[2],
                        .row = b.strides[2],
                        .width = b.dims[3],
                        .column = b.strides[3]};
    return cpu_axis_follows(&b, 1, 16);
}

static bool reads(cpu_md md)
{
    wino_image image;
    return fill_image(md, &image);
}

/* The operands in their order. */
enum { FROM, W, TO };

static weft_status fill(winograd *g, const onednn_spec *spec, bool turned, const cpu_operand *o)
{
    cpu_blocks b = cpu_blocks_of(o[W].md);
    int ins = turned ? 0 : 1;
    if (!b.blocked || !fill_image(o[FROM].md, &g->from) || !fill_image(o[TO].md, &g->to))
        return weft_fail(WEFT_ERR_UNSUPPORTED, "channels do not lie in sequence by 16");
    g->in = (int64_t *)(void *)(g + 1);
    g->out = g->in + g->from.channels;
    cpu_axis_offsets(&b, ins, g->in);
    cpu_axis_offsets(&b, 1 - ins, g->out);
    g->outs_follow = cpu_axis_follows(&b, 1 - ins, 16);
    for (int t = 0; t < 9; t++) {
        int at = turned ? 8 - t : t;
        g->tap[t] = cpu_axis_offset(&b, 2, at / 3) + cpu_axis_offset(&b, 3, at % 3);
    }
    g->above = turned ? 2 - spec->padding[0] : spec->padding[0];
    g->left = turned ? 2 - spec->padding[1] : spec->padding[1];
    g->tiles_down = tiles_of(g->to.height);
    g->tiles = g->to.images * g->tiles_down * tiles_of(g->to.width);
    return WEFT_OK;
}

static size_t whole_lines(int64_t floats)
{
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64;
}

/* The scratch memory, which is returned. */
static size_t size_memory(winograd *g, bool of_weight, int threads)
{
    int64_t depth = g->from.channels, columns = g->shape.columns;
    int64_t panels = winograd_panels(g), each = WINO_PRODUCTS * depth;
    int64_t most = CHUNK_BYTES / (each * (int64_t)sizeof(float));
    most = of_weight ? WEFT_MIN(3 * most, SUMMED_TILES) : most;
    g->chunk = WEFT_MIN(g->tiles, WEFT_MAX(most, CHUNK_TILES));
    g->weight_bytes = whole_lines(each * panels * columns);
    g->tile_bytes = whole_lines(each * g->chunk);
    g->filled_bytes = whole_lines(2 * g->chunk); /* of 64 bits each */
    g->worker_bytes = whole_lines((int64_t)WINO_PRODUCTS * WINO_BLOCKS * g->shape.rows * columns);
    return g->weight_bytes + g->tile_bytes + g->filled_bytes +
           (of_weight ? whole_lines(WINO_PRODUCTS * panels * columns * g->chunk)
                      : (size_t)threads * g->worker_bytes);
}

static weft_status set_bias(weft_device *device, const weft_group *group, cpu_loop *k)
{
    if (pass_of(group)->pass != ONEDNN_FORWARD) return WEFT_OK;
    return cpu_loop_take_bias(device, group, k, &((winograd *)k->table)->relu);
}

static weft_status finish(weft_device *device, const weft_group *group, const onednn_spec *spec,
                          const cpu_operand *o, cpu_loop *k)
{
    onednn_pass which = pass_of(group)->pass;
    cpu_blocks w = cpu_blocks_of(o[W].md);
    int64_t *memory = NULL, channels = w.dims[0] + w.dims[1];
    WEFT_TRY(WEFT_NEW(&memory, sizeof(winograd) / sizeof(int64_t) + (size_t)channels));
    winograd *g = (winograd *)(void *)memory;
    k->table = g;
    g->shape = panel_shape_of(false);
    WEFT_TRY(fill(g, spec, which == ONEDNN_BACKWARD, o));
    WEFT_TRY(cpu_set_layouts(device, group, o, &k->head));
    k->head.scratch = size_memory(g, which == ONEDNN_WEIGHTS, k->threads);
    return set_bias(device, group, k);
}

weft_status cpu_winograd_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                              const cpu_weighted *m, const weft_layout *const *in,
                              weft_kernel **out)
{
    const pass *p = pass_of(group);
    values v = values_of(group);
    bool turned = p->pass == ONEDNN_BACKWARD;
    cpu_md from = turned ? m->y : m->x, to = turned ? m->x : m->y;
    cpu_operand o[CPU_OPERANDS] = {[FROM] = {p->from, v.from, from, from, true},
                                   [W] = {p->w, v.w, m->w, m->w, false},
                                   [TO] = {p->to, v.to, to, to, true}};
    cpu_loop *k;
    WEFT_TRY(cpu_choose_layouts(device, group, spec, p->pass, in, reads, o));
    WEFT_TRY(cpu_loop_make(device, group, p->loop, &k));
    weft_status status = finish(device, group, spec, o, k);
    if (status == WEFT_OK)
        *out = &k->head;
    else
        k->head.ops->destroy(&k->head);
    return status;
}
