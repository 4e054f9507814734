/* Computes convolutions with kernels of 3 x 3 by Winograd's transform F(4x4, 3x3) (Lavin and Gray,
 * arXiv 1509.09308): a tile of 4 x 4 results takes 36 products for each pair of channels instead of
 * 144. Weights and tiles of the input are transformed, multiplied as 36 matrices by panels, and the
 * products are transformed back. Vectors are 16 channels.
 *
 * The transform evaluates polynomials at 0, infinity, and plus and minus A and B = 1 / A. With A =
 * sqrt(1/2) errors are less than half of those with the usual points 1 and 2; test_winograd prints
 * them beside those of the direct sum, and bounds them. A result whose 3 x 3 numbers are zero in
 * all channels is zero, as in a direct sum, and not rounding noise of its tile: a relu behind it
 * would pass on gradients where there is noise.
 */
#include "device/cpu/winograd.h"

#include "device/cpu/winograd_points.h"

/* --- weights --- */

/* Item i is 16 channels of the result. */
static WEFT_CLONES void transform_weights(void *user, int64_t begin, int64_t end)
{
    const wino_run *r = user;
    const winograd *g = r->g;
    int64_t depth = g->from.channels, columns = g->shape.columns;
    int64_t product = winograd_panels(g) * depth * columns;
    lanes tap[9], half[18], all[WINO_PRODUCTS];
    for (int64_t i = begin; i < end; i++) {
        const int64_t *out = g->out + i * LANES;
        float *to = r->weights + i * LANES / columns * depth * columns + i * LANES % columns;
        for (int64_t c = 0; c < depth; c++, to += columns) {
            for (int t = 0; t < 9; t++) {
                const float *w = r->w + g->in[c] + g->tap[t];
                if (g->outs_follow)
                    tap[t] = *(const lanes *)(const void *)(w + out[0]);
                else
                    for (int l = 0; l < LANES; l++) tap[t][l] = w[out[l]];
            }
            for (int t = 0; t < 3; t++) weight_points(tap + t, 3, half + t, 3);
            for (int t = 0; t < 6; t++) weight_points(half + t * 3, 1, all + t * 6, 1);
            for (int p = 0; p < WINO_PRODUCTS; p++) *(lanes *)(void *)(to + p * product) = all[p];
        }
    }
}

/* --- tiles of the input --- */

wino_place winograd_place(const winograd *g, int64_t tile)
{
    int64_t each = g->tiles / g->from.images, across = each / g->tiles_down, in = tile % each;
    return (wino_place){tile / each, in / across * WINO_TILE, in % across * WINO_TILE};
}

/* The offset of number p of a tile in its image, for the first channels; -1: outside. */
WEFT_INLINE int64_t number_at(const winograd *g, const wino_place *at, int p)
{
    int64_t y = at->y + p / WINO_SIDE - g->above, x = at->x + p % WINO_SIDE - g->left;
    bool inside = y >= 0 && y < g->from.height && x >= 0 && x < g->from.width;
    return inside ? at->image * g->from.image + y * g->from.row + x * g->from.column : -1;
}

/* Bit p: number p of the tile is not zero in all channels. */
static WEFT_CLONES uint64_t filled_of(const wino_run *r, const wino_place *at)
{
    const wino_image *from = &r->g->from;
    uint64_t filled = 0;
    for (int p = 0; p < WINO_PRODUCTS; p++) {
        int64_t x = number_at(r->g, at, p);
        words any = {0};
        int32_t all = 0;
        for (int64_t b = 0; b < from->channels / LANES && x >= 0; b++, x += from->block)
            any |= *(const words *)(const void *)(r->from + x) << 1; /* without the sign */
        for (int l = 0; l < LANES; l++) all |= any[l];
        filled |= (uint64_t)(all != 0) << p;
    }
    return filled;
}

static WEFT_CLONES void winograd_tiles_clones(void *user, int64_t begin, int64_t end)
{
    const wino_run *r = user;
    const winograd *g = r->g;
    int64_t channels = g->from.channels, product = r->count * channels;
    lanes d[WINO_PRODUCTS];
    for (int64_t t = begin; t < end; t++) {
        wino_place at = winograd_place(g, r->first + t);
        r->filled[t] = filled_of(r, &at);
        for (int64_t b = 0; b < channels / LANES; b++) {
            const float *x = r->from + b * g->from.block;
            for (int p = 0; p < WINO_PRODUCTS; p++) {
                int64_t from = number_at(g, &at, p);
                d[p] = from < 0 ? (lanes){0} : *(const lanes *)(const void *)(x + from);
            }
            for (int j = 0; j < WINO_SIDE; j++) input_points(d + j, WINO_SIDE);
            for (int i = 0; i < WINO_SIDE; i++) input_points(d + i * WINO_SIDE, 1);
            float *to = r->tiles + t * channels + b * LANES;
            for (int p = 0; p < WINO_PRODUCTS; p++) *(lanes *)(void *)(to + p * product) = d[p];
        }
    }
}

void winograd_tiles(void *user, int64_t begin, int64_t end)
{
    winograd_tiles_clones(user, begin, end);
}

/* --- products, and results --- */

/* Transforms 16 channels of a tile's products, which are `apart` floats apart. */
static WEFT_CLONES void put_tile(const wino_run *r, int64_t tile, int64_t channel,
                                 const float *products, int64_t apart)
{
    const winograd *g = r->g;
    const wino_image *to = &g->to;
    wino_place at = winograd_place(g, r->first + tile);
    lanes m[WINO_PRODUCTS], bias = {0};
    /* Numbers that result (0, 0) reads. */
    const uint64_t window = 7 | 7 << WINO_SIDE | 7 << 2 * WINO_SIDE, filled = r->filled[tile];
    for (int p = 0; p < WINO_PRODUCTS; p++)
        m[p] = *(const lanes *)(const void *)(products + p * apart);
#pragma GCC unroll 1
    for (int j = 0; j < WINO_SIDE; j++) result_points(m + j, WINO_SIDE);
#pragma GCC unroll 1
    for (int i = 0; i < WINO_TILE; i++) result_points(m + i * WINO_SIDE, 1);
    if (r->bias) bias = *(const lanes *)(const void *)(r->bias + channel);
    float *out = r->to + at.image * to->image + channel / LANES * to->block;
    for (int i = 0; i < WINO_TILE && at.y + i < to->height; i++)
        for (int j = 0; j < WINO_TILE && at.x + j < to->width; j++) {
            lanes v =
                (filled >> (i * WINO_SIDE + j) & window ? m[i * WINO_SIDE + j] : (lanes){0}) + bias;
            if (g->relu) v = (lanes)((words)v & ~(words)(v < 0)); /* NaN stays NaN */
            *(lanes *)(void *)(out + (at.y + i) * to->row + (at.x + j) * to->column) = v;
        }
}

/* The results of `rows` tiles in the channels of a panel. */
static void results_of(const wino_run *r, int64_t tile, int64_t rows, int64_t panel, float *memory)
{
    const winograd *g = r->g;
    int64_t depth = g->from.channels, columns = g->shape.columns;
    int64_t blocks = (rows + g->shape.rows - 1) / g->shape.rows, apart = rows * columns;
    for (int64_t p = 0; p < WINO_PRODUCTS; p++)
        for (int64_t b = 0; b < blocks; b++) {
            int64_t row = rows * b / blocks, next = rows * (b + 1) / blocks;
            const float *a = r->tiles + (p * r->count + tile + row) * depth;
            const float *w = r->weights + (p * winograd_panels(g) + panel) * depth * columns;
            panel_multiply(g->shape, a, depth, 1, w, next - row, depth, NULL, 0,
                           memory + p * apart + row * columns);
        }
    int64_t channel = panel * columns, width = WEFT_MIN(g->to.channels - channel, columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < width; c += LANES)
            put_tile(r, tile + i, channel + c, memory + i * columns + c, apart);
}

/* Item i is a thread. Items are panels times groups of tiles, those of a panel in sequence. */
static void multiply(void *user, int64_t begin, int64_t end)
{
    const wino_run *r = user;
    const winograd *g = r->g;
    int64_t most = (int64_t)g->shape.rows * WINO_BLOCKS, groups = (r->count + most - 1) / most;
    int64_t items = winograd_panels(g) * groups;
    for (int64_t i = begin; i < end; i++) {
        char *memory = (char *)r->filled + g->filled_bytes + (size_t)i * g->worker_bytes;
        for (int64_t n = items * i / r->k->threads; n < items * (i + 1) / r->k->threads; n++) {
            int64_t tile = r->count * (n % groups) / groups;
            int64_t next = r->count * (n % groups + 1) / groups;
            results_of(r, tile, next - tile, n / groups, (float *)(void *)memory);
        }
    }
}

void winograd_loop(const cpu_loop *k)
{
    const winograd *g = k->table;
    char *scratch = k->scratch;
    wino_run r = {.k = k,
                  .g = g,
                  .from = k->in[0],
                  .w = k->in[1],
                  .bias = k->bias,
                  .to = k->result,
                  .weights = (float *)(void *)scratch,
                  .tiles = (float *)(void *)(scratch + g->weight_bytes),
                  .filled = (uint64_t *)(void *)(scratch + g->weight_bytes + g->tile_bytes)};
    weft_parallel(k->threads, g->to.channels / LANES, 1, transform_weights, &r);
    for (; r.first < g->tiles; r.first += r.count) {
        r.count = WEFT_MIN(g->tiles - r.first, g->chunk);
        weft_parallel(k->threads, r.count, 1, winograd_tiles, &r);
        weft_parallel(k->threads, k->threads, 1, multiply, &r);
    }
}
