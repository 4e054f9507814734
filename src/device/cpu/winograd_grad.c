/* Computes the gradient of a convolution's weight by the transposed transforms of Winograd's
 * F(4x4, 3x3): tiles of 6 x 6 numbers of the input and of 4 x 4 gradients of results become 36
 * matrices, whose products, summed over all tiles, are transformed to 3 x 3 weights. */
#include "device/cpu/winograd.h"
#include "device/cpu/winograd_points.h"

/* The tiles of `to`, [products, panels, tiles of the chunk, columns], behind those of `from`. */
static float *to_tiles(const wino_run *r)
{
    return (float *)(void *)((char *)r->filled + r->g->filled_bytes);
}

/* Items are tiles. */
static WEFT_CLONES void transform_to(void *user, int64_t begin, int64_t end)
{
    const wino_run *r = user;
    const winograd *g = r->g;
    const wino_image *to = &g->to;
    int64_t columns = g->shape.columns, product = winograd_panels(g) * r->count * columns;
    lanes d[WINO_TILE * WINO_TILE], half[WINO_SIDE * WINO_TILE], all[WINO_SIDE];
    for (int64_t t = begin; t < end; t++) {
        wino_place at = winograd_place(g, r->first + t);
        for (int64_t c = 0; c < to->channels; c += LANES) {
            const float *dy = r->to + at.image * to->image + c / LANES * to->block;
            for (int i = 0; i < WINO_TILE; i++)
                for (int j = 0; j < WINO_TILE; j++) {
                    int64_t y = at.y + i, x = at.x + j;
                    const float *p = dy + y * to->row + x * to->column;
                    bool inside = y < to->height && x < to->width;
                    d[i * WINO_TILE + j] = inside ? *(const lanes *)(const void *)p : (lanes){0};
                }
            for (int j = 0; j < WINO_TILE; j++) grad_points(d + j, WINO_TILE, half + j, WINO_TILE);
            float *out = to_tiles(r) + (c / columns * r->count + t) * columns + c % columns;
            for (int i = 0; i < WINO_SIDE; i++) {
                grad_points(half + i * WINO_TILE, 1, all, 1);
                for (int j = 0; j < WINO_SIDE; j++, out += product) *(lanes *)(void *)out = all[j];
            }
        }
    }
}

/* Adds a block of a matrix to the sum of the chunks before. */
static WEFT_CLONES void add_block(const float *block, int64_t count, bool first, float *to)
{
    for (int64_t i = 0; i < count; i++) to[i] = (first ? 0 : to[i]) + block[i];
}

/* Items are blocks of rows of panels of products, those of a panel in sequence. */
static void multiply(void *user, int64_t begin, int64_t end)
{
    const wino_run *r = user;
    const winograd *g = r->g;
    int64_t depth = g->from.channels, columns = g->shape.columns;
    int64_t blocks = (depth + g->shape.rows - 1) / g->shape.rows;
    float block[PANEL_MOST_ROWS * PANEL_MOST_COLUMNS];
    for (int64_t n = begin; n < end; n++) {
        int64_t panel = n / blocks, product = panel / winograd_panels(g); /* of all products */
        int64_t row = depth * (n % blocks) / blocks, next = depth * (n % blocks + 1) / blocks;
        const float *a = r->tiles + product * r->count * depth + row;
        const float *b = to_tiles(r) + panel * r->count * columns;
        panel_multiply(g->shape, a, 1, depth, b, next - row, r->count, NULL, 0, block);
        add_block(block, (next - row) * columns, r->first == 0,
                  r->weights + (panel * depth + row) * columns);
    }
}

/* Items are 16 channels of the result. */
static WEFT_CLONES void transform_back(void *user, int64_t begin, int64_t end)
{
    const wino_run *r = user;
    const winograd *g = r->g;
    int64_t depth = g->from.channels, columns = g->shape.columns;
    int64_t product = winograd_panels(g) * depth * columns;
    lanes m[WINO_PRODUCTS];
    for (int64_t n = begin; n < end; n++)
        for (int64_t c = 0; c < depth; c++) {
            const float *sums =
                r->weights + (n * LANES / columns * depth + c) * columns + n * LANES % columns;
            const int64_t *out = g->out + n * LANES;
            for (int p = 0; p < WINO_PRODUCTS; p++)
                m[p] = *(const lanes *)(const void *)(sums + p * product);
            for (int j = 0; j < WINO_SIDE; j++) weight_grad_points(m + j, WINO_SIDE);
            for (int i = 0; i < 3; i++) weight_grad_points(m + i * WINO_SIDE, 1);
            for (int t = 0; t < 9; t++) {
                const lanes v = m[t / 3 * WINO_SIDE + t % 3];
                float *to = (float *)r->k->out[0] + g->in[c] + g->tap[t];
                if (g->outs_follow)
                    *(lanes *)(void *)(to + out[0]) = v;
                else
                    for (int l = 0; l < LANES; l++) to[out[l]] = v[l];
            }
        }
}

/* The gradient of the bias: sums of 16 channels, first over each row. */
static WEFT_CLONES void add_bias(void *user, int64_t begin, int64_t end)
{
    const wino_run *r = user;
    const wino_image *to = &r->g->to;
    for (int64_t n = begin; n < end; n++) {
        lanes sum = {0};
        for (int64_t i = 0; i < to->images * to->height; i++) {
            const float *dy =
                r->to + i / to->height * to->image + n * to->block + i % to->height * to->row;
            lanes row = {0};
            for (int64_t x = 0; x < to->width; x++, dy += to->column)
                row += *(const lanes *)(const void *)dy;
            sum += row;
        }
        *(lanes *)(void *)((float *)r->k->sum + n * LANES) = sum;
    }
}

void winograd_grad_loop(const cpu_loop *k)
{
    const winograd *g = k->table;
    char *scratch = k->scratch;
    int64_t blocks = (g->from.channels + g->shape.rows - 1) / g->shape.rows;
    wino_run r = {.k = k,
                  .g = g,
                  .from = k->in[0],
                  .to = (float *)(uintptr_t)k->in[1],
                  .weights = (float *)(void *)scratch,
                  .tiles = (float *)(void *)(scratch + g->weight_bytes),
                  .filled = (uint64_t *)(void *)(scratch + g->weight_bytes + g->tile_bytes)};
    for (; r.first < g->tiles; r.first += r.count) {
        r.count = WEFT_MIN(g->tiles - r.first, g->chunk);
        weft_parallel(k->threads, r.count, 1, winograd_tiles, &r);
        weft_parallel(k->threads, r.count, 1, transform_to, &r);
        weft_parallel(k->threads, WINO_PRODUCTS * winograd_panels(g) * blocks, 1, multiply, &r);
    }
    weft_parallel(k->threads, g->to.channels / LANES, 1, transform_back, &r);
    if (k->sum) weft_parallel(k->threads, g->to.channels / LANES, 1, add_bias, &r);
}
