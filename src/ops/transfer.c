/* Defines the operators that move values between the ranks of a mesh: collectives over some of its
 * axes, and messages. Rewrites add them; they are not differentiable.
 *
 * Attributes: `axes` is the mask of mesh axes, `ranks` the number of ranks that these span, `index`
 * the index of this rank among them. A split dimension `dim` of size `whole` is divided into parts
 * by weft_part_start. */
#include "ops/ops.h"

static int64_t attr(const weft_node *node, const char *name)
{
    return weft_node_int(node, name, 0, 0);
}

/* moves: the operator adds nothing up, so the value may be of any type. */
static weft_status check_operands(const weft_graph *g, const weft_node *node, bool moves)
{
    if (!moves || weft_dtype_is_float(weft_in(g, node, 0)->dtype))
        WEFT_TRY(weft_expect_real(g, node, 0, "the value", 0));
    int64_t ranks = attr(node, "ranks"), index = attr(node, "index"), dim = attr(node, "dim");
    if (ranks < 1 || index < 0 || index >= ranks)
        return weft_node_fail(node, "rank %lld of %lld", (long long)index, (long long)ranks);
    if (weft_node_attr(node, "dim") && (dim < 0 || dim >= weft_in(g, node, 0)->shape.rank))
        return weft_node_fail(node, "dimension %lld, the value has %d", (long long)dim,
                              weft_in(g, node, 0)->shape.rank);
    return WEFT_OK;
}

static weft_status check_ranks(const weft_graph *g, const weft_node *node)
{
    return check_operands(g, node, false);
}

/* The size of this rank's part of a dimension of size `whole`. */
static int64_t part_of(const weft_node *node, int64_t whole)
{
    int n = (int)attr(node, "ranks"), i = (int)attr(node, "index");
    return weft_part_start(whole, i + 1, n) - weft_part_start(whole, i, n);
}

/* With virtual workers, each value comes as `parts` consecutive inputs, the sums over the subtrees
 * of this rank. */
static weft_status all_reduce_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    if (node->in_count > WEFT_MAX_OUTPUTS)
        return weft_node_fail(node, "reduces %d values, at most %d are possible", node->in_count,
                              WEFT_MAX_OUTPUTS);
    WEFT_TRY(check_ranks(g, node));
    int parts = (int)weft_node_int(node, "parts", 0, 1);
    if (parts < 1 || node->in_count % parts)
        return weft_node_fail(node, "%d values of %d parts each", node->in_count, parts);
    node->out_count = node->in_count / parts;
    for (int i = 0; i < node->in_count; i++) {
        WEFT_TRY(weft_expect_real(g, node, i, "a value", 0));
        if (i % parts == 0) out[i / parts] = *weft_in(g, node, i);
    }
    return WEFT_OK;
}

static weft_status reduce_scatter_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(check_ranks(g, node));
    out[0] = *weft_in(g, node, 0);
    int64_t *dim = &out[0].shape.dim[attr(node, "dim")];
    *dim = part_of(node, *dim);
    return WEFT_OK;
}

static weft_status all_gather_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(check_operands(g, node, true));
    int64_t whole = attr(node, "whole"), dim = attr(node, "dim");
    out[0] = *weft_in(g, node, 0);
    if (out[0].shape.dim[dim] != part_of(node, whole))
        return weft_node_fail(node, "has %lld of dimension %lld, its part of %lld is %lld",
                              (long long)out[0].shape.dim[dim], (long long)dim, (long long)whole,
                              (long long)part_of(node, whole));
    out[0].shape.dim[dim] = whole;
    return WEFT_OK;
}

/* The all-to-all gathers dimension `from`, of size `whole`, and splits dimension `dim`. */
static weft_status all_to_all_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(check_operands(g, node, true));
    int64_t from = attr(node, "from"), dim = attr(node, "dim");
    out[0] = *weft_in(g, node, 0);
    if (from == dim || from < 0 || from >= out[0].shape.rank)
        return weft_node_fail(node, "gathers dimension %lld and splits %lld", (long long)from,
                              (long long)dim);
    out[0].shape.dim[dim] = part_of(node, out[0].shape.dim[dim]);
    out[0].shape.dim[from] = attr(node, "whole");
    return WEFT_OK;
}

/* The input is this rank's part of the rows; the result has all rows that the windows of this rank
 * read. */
static weft_status halo_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int64_t begin, end;
    WEFT_TRY(check_ranks(g, node));
    out[0] = *weft_in(g, node, 0);
    weft_halo_rows(node, (int)attr(node, "index"), &begin, &end);
    out[0].shape.dim[attr(node, "dim")] = end - begin;
    return WEFT_OK;
}

/* The transpose of halo: each rank sends its addends for rows of other ranks to their owners, which
 * add them up. */
static weft_status halo_add_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int64_t begin, end, dim = attr(node, "dim");
    WEFT_TRY(check_ranks(g, node));
    out[0] = *weft_in(g, node, 0);
    weft_halo_rows(node, (int)attr(node, "index"), &begin, &end);
    if (out[0].shape.dim[dim] != end - begin)
        return weft_node_fail(node, "has %lld rows, its windows touch %lld",
                              (long long)out[0].shape.dim[dim], (long long)(end - begin));
    out[0].shape.dim[dim] = part_of(node, attr(node, "whole"));
    return WEFT_OK;
}

void weft_window_rows(const int64_t *window, int64_t rows, int rank, int ranks, int64_t *begin,
                      int64_t *end)
{
    int64_t reach = window[0], stride = window[1], padding = window[2], out = window[3];
    int64_t first = weft_part_start(out, rank, ranks);
    int64_t last = weft_part_start(out, rank + 1, ranks) - 1;
    *begin = WEFT_MAX((int64_t)0, first * stride - padding);
    *end = WEFT_MIN(rows, last * stride - padding + reach);
}

bool weft_window_aligned(const int64_t *window, int64_t rows, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        int64_t begin, end;
        weft_window_rows(window, rows, r, ranks, &begin, &end);
        if (begin != weft_part_start(rows, r, ranks) || end != weft_part_start(rows, r + 1, ranks))
            return false;
    }
    return true;
}

void weft_halo_rows(const weft_node *node, int rank, int64_t *begin, int64_t *end)
{
    weft_window_rows(weft_node_attr(node, "window")->ints, attr(node, "whole"), rank,
                     (int)attr(node, "ranks"), begin, end);
}

/* --- the elements that this rank sends --- */

static int64_t elements(const weft_graph *g, weft_value v)
{
    return weft_shape_elements(&weft_value_type(g, v)->shape);
}

/* halo: the rows of its own part that windows of other ranks read. halo_add: the rows of other
 * ranks that its own windows read. */
static int64_t halo_sent(const weft_graph *g, const weft_node *node)
{
    int n = (int)attr(node, "ranks"), me = (int)attr(node, "index");
    int64_t rows = attr(node, "whole"), sum = 0, mine, end;
    bool adds = node->op->transfer->adds;
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    for (int r = 0; r < n; r++) {
        int owner = adds ? r : me, reader = adds ? me : r;
        if (r == me) continue;
        weft_halo_rows(node, reader, &mine, &end);
        mine = WEFT_MAX(mine, weft_part_start(rows, owner, n));
        end = WEFT_MIN(end, weft_part_start(rows, owner + 1, n));
        sum += WEFT_MAX(end - mine, (int64_t)0);
    }
    return sum * weft_shape_elements(x) / x->dim[attr(node, "dim")];
}

static int64_t all_reduce_sent(const weft_graph *g, const weft_node *node)
{
    int64_t n = weft_node_int(node, "ranks", 0, 2), me = attr(node, "index"), sum = 0;
    for (int i = 0; i < node->out_count; i++) sum += elements(g, node->out + i);
    int64_t part =
        weft_part_start(sum, (int)me + 1, (int)n) - weft_part_start(sum, (int)me, (int)n);
    return sum - part + part * (n - 1);
}

static int64_t reduce_scatter_sent(const weft_graph *g, const weft_node *node)
{
    return elements(g, node->in[0]) - elements(g, node->out);
}

static int64_t all_gather_sent(const weft_graph *g, const weft_node *node)
{
    return elements(g, node->in[0]) * (weft_node_int(node, "ranks", 0, 2) - 1);
}

static int64_t all_to_all_sent(const weft_graph *g, const weft_node *node)
{
    int64_t dim = attr(node, "dim"), sent = elements(g, node->in[0]);
    return sent - sent / weft_in(g, node, 0)->shape.dim[dim] * weft_out(g, node, 0)->shape.dim[dim];
}

static int64_t send_sent(const weft_graph *g, const weft_node *node)
{
    return elements(g, node->in[0]);
}

static int64_t receive_sent(const weft_graph *g, const weft_node *node)
{
    (void)g;
    (void)node;
    return 0;
}

int64_t weft_transfer_elements(const weft_graph *g, const weft_node *node)
{
    return node->op->transfer->sent(g, node);
}

/* The result of a send is an empty token. */
static weft_status send_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    if (weft_dtype_is_float(weft_in(g, node, 0)->dtype))
        WEFT_TRY(weft_expect_real(g, node, 0, "the value", 0));
    out[0] = (weft_type){weft_in(g, node, 0)->dtype, {0, {0}}};
    return WEFT_OK;
}

static weft_status receive_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_attr *shape = weft_node_attr(node, "shape");
    int count = shape ? shape->count : 0;
    if (count > WEFT_MAX_RANK) return weft_node_fail(node, "has too many dimensions");
    out[0] =
        (weft_type){weft_node_float(g, node), weft_shape_of(count, shape ? shape->ints : NULL)};
    return WEFT_OK;
}

/* Rewrites add these nodes after sharding, so no dimension may be split (mark '!'), and no label is
 * shared. */
static void whole_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    for (int i = 0; i < node->in_count + node->out_count; i++) {
        const weft_type *type =
            i < node->in_count ? weft_in(g, node, i) : weft_out(g, node, i - node->in_count);
        weft_text_add(text, "%s", i == node->in_count ? " -> " : i ? ", " : "");
        for (int d = 0; d < type->shape.rank; d++)
            weft_text_add(text, "%s!o%dd%d", d ? " " : "", i, d);
    }
}

static double no_flops(const weft_graph *g, const weft_node *node)
{
    (void)g;
    (void)node;
    return 0;
}

/* traits: those of a weft_transfer_traits, in parentheses */
#define TRAITS(...) __VA_ARGS__
#define TRANSFER(op, text, in_most, how, elements_sent, traits, ...)                               \
    static const weft_transfer_traits op##_traits = {.sent = elements_sent, TRAITS traits};        \
    const weft_op weft_op_##op = {.name = #op,                                                     \
                                  .summary = text,                                                 \
                                  .min_inputs = (in_most) != 0,                                    \
                                  .max_inputs = in_most,                                           \
                                  .attrs = WEFT_ATTRS(__VA_ARGS__),                                \
                                  .shape = op##_shape,                                             \
                                  .labels = whole_labels,                                          \
                                  .flops = no_flops,                                               \
                                  .transfer = &op##_traits,                                        \
                                  how}

TRANSFER(all_reduce, "sums of values over ranks", -1, .in_place = WEFT_EACH_IN_PLACE,
         all_reduce_sent, (.sums = true, .whole_in = true, .whole_out = true), "axes", "ranks",
         "index", "plain", "compare", "leaves", "parts");
TRANSFER(reduce_scatter, "sum over ranks, of which each keeps its part", 1, .in_place = {1},
         reduce_scatter_sent, (.sums = true, .whole_in = true), "axes", "ranks", "index", "dim",
         "compare", "leaves");
TRANSFER(all_gather, "the parts of all ranks joined", 1, .in_place = {0}, all_gather_sent,
         (.whole_out = true), "axes", "ranks", "index", "dim", "whole", "like");
TRANSFER(all_to_all, "another dimension split than before", 1, .in_place = {0}, all_to_all_sent,
         (.message = false), "axes", "ranks", "index", "dim", "from", "whole");
TRANSFER(halo, "a part of the rows with those of others that its windows touch", 1, .in_place = {0},
         halo_sent, (.adds = false), "axes", "ranks", "index", "dim", "whole", "window");
TRANSFER(halo_add, "rows that several windows touch, added; the transpose of halo", 1,
         .in_place = {0}, halo_sent, (.adds = true), "axes", "ranks", "index", "dim", "whole",
         "window");
TRANSFER(send, "a value to another rank", 1, .in_place = {0}, send_sent, (.message = true), "peer",
         "tag");
TRANSFER(receive, "a value from another rank", 0, .in_place = {0}, receive_sent, (.message = true),
         "peer", "tag", "shape", "dtype");
