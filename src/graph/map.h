/* Declares passes over graphs. A pass says what stands in the place of a leaf or a node; the map
 * copies everything else, and keeps names, phases, origins, roles and the links between values. */
#ifndef WEFT_GRAPH_MAP_H
#define WEFT_GRAPH_MAP_H

#include "graph/graph.h"

/* Functions may be NULL: begin adds nothing, and everything of its kind is copied. */
typedef struct weft_graph_pass {
    /* Adds what the new graph has beside the original one. */
    weft_status (*begin)(weft_graph_mapper *m);
    /* Sets the value that stands for leaf v (WEFT_NO_VALUE: none). */
    weft_status (*leaf)(weft_graph_mapper *m, weft_value v, weft_value *out);
    /* Sets the values that stand for the outputs of node n, out[out_count], which begin as
     * WEFT_NO_VALUE. */
    weft_status (*node)(weft_graph_mapper *m, int n, weft_value *out);
    /* After all nodes: links the values of the new graph in the place of the map, which links them
     * as the originals are linked. */
    weft_status (*link)(weft_graph_mapper *m);
} weft_graph_pass;

/* A graph that is being mapped. */
struct weft_graph_mapper {
    const weft_graph *from;
    weft_graph *to;
    weft_value *value; /* of each value of `from`: what stands for it, or WEFT_NO_VALUE */
    int *node;         /* of each node of `from`: what computes it (the last node made, unless the
                        pass says another), or -1 */
    void *user;
    /* For each leaf of `from` what it is assigned, or WEFT_NO_VALUE for what stands for its next
     * value. NULL: the latter for all; `begin` may set it. */
    const weft_value *next;
};

/* Creates the graph that a pass makes of another one. wanted[count]: the values that must stay;
 * nodes and inputs that these do not need are left out; count < 0: all values stay. map[values of
 * graph] receives what stands for each value. The caller destroys *out. */
weft_status weft_graph_map(const weft_graph *graph, const weft_graph_pass *pass, void *user,
                           const weft_value *wanted, int count, weft_graph **out,
                           weft_value *map) WEFT_NODISCARD;

/* For passes: gives `part` copies of a node's attributes. The caller frees part->attrs. */
weft_status weft_graph_map_attrs(const weft_node *node, weft_node *part) WEFT_NODISCARD;
/* For passes: adds a copy of a leaf under a name and with a shape. */
weft_status weft_graph_map_leaf(const weft_graph_mapper *m, weft_value v, const char *name,
                                const weft_shape *shape, weft_value *out) WEFT_NODISCARD;
/* For passes: adds a copy of node n, whose inputs are what stands for those of the original. */
weft_status weft_graph_map_copy(weft_graph_mapper *m, int n, weft_value *out) WEFT_NODISCARD;
/* For passes: adds a copy of a node with other inputs, attributes and phase. *first: its first
 * output. */
weft_status weft_graph_map_node(const weft_graph_mapper *m, const weft_node *node,
                                const weft_value *in, const weft_attr *attrs, int attr_count,
                                weft_phase phase, weft_value *first) WEFT_NODISCARD;

#endif
