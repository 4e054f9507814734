/* Declares what the kernels of recurrences and those of their gradients share. */
#ifndef WEFT_DEVICE_CPU_RECURRENCE_H
#define WEFT_DEVICE_CPU_RECURRENCE_H

#include "device/cpu/packed.h"

/* A run of a kernel. Each thread takes rows of the batch through all positions. Sequences but for
 * the cells are f32 or bf16 (`narrow`); states and sums are f32. */
typedef struct recurrence {
    const cpu_loop *k;
    weft_recurrence r;
    cpu_packed w;
    bool narrow;
    bool packed;          /* the weight is given in panels */
    float *zeros, *bias;  /* [units]; gru: [3 units] */
    float *states[2];     /* forward: h [b, units] before and after a position, by turns */
    uint16_t *operand[2]; /* narrow: h, or the gradient of the gates, as the product reads it */
    int64_t width;        /* of a row of an operand, an even number */
    const void *first_h;  /* gradient: h0 in the type of y, and c0, or NULL */
    const float *first_c;
} recurrence;

/* The rows of a thread at one position. */
typedef struct recurrence_step {
    const recurrence *j;
    int64_t t;
    const float *h; /* forward: the states before and after the position */
    float *next;
    uint16_t *operand; /* forward: the states after the position, for the next product */
} recurrence_step;

/* Runs statements for some units, whose number `count` is a constant where a tile is full, so that
 * each of their loops is one vector. */
#define CPU_UNITS(units, statements)                                                               \
    do {                                                                                           \
        if ((units) == CPU_TILE_UNITS) {                                                           \
            enum { count = CPU_TILE_UNITS };                                                       \
            statements;                                                                            \
        } else {                                                                                   \
            const int count = (int)(units);                                                        \
            statements;                                                                            \
        }                                                                                          \
    } while (0)

/* Computes the gates on a tile, for the recurrence_step `user`. */
typedef void (*cpu_gates)(void *user, cpu_tile *tile);
cpu_gates cpu_gates_of(const recurrence *j);

recurrence cpu_recurrence_of(const cpu_loop *k, int gates, bool gradient);

static inline int64_t cpu_position(const weft_recurrence *r, int64_t step)
{
    return r->backward ? r->positions - 1 - step : step;
}
/* The row of an input or output [b, t, width] at position t. */
static inline void *cpu_row_at(const weft_recurrence *r, const void *data, int64_t b, int64_t t,
                               int64_t width, bool narrow)
{
    return cpu_element(data, (b * r->positions + t) * width, narrow);
}
/* Whether an input is bf16; such a state is read one by one, since it is small. */
static inline bool cpu_is_narrow(const recurrence *j, int i)
{
    return weft_in(j->k->group.graph, j->k->group.node[0], i)->dtype == WEFT_BF16;
}
/* Prefetches some units of a row, which the next position reads or writes. The rows of a position
 * are far apart in memory, so the processor does not foresee them; they come while this position is
 * computed. The address need not be valid. */
static inline void cpu_prefetch(const void *row, int64_t units, bool narrow)
{
    int64_t line = narrow ? 32 : 16;
    for (int64_t u = 0; u < units; u += line) __builtin_prefetch(cpu_element(row, u, narrow), 1, 2);
}
static inline int64_t cpu_row_length(const recurrence *j, int64_t b)
{
    return weft_recurrence_length(&j->r, j->r.lengths >= 0 ? j->k->in[j->r.lengths] : NULL, b);
}
static inline bool cpu_row_counts(const recurrence *j, int64_t b, int64_t t)
{
    return weft_recurrence_counts(cpu_row_length(j, b), t);
}

void cpu_lstm_grad(const cpu_loop *k);
void cpu_gru_grad(const cpu_loop *k);

#endif
