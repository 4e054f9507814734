/* Runs the pass of a group of functions of each element (elementwise.c). */
#include "device/cpu/element_pass.h"
#include "device/cpu/update.h"

typedef struct bound_pass {
    weft_bound head;
    const char *in[WEFT_GROUP_VALUES];
    char *out[WEFT_GROUP_VALUES];
    char *scratch;
} bound_pass;

static const element_pass *pass_of(const bound_pass *b)
{
    return (const element_pass *)b->head.kernel;
}

static char *block_at(const bound_pass *b, int thread, int index)
{
    size_t first = (size_t)thread * (size_t)pass_of(b)->blocks;
    return b->scratch + (first + (size_t)index) * ELEMENT_BLOCK * sizeof(float);
}

static char *address(const bound_pass *b, element_where w, int thread, int64_t at)
{
    size_t offset = (size_t)at * sizeof(float);
    switch (w.place) {
    case OPERAND: return (char *)(uintptr_t)b->in[w.index] + offset;
    case RESULT: return b->out[w.index] + offset;
    case BETWEEN: return block_at(b, thread, w.index);
    case SPREAD: break;
    }
    return block_at(b, thread, w.index);
}

/* Fills the blocks of the operands that are spread out or bf16; those of scalars once. */
static void fill_blocks(const bound_pass *b, int thread, int64_t at, int64_t count, bool first)
{
    const element_pass *k = pass_of(b);
    for (int i = 0, index = 0; i < k->in_count; i++) {
        if (!k->spread[i] && !k->narrow[i]) continue;
        float *to = (float *)(void *)block_at(b, thread, index++);
        if (k->narrow[i]) {
            weft_widen_from((const uint16_t *)(const void *)b->in[i] + at, to, count);
        } else if (!cpu_spread_is_scalar(&k->how[i])) {
            cpu_spread_out(&k->how[i], b->in[i], to, at, count);
        } else if (first) {
            cpu_spread_out(&k->how[i], b->in[i], to, 0, 1);
            for (int j = 1; j < ELEMENT_BLOCK; j++) to[j] = to[0];
        }
    }
}

/* Writes the results that are not f32. */
static void write_others(const bound_pass *b, int thread, int64_t at, int64_t count)
{
    const element_pass *k = pass_of(b);
    for (int o = 0; o < k->out_count; o++) {
        if (k->other[o] == 0) continue;
        const float *from = (const float *)(const void *)block_at(b, thread, k->other[o] - 1);
        if (k->type[o] == WEFT_BF16)
            weft_widen_to(from, (uint16_t *)(void *)b->out[o] + at, count);
        else
            for (int64_t j = 0; j < count; j++) b->out[o][at + j] = from[j] != 0;
    }
}

/* Rounds a block at random: its operand 1 is the step. Or copies what is rounded. */
static void round_block(const bound_pass *b, const element_step *now, const float *x, float *y,
                        int64_t at, int64_t count)
{
    uint16_t rounded[ELEMENT_BLOCK];
    if (!cpu_rounds_at_random(now->node)) {
        memcpy(y, x, (size_t)count * sizeof(*y));
        return;
    }
    int32_t when = *(const int32_t *)(const void *)b->in[now->in[1].index];
    cpu_round_at_random(pass_of(b)->graph, now->node, when, x, rounded, at, count);
    weft_widen_from(rounded, y, count);
}

/* Each thread has a part of the elements and its own scratch memory. */
static void run_threads(void *user, int64_t begin, int64_t end)
{
    const bound_pass *b = user;
    const element_pass *k = pass_of(b);
    for (int64_t thread = begin; thread < end; thread++) {
        int64_t at = k->size * thread / k->threads, stop = k->size * (thread + 1) / k->threads;
        int64_t most = k->count == 1 && k->blocks == 0 ? stop - at : ELEMENT_BLOCK;
        bool first = true;
        for (; at < stop; at += most) {
            int64_t count = WEFT_MIN(stop - at, most);
            fill_blocks(b, (int)thread, at, count, first);
            first = false;
            for (int s = 0; s < k->count; s++) {
                const element_step *now = &k->steps[s];
                const void *in[3];
                void *out = address(b, now->out, (int)thread, at);
                for (int i = 0; i < 3; i++)
                    in[i] = address(b, now->in[i < now->operands ? i : 0], (int)thread, at);
                if (now->element)
                    now->element->f32(in, now->parameters, out, count);
                else
                    round_block(b, now, in[0], out, at, count);
            }
            write_others(b, (int)thread, at, count);
        }
    }
}

static weft_status pass_run(weft_bound *bound, weft_queue *queue)
{
    (void)queue;
    const element_pass *k = (const element_pass *)bound->kernel;
    weft_parallel(k->threads, k->threads, 1, run_threads, bound);
    return WEFT_OK;
}

static weft_status pass_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                              weft_address scratch)
{
    bound_pass *b = (bound_pass *)bound;
    const element_pass *k = pass_of(b);
    for (int i = 0; i < k->in_count; i++) b->in[i] = weft_host(in[i]);
    for (int o = 0; o < k->out_count; o++) b->out[o] = weft_host(out[o]);
    b->scratch = weft_host(scratch);
    return WEFT_OK;
}

static void pass_unbind(weft_bound *bound)
{
    free(bound);
}

static const weft_bound_ops bound_ops = {
    .place = pass_place, .run = pass_run, .destroy = pass_unbind};

static weft_status pass_bind(const weft_kernel *kernel, weft_bound **out)
{
    return weft_bound_new(kernel, &bound_ops, sizeof(bound_pass), out);
}

static void pass_destroy(weft_kernel *kernel)
{
    free(kernel);
}

const weft_kernel_ops cpu_element_pass_ops = {.bind = pass_bind, .destroy = pass_destroy};
