/* Computes convolutions of few results, as of a lone row or a small image: numbers that a result
 * reads are gathered into a row (im2col; Chellapilla, Puri and Simard 2006), and the rows are
 * multiplied with 16 outputs after the other by the micro-kernel. So each weight is read once from
 * memory, in the order in which it lies, and that takes the time: a direct convolution with small
 * images reads them in pieces, for few products each. */
#include "device/cpu/im2col.h"

#include "device/cpu/panel.h"
#include "device/cpu/simd.h"

/* GATHERED: numbers that a thread gathers at least; MOST: numbers of rows that are gathered at a
 * time, so that memory does not grow with the images. */
enum { BLOCK = 16, ROWS = 44, GATHERED = 1 << 16, MOST = 1 << 16 };

typedef struct im2col {
    int64_t images, ins, outs, taps, positions; /* of a result */
    int64_t x_image, x_block, y_image, y_block;
    int64_t row, chunk; /* floats from one gathered row to the next; rows at a time */
    int64_t *to, *from; /* the offset of a position; of what it reads by a tap, -1: padding */
    bool relu;
} im2col;

/* A run of a kernel for a chunk of rows. */
typedef struct im2col_run {
    const cpu_loop *k;
    int64_t first, count;
} im2col_run;

static int64_t depth_of(const im2col *g)
{
    return g->ins * g->taps;
}

/* --- runs --- */

/* Item i is a row of the chunk: a result of an image. */
static void gather(void *user, int64_t begin, int64_t end)
{
    const im2col_run *r = user;
    const cpu_loop *k = r->k;
    const im2col *g = k->table;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = r->first + i;
        const float *x = (const float *)k->in[0] + row / g->positions * g->x_image;
        const int64_t *from = g->from + row % g->positions * g->taps;
        float *to = (float *)k->scratch + i * g->row;
        for (int64_t b = 0; b < g->ins / BLOCK; b++, x += g->x_block)
            for (int64_t t = 0; t < g->taps; t++, to += BLOCK)
                if (from[t] >= 0)
                    memcpy(to, x + from[t], BLOCK * sizeof(*to));
                else
                    memset(to, 0, BLOCK * sizeof(*to));
    }
}

static WEFT_CLONES void put(const cpu_loop *k, const float *restrict sums, int64_t row,
                            int64_t block)
{
    const im2col *g = k->table;
    float *restrict y = (float *)k->result + row / g->positions * g->y_image + block * g->y_block +
                        g->to[row % g->positions];
    const float *restrict bias = k->bias ? (const float *)k->bias + block * BLOCK : NULL;
    for (int i = 0; i < BLOCK; i++) {
        float v = sums[i] + (bias ? bias[i] : 0);
        y[i] = g->relu && v < 0 ? 0 : v; /* NaN stays NaN */
    }
}

/* Item i is 16 outputs. */
static void multiply(void *user, int64_t begin, int64_t end)
{
    const im2col_run *r = user;
    const cpu_loop *k = r->k;
    const im2col *g = k->table;
    float sums[ROWS * BLOCK];
    for (int64_t b = begin; b < end; b++)
        for (int64_t row = 0, count; row < r->count; row += count) {
            count = WEFT_MIN(r->count - row, (int64_t)ROWS);
            tile_multiply(&(tile_product){.m = count,
                                          .n = BLOCK,
                                          .k = depth_of(g),
                                          .a = (const float *)k->scratch + row * g->row,
                                          .b = (const float *)k->in[1] + b * depth_of(g) * BLOCK,
                                          .c = sums,
                                          .a_row = g->row,
                                          .a_column = 1,
                                          .b_row = BLOCK,
                                          .c_row = BLOCK});
            for (int64_t i = 0; i < count; i++) put(k, sums + i * BLOCK, r->first + row + i, b);
        }
}

static void im2col_loop(const cpu_loop *k)
{
    const im2col *g = k->table;
    int64_t rows = g->images * g->positions, grain = WEFT_MAX(GATHERED / depth_of(g), 1);
    im2col_run r = {.k = k};
    for (; r.first < rows; r.first += r.count) {
        r.count = WEFT_MIN(rows - r.first, g->chunk);
        weft_parallel(k->threads, r.count, grain, gather, &r);
        weft_parallel(k->threads, g->outs / BLOCK, 1, multiply, &r);
    }
}

/* --- the choice --- */

bool cpu_im2col_supports(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_type *x = weft_in(g, node, 0), *w = weft_in(g, node, 1);
    return x->shape.rank == 4 && x->dtype == WEFT_F32 && w->dtype == WEFT_F32 &&
           cpu_chain_type(group)->dtype == WEFT_F32 && !weft_node_rounds(g, node, 1) &&
           weft_node_int(node, "groups", 0, 1) == 1 && node->in[0] != node->in[1] &&
           w->shape.dim[0] % BLOCK == 0 && w->shape.dim[1] % BLOCK == 0 &&
           cpu_chain_is_simple(group);
}

/* Faster than oneDNN's primitive for few results and weights that do not stay in a cache with those
 * of the other layers, by measurements with oneDNN 2.6 on AVX-512. Where they stay, it is up to 1.6
 * times slower. */
double cpu_im2col_seconds(const weft_group *group, const weft_layout *const *in)
{
    (void)in;
    const weft_graph *g = group->graph;
    const weft_type *w = weft_in(g, group->node[0], 1);
    int64_t rows = weft_shape_elements(&cpu_chain_type(group)->shape) / w->shape.dim[0];
    bool faster = panel_shape_of(false).masks && rows <= 16 && weft_type_bytes(w) >= 4 << 20;
    return weft_group_seconds(&weft_device_cpu.rates, group) * (faster ? 0.6 : CPU_SLOWER);
}

/* --- creation --- */

static bool in_blocks(const cpu_blocks *b)
{
    return b->blocked && !cpu_axis_split(b, 0) && !cpu_axis_split(b, 2) && !cpu_axis_split(b, 3) &&
           cpu_axis_follows(b, 1, BLOCK);
}

static bool in_order(const cpu_blocks *w)
{
    int64_t taps = w->dims[2] * w->dims[3];
    bool ordered =
        w->blocked && cpu_axis_follows(w, 0, BLOCK) &&
        (w->dims[0] == BLOCK || cpu_axis_offset(w, 0, BLOCK) == w->dims[1] * taps * BLOCK);
    for (int64_t i = 0; i < w->dims[1] && ordered; i++)
        for (int64_t t = 0; t < taps; t++) {
            int64_t at = cpu_axis_offset(w, 1, i) + cpu_axis_offset(w, 2, t / w->dims[3]) +
                         cpu_axis_offset(w, 3, t % w->dims[3]);
            ordered = ordered && at == ((i / BLOCK * taps + t) * BLOCK + i % BLOCK) * BLOCK;
        }
    return ordered;
}

static void fill(im2col *g, const onednn_spec *spec, const cpu_blocks *x, const cpu_blocks *w,
                 const cpu_blocks *y)
{
    for (int64_t p = 0; p < g->positions; p++) {
        int64_t at[2] = {p / y->dims[3], p % y->dims[3]};
        g->to[p] = cpu_axis_offset(y, 2, at[0]) + cpu_axis_offset(y, 3, at[1]);
        for (int64_t t = 0; t < g->taps; t++) {
            int64_t tap[2] = {t / w->dims[3], t % w->dims[3]}, offset = 0;
            for (int d = 0; d < 2 && offset >= 0; d++) {
                int64_t i =
                    at[d] * spec->stride[d] + tap[d] * (spec->dilation[d] + 1) - spec->padding[d];
                bool inside = i >= 0 && i < x->dims[2 + d];
                offset = inside ? offset + cpu_axis_offset(x, 2 + d, i) : -1;
            }
            g->from[p * g->taps + t] = offset;
        }
    }
}

/* The operands in their order. */
enum { X, W, Y };

static weft_status finish(weft_device *device, const weft_group *group, const onednn_spec *spec,
                          const cpu_operand *o, cpu_loop *k)
{
    cpu_blocks x = cpu_blocks_of(o[X].md), w = cpu_blocks_of(o[W].md), y = cpu_blocks_of(o[Y].md);
    if (!in_blocks(&x) || !in_blocks(&y) || !in_order(&w))
        return weft_fail(WEFT_ERR_UNSUPPORTED, "channels do not lie in blocks of %d", BLOCK);
    int64_t *memory, taps = w.dims[2] * w.dims[3], positions = y.dims[2] * y.dims[3];
    WEFT_TRY(
        WEFT_NEW(&memory, sizeof(im2col) / sizeof(int64_t) + (size_t)(positions * (1 + taps))));
    im2col *g = (im2col *)(void *)memory;
    k->table = g;
    *g = (im2col){.images = x.dims[0],
                  .ins = x.dims[1],
                  .outs = y.dims[1],
                  .taps = taps,
                  .positions = positions,
                  .x_image = x.strides[0],
                  .x_block = cpu_axis_offset(&x, 1, BLOCK),
                  .y_image = y.strides[0],
                  .y_block = cpu_axis_offset(&y, 1, BLOCK),
                  .row = tile_stride(x.dims[1] * taps),
                  .to = (int64_t *)(void *)(g + 1)};
    g->from = g->to + positions;
    fill(g, spec, &x, &w, &y);
    g->chunk = WEFT_MIN(g->images * positions, WEFT_MAX(MOST / g->row, (int64_t)ROWS));
    k->head.scratch = (size_t)(g->chunk * g->row) * sizeof(float);
    WEFT_TRY(cpu_set_layouts(device, group, o, &k->head));
    return cpu_loop_take_bias(device, group, k, &g->relu);
}

weft_status cpu_im2col_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                            const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    cpu_operand o[CPU_OPERANDS] = {[X] = {ONEDNN_X, node->in[0], m->x, m->x, false},
                                   [W] = {ONEDNN_W, node->in[1], m->w, m->w, false},
                                   [Y] = {ONEDNN_Y, group->out[0], m->y, m->y, false}};
    cpu_loop *k;
    WEFT_TRY(cpu_choose_layouts(device, group, spec, ONEDNN_FORWARD, NULL, NULL, o));
    WEFT_TRY(cpu_loop_make(device, group, im2col_loop, &k));
    weft_status status = finish(device, group, spec, o, k);
    if (status == WEFT_OK)
        *out = &k->head;
    else
        k->head.ops->destroy(&k->head);
    return status;
}
