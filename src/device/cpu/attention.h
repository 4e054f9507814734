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
    const float *q, *k, *v;
    const int32_t *lengths; /* NULL: all keys are valid */
    bool causal;
    int64_t first;
    float scale;
} attention;

/* Reads the operands, of which the queries are input `at`; without addresses if `in` is NULL. */
attention cpu_attention_of(const weft_group *group, const void *const *in, int at);

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
/* The number of keys that row r of a pair sees: a prefix of the keys. */
int64_t cpu_attention_seen(const attention *p, int64_t pair, int64_t r);

/* Copy `count` rows of a pair's queries (times a factor) or keys, from row `begin` on, into a tile
 * with rows of tile_stride(width). cpu_keys_turn transposes: row j becomes column j of a tile with
 * rows of TILE_STRIDE. Columns that fill the last block are zero. */
void cpu_queries_copy(const attention *p, const float *x, int64_t width, int64_t pair,
                      int64_t begin, int64_t count, float factor, float *to);
void cpu_keys_copy(const attention *p, const float *x, int64_t width, int64_t pair, int64_t begin,
                   int64_t count, float *to);
void cpu_keys_turn(const attention *p, const float *x, int64_t width, int64_t pair, int64_t begin,
                   int64_t count, float *to);

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
