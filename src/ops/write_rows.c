/* Defines the operator write_rows, which writes one position of each sequence of a batch into a
 * table of all positions, such as the keys of attention in incremental decoding.
 *
 *   write_rows (table [b, t, ...], x [b, 1, ...], position [b] i32) -> table with x[b] at
 *   position[b] of row b. A row whose position is not one of the table stays as it is. */
#include "ops/ops.h"

static weft_status write_rows_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the table", 2));
    weft_type row = *weft_in(g, node, 0);
    row.shape.dim[1] = 1;
    WEFT_TRY(weft_expect_like(g, node, 1, "the row", &row));
    WEFT_TRY(weft_expect(g, node, 2, "the position", WEFT_I32, 1, row.shape.dim));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

static void write_rows_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    for (int operand = 0; operand < 4; operand++) {
        weft_text_add(text, "%s", operand == 0 ? "b" : operand == 3 ? " -> b" : ", b");
        if (operand == 2) continue;
        weft_text_add(text, operand == 1 ? " !o" : " !t");
        for (int i = 2; i < rank; i++) weft_text_add(text, " d%d", i);
    }
}

static double write_rows_flops(const weft_graph *g, const weft_node *node)
{
    return (double)weft_shape_elements(&weft_in(g, node, 1)->shape);
}

WEFT_OPERATOR(write_rows,
              "writes one position of each row of a batch into a table of all positions", 3, 3,
              .narrow = 3, .narrow_out = 1, .shape = write_rows_shape, .labels = write_rows_labels,
              .flops = write_rows_flops, .in_place = {1});
