/* Implements products with a packed matrix, whose panels of 16 columns of each group are
 * contiguous.
 */
#include "device/cpu/packed.h"

#include "device/cpu/simd.h"

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

/* Writes `count` elements of row d of a panel, whose first column begins at w[at]: numbers. */
WEFT_INLINE void pack_numbers(const cpu_packed *p, int64_t d, int64_t at, int64_t count,
                              uint32_t *to)
{
    const uint32_t *w = (const uint32_t *)p->w + at + d * p->by_depth;
    if (p->by_unit == 1 && count == CPU_TILE_UNITS)
        memcpy(to, w, CPU_TILE_UNITS * sizeof(*to));
    else
        for (int64_t u = 0; u < count; u++) to[u] = w[u * p->by_unit];
}

/* Or pairs of rows 2 d and 2 d + 1, rounded, of which the last one may be missing. */
WEFT_INLINE void pair_numbers(const cpu_packed *p, int64_t d, int64_t at, int64_t count,
                              uint32_t *restrict to, int64_t step, bool narrow)
{
    const void *restrict w = cpu_element(p->w, at + 2 * d * p->by_depth, narrow);
    bool both = 2 * d + 1 < p->depth;
    int64_t other = both ? p->by_depth : 0;
    uint32_t mask = both ? 0xffffffff : 0xffff;
    for (int64_t u = 0; u < count; u++) {
        uint32_t first = weft_narrow_of(cpu_get(w, u * step, narrow));
        uint32_t second = weft_narrow_of(cpu_get(w, u * step + other, narrow));
        to[u] = (first | second << 16) & mask;
    }
}

WEFT_INLINE void pack_pairs_of(const cpu_packed *p, int64_t d, int64_t at, int64_t count,
                               uint32_t *to, bool narrow)
{
    if (p->by_unit == 1 && count == CPU_TILE_UNITS)
        pair_numbers(p, d, at, CPU_TILE_UNITS, to, 1, narrow);
    else
        pair_numbers(p, d, at, count, to, p->by_unit, narrow);
}
CPU_PRECISIONS(static, pack_pairs, p->narrow,
               (const cpu_packed *p, int64_t d, int64_t at, int64_t count, uint32_t *to), p, d, at,
               count, to)

/* The units that fill up the last panel are zero. */
static void pack_panel(const cpu_packed *p, int64_t i)
{
    int64_t units = panel_units(p), count = WEFT_MIN(units, p->units - i * units);
    uint32_t *to = p->panels + i * panel_size(p);
    for (int64_t d = 0; d < panel_rows(p); d++)
        for (int g = 0; g < WEFT_MAX(p->groups, 1); g++, to += units) {
            int64_t at = g * p->by_group + i * units * p->by_unit;
            if (p->of == TILE_SINGLE)
                pack_numbers(p, d, at, count, to);
            else
                pack_pairs(p, d, at, count, to);
            for (int64_t u = count; u < units; u++) to[u] = 0;
        }
}

static void pack_part(void *user, int64_t begin, int64_t end)
{
    const cpu_packed *p = user;
    for (int64_t i = begin; i < end; i++) pack_panel(p, i);
}

void cpu_pack(const cpu_packed *p, int threads)
{
    cpu_packed copy = *p;
    weft_parallel(threads, panel_count(p), 1, pack_part, &copy);
}

/* --- panels as a layout --- */

typedef struct packed_layout {
    cpu_layout head;
    cpu_packed of;
} packed_layout;

static bool is_same(const cpu_packed *a, const cpu_packed *b)
{
    return a->depth == b->depth && a->units == b->units && a->groups == b->groups &&
           a->of == b->of && a->narrow == b->narrow && a->by_depth == b->by_depth &&
           a->by_group == b->by_group && a->by_unit == b->by_unit;
}

static weft_status intern(weft_device *device, const cpu_packed *p, const weft_layout **out)
{
    for (weft_layout *l = device->layouts; l; l = l->next) {
        const cpu_packed *own = l->plain ? NULL : ((const cpu_layout *)l)->packed;
        *out = l;
        if (own && is_same(own, p)) return WEFT_OK;
    }
    packed_layout *layout;
    WEFT_TRY(WEFT_NEW(&layout, 1));
    layout->of = *p;
    layout->head.packed = &layout->of;
    layout->head.head = (weft_layout){.bytes = (size_t)cpu_packed_count(p) * sizeof(uint32_t),
                                      .rounds = true,
                                      .text = "panels",
                                      .next = device->layouts};
    device->layouts = &layout->head.head;
    *out = device->layouts;
    return WEFT_OK;
}

weft_status cpu_packed_layout(weft_device *device, const cpu_packed *p, const weft_layout **out)
{
    pthread_mutex_lock(&device->lock);
    weft_status status = intern(device, p, out);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void pack_loop(const cpu_loop *k)
{
    cpu_packed p = *(const cpu_packed *)k->table;
    p.w = k->in[0];
    p.panels = k->result;
    cpu_pack(&p, k->threads);
}

weft_status cpu_packed_reorder(weft_device *device, const weft_layout *from, const weft_layout *to,
                               weft_kernel **out)
{
    const weft_group none = {0};
    cpu_packed *p;
    cpu_loop *k;
    if (!from->plain)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "panels are packed from the plain layout alone");
    WEFT_TRY(WEFT_NEW(&p, 1));
    *p = *((const cpu_layout *)to)->packed;
    weft_status status = cpu_loop_make(device, &none, pack_loop, &k);
    if (status != WEFT_OK) {
        free(p);
        return status;
    }
    k->table = p;
    *out = &k->head;
    return WEFT_OK;
}

/* --- products --- */

bool cpu_packs_in_vain(const cpu_packed *p, int64_t rows)
{
    return p->of == TILE_SINGLE && p->groups > 0 && p->by_unit == 1 &&
           p->units % CPU_TILE_UNITS == 0 && rows <= 2 * (int64_t)CPU_TILE_ROWS;
}

/* Computes a tile from panel i, or from the columns of each group where they lie. */
static void multiply(const cpu_packed *p, int64_t i, const void *a, int64_t stride, cpu_tile *tile)
{
    tile_product t = {.m = tile->rows,
                      .n = panel_columns(p),
                      .k = panel_rows(p),
                      .a = (const uint32_t *)a + tile->row * stride,
                      .c = tile->at[0][0],
                      .a_row = stride,
                      .a_column = 1,
                      .b_row = panel_columns(p),
                      .c_row = (int64_t)CPU_TILE_GROUPS * CPU_TILE_UNITS,
                      .of = p->of};
    if (p->panels) {
        t.b = p->panels + i * panel_size(p);
        tile_multiply(&t);
        return;
    }
    t.n = CPU_TILE_UNITS;
    t.b_row = p->by_depth;
    for (int g = 0; g < p->groups; g++, t.c += CPU_TILE_UNITS) {
        t.b = (const float *)p->w + g * p->by_group + tile->unit;
        tile_multiply(&t);
    }
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
            multiply(p, i, a, stride, &tile);
            take(user, &tile);
        }
}
