/* What convolutions and inner products have in common: an input, a weight, a bias and a result, and
 * three directions. */
#include "device/cpu/cpu.h"

weft_status cpu_desc_make(cpu_device *device, const_dnnl_op_desc_t desc, const_dnnl_post_ops_t ops,
                          const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attr;
    WEFT_TRY(cpu_attr_make(ops, &attr));
    dnnl_status_t made = dnnl_primitive_desc_create(out, desc, attr, device->engine, hint);
    dnnl_primitive_attr_destroy(attr);
    DNNL_TRY(made);
    return WEFT_OK;
}

static cpu_arg input(const weft_group *group, weft_value v, int arg, dnnl_query_t what, int index,
                     const cpu_md *plain)
{
    return (cpu_arg){arg, what, index, CPU_IN, weft_group_in(group, v), *plain, false};
}

static cpu_arg output(const weft_group *group, weft_value v, int arg, dnnl_query_t what, int index,
                      const cpu_md *plain)
{
    return (cpu_arg){arg, what, index, CPU_OUT, weft_group_out(group, v), *plain, false};
}

static weft_status forward_desc(cpu_device *d, const_dnnl_op_desc_t desc, const cpu_chain *chain,
                                const cpu_md *addend, dnnl_primitive_desc_t *out)
{
    dnnl_post_ops_t ops = NULL;
    WEFT_TRY(cpu_chain_post_ops(chain, addend, &ops));
    weft_status status = cpu_desc_make(d, desc, ops, NULL, out);
    dnnl_post_ops_destroy(ops);
    return status;
}

weft_status cpu_forward_make(weft_device *device, const weft_group *group, const cpu_chain *chain,
                             const_dnnl_op_desc_t desc, const cpu_weighted *m, weft_kernel **out)
{
    cpu_device *d = (cpu_device *)device;
    const weft_node *node = group->node[0];
    dnnl_primitive_desc_t pd;
    WEFT_TRY(forward_desc(d, desc, chain, NULL, &pd));
    if (chain->addend != WEFT_NO_VALUE) {
        /* The addend has to lie as the result does, which is known only now. */
        cpu_md addend = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
        dnnl_primitive_desc_destroy(pd);
        WEFT_TRY(forward_desc(d, desc, chain, &addend, &pd));
    }
    cpu_arg args[5] = {
        input(group, node->in[0], DNNL_ARG_SRC, dnnl_query_src_md, 0, &m->x),
        input(group, node->in[1], DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, &m->w),
        output(group, group->out[0], DNNL_ARG_DST, dnnl_query_dst_md, 0, &m->y),
    };
    int count = 3;
    if (chain->bias != WEFT_NO_VALUE)
        args[count++] =
            input(group, chain->bias, DNNL_ARG_BIAS, dnnl_query_weights_md, 1, &m->bias);
    if (chain->addend != WEFT_NO_VALUE)
        args[count++] =
            input(group, chain->addend, cpu_chain_addend_arg(chain), dnnl_query_dst_md, 0, &m->y);
    WEFT_TRY(cpu_primitive_make(device, pd, args, count, out));
    weft_status finished = cpu_chain_finish(group, chain, *out);
    if (finished != WEFT_OK) (*out)->ops->destroy(*out);
    return finished;
}

weft_status cpu_dx_make(weft_device *device, const weft_group *group, const_dnnl_op_desc_t desc,
                        const_dnnl_primitive_desc_t hint, const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    dnnl_primitive_desc_t pd;
    WEFT_TRY(cpu_desc_make((cpu_device *)device, desc, NULL, hint, &pd));
    cpu_arg args[] = {
        input(group, node->in[0], DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, &m->y),
        input(group, node->in[1], DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, &m->w),
        output(group, node->out, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0, &m->x),
    };
    return cpu_primitive_make(device, pd, args, 3, out);
}

weft_status cpu_dw_make(weft_device *device, const weft_group *group, const_dnnl_op_desc_t desc,
                        const_dnnl_primitive_desc_t hint, const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    bool biased = group->count == 2;
    dnnl_primitive_desc_t pd;
    WEFT_TRY(cpu_desc_make((cpu_device *)device, desc, NULL, hint, &pd));
    cpu_arg args[4] = {
        input(group, node->in[0], DNNL_ARG_SRC, dnnl_query_src_md, 0, &m->x),
        input(group, node->in[1], DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, &m->y),
        output(group, node->out, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0, &m->w),
    };
    if (biased)
        args[3] = output(group, group->node[1]->out, DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md,
                         1, &m->bias);
    return cpu_primitive_make(device, pd, args, 3 + biased, out);
}
