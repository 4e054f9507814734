/* What convolutions and inner products have in common: an input, a weight, a bias and a result, and
 * three directions. */
#include "device/cpu/cpu.h"

static cpu_arg input(const weft_group *group, weft_value v, int arg, dnnl_query_t what, int index,
                     cpu_md plain)
{
    return (cpu_arg){arg, what, index, CPU_IN, weft_group_in(group, v), plain, false};
}

static cpu_arg output(const weft_group *group, weft_value v, int arg, dnnl_query_t what, int index,
                      cpu_md plain)
{
    return (cpu_arg){arg, what, index, CPU_OUT, weft_group_out(group, v), plain, false};
}

static weft_status forward_desc(cpu_device *d, cpu_forward_fn forward, const void *what,
                                const cpu_chain *chain, cpu_md addend, dnnl_primitive_desc_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_primitive_attr_t attr = NULL;
    WEFT_TRY(cpu_chain_post_ops(&d->head, chain, addend, &ops));
    weft_status status = cpu_attr_make(ops, &attr);
    dnnl_post_ops_destroy(ops);
    if (status == WEFT_OK) status = forward(d, what, chain->bias != WEFT_NO_VALUE, attr, out);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return status;
}

weft_status cpu_forward_make(weft_device *device, const weft_group *group, const cpu_chain *chain,
                             cpu_forward_fn forward, const void *what, const cpu_weighted *m,
                             weft_kernel **out)
{
    cpu_device *d = (cpu_device *)device;
    const weft_node *node = group->node[0];
    dnnl_primitive_desc_t pd;
    WEFT_TRY(forward_desc(d, forward, what, chain, NULL, &pd));
    if (chain->addend != WEFT_NO_VALUE) {
        /* The addend has to lie as the result does, which is known only now. */
        cpu_md addend;
        weft_status kept =
            cpu_md_keep(device, dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0), &addend);
        dnnl_primitive_desc_destroy(pd);
        WEFT_TRY(kept);
        WEFT_TRY(forward_desc(d, forward, what, chain, addend, &pd));
    }
    cpu_arg args[5] = {
        input(group, node->in[0], DNNL_ARG_SRC, dnnl_query_src_md, 0, m->x),
        input(group, node->in[1], DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, m->w),
        output(group, group->out[0], DNNL_ARG_DST, dnnl_query_dst_md, 0, m->y),
    };
    int count = 3;
    if (chain->bias != WEFT_NO_VALUE)
        args[count++] = input(group, chain->bias, DNNL_ARG_BIAS, dnnl_query_weights_md, 1, m->bias);
    if (chain->addend != WEFT_NO_VALUE)
        args[count++] =
            input(group, chain->addend, cpu_chain_addend_arg(chain), dnnl_query_dst_md, 0, m->y);
    WEFT_TRY(cpu_primitive_make(device, pd, args, count, out));
    weft_status finished = cpu_chain_finish(group, chain, *out);
    if (finished != WEFT_OK) (*out)->ops->destroy(*out);
    return finished;
}

weft_status cpu_dx_make(weft_device *device, const weft_group *group, dnnl_primitive_desc_t pd,
                        const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    cpu_arg args[] = {
        input(group, node->in[0], DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, m->y),
        input(group, node->in[1], DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, m->w),
        output(group, node->out, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0, m->x),
    };
    return cpu_primitive_make(device, pd, args, 3, out);
}

weft_status cpu_dw_make(weft_device *device, const weft_group *group, dnnl_primitive_desc_t pd,
                        const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    bool biased = group->count == 2;
    cpu_arg args[4] = {
        input(group, node->in[0], DNNL_ARG_SRC, dnnl_query_src_md, 0, m->x),
        input(group, node->in[1], DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, m->y),
        output(group, node->out, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0, m->w),
    };
    if (biased)
        args[3] = output(group, group->node[1]->out, DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md,
                         1, m->bias);
    return cpu_primitive_make(device, pd, args, 3 + biased, out);
}
