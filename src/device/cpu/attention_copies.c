/* Copies the operands of attention into tiles for products of f32 numbers or of pairs of bf16
 * numbers. */
#include "device/cpu/attention.h"
#include "device/cpu/simd.h"

/* --- f32 --- */

static void copy_row(const float *from, int64_t width, float factor, float *to)
{
    for (int64_t c = 0; c < width; c++) to[c] = factor * from[c];
    for (int64_t c = width; c < tile_stride(width); c++) to[c] = 0;
}

static void turn(const float *x, int64_t step, int64_t width, int64_t count, float *to)
{
    for (int64_t j = 0; j < count; j += WEFT_LANES)
        for (int64_t c = 0; c < width; c++)
            for (int64_t i = j; i < WEFT_MIN(j + WEFT_LANES, count); i++)
                to[c * TILE_STRIDE + i] = x[i * step + c];
}

/* --- pairs of bf16 numbers --- */

static void copy_pairs(const uint16_t *from, int64_t width, uint16_t *to)
{
    int64_t whole = 2 * tile_stride((width + 1) / 2);
    memcpy(to, from, (size_t)width * sizeof(*to));
    memset(to + width, 0, (size_t)(whole - width) * sizeof(*to));
}

/* Turns columns 2 c and 2 c + 1 into row c. */
static void turn_pairs(const uint16_t *x, int64_t step, int64_t width, int64_t count, uint32_t *to)
{
    for (int64_t j = 0; j < count; j += WEFT_LANES)
        for (int64_t c = 0; c < width; c += 2)
            for (int64_t i = j; i < WEFT_MIN(j + WEFT_LANES, count); i++) {
                const uint16_t *at = x + i * step + c;
                to[c / 2 * TILE_STRIDE + i] = at[0] | (c + 1 < width ? (uint32_t)at[1] << 16 : 0);
            }
}

/* second: NULL: zeros. */
static WEFT_CLONES void mix_rows(const uint16_t *first, const uint16_t *second, int64_t width,
                                 uint32_t *to)
{
    for (int64_t c = 0; c < width && second; c++) to[c] = first[c] | (uint32_t)second[c] << 16;
    for (int64_t c = 0; c < width && !second; c++) to[c] = first[c];
    for (int64_t c = width; c < tile_stride(width); c++) to[c] = 0;
}

static WEFT_CLONES void scores_round_clones(const float *x, int64_t rows, int64_t count,
                                            uint32_t *to)
{
    for (int64_t r = 0; r < rows; r++, x += TILE_STRIDE, to += TILE_STRIDE) {
        uint16_t *row = (uint16_t *)(void *)to;
        for (int64_t c = 0; c < count; c++) row[c] = weft_narrow_of(x[c]);
        if (count % 2) row[count] = 0;
    }
}

void cpu_scores_round(const float *x, int64_t rows, int64_t count, uint32_t *to)
{
    scores_round_clones(x, rows, count, to);
}

static WEFT_CLONES void scores_mix_clones(const float *x, int64_t rows, int64_t count, uint32_t *to)
{
    for (int64_t r = 0; r < rows; r += 2, to += TILE_STRIDE) {
        const float *a = x + r * TILE_STRIDE, *b = a + TILE_STRIDE;
        for (int64_t c = 0; c < count && r + 1 < rows; c++)
            to[c] = weft_narrow_of(a[c]) | (uint32_t)weft_narrow_of(b[c]) << 16;
        for (int64_t c = 0; c < count && r + 1 == rows; c++) to[c] = weft_narrow_of(a[c]);
    }
}

void cpu_scores_mix(const float *x, int64_t rows, int64_t count, uint32_t *to)
{
    scores_mix_clones(x, rows, count, to);
}

/* --- either --- */

void cpu_queries_copy(const attention *p, const void *x, int64_t width, int64_t pair, int64_t begin,
                      int64_t count, float factor, void *to)
{
    int64_t stride = tile_stride(cpu_elements(p, width));
    for (int64_t r = 0; r < count; r++) {
        int64_t at = query_at(p, pair, begin + r, width);
        if (p->narrow)
            copy_pairs((const uint16_t *)x + at, width, (uint16_t *)to + 2 * r * stride);
        else
            copy_row((const float *)x + at, width, factor, (float *)to + r * stride);
    }
}

void cpu_queries_mix(const attention *p, const void *x, int64_t width, int64_t pair, int64_t count,
                     void *to)
{
    const uint16_t *from = x;
    for (int64_t r = 0; r < count; r += 2)
        mix_rows(from + query_at(p, pair, r, width),
                 r + 1 < count ? from + query_at(p, pair, r + 1, width) : NULL, width,
                 (uint32_t *)to + r / 2 * tile_stride(width));
}

void cpu_keys_mix(const attention *p, const void *x, int64_t width, int64_t pair, int64_t begin,
                  int64_t count, void *to)
{
    int64_t at = key_at(p, pair, begin, width), step = p->g * width;
    for (int64_t j = 0; j < count && !p->narrow; j++)
        copy_row((const float *)x + at + j * step, width, 1, (float *)to + j * tile_stride(width));
    for (int64_t j = 0; j < count && p->narrow; j += 2) {
        const uint16_t *from = (const uint16_t *)x + at + j * step;
        mix_rows(from, j + 1 < count ? from + step : NULL, width,
                 (uint32_t *)to + j / 2 * tile_stride(width));
    }
}

void cpu_keys_turn(const attention *p, const void *x, int64_t width, int64_t pair, int64_t begin,
                   int64_t count, void *to)
{
    int64_t at = key_at(p, pair, begin, width), step = p->g * width;
    if (p->narrow)
        turn_pairs((const uint16_t *)x + at, step, width, count, to);
    else
        turn((const float *)x + at, step, width, count, to);
    for (int64_t c = 0; c < cpu_elements(p, width); c++)
        memset((float *)to + c * TILE_STRIDE + count, 0,
               (size_t)(tile_columns(count) - count) * sizeof(float));
}

static WEFT_CLONES void write_single(float *to, const float *from, int64_t width, float factor)
{
    for (int64_t c = 0; c < width; c++) to[c] = factor == 0 ? 0 : factor * from[c];
}

static WEFT_CLONES void write_narrow(uint16_t *to, const float *from, int64_t width, float factor)
{
    for (int64_t c = 0; c < width; c++) to[c] = factor == 0 ? 0 : weft_narrow_of(factor * from[c]);
}

void cpu_row_write(const attention *p, void *to, int64_t at, const float *from, int64_t width,
                   float factor)
{
    if (p->narrow)
        write_narrow((uint16_t *)to + at, from, width, factor);
    else
        write_single((float *)to + at, from, width, factor);
}
