/* Declares the steps of the optimizers adam and sgd over elements, for f32 and bf16 state, and the
 * random rounding to bf16. */
#ifndef WEFT_DEVICE_CPU_UPDATE_H
#define WEFT_DEVICE_CPU_UPDATE_H

#include "device/cpu/cpu.h"

/* A step: the gradient, the parameter and the states of its elements, and the numbers of the
 * optimizer. */
typedef struct cpu_step cpu_step;
struct cpu_step {
    /* Updates elements [begin, end) in place. */
    void (*span)(const cpu_step *step, int64_t begin, int64_t end);
    const float *g;
    float *w, *m, *v; /* m, v: NULL where the optimizer has none */
    union {
        struct {
            float keep1, drop1, add1, keep2, drop2, add2; /* of the moments, see weft_decay */
            float rate, root, epsilon, least, coupled, decoupled;
        } adam;
        struct {
            float lr, keep, drop, decay; /* keep, drop: of the momentum, see weft_decay */
            float now, ahead;            /* factors of the gradient and of the momentum in a step */
        } sgd;
    } of;
};

/* The step of a node adam or sgd with these operands, without elements. */
cpu_step cpu_step_of(const weft_node *node, const void *const *in);
/* The number of states behind the parameter that a node adam or sgd updates, and the index of its
 * operand `state`; 0 is the parameter. */
int cpu_step_states(const weft_node *node);
static inline int cpu_step_operand(int state)
{
    return state == 0 ? 0 : state + 1;
}

/* Whether a node rounds its operand to bf16 at random; and whether it is a cast to f32, which of
 * rounded numbers is the same numbers. */
bool cpu_rounds_at_random(const weft_node *node);
bool cpu_widens(const weft_graph *graph, const weft_node *node);
/* Rounds `count` elements of a node stochastic_round, from element `at` of its operand on. */
void cpu_round_at_random(const weft_graph *graph, const weft_node *node, int32_t step,
                         const float *x, uint16_t *y, int64_t at, int64_t count);

/* dropout.c: draws the numbers of CPU_PHILOX blocks from `first` on, as weft_philox does. */
enum { CPU_PHILOX = 32 };
void cpu_philox(uint64_t key, uint64_t high, uint64_t first, uint32_t out[4 * CPU_PHILOX]);

#endif
