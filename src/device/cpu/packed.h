/* Declares the product of a few rows with a matrix that is packed once and used many times, as in
 * the steps of a recurrence. A row's result does not depend on the other rows. */
#ifndef WEFT_DEVICE_CPU_PACKED_H
#define WEFT_DEVICE_CPU_PACKED_H

#include "device/cpu/cpu.h"
#include "device/cpu/tile.h"

enum { CPU_TILE_ROWS = TILE_ROWS, CPU_TILE_UNITS = TILE_COLUMNS, CPU_TILE_GROUPS = 4 };

/* A matrix of `depth` rows and groups * units columns: in the product, column (group, unit) of a
 * row is the sum over d of a[d] * w[d * by_depth + group * by_group + unit * by_unit]. Without
 * groups (0) there is one. */
typedef struct cpu_packed {
    int64_t depth, units;
    int groups;
    tile_operands of; /* with pairs, a is bf16, and so is w if `narrow`, or else it is rounded */
    bool narrow;
    const void *w;
    int64_t by_depth, by_group, by_unit;
    uint32_t *panels; /* cpu_packed_count of them; NULL: it is multiplied as it lies */
} cpu_packed;

int64_t cpu_packed_count(const cpu_packed *p);
/* Whether it is better multiplied as it lies, by so many rows in all products together: to pack it
 * would take longer than a step of one text, which reads it once. Bits are the same. */
bool cpu_packs_in_vain(const cpu_packed *p, int64_t rows);
void cpu_pack(const cpu_packed *p, int threads);
/* The layout of the panels of a matrix that is f32 or bf16, and the reorder from its plain layout
 * to that; w and panels of a description are not read. */
weft_status cpu_packed_layout(weft_device *device, const cpu_packed *p,
                              const weft_layout **out) WEFT_NODISCARD;
weft_status cpu_packed_reorder(weft_device *device, const weft_layout *from, const weft_layout *to,
                               weft_kernel **out) WEFT_NODISCARD;

/* A part of the product: `rows` rows from `row` on, `units` columns from `unit` on of each group.
 * Without groups all numbers of a row follow each other. The receiver may change the numbers. */
typedef struct cpu_tile {
    int rows, units;
    int64_t row, unit;
    float at[CPU_TILE_ROWS][CPU_TILE_GROUPS][CPU_TILE_UNITS];
} cpu_tile;

/* Multiplies rows [begin, end) of a, which are `stride` numbers, or pairs of them, apart, and gives
 * each tile of the result to `take`. An odd depth is filled up with a zero in rows of pairs. */
void cpu_packed_product(const cpu_packed *p, const void *a, int64_t stride, int64_t begin,
                        int64_t end, void (*take)(void *user, cpu_tile *tile), void *user);

#endif
