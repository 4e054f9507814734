/* Creates the kernel of the gradient of weights: it chooses layouts and fills the tables of
 * offsets. */
#include "device/cpu/weight_grad.h"

/* Most steps of a panel in a chunk, and least images. */
enum { CHUNK_STEPS = 2048, CHUNK_IMAGES = 16 };

/* The sizes of a node's window, each with WEFT_MAX_SPACE dimensions, of which the missing ones come
 * first and have size one. */
typedef struct sizes {
    int64_t x[WEFT_MAX_SPACE], y[WEFT_MAX_SPACE], w[WEFT_MAX_SPACE];
    int64_t stride[WEFT_MAX_SPACE], step[WEFT_MAX_SPACE], padding[WEFT_MAX_SPACE];
    int64_t apart[WEFT_MAX_SPACE]; /* positions of x with the same remainder by the stride */
} sizes;

static sizes sizes_of(const onednn_spec *spec, cpu_md x, cpu_md y, cpu_md w)
{
    const int64_t *xd = cpu_blocks_of(x).dims, *yd = cpu_blocks_of(y).dims;
    const int64_t *wd = cpu_blocks_of(w).dims;
    int dims = cpu_blocks_of(x).ndims - 2;
    sizes s;
    for (int i = 0; i < WEFT_MAX_SPACE; i++) {
        int at = i - (WEFT_MAX_SPACE - dims);
        s.x[i] = at < 0 ? 1 : xd[2 + at];
        s.y[i] = at < 0 ? 1 : yd[2 + at];
        s.w[i] = at < 0 ? 1 : wd[2 + at];
        s.stride[i] = at < 0 ? 1 : spec->stride[at];
        s.step[i] = at < 0 ? 1 : spec->dilation[at] + 1;
        s.padding[i] = at < 0 ? 0 : spec->padding[at];
        s.apart[i] = (s.x[i] + s.stride[i] - 1) / s.stride[i];
    }
    return s;
}

static int64_t volume(const int64_t *size)
{
    return size[0] * size[1] * size[2];
}

/* Positions of x that have the same remainders by the strides are in sequence, so that neighbours
 * of dy read neighbours of x. */
static int64_t x_positions(const sizes *s)
{
    return volume(s->apart) * volume(s->stride);
}

static int64_t x_position(const sizes *s, const int64_t *at)
{
    int64_t phase = 0, inside = 0;
    for (int i = 0; i < WEFT_MAX_SPACE; i++) {
        phase = phase * s->stride[i] + at[i] % s->stride[i];
        inside = inside * s->apart[i] + at[i] / s->stride[i];
    }
    return phase * volume(s->apart) + inside;
}

/* Splits a position in row-major order. */
static void split(const int64_t *size, int64_t position, int64_t *at)
{
    for (int i = WEFT_MAX_SPACE; i-- > 0; position /= size[i]) at[i] = position % size[i];
}

static int64_t space_offset(const cpu_blocks *b, const int64_t *at)
{
    int64_t offset = 0;
    for (int i = 2; i < b->ndims; i++)
        offset += cpu_axis_offset(b, i, at[WEFT_MAX_SPACE - b->ndims + i]);
    return offset;
}

/* The runs of a tap: neighbours of dy, in row-major order, that read neighbours of x. */
static int64_t runs_of(const sizes *s, int64_t tap, tile_run *to)
{
    int64_t w[WEFT_MAX_SPACE], y[WEFT_MAX_SPACE], x[WEFT_MAX_SPACE], count = 0;
    split(s->w, tap, w);
    for (int64_t p = 0; p < volume(s->y); p++) {
        bool inside = true;
        split(s->y, p, y);
        for (int i = 0; i < WEFT_MAX_SPACE; i++) {
            x[i] = y[i] * s->stride[i] + w[i] * s->step[i] - s->padding[i];
            inside = inside && x[i] >= 0 && x[i] < s->x[i];
        }
        if (!inside) continue;
        tile_run next = {(int32_t)x_position(s, x), (int32_t)p, 1};
        tile_run *last = count > 0 && to ? &to[count - 1] : NULL;
        if (last && last->a + last->depth == next.a && last->b + last->depth == next.b)
            last->depth++;
        else if (to)
            to[count++] = next;
        else
            count++;
    }
    return count;
}

/* Takes the next `count` numbers of the memory behind the struct; without a struct, counts them. */
static int64_t *take(weight_grad *g, size_t *used, int64_t count)
{
    int64_t *at = g ? (int64_t *)(void *)(g + 1) + *used : NULL;
    *used += (size_t)count;
    return at;
}

/* The operands in their order. */
enum { X, DY, DW };

/* Lays out the tables in memory, and returns its numbers. */
static size_t lay_out(weight_grad *g, const sizes *s, const cpu_operand *o)
{
    const int64_t *w = cpu_blocks_of(o[DW].md).dims;
    int64_t xs = x_positions(s), ys = volume(s->y), taps = volume(s->w);
    size_t used = 0;
    int64_t *parts[] = {take(g, &used, w[1]), take(g, &used, xs),       take(g, &used, w[0]),
                        take(g, &used, ys),   take(g, &used, w[1]),     take(g, &used, w[0]),
                        take(g, &used, taps), take(g, &used, taps + 1), NULL};
    parts[8] = take(g, &used, 0);
    used += ((size_t)(taps * ys) * sizeof(tile_run) + sizeof(int64_t) - 1) / sizeof(int64_t);
    if (!g) return used;
    g->x = (tensor){.channels = w[1], .positions = xs, .channel = parts[0], .position = parts[1]};
    g->dy = (tensor){.channels = w[0], .positions = ys, .channel = parts[2], .position = parts[3]};
    g->in = parts[4];
    g->out = parts[5];
    g->tap = parts[6];
    g->first = parts[7];
    g->runs = (tile_run *)(void *)parts[8];
    g->taps = taps;
    return used;
}

static void fill_tables(weight_grad *g, const sizes *s, const cpu_operand *o)
{
    cpu_blocks x = cpu_blocks_of(o[X].md), y = cpu_blocks_of(o[DY].md), w = cpu_blocks_of(o[DW].md);
    int64_t at[WEFT_MAX_SPACE];
    g->images = x.dims[0];
    g->x.image = x.strides[0];
    g->dy.image = y.strides[0];
    cpu_axis_offsets(&x, 1, g->x.channel);
    cpu_axis_offsets(&y, 1, g->dy.channel);
    cpu_axis_offsets(&w, 1, g->in);
    cpu_axis_offsets(&w, 0, g->out);
    for (int64_t i = 0; i < g->x.positions; i++) g->x.position[i] = -1;
    for (int64_t i = 0; i < volume(s->x); i++) {
        split(s->x, i, at);
        g->x.position[x_position(s, at)] = space_offset(&x, at);
    }
    for (int64_t i = 0; i < g->dy.positions; i++) {
        split(s->y, i, at);
        g->dy.position[i] = space_offset(&y, at);
    }
    for (int64_t i = 0; i < g->taps; i++) {
        split(s->w, i, at);
        g->tap[i] = space_offset(&w, at);
        g->first[i + 1] = g->first[i] + runs_of(s, i, g->runs + g->first[i]);
    }
    g->rows_of_out = cpu_axis_follows(&w, 0, 16);
}

static void choose_chunk(weight_grad *g)
{
    int64_t panels = weight_grad_blocks(g->dy.channels, g->shape.columns);
    int64_t most = CHUNK_STEPS / WEFT_MAX(g->x.positions, g->dy.positions) / 2 * 2;
    int64_t chunks = weight_grad_blocks(g->images, WEFT_MAX(most, CHUNK_IMAGES));
    g->chunk = weight_grad_blocks(weight_grad_blocks(g->images, chunks), 2) * 2;
    int64_t steps = weight_grad_steps(g, g->chunk), words = steps * g->x.positions * g->x.channels;
    g->x_bytes = ((size_t)words * sizeof(uint32_t) + 63) / 64 * 64;
    words = steps * g->dy.positions * panels * g->shape.columns;
    g->dy_bytes = ((size_t)words * sizeof(uint32_t) + 63) / 64 * 64;
}

static bool is_blocked(cpu_md md)
{
    return cpu_blocks_of(md).blocked;
}

static weft_status check_layouts(const cpu_operand *o)
{
    cpu_blocks x = cpu_blocks_of(o[X].md), y = cpu_blocks_of(o[DY].md);
    bool usable = x.blocked && y.blocked && is_blocked(o[DW].md) && !cpu_axis_split(&x, 0) &&
                  !cpu_axis_split(&y, 0);
    return usable ? WEFT_OK : weft_fail(WEFT_ERR_UNSUPPORTED, "a private layout of the library");
}

bool cpu_weight_grad_supports(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_type *x = weft_in(g, node, 0), *dy = weft_in(g, node, 1);
    int rank = dy->shape.rank, channel = node->op->window ? 1 : rank - 1;
    return (group->count == 1 || cpu_with_bias_sum(group, 1, channel)) && x->dtype == dy->dtype &&
           weft_out(g, node, 0)->dtype == WEFT_F32 && node->in[0] != node->in[1] &&
           weft_node_int(node, "groups", 0, 1) == 1 &&
           panel_shape_of(x->dtype == WEFT_BF16).rows > 0;
}

/* Whether panels are faster than oneDNN's primitive by measurements with oneDNN 2.6 and 3.7 on
 * AVX-512: for convolutions of many channels and small images, for f32 products of many rows, and
 * for bf16 numbers of which oneDNN makes a matrix product, since its own kernels take few inputs
 * only with outputs in whole blocks. */
static bool is_faster(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_shape *x = &weft_in(g, node, 0)->shape, *w = &weft_out(g, node, 0)->shape;
    bool narrow = weft_in(g, node, 0)->dtype == WEFT_BF16;
    int64_t channels = WEFT_MIN(w->dim[0], w->dim[1]), all = weft_shape_elements(x);
    if (!panel_shape_of(narrow).masks) return false;
    if (!node->op->window) return !narrow && channels >= 128 && all / w->dim[0] >= 512;
    int64_t positions = all / (x->dim[0] * x->dim[1]);
    int64_t taps = weft_shape_elements(w) / (w->dim[0] * w->dim[1]);
    bool copied = narrow && w->dim[1] < 16 && w->dim[0] % 16 != 0;
    return taps >= 9 && (copied || (channels >= 32 && positions <= channels * (narrow ? 4 : 2)));
}

double cpu_weight_grad_seconds(const weft_group *group, const weft_layout *const *in)
{
    (void)in;
    return weft_group_seconds(&weft_device_cpu.rates, group) *
           (is_faster(group) ? 0.8 : CPU_SLOWER);
}

weft_status cpu_weight_grad_make(weft_device *device, const weft_group *group,
                                 const onednn_spec *spec, const cpu_weighted *m,
                                 const weft_layout *const *in, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    cpu_operand o[CPU_OPERANDS] = {[X] = {ONEDNN_X, node->in[0], m->x, m->x, true},
                                   [DY] = {ONEDNN_DY, node->in[1], m->y, m->y, true},
                                   [DW] = {ONEDNN_DW, node->out, m->w, m->w, false}};
    cpu_loop *k;
    WEFT_TRY(cpu_choose_layouts(device, group, spec, ONEDNN_WEIGHTS, in, is_blocked, o));
    WEFT_TRY(check_layouts(o));
    sizes s = sizes_of(spec, o[X].md, o[DY].md, o[DW].md);
    WEFT_TRY(cpu_loop_make(device, group, weight_grad_loop, &k));
    size_t numbers = sizeof(weight_grad) / sizeof(int64_t) + lay_out(NULL, &s, o);
    int64_t *memory = NULL;
    weft_status status = WEFT_NEW(&memory, numbers);
    weight_grad *g = (weight_grad *)(void *)memory;
    k->table = g;
    if (status == WEFT_OK) {
        (void)lay_out(g, &s, o);
        fill_tables(g, &s, o);
        g->narrow = onednn_md_dtype(o[X].md) == WEFT_BF16;
        g->shape = panel_shape_of(g->narrow);
        choose_chunk(g);
        k->head.scratch = g->x_bytes + g->dy_bytes + (size_t)g->first[g->taps] * sizeof(tile_run);
        status = cpu_set_layouts(device, group, o, &k->head);
    }
    size_t bytes = status == WEFT_OK ? k->head.out[0]->bytes : 0;
    if (bytes > weft_type_bytes(weft_out(group->graph, group->node[0], 0))) g->padded_bytes = bytes;
    if (status == WEFT_OK)
        *out = &k->head;
    else
        k->head.ops->destroy(&k->head);
    return status;
}
