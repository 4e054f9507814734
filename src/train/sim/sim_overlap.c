/* Determines when within a simulated step each part of the parameters is needed and its gradients
 * are ready. The progress of a step is proportional to the floating-point operations done. */
#include "train/sim/overlap.h"

#include "base/base.h"
#include "weft/program.h"

void weft_overlapped_init(const weft_program *program, int64_t microbatches, weft_overlapped *out)
{
    weft_program_info info = weft_program_describe(program);
    double pass = info.flops - info.update_flops;
    *out = (weft_overlapped){.program = program,
                             .microbatches = microbatches,
                             .pass = pass,
                             .flops = pass * (double)microbatches + info.update_flops,
                             .scale = 1};
}

/* A part of the exchanged parameters, in elements of the program. */
typedef struct part {
    double begin, end;
} part;

static bool overlaps(const part *p, int64_t begin, int64_t count)
{
    return p->begin < (double)(begin + count) && (double)begin < p->end;
}

/* The operations that a step has done when it first reads a part of the parameters, which is in its
 * first micro-batch; below 0: no node reads that part. */
static double needed_after(const weft_overlapped *s, const part *p)
{
    weft_reading r;
    for (int i = 0; weft_program_reading(s->program, i, &r); i++) /* in order of time */
        if (overlaps(p, r.begin, r.count)) return r.flops;
    return -1;
}

/* The operations that a step has done when all gradients of a part are final, which is in its last
 * micro-batch. */
static double made_after(const weft_overlapped *s, const part *p)
{
    double before = s->pass * (double)(s->microbatches - 1), flops = before;
    weft_gradient g;
    bool some = false;
    for (int i = 0; weft_program_gradient(s->program, i, &g); i++)
        if (overlaps(p, g.begin, g.count)) {
            flops = WEFT_MAX(flops, before + g.flops);
            some = true;
        }
    return some ? WEFT_MIN(flops, s->flops) : s->flops;
}

weft_status weft_overlap_find(const weft_overlapped *s, const weft_sim_exchange *x, double **needs,
                              double **makes, int *parts)
{
    int64_t begin, count;
    double last = 0;
    *needs = *makes = NULL;
    *parts = 0;
    if (!x->ops->part || s->flops <= 0) return WEFT_OK;
    while (x->ops->part(x, *parts, &begin, &count)) ++*parts;
    if (*parts == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(needs, *parts));
    WEFT_TRY(WEFT_NEW(makes, *parts));
    for (int i = 0; i < *parts; i++) {
        (void)x->ops->part(x, i, &begin, &count);
        part p = {(double)begin * s->scale, (double)(begin + count) * s->scale};
        (*needs)[i] = needed_after(s, &p) / s->flops;
        (*makes)[i] = made_after(s, &p) / s->flops;
        last = WEFT_MAX(last, (*needs)[i]);
    }
    /* A part that no node reads is treated as needed when the last other part is. */
    for (int i = 0; i < *parts; i++)
        if ((*needs)[i] < 0) (*needs)[i] = last;
    return WEFT_OK;
}
