/* Declares incremental decoding for operators: a graph that computes one position of each sequence
 * of a batch in a run, from states that the positions before it have left. */
#ifndef WEFT_GRAPH_INCREMENTAL_H
#define WEFT_GRAPH_INCREMENTAL_H

#include "graph/graph.h"

struct weft_incremental {
    weft_graph *graph; /* computes one position */
    /* Inputs. Each row of the batch is a sequence; a row that computes no position has the values
     * in parentheses, and keeps its states. */
    weft_value position;  /* [batch] i32: the position that is computed, from 0 (-1) */
    weft_value positions; /* [batch, 1] i32: the same (0) */
    weft_value lengths;   /* [batch] i32: the positions up to it, 1 + position (0) */
    weft_value active;    /* [batch] i32: whether a position is computed: 1 (0) */
    int64_t batch;
    int64_t window; /* positions of a sample */
    bool limited;   /* no position beyond those of a sample can be computed */
    weft_value *states;
    size_t count, capacity;
};

/* Makes a graph that computes one position of a sequence in a run, of one that computes the logits
 * [batch, positions, ...] of all positions of the input `tokens` [batch, positions]. Nodes that the
 * logits do not need are left out. map[values of graph] receives what stands for each value.
 * UNSUPPORTED: a node reads later positions. Free *out also after a failure. */
weft_status weft_graph_incremental(const weft_graph *graph, weft_value tokens, weft_value logits,
                                   weft_incremental *out, weft_value *map) WEFT_NODISCARD;
void weft_incremental_free(weft_incremental *s);

/* For weft_op.one_position: adds the state "<node>/<what>" of the sequences, which begins at zero
 * and belongs to each instance of a program. The operator assigns it its next value. */
weft_value weft_incremental_state(weft_incremental *s, const weft_node *node, const char *what,
                                  const weft_type *type);
/* UNSUPPORTED: the node cannot compute one position; why: "reads later positions". */
weft_status weft_incremental_refuse(const weft_node *node, const char *why) WEFT_NODISCARD;

#endif
