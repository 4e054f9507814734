/* Reads the nodes of recurrences, for operators and devices. */
#include "graph/graph.h"

enum { OF_Y = 1, OF_H = 2, OF_C = 4 };

weft_recurrence weft_node_recurrence(const weft_graph *g, const weft_node *node, int gates,
                                     bool gradient)
{
    weft_recurrence r = {.gates = gates, .h0 = -1, .c0 = -1, .lengths = -1};
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    int64_t of = gradient ? weft_node_int(node, "of", 0, 0) : 0;
    int next = gradient ? 4 : gates == 4 ? 2 : 3;
    int end = node->in_count - (of & OF_H ? 1 : 0) - (of & OF_C ? 1 : 0);
    r.dy = of & OF_Y ? next++ : -1;
    bool lengths = end > next && weft_in(g, node, end - 1)->dtype == WEFT_I32;
    int states = end - lengths - next;
    r.backward = weft_node_int(node, "reverse", 0, 0) != 0;
    r.batch = x->dim[0];
    r.positions = x->dim[1];
    r.units = x->dim[2] / gates;
    if (states > 0) r.h0 = next++;
    if (states > 1 && gates == 4) r.c0 = next++;
    if (lengths) r.lengths = next++;
    r.dh = of & OF_H ? next++ : -1;
    r.dc = of & OF_C ? next++ : -1;
    r.inputs = next;
    return r;
}

int64_t weft_recurrence_length(const weft_recurrence *r, const int32_t *lengths, int64_t b)
{
    if (!lengths) return r->positions;
    return lengths[b] >= 0 && lengths[b] <= r->positions ? lengths[b] : -1;
}

int64_t weft_recurrence_before(const weft_recurrence *r, int64_t length, int64_t t)
{
    int64_t end = length < 0 ? r->positions : length, before = r->backward ? t + 1 : t - 1;
    return before < end ? before : -1; /* before the first position it is -1 by itself */
}
