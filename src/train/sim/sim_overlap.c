/* Determines when within a simulated step each part of the parameters is needed and its gradients
 * are ready. The progress of a step is proportional to the floating-point operations done. */
#include "train/sim/sim_internal.h"

static bool overlap(int64_t a, int64_t a_count, int64_t b, int64_t b_count)
{
    return a < b + b_count && b < a + a_count;
}

/* The operations that a step has done when it first reads a part of the parameters, which is in its
 * first micro-batch; below 0: no node reads that part. */
static double needed_after(const weft_simulation *s, int64_t begin, int64_t count)
{
    const weft_program *program = weft_instance_program(s->lead->instance);
    weft_reading r;
    for (int i = 0; weft_program_reading(program, i, &r); i++) /* in order of time */
        if (overlap(r.begin, r.count, begin, count)) return r.flops;
    return -1;
}

/* The operations that a step has done when all gradients of a part are final, which is in its last
 * micro-batch. */
static double made_after(const weft_simulation *s, int64_t begin, int64_t count)
{
    const weft_program *program = weft_instance_program(s->lead->instance);
    double before = s->pass * (double)(s->job->run_spec.microbatches - 1), flops = before;
    weft_gradient g;
    bool some = false;
    for (int i = 0; weft_program_gradient(program, i, &g); i++)
        if (overlap(g.begin, g.count, begin, count)) {
            flops = WEFT_MAX(flops, before + g.flops);
            some = true;
        }
    return some ? WEFT_MIN(flops, s->flops) : s->flops;
}

weft_status weft_simulation_measure(weft_simulation *s)
{
    int64_t begin, count;
    double last = 0;
    if (!s->exchange->ops->part || s->flops <= 0) return WEFT_OK;
    while (s->exchange->ops->part(s->exchange, s->parts, &begin, &count)) s->parts++;
    if (s->parts == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&s->needs, s->parts));
    WEFT_TRY(WEFT_NEW(&s->makes, s->parts));
    for (int i = 0; i < s->parts; i++) {
        (void)s->exchange->ops->part(s->exchange, i, &begin, &count);
        s->needs[i] = needed_after(s, begin, count) / s->flops;
        s->makes[i] = made_after(s, begin, count) / s->flops;
        last = WEFT_MAX(last, s->needs[i]);
    }
    /* A part that no node reads is treated as needed when the last other part is. */
    for (int i = 0; i < s->parts; i++)
        if (s->needs[i] < 0) s->needs[i] = last;
    return WEFT_OK;
}
