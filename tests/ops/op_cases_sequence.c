/* Graphs of the operators of sequence models: root mean square norm, gated products, rotary
 * position embedding, tables of positions, embedding, means of positions, smoothed labels. */
#include "op_build.h"

void rms_norm(fixture *f)
{
    out(f, node(f, "rms_norm", IN(X(f, 2, 3, 7), X(f, 7)), ATTRS(WEFT_ATTR_REAL("epsilon", 0.01))));
}

/* Rows that are longer than the sums of a device, and no multiple of them. */
void rms_norm_rows(fixture *f)
{
    out(f, node(f, "rms_norm", IN(X(f, 5, 83), X(f, 83)), NONE));
}

void rms_norm_deep(fixture *f)
{
    out(f, node(f, "rms_norm", IN(X(f, 2, 3, 2, 16), X(f, 16)), NONE));
}

/* A product of which one factor is a function of the input (Shazeer 2020). */
static void gated(fixture *f, const char *op)
{
    weft_value x = X(f, 3, 20), gate = node(f, "dense", IN(x, X(f, 20, 18)), NONE);
    weft_value up = node(f, "dense", IN(x, X(f, 20, 18)), NONE);
    out(f, node(f, "mul", IN(node(f, op, IN(gate), NONE), up), NONE));
}

void swiglu(fixture *f)
{
    gated(f, "silu");
}

void geglu(fixture *f)
{
    gated(f, "gelu");
}

void rotary(fixture *f)
{
    out(f, node(f, "rotary", IN(X(f, 2, 5, 3, 6)), NONE));
}

void rotary_interleaved(fixture *f)
{
    out(f, node(f, "rotary", IN(X(f, 1, 3, 2, 70)),
                ATTRS(WEFT_ATTR_REAL("base", 100), WEFT_ATTR_INT("first", 7),
                      WEFT_ATTR_INT("interleaved", 1))));
}

void rotary_inverse(fixture *f)
{
    out(f, node(f, "rotary", IN(X(f, 2, 3, 1, 2)), ATTRS(WEFT_ATTR_INT("inverse", 1))));
}

/* A position that is added at run time: 3 of the second operand and 2 of the attribute. */
void rotary_added(fixture *f)
{
    weft_value x = X(f, 2, 3, 1, 38);
    out(f, node(f, "rotary", IN(x, fixture_ints(f, 0, NULL, 5)), ATTRS(WEFT_ATTR_INT("first", 2))));
}

/* Another position for each row. */
void rotary_added_rows(fixture *f)
{
    weft_value x = X(f, 2, 3, 1, 38);
    int64_t rows = 2;
    out(f, node(f, "rotary", IN(x, fixture_ints(f, 1, &rows, 5)), NONE));
}

/* Positions from 0 to 6, of which those from 5 on are beyond the table. */
void write_rows(fixture *f)
{
    weft_value table = X(f, 8, 5, 3, 2), row = X(f, 8, 1, 3, 2);
    int64_t rows = 8;
    out(f, node(f, "write_rows", IN(table, row, fixture_ints(f, 1, &rows, 7)), NONE));
}

void bias_table(fixture *f)
{
    out(f, node(f, "bias", IN(X(f, 2, 3, 5), X(f, 3, 5)), NONE));
}

void bias_middle(fixture *f)
{
    out(f, node(f, "bias", IN(X(f, 2, 3, 4, 5), X(f, 3, 4)), NONE));
}

void bias_whole(fixture *f)
{
    out(f, node(f, "bias", IN(X(f, 3, 4), X(f, 3, 4)), ATTRS(WEFT_ATTR_INT("axis", 0))));
}

/* The bias of a convolution is a vector; a table is not. */
void bias_not_of_channels(fixture *f)
{
    weft_value y = node(f, "conv", IN(X(f, 2, 3, 5, 5), X(f, 16, 3, 3, 3)), NONE);
    out(f, node(f, "bias", IN(y, X(f, 16, 3)), NONE));
}

void embedding_long(fixture *f)
{
    out(f, node(f, "embedding", IN(fixture_ints(f, DIMS(13), 11), X(f, 17, 37)), NONE));
}

/* Lengths 0 to 4 of 4 positions, so one sample may have no position. */
void sequence_mean(fixture *f)
{
    out(f, node(f, "sequence_mean", IN(X(f, 7, 4, 5), fixture_ints(f, DIMS(7), 5)), NONE));
}

static void smoothed(fixture *f, weft_value x, weft_value labels, weft_value weights)
{
    out(f,
        node(f, "softmax_xent", IN(x, labels, weights), ATTRS(WEFT_ATTR_REAL("smoothing", 0.1))));
}

void softmax_xent_smooth(fixture *f)
{
    weft_value x = X(f, 5, 4), labels = fixture_ints(f, DIMS(5), 4);
    smoothed(f, x, labels, POSITIVE(f, 5));
}

void softmax_xent_smooth_tokens(fixture *f)
{
    weft_value x = X(f, 2, 3, 5), labels = fixture_ints(f, DIMS(2, 3), 5);
    smoothed(f, x, labels, POSITIVE(f, 2, 3));
}
