/* Implements products with a packed matrix in tiles of up to 6 rows and 16 columns, whose sums stay
 * in registers. */
#include "device/cpu/packed.h"

#include "device/cpu/simd.h"

typedef float half_row __attribute__((vector_size(32), aligned(4)));

static int64_t panel_count(const cpu_packed *p)
{
    return (p->units + CPU_TILE_UNITS - 1) / CPU_TILE_UNITS;
}

static int64_t panel_size(const cpu_packed *p)
{
    return p->depth * CPU_TILE_UNITS;
}

size_t cpu_packed_bytes(const cpu_packed *p)
{
    return (size_t)(panel_count(p) * p->groups * panel_size(p)) * sizeof(float);
}

/* The columns that fill up the last panel are zero. */
static void pack_part(void *user, int64_t begin, int64_t end)
{
    const cpu_packed *p = user;
    for (int64_t i = begin * p->groups; i < end * p->groups; i++) {
        float *to = p->panels + i * panel_size(p);
        int64_t unit = i / p->groups * CPU_TILE_UNITS, rest = p->units - unit;
        const float *from = p->w + i % p->groups * p->by_group + unit * p->by_unit;
        for (int64_t d = 0; d < p->depth; d++)
            for (int64_t u = 0; u < CPU_TILE_UNITS; u++)
                *to++ = u < rest ? from[d * p->by_depth + u * p->by_unit] : 0;
    }
}

void cpu_pack(const cpu_packed *p, int threads)
{
    cpu_packed copy = *p;
    weft_parallel(threads, panel_count(p), 1, pack_part, &copy);
}

/* Multiplies `rows` rows by a panel. The number of rows is a constant in each call, so that the
 * loops over rows are unrolled and the sums are in registers. */
WEFT_INLINE void multiply(int rows, int64_t depth, const float *a, int64_t stride,
                          const float *panel, float *to)
{
    half_row left[CPU_TILE_ROWS], right[CPU_TILE_ROWS];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) left[r] = right[r] = (half_row){0};
    for (int64_t d = 0; d < depth; d++) {
        half_row first = *(const half_row *)(panel + d * CPU_TILE_UNITS);
        half_row second = *(const half_row *)(panel + d * CPU_TILE_UNITS + CPU_TILE_UNITS / 2);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            left[r] += a[r * stride + d] * first;
            right[r] += a[r * stride + d] * second;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        float *row = to + r * CPU_TILE_GROUPS * CPU_TILE_UNITS;
        *(half_row *)row = left[r];
        *(half_row *)(row + CPU_TILE_UNITS / 2) = right[r];
    }
}

WEFT_CLONES static void multiply_rows(int rows, int64_t depth, const float *a, int64_t stride,
                                      const float *panel, float *to)
{
    switch (rows) {
    case 1: multiply(1, depth, a, stride, panel, to); break;
    case 2: multiply(2, depth, a, stride, panel, to); break;
    case 3: multiply(3, depth, a, stride, panel, to); break;
    case 4: multiply(4, depth, a, stride, panel, to); break;
    case 5: multiply(5, depth, a, stride, panel, to); break;
    default: multiply(6, depth, a, stride, panel, to); break;
    }
}

/* Panels are outside of rows, so that a panel stays in the first cache while all rows use it. */
void cpu_packed_product(const cpu_packed *p, const float *a, int64_t stride, int64_t begin,
                        int64_t end, void (*take)(void *user, cpu_tile *tile), void *user)
{
    cpu_tile tile;
    int64_t parts = (end - begin + CPU_TILE_ROWS - 1) / CPU_TILE_ROWS;
    for (int64_t i = 0; i < panel_count(p); i++)
        for (int64_t part = 0; part < parts; part++) {
            tile.unit = i * CPU_TILE_UNITS;
            tile.units = (int)WEFT_MIN(p->units - tile.unit, (int64_t)CPU_TILE_UNITS);
            tile.row = begin + (end - begin) * part / parts;
            tile.rows = (int)(begin + (end - begin) * (part + 1) / parts - tile.row);
            for (int g = 0; g < p->groups; g++)
                multiply_rows(tile.rows, p->depth, a + tile.row * stride, stride,
                              p->panels + (i * p->groups + g) * panel_size(p), tile.at[0][g]);
            take(user, &tile);
        }
}
