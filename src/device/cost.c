/* Estimates the seconds of kernels and copies from a device's rates (roofline model). */
#include "device/device.h"

double weft_rates_seconds(const weft_rates *rates, double flops, double bytes)
{
    return rates->start + WEFT_MAX(flops / rates->flops, bytes / rates->bytes);
}

double weft_group_seconds(const weft_rates *rates, const weft_group *group)
{
    const weft_graph *g = group->graph;
    double flops = 0, bytes = 0;
    for (int i = 0; i < group->count; i++)
        flops += weft_graph_node_cost(g, g->values[group->node[i]->out].node).flops;
    for (int i = 0; i < group->in_count; i++)
        bytes += (double)weft_type_bytes(weft_value_type(g, group->in[i]));
    for (int i = 0; i < group->out_count; i++)
        bytes += (double)weft_type_bytes(weft_value_type(g, group->out[i]));
    return weft_rates_seconds(rates, flops, bytes);
}

double weft_rates_copy(const weft_rates *rates, double bytes)
{
    return rates->copied > 0 ? rates->copied_start + bytes / rates->copied : 0;
}
