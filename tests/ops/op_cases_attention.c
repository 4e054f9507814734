/* Graphs of the operator attention: sizes that leave tiles unfilled, or fill several; a causal
 * mask, lengths, and heads of queries that share heads of keys. */
#include "op_build.h"

#define CAUSAL WEFT_ATTR_INT("causal", 1)

/* Queries [b, t, h, d], keys [b, s, g, d] and values [b, s, g, e]. */
static void operands(fixture *f, const int64_t q[4], int64_t s, int64_t g, int64_t e,
                     weft_value in[3])
{
    in[0] = fixture_input(f, 4, q, true, 1, 0);
    in[1] = X(f, q[0], s, g, q[3]);
    in[2] = X(f, q[0], s, g, e);
}

static void attend(fixture *f, const weft_value *in, int count, const weft_attr *attrs,
                   int attr_count)
{
    out(f, node(f, "attention", in, count, attrs, attr_count));
}

void attention_plain(fixture *f)
{
    weft_value in[3];
    operands(f, (int64_t[])D4(2, 5, 3, 4), 7, 3, 6, in);
    attend(f, in, 3, NONE);
}

void attention_causal(fixture *f)
{
    weft_value in[3];
    operands(f, (int64_t[])D4(2, 7, 2, 5), 7, 2, 3, in);
    attend(f, in, 3, ATTRS(CAUSAL));
}

/* The keys begin with a cache of earlier ones; without `first` the last query is at the last key.
 */
void attention_cache(fixture *f)
{
    weft_value in[3];
    operands(f, (int64_t[])D4(2, 3, 2, 5), 8, 2, 5, in);
    attend(f, in, 3, ATTRS(CAUSAL));
}

/* One query, which is not at the last key. */
void attention_one(fixture *f)
{
    weft_value in[3];
    operands(f, (int64_t[])D4(2, 1, 4, 5), 8, 2, 5, in);
    attend(f, in, 3, ATTRS(CAUSAL, WEFT_ATTR_INT("first", 4)));
}

/* One query, vectors of numbers that are not full, and more than a block of keys. */
void attention_one_wide(fixture *f)
{
    weft_value in[4];
    operands(f, (int64_t[])D4(3, 1, 4, 37), 71, 2, 21, in);
    in[3] = fixture_ints(f, DIMS(3), 72);
    attend(f, in, 4, NONE);
}

/* More queries than keys: the first ones see no key. */
void attention_unseen(fixture *f)
{
    weft_value in[3];
    operands(f, (int64_t[])D4(1, 7, 2, 3), 4, 2, 4, in);
    attend(f, in, 3, ATTRS(CAUSAL, WEFT_ATTR_REAL("scale", -0.7)));
}

/* Lengths 0 to 2, so one sample has no keys. */
void attention_lengths(fixture *f)
{
    weft_value in[4];
    operands(f, (int64_t[])D4(3, 4, 2, 3), 6, 1, 5, in);
    in[3] = fixture_ints(f, DIMS(3), 3);
    attend(f, in, 4, NONE);
}

void attention_grouped(fixture *f)
{
    weft_value in[4];
    operands(f, (int64_t[])D4(2, 5, 6, 4), 5, 2, 3, in);
    in[3] = fixture_ints(f, DIMS(2), 5);
    attend(f, in, 4, ATTRS(CAUSAL));
}

/* One value is queries, keys and values. */
void attention_self(fixture *f)
{
    weft_value x = X(f, 2, 5, 2, 4);
    attend(f, IN(x, x, x), ATTRS(CAUSAL));
}

/* Several tiles of queries and keys, of which the last ones are not filled. The log-sum-exp and the
 * gradients are results. */
static void large(fixture *f, const weft_attr *attrs, int attr_count)
{
    weft_value in[3];
    operands(f, (int64_t[])D4(1, 131, 4, 20), 203, 2, 37, in);
    weft_value y = node(f, "attention", in, 3, attrs, attr_count);
    out(f, y);
    weft_value dy = X(f, 1, 131, 4, 37);
    weft_value dq =
        node(f, "attention_grad", IN(dy, in[0], in[1], in[2], y, y == WEFT_NO_VALUE ? y : y + 1),
             attrs, attr_count);
    for (int i = 0; i < 3; i++) out(f, dq == WEFT_NO_VALUE ? dq : dq + i);
    out(f, y == WEFT_NO_VALUE ? y : y + 1);
}

void attention_large(fixture *f)
{
    large(f, NONE);
}

void attention_large_causal(fixture *f)
{
    large(f, ATTRS(CAUSAL));
}
