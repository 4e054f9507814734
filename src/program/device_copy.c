/* Makes kernels that copy a value in its layout, within a memory space or between host and device
 * memory. Between the two a run only queues the copy, so the host must wait before it uses the
 * memory on either side. */
#include <stdio.h>

#include "program/program.h"

typedef struct bound_copy {
    weft_bound head;
    weft_address from, to;
} bound_copy;

static weft_status place(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch)
{
    bound_copy *c = (bound_copy *)bound;
    (void)scratch;
    c->from = in[0];
    c->to = out[0];
    return WEFT_OK;
}

static weft_status run(weft_bound *bound, weft_queue *queue)
{
    const bound_copy *c = (const bound_copy *)bound;
    const weft_layout *from = bound->kernel->in[0], *to = bound->kernel->out[0];
    if (layout_space(from) == layout_space(to))
        return weft_copy(layout_space(to) == SPACE_HOST ? NULL : queue, c->to, c->from, to->bytes);
    return layout_space(to) == SPACE_HOST
               ? weft_copy_out(queue, weft_host(c->to), c->from, to->bytes)
               : weft_copy_in(queue, c->to, weft_host(c->from), to->bytes);
}

static void unbind(weft_bound *bound)
{
    free(bound);
}

static const weft_bound_ops bound_ops = {.place = place, .run = run, .destroy = unbind};

static weft_status bind(const weft_kernel *kernel, weft_bound **out)
{
    return weft_bound_new(kernel, &bound_ops, sizeof(bound_copy), out);
}

static void destroy(weft_kernel *kernel)
{
    free(kernel);
}

static const weft_kernel_ops ops = {.bind = bind, .destroy = destroy};

weft_status weft_copy_kernel(const weft_layout *from, const weft_layout *to, weft_kernel **out)
{
    weft_kernel *k;
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->ops = &ops;
    k->in[0] = from;
    k->out[0] = to;
    (void)snprintf(k->text, sizeof(k->text), "%s",
                   layout_space(from) == layout_space(to) ? "copy"
                   : layout_space(to) == SPACE_HOST       ? "to the host"
                                                          : "to the device");
    *out = k;
    return WEFT_OK;
}
