/* Computes the gradient of the weight of a convolution or of an inner product as products of
 * panels: for each tap of the kernel, the gradient [in, out] is the sum over images and over the
 * positions at which the tap is inside of the image of x[position + tap, in] * dy[position, out].
 * Positions outside are never multiplied, which are most of them in a small image.
 *
 * x and dy are packed once for all taps, into panels of a few channels: positions are outermost,
 * so that positions in a row are steps in a row. Images are taken in chunks whose panels fit into
 * the second cache. bf16 images are packed in pairs, and an odd last one has zeros beside it. */
#include "device/cpu/weight_grad.h"

#include "device/cpu/simd.h"

/* A chunk of images, and where its panels are. */
typedef struct chunk_run {
    const cpu_loop *k;
    const weight_grad *g;
    int64_t begin, images, steps; /* steps of a position */
    uint32_t *x, *dy;
    tile_run *runs; /* in steps */
} chunk_run;

static int64_t row_begin(const weight_grad *g, int64_t block)
{
    return g->x.channels * block / weight_grad_blocks(g->x.channels, g->shape.rows);
}

/* --- packing --- */

static void pack(const chunk_run *r, const tensor *t, const void *data, int64_t begin,
                 int64_t count, int64_t width, uint32_t *to)
{
    size_t size = r->g->narrow ? sizeof(uint16_t) : sizeof(float);
    panel_pack(&(panel_source){.data = (const char *)data + (size_t)(r->begin * t->image) * size,
                               .narrow = r->g->narrow,
                               .images = r->images,
                               .image = t->image,
                               .positions = t->positions,
                               .position = t->position,
                               .channel = t->channel + begin,
                               .channels = (int)count},
               r->g->shape, (int)width, to);
}

static void pack_x(void *user, int64_t begin, int64_t end)
{
    const chunk_run *r = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = row_begin(r->g, i), rows = row_begin(r->g, i + 1) - row;
        pack(r, &r->g->x, r->k->in[0], row, rows, rows, r->x + row * r->g->x.positions * r->steps);
    }
}

static inline float real(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The sums of a packed panel of dy: one for each position, which are then added. */
static WEFT_CLONES void add_bias(const chunk_run *r, const uint32_t *panel, int64_t begin,
                                 int64_t count)
{
    const weight_grad *g = r->g;
    float *out = (float *)r->k->sum + begin, all[PANEL_MOST_COLUMNS] = {0};
    for (int64_t p = 0; p < g->dy.positions; p++) {
        float sum[PANEL_MOST_COLUMNS] = {0};
        for (int64_t s = 0; s < r->steps; s++, panel += g->shape.columns)
            for (int c = 0; c < g->shape.columns; c++)
                sum[c] +=
                    g->narrow ? real(panel[c] << 16) + real(panel[c] & 0xffff0000) : real(panel[c]);
        for (int c = 0; c < g->shape.columns; c++) all[c] += sum[c];
    }
    for (int64_t c = 0; c < count; c++) out[c] = (r->begin > 0 ? out[c] : 0) + all[c];
}

static void pack_dy(void *user, int64_t begin, int64_t end)
{
    const chunk_run *r = user;
    const weight_grad *g = r->g;
    int64_t columns = g->shape.columns;
    for (int64_t i = begin; i < end; i++) {
        uint32_t *panel = r->dy + i * columns * g->dy.positions * r->steps;
        int64_t count = WEFT_MIN(g->dy.channels - i * columns, columns);
        pack(r, &g->dy, r->k->in[1], i * columns, count, columns, panel);
        if (r->k->sum) add_bias(r, panel, i * columns, count);
    }
}

/* --- products --- */

/* Writes a block of a tap's gradient, or adds it to that of the chunks before. */
static WEFT_CLONES void put(const chunk_run *r, const float *block, int64_t tap, int64_t row,
                            int64_t rows, int64_t column)
{
    const weight_grad *g = r->g;
    int64_t columns = WEFT_MIN(g->dy.channels - column, g->shape.columns);
    bool add = r->begin > 0;
    for (int64_t i = 0; i < rows; i++, block += g->shape.columns) {
        float *to = (float *)r->k->out[0] + g->tap[tap] + g->in[row + i];
        if (!g->rows_of_out) {
            for (int64_t c = 0; c < columns; c++) {
                float *at = to + g->out[column + c];
                *at = (add ? *at : 0) + block[c];
            }
            continue;
        }
        for (int64_t c = 0; c < columns; c += 16) {
            float *at = to + g->out[column + c];
            int64_t count = WEFT_MIN(columns - c, 16);
            for (int64_t j = 0; j < count && add; j++) at[j] += block[c + j];
            if (!add) memcpy(at, block + c, (size_t)count * sizeof(*at));
        }
    }
}

/* Item i is a block of the gradient, for all taps. Items with the same columns follow each other,
 * so that the panel of these stays in the cache. */
static void multiply(void *user, int64_t begin, int64_t end)
{
    const chunk_run *r = user;
    const weight_grad *g = r->g;
    int64_t blocks = weight_grad_blocks(g->x.channels, g->shape.rows);
    float block[PANEL_MOST_ROWS * PANEL_MOST_COLUMNS];
    for (int64_t i = begin; i < end; i++) {
        int64_t row = row_begin(g, i % blocks), rows = row_begin(g, i % blocks + 1) - row;
        int64_t column = i / blocks * g->shape.columns;
        for (int64_t t = 0; t < g->taps; t++) {
            int count = (int)(g->first[t + 1] - g->first[t]);
            panel_multiply(g->shape, r->x + row * g->x.positions * r->steps, 1, rows,
                           r->dy + column * g->dy.positions * r->steps, rows, 0,
                           r->runs + g->first[t], count, block);
            put(r, block, t, row, rows, column);
        }
    }
}

void weight_grad_loop(const cpu_loop *k)
{
    const weight_grad *g = k->table;
    char *scratch = k->scratch;
    int64_t panels = weight_grad_blocks(g->dy.channels, g->shape.columns);
    int64_t blocks = weight_grad_blocks(g->x.channels, g->shape.rows);
    chunk_run r = {.k = k,
                   .g = g,
                   .x = (uint32_t *)(void *)scratch,
                   .dy = (uint32_t *)(void *)(scratch + g->x_bytes),
                   .runs = (tile_run *)(void *)(scratch + g->x_bytes + g->dy_bytes)};
    memset(k->out[0], 0, g->padded_bytes); /* readers expect zeros in padding */
    for (; r.begin < g->images; r.begin += r.images) {
        r.images = WEFT_MIN(g->images - r.begin, g->chunk);
        r.steps = weight_grad_steps(g, r.images);
        for (int64_t i = 0; i < g->first[g->taps]; i++)
            r.runs[i] =
                (tile_run){(int32_t)(g->runs[i].a * r.steps), (int32_t)(g->runs[i].b * r.steps),
                           (int32_t)(g->runs[i].depth * r.steps)};
        weft_parallel(k->threads, blocks, 1, pack_x, &r);
        weft_parallel(k->threads, panels, 1, pack_dy, &r);
        weft_parallel(k->threads, blocks * panels, 1, multiply, &r);
    }
}
