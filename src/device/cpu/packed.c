/* Implements products with a packed matrix, whose panels of 16 columns of each group are
 * contiguous.
 */
#include "device/cpu/packed.h"

/* The units of each group in a panel: without groups as many as a tile has room for. */
static int64_t panel_units(const cpu_packed *p)
{
    return p->groups ? CPU_TILE_UNITS : (int64_t)CPU_TILE_GROUPS * CPU_TILE_UNITS;
}

static int64_t panel_columns(const cpu_packed *p)
{
    return panel_units(p) * WEFT_MAX(p->groups, 1);
}

static int64_t panel_count(const cpu_packed *p)
{
    return (p->units + panel_units(p) - 1) / panel_units(p);
}

static int64_t panel_size(const cpu_packed *p)
{
    return p->depth * panel_columns(p);
}

size_t cpu_packed_bytes(const cpu_packed *p)
{
    return (size_t)(panel_count(p) * panel_size(p)) * sizeof(float);
}

/* The units that fill up the last panel are zero. */
static void pack_part(void *user, int64_t begin, int64_t end)
{
    const cpu_packed *p = user;
    int64_t units = panel_units(p);
    for (int64_t i = begin; i < end; i++) {
        float *to = p->panels + i * panel_size(p);
        int64_t rest = p->units - i * units;
        for (int64_t d = 0; d < p->depth; d++)
            for (int g = 0; g < WEFT_MAX(p->groups, 1); g++) {
                const float *from =
                    p->w + d * p->by_depth + g * p->by_group + i * units * p->by_unit;
                for (int64_t u = 0; u < units; u++) *to++ = u < rest ? from[u * p->by_unit] : 0;
            }
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
            tile.unit = i * panel_units(p);
            tile.units = (int)WEFT_MIN(p->units - tile.unit, panel_units(p));
            tile.row = begin + (end - begin) * part / parts;
            tile.rows = (int)(begin + (end - begin) * (part + 1) / parts - tile.row);
            tile_multiply(&(tile_product){.m = tile.rows,
                                          .n = panel_columns(p),
                                          .k = p->depth,
                                          .a = a + tile.row * stride,
                                          .b = p->panels + i * panel_size(p),
                                          .c = tile.at[0][0],
                                          .a_row = stride,
                                          .a_column = 1,
                                          .b_row = panel_columns(p),
                                          .c_row = (int64_t)CPU_TILE_GROUPS * CPU_TILE_UNITS});
            take(user, &tile);
        }
}
