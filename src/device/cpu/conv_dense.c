/* Creates the kernels of convolutions and inner products: the forward pass with its fused chain,
 * and the gradients of the input, of the weight and of the bias. */
#include "device/cpu/cpu.h"

static cpu_arg input(const weft_group *group, weft_value v, onednn_role role, cpu_md plain)
{
    return (cpu_arg){role, CPU_IN, weft_group_in(group, v), plain, false};
}

static cpu_arg output(const weft_group *group, weft_value v, onednn_role role, cpu_md plain)
{
    return (cpu_arg){role, CPU_OUT, weft_group_out(group, v), plain, false};
}

/* Describes the primitive of a chain. An added operand must have the layout of the result, which is
 * known only after the primitive was described without the addition; so it is described twice. */
static weft_status describe(weft_device *device, const cpu_chain *chain, onednn_spec *spec,
                            onednn_primitive **out)
{
    onednn *o = cpu_onednn(device);
    cpu_md addend;
    WEFT_TRY(cpu_chain_tail(device, chain, NULL, &spec->tail));
    WEFT_TRY(onednn_describe(o, spec, out));
    if (chain->addend == WEFT_NO_VALUE) return WEFT_OK;
    weft_status status = onednn_wants(*out, ONEDNN_Y, &addend);
    onednn_drop(*out);
    WEFT_TRY(status);
    WEFT_TRY(cpu_chain_tail(device, chain, addend, &spec->tail));
    return onednn_describe(o, spec, out);
}

weft_status cpu_forward_make(weft_device *device, const weft_group *group, const cpu_chain *chain,
                             const onednn_spec *spec, const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    onednn_spec s = *spec;
    onednn_primitive *described;
    s.pass = ONEDNN_FORWARD;
    if (chain->bias == WEFT_NO_VALUE) s.bias = NULL;
    WEFT_TRY(describe(device, chain, &s, &described));
    cpu_arg args[5] = {
        input(group, node->in[0], ONEDNN_X, m->x),
        input(group, node->in[1], ONEDNN_W, m->w),
        output(group, group->out[0], ONEDNN_Y, m->y),
    };
    int count = 3;
    if (chain->bias != WEFT_NO_VALUE)
        args[count++] = input(group, chain->bias, ONEDNN_BIAS, m->bias);
    if (chain->addend != WEFT_NO_VALUE)
        args[count++] = input(group, chain->addend, ONEDNN_ADDEND, m->y);
    WEFT_TRY(cpu_primitive_make(device, described, args, count, out));
    weft_status finished = cpu_chain_finish(group, chain, *out);
    if (finished != WEFT_OK) (*out)->ops->destroy(*out);
    return finished;
}

weft_status cpu_dx_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                        const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    onednn_spec s = *spec;
    cpu_arg args[] = {
        input(group, node->in[0], ONEDNN_DY, m->y),
        input(group, node->in[1], ONEDNN_W, m->w),
        output(group, node->out, ONEDNN_DX, m->x),
    };
    s.pass = ONEDNN_BACKWARD;
    return cpu_spec_make(device, &s, args, 3, out);
}

weft_status cpu_dw_make(weft_device *device, const weft_group *group, const onednn_spec *spec,
                        const cpu_weighted *m, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    bool biased = group->count == 2;
    onednn_spec s = *spec;
    cpu_arg args[4] = {
        input(group, node->in[0], ONEDNN_X, m->x),
        input(group, node->in[1], ONEDNN_DY, m->y),
        output(group, node->out, ONEDNN_DW, m->w),
    };
    if (biased)
        args[3] = output(group, group->node[1]->out, ONEDNN_DBIAS, m->bias);
    else
        s.bias = NULL;
    s.pass = ONEDNN_WEIGHTS;
    return cpu_spec_make(device, &s, args, 3 + biased, out);
}

weft_status cpu_choose_layouts(weft_device *device, const weft_group *group,
                               const onednn_spec *spec, onednn_pass pass,
                               const weft_layout *const *in, bool (*reads)(cpu_md md),
                               cpu_operand operands[CPU_OPERANDS])
{
    onednn_spec s = *spec;
    onednn_primitive *described;
    s.pass = pass;
    s.bias = NULL;
    s.tail = (onednn_tail){0};
    WEFT_TRY(onednn_describe(cpu_onednn(device), &s, &described));
    weft_status status = WEFT_OK;
    for (int i = 0; i < CPU_OPERANDS && status == WEFT_OK; i++) {
        cpu_operand *o = &operands[i];
        int at = o->kept ? weft_group_in(group, o->value) : -1;
        status = onednn_wants(described, o->role, &o->md);
        if (status != WEFT_OK || at < 0 || !in[at] || in[at]->opaque || in[at]->rounds) continue;
        cpu_md md = cpu_md_of(in[at], o->plain);
        if (reads(md)) o->md = md;
    }
    onednn_drop(described);
    return status;
}

weft_status cpu_set_layouts(weft_device *device, const weft_group *group,
                            const cpu_operand operands[CPU_OPERANDS], weft_kernel *kernel)
{
    bool sums = false;
    for (int i = 0; i < CPU_OPERANDS; i++) {
        const cpu_operand *o = &operands[i];
        int in = weft_group_in(group, o->value);
        const weft_layout **to =
            in >= 0 ? &kernel->in[in] : &kernel->out[weft_group_out(group, o->value)];
        WEFT_TRY(cpu_layout_of(device, o->md, o->plain, false, to));
        sums = sums || o->role == ONEDNN_DW;
    }
    if (!sums || group->count == 1) return WEFT_OK;
    weft_value sum = group->node[1]->out;
    return weft_layout_plain(device, weft_value_type(group->graph, sum),
                             &kernel->out[weft_group_out(group, sum)]);
}
