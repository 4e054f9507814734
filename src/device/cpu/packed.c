/* Implements products with a packed matrix, whose panels of 16 columns are contiguous. */
#include "device/cpu/packed.h"

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
                tile_multiply(&(tile_product){.m = tile.rows,
                                              .n = CPU_TILE_UNITS,
                                              .k = p->depth,
                                              .a = a + tile.row * stride,
                                              .b = p->panels + (i * p->groups + g) * panel_size(p),
                                              .c = tile.at[0][g],
                                              .a_row = stride,
                                              .a_column = 1,
                                              .b_row = CPU_TILE_UNITS,
                                              .c_row = (int64_t)CPU_TILE_GROUPS * CPU_TILE_UNITS});
            take(user, &tile);
        }
}
