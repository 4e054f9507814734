/* Implements products with a packed matrix, whose panels of 16 columns of each group are
 * contiguous.
 */
#include "device/cpu/packed.h"

#include "base/float_math.h"

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

/* The elements of a column: numbers, or pairs of them. */
static int64_t panel_rows(const cpu_packed *p)
{
    return p->of == TILE_SINGLE ? p->depth : (p->depth + 1) / 2;
}

static int64_t panel_size(const cpu_packed *p)
{
    return panel_rows(p) * panel_columns(p);
}

int64_t cpu_packed_count(const cpu_packed *p)
{
    return panel_count(p) * panel_size(p);
}

/* Element d of the column whose first number is at w[at]. */
WEFT_INLINE uint32_t element(const cpu_packed *p, bool pairs, int64_t d, int64_t at)
{
    uint32_t bits;
    if (!pairs) {
        memcpy(&bits, (const float *)p->w + at + d * p->by_depth, sizeof(bits));
        return bits;
    }
    const uint16_t *w = (const uint16_t *)p->w + at + 2 * d * p->by_depth;
    return w[0] | (2 * d + 1 < p->depth ? (uint32_t)w[p->by_depth] << 16 : 0);
}

/* The units that fill up the last panel are zero. */
WEFT_INLINE void pack_panel(const cpu_packed *p, bool pairs, int64_t i)
{
    int64_t units = panel_units(p), rest = p->units - i * units;
    uint32_t *to = p->panels + i * panel_size(p);
    for (int64_t d = 0; d < panel_rows(p); d++)
        for (int g = 0; g < WEFT_MAX(p->groups, 1); g++) {
            int64_t at = g * p->by_group + i * units * p->by_unit;
            for (int64_t u = 0; u < units; u++)
                *to++ = u < rest ? element(p, pairs, d, at + u * p->by_unit) : 0;
        }
}

static void pack_part(void *user, int64_t begin, int64_t end)
{
    const cpu_packed *p = user;
    for (int64_t i = begin; i < end; i++)
        if (p->of == TILE_SINGLE)
            pack_panel(p, false, i);
        else
            pack_panel(p, true, i);
}

void cpu_pack(const cpu_packed *p, int threads)
{
    cpu_packed copy = *p;
    weft_parallel(threads, panel_count(p), 1, pack_part, &copy);
}

/* Panels are outside of rows, so that a panel stays in the first cache while all rows use it. */
void cpu_packed_product(const cpu_packed *p, const void *a, int64_t stride, int64_t begin,
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
                                          .k = panel_rows(p),
                                          .a = (const uint32_t *)a + tile.row * stride,
                                          .b = p->panels + i * panel_size(p),
                                          .c = tile.at[0][0],
                                          .a_row = stride,
                                          .a_column = 1,
                                          .b_row = panel_columns(p),
                                          .c_row = (int64_t)CPU_TILE_GROUPS * CPU_TILE_UNITS,
                                          .of = p->of});
            take(user, &tile);
        }
}
