/* Declares what the kernels of attention and its gradient on the cpu device share: the operands,
 * the sizes of tiles, and the work of one thread. */
#ifndef WEFT_DEVICE_CPU_ATTENTION_H
#define WEFT_DEVICE_CPU_ATTENTION_H

#include "device/cpu/cpu.h"
#include "device/cpu/tile.h"

/* A tile of scores has at most so many queries and keys. Both are multiples of TILE_ROWS, and
 * MOST_KEYS of TILE_COLUMNS, so that only the last tiles have blocks that are not full. TILE_STRIDE
 * is tile_stride(MOST_KEYS). */
enum { MOST_QUERIES = 48, MOST_KEYS = 192, TILE_STRIDE = 208 };

/* The operands of a node. All queries that read the same keys are the rows of one matrix: row r is
 * query r % t of head r / t of the group. */
typedef struct attention {
    int64_t b, t, s, h, g, d, e;
    int64_t group, rows; /* heads of queries for each head of keys; queries of all these heads */
    int64_t d_stride, e_stride; /* between the rows of tiles with d and e columns */
    bool narrow;                /* q, k, v, y, dy and gradients are bf16 */
    tile_operands of;           /* of all products */
    int64_t d_row, e_row;       /* between rows of tiles with d and e numbers of operands */
    const void *q, *k, *v;
    const int32_t *lengths; /* NULL: all keys are valid */
    bool causal;
    int64_t first;
    float scale;
} attention;

/* Reads the operands, of which the queries are input `at`; without addresses if `in` is NULL.
 * pairs: how products of bf16 numbers are computed. */
attention cpu_attention_of(const weft_group *group, const void *const *in, int at,
                           tile_operands pairs);

/* Row r of the queries of pair (b, g), number b * p->g + g, in a tensor [b, t, h, width]. */
static inline int64_t query_at(const attention *p, int64_t pair, int64_t r, int64_t width)
{
    int64_t b = pair / p->g, head = pair % p->g * p->group + r / p->t;
    return ((b * p->t + r % p->t) * p->h + head) * width;
}
/* Row j of the keys of a pair, in a tensor [b, s, g, width]. */
static inline int64_t key_at(const attention *p, int64_t pair, int64_t j, int64_t width)
{
    return ((pair / p->g * p->s + j) * p->g + pair % p->g) * width;
}
/* The number of keys that count for a pair, and that row r of a pair sees: a prefix of the keys. */
int64_t cpu_attention_valid(const attention *p, int64_t pair);
int64_t cpu_attention_seen(const attention *p, int64_t pair, int64_t r);

/* The elements of an operand that hold n numbers: numbers, or pairs of them. */
static inline int64_t cpu_elements(const attention *p, int64_t n)
{
    return p->narrow ? (n + 1) / 2 : n;
}

/* --- attention_copies.c: operands of products ---
 *
 * Rows of a pair's queries or keys, `count` from row `begin` on, become a tile of elements.
 * Elements that fill the last block of columns are zero, and so is what fills the last pair.
 *
 * cpu_queries_copy, cpu_keys_copy: row j becomes row j, whose elements are pairs of columns.
 * cpu_keys_turn: row j becomes column j of rows of TILE_STRIDE, likewise.
 * cpu_queries_mix, cpu_keys_mix: for a sum over rows: as f32 cpu_keys_copy; pairs of rows become a
 * row, whose elements are pairs of numbers of one column.
 *
 * Queries are f32 numbers times a factor; bf16 numbers are copied. */
void cpu_queries_copy(const attention *p, const void *x, int64_t width, int64_t pair, int64_t begin,
                      int64_t count, float factor, void *to);
void cpu_queries_mix(const attention *p, const void *x, int64_t width, int64_t pair, int64_t count,
                     void *to);
void cpu_keys_mix(const attention *p, const void *x, int64_t width, int64_t pair, int64_t begin,
                  int64_t count, void *to);
void cpu_keys_turn(const attention *p, const void *x, int64_t width, int64_t pair, int64_t begin,
                   int64_t count, void *to);
/* Writes a row of a result from number `at` on, times a factor; 0: zeros, the row is not read. */
void cpu_row_write(const attention *p, void *to, int64_t at, const float *from, int64_t width,
                   float factor);
/* Round `rows` rows of `count` numbers, TILE_STRIDE apart: to rows of pairs of columns, and to
 * pairs of rows. */
void cpu_scores_round(const float *x, int64_t rows, int64_t count, uint32_t *to);
void cpu_scores_mix(const float *x, int64_t rows, int64_t count, uint32_t *to);

/* Computes the items from `begin` to `end` of a kernel in the memory of one thread. */
typedef void (*attention_work)(const cpu_loop *k, const attention *p, void *memory, int64_t begin,
                               int64_t end);

/* Divides a kernel's items over threads, of which each has `bytes` of the kernel's scratch memory.
 * cpu_attention_make creates the kernel. */
void cpu_attention_run(const cpu_loop *k, const attention *p, int64_t items, size_t bytes,
                       attention_work work);
weft_status cpu_attention_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                               const attention *p, int64_t items, size_t bytes,
                               weft_kernel **out) WEFT_NODISCARD;

/* --- attention_rows.c: each head has one query --- */
bool cpu_attention_has_one_query(const weft_group *group);
weft_status cpu_attention_rows_make(weft_device *device, const weft_group *group,
                                    const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

/* --- attention_grad.c --- */
weft_status cpu_attention_grad_make(weft_device *device, const weft_group *group,
                                    const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

#endif
