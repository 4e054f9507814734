/* Finds the ranks of a mesh that have the same part of a graph. A rewrite records each question
 * that it asks about its rank: how large a part is, where a cut lies, which coordinate the rank
 * has. Its decisions depend on nothing else of the rank, so one for which all answers are the same
 * gets the same nodes, but for the places of its parts in the whole tensors. */
#include "rewrite/rewrite.h"

/* Layouts have blocks of at most so many elements, within which a cut needs another kernel. */
enum { BLOCK = 64 };

void weft_rewrite_ask(const rewriter *r, question_kind kind, int axis, int64_t count)
{
    questions *q = r->asked;
    if (r->plan->size[axis] == 1) return;
    for (size_t i = q->count; i-- > 0;)
        if (q->list[i].kind == kind && q->list[i].axis == axis && q->list[i].count == count) return;
    weft_status status = WEFT_GROW(&q->list, &q->capacity, q->count);
    if (status != WEFT_OK)
        (void)weft_graph_stick(r->to, status);
    else
        q->list[q->count++] = (question){.kind = kind, .axis = axis, .count = count};
}

/* blocks: see weft_rewritten_alike. */
static int64_t answer(const weft_plan *plan, const question *q, int rank, bool blocks)
{
    int c = weft_plan_coordinate(plan, rank, q->axis), n = plan->size[q->axis];
    if (q->kind == ASKED_COORDINATE) return c;
    if (q->kind == ASKED_RANGE)
        return weft_part_start(q->count, c + 1, n) - weft_part_start(q->count, c, n);
    int64_t start = weft_plan_part_start(plan, q->axis, q->count, c);
    int64_t size = weft_plan_part_start(plan, q->axis, q->count, c + 1) - start;
    return q->kind == ASKED_CUT && blocks ? size * BLOCK + start % BLOCK : size;
}

bool weft_rewritten_alike(const weft_plan *plan, const weft_rewritten *mine, int rank, int other,
                          bool blocks)
{
    bool alike = weft_plan_place(plan, rank) == weft_plan_place(plan, other);
    for (size_t i = 0; i < mine->asked.count && alike; i++)
        alike = answer(plan, &mine->asked.list[i], rank, blocks) ==
                answer(plan, &mine->asked.list[i], other, blocks);
    return alike;
}
