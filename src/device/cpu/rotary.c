/* Implements rotary. The kernel has a table of the cosines and sines of all angles, which are
 * computed in double precision when the kernel is made. With positions that are added, a run
 * computes the table from the frequencies: one for all rows of the batch, or one for each. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192 };

/* Sizes of x [batch, positions, heads, 2 pairs]. */
typedef struct rotary_sizes {
    int64_t batch, positions, heads, pairs;
    int64_t tables; /* tables of turns: 1, or one for each row of the batch */
} rotary_sizes;

static rotary_sizes sizes_of(const weft_group *group)
{
    const weft_node *node = group->node[0];
    const int64_t *dim = weft_in(group->graph, node, 0)->shape.dim;
    bool each = node->in_count == 2 && weft_in(group->graph, node, 1)->shape.rank > 0;
    return (rotary_sizes){dim[0], dim[1], dim[2], dim[3] / 2, each ? dim[0] : 1};
}

typedef struct rotary_job {
    const void *x; /* f32, or if `narrow` bf16 */
    const float *cosine, *sine;
    void *y;
    rotary_sizes size;
    bool narrow, interleaved;
} rotary_job;

/* Turns the pairs of a head, whose numbers are `step` apart; those of a pair are `apart`. */
WEFT_INLINE void rotate(const void *restrict x, void *restrict y, const float *restrict cosine,
                        const float *restrict sine, int64_t pairs, int64_t step, int64_t apart,
                        bool narrow)
{
    for (int64_t i = 0; i < pairs; i++) {
        float a = cpu_get(x, i * step, narrow), b = cpu_get(x, i * step + apart, narrow);
        cpu_put(y, i * step, narrow, a * cosine[i] - b * sine[i]);
        cpu_put(y, i * step + apart, narrow, b * cosine[i] + a * sine[i]);
    }
}

/* Turns the heads of positions [begin, end), which are counted through all samples. */
WEFT_INLINE void rotary_part_of(void *user, int64_t begin, int64_t end, bool narrow)
{
    const rotary_job *j = user;
    int64_t pairs = j->size.pairs;
    for (int64_t p = begin; p < end; p++) {
        int64_t angles = p % (j->size.positions * j->size.tables) * pairs;
        const float *cosine = j->cosine + angles, *sine = j->sine + angles;
        for (int64_t h = p * j->size.heads; h < (p + 1) * j->size.heads; h++) {
            const void *x = cpu_element(j->x, h * 2 * pairs, narrow);
            void *y = cpu_element(j->y, h * 2 * pairs, narrow);
            if (j->interleaved)
                rotate(x, y, cosine, sine, pairs, 2, 1, narrow);
            else
                rotate(x, y, cosine, sine, pairs, 1, pairs, narrow);
        }
    }
}
CPU_PRECISIONS(static, rotary_part, ((const rotary_job *)user)->narrow,
               (void *user, int64_t begin, int64_t end), user, begin, end)

/* Fills turns[] with the cosines, then the sines, of all positions from `first` plus added[table]
 * on, for all tables. added NULL: nothing is added. */
static void fill_turns(const weft_node *node, const rotary_sizes *size, const double *frequency,
                       const int32_t *added, float *turns)
{
    int64_t table = size->positions * size->pairs, count = size->tables * table;
    int64_t first = weft_node_int(node, "first", 0, 0);
    double sign = weft_node_int(node, "inverse", 0, 0) ? -1 : 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t position = first + i % table / size->pairs + (added ? added[i / table] : 0);
        double angle = (double)position * frequency[i % size->pairs];
        turns[i] = (float)cos(angle);
        turns[count + i] = (float)(sign * sin(angle));
    }
}

/* The kernel's table: a frequency for each pair and, unless a position is added, the turns. */
static weft_status make_table(cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    rotary_sizes size = sizes_of(&k->group);
    bool added = node->in_count == 2;
    double base = weft_node_real(node, "base", 10000), *frequency;
    WEFT_TRY(WEFT_NEW(&frequency, size.pairs + (added ? 0 : size.positions * size.pairs)));
    k->table = frequency;
    for (int64_t i = 0; i < size.pairs; i++)
        frequency[i] = pow(base, -(double)i / (double)size.pairs);
    if (!added) fill_turns(node, &size, frequency, NULL, (float *)(frequency + size.pairs));
    return WEFT_OK;
}

static void rotary_loop(const cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    rotary_job j = {.x = k->in[0], .y = k->out[0], .size = sizes_of(&k->group)};
    const double *frequency = k->table;
    int64_t count = j.size.tables * j.size.positions * j.size.pairs;
    j.cosine = (const float *)(frequency + j.size.pairs);
    if (node->in_count == 2) {
        fill_turns(node, &j.size, frequency, k->in[1], k->scratch);
        j.cosine = k->scratch;
    }
    j.sine = j.cosine + count;
    j.interleaved = weft_node_int(node, "interleaved", 0, 0) != 0;
    j.narrow = weft_in(k->group.graph, node, 0)->dtype == WEFT_BF16;
    weft_parallel(k->threads, j.size.batch * j.size.positions,
                  GRAIN / (j.size.heads * j.size.pairs) + 1, rotary_part, &j);
}

static weft_status rotary_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    cpu_loop *k;
    rotary_sizes size = sizes_of(group);
    (void)in;
    WEFT_TRY(cpu_plain_make(device, group, rotary_loop, 0, &k));
    weft_status status = make_table(k);
    if (status != WEFT_OK) {
        k->head.ops->destroy(&k->head);
        return status;
    }
    if (group->node[0]->in_count == 2)
        k->head.scratch += (size_t)(2 * size.tables * size.positions * size.pairs) * sizeof(float);
    *out = &k->head;
    return WEFT_OK;
}

const cpu_entry cpu_rotary_entries[] = {
    {"rotary", "loop", cpu_one_precision, rotary_make, NULL, CPU_ANY},
    {.op = NULL},
};
