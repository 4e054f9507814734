/* Packs elements of ranges into the chunk of a message to be sent, and sums received chunks
 * (merges). In a chunk the parts of the vector follow one another. */
#include "base/tree_sum.h"
#include "comm/comm.h"

#ifdef WEFT_MPI
#include "comm/mpi.h"

/* An iterator over the contiguous runs of the elements of a chunk. */
typedef struct walk {
    const mpi_range *range, *end;
    int64_t skip;  /* elements of ranges before the chunk that are still to be skipped */
    int64_t left;  /* elements of the chunk that are still to come */
    int64_t start; /* of the present run: its first element in the vector, */
    int64_t count; /* and its elements */
} walk;

static walk begin(const mpi_range *ranges, int count, int64_t elements, int64_t each, int64_t c)
{
    return (walk){.range = ranges,
                  .end = ranges + count,
                  .skip = c * each,
                  .left = mpi_chunk_size(elements, each, c)};
}

static bool next(walk *w)
{
    for (; w->left > 0 && w->range < w->end; w->range++) {
        if (w->skip >= w->range->size) {
            w->skip -= w->range->size;
            continue;
        }
        w->start = w->range->start + w->skip;
        w->count = WEFT_MIN(w->range->size - w->skip, w->left);
        w->left -= w->count;
        w->skip += w->count; /* skips this range next time, if the run was all of it */
        return true;
    }
    return false;
}

static char *element(const weft_operation *o, const mpi_vector *v, int part, int64_t i)
{
    return v->base + (part * v->stride + i - v->origin) * (int64_t)weft_dtype_size(o->t.dtype);
}

void mpi_pack(const weft_operation *o, const mpi_message *m, int64_t c)
{
    const mpi_pending *p = o->state;
    size_t size = weft_dtype_size(o->t.dtype);
    char *to = mpi_room(o, m, c);
    for (int part = 0; part < m->at.parts; part++) {
        walk w = begin(&p->ranges[m->first_range], m->ranges, m->elements, m->each, c);
        while (next(&w)) {
            memcpy(to, element(o, &m->at, part, w.start), (size_t)w.count * size);
            to += (size_t)w.count * size;
        }
    }
}

/* Lists the largest subtrees of leaves [first, last) in order, without their data, and returns
 * their number; out may be NULL. */
static int subtrees(int leaves, int first, int last, weft_subtree *out)
{
    int count = 0;
    while (first < last) {
        int end = weft_tree_next(leaves, first, last);
        if (out) out[count] = (weft_subtree){.first = first, .last = end};
        count++;
        first = end;
    }
    return count;
}

/* Lists the subtrees of all sources of a merge, with pointers to element `start` of the vector,
 * which is element `passed` of chunk c. Returns their number. */
static int gather(const weft_operation *o, const mpi_merge *g, int leaves, int64_t c,
                  int64_t passed, int64_t start, weft_subtree *out)
{
    const mpi_pending *p = o->state;
    int64_t size = (int64_t)weft_dtype_size(o->t.dtype);
    int count = 0;
    for (int i = 0; i < g->sources; i++) {
        const mpi_source *s = &p->sources[g->first_source + (size_t)i];
        int parts = subtrees(leaves, s->first, s->last, out + count);
        for (int k = 0; k < parts; k++) {
            if (s->message < 0) {
                out[count + k].data = element(o, &s->at, k, start);
                continue;
            }
            const mpi_message *m = &p->messages[s->message];
            int64_t n = mpi_chunk_size(m->elements, m->each, c);
            out[count + k].data = mpi_room(o, m, c) + (k * n + passed) * size;
        }
        count += parts;
    }
    return count;
}

/* A pointer to element `start`, the first of chunk c, of a source with one subtree. */
static void *only(const weft_operation *o, const mpi_source *s, int64_t c, int64_t start)
{
    const mpi_pending *p = o->state;
    return s->message < 0 ? element(o, &s->at, 0, start) : mpi_room(o, &p->messages[s->message], c);
}

weft_status mpi_merge_rooms(weft_operation *o)
{
    mpi_pending *p = o->state;
    int leaves = o->t.leaves ? o->t.leaves : o->comm->size, in = 0, out = 0;
    for (size_t i = 0; i < p->merge_count; i++) {
        const mpi_merge *g = &p->merges[i];
        const mpi_source *s = &p->sources[g->first_source];
        int brought = 0;
        if (g->simple) continue;
        for (int k = 0; k < g->sources; k++)
            brought += weft_tree_parts(leaves, s[k].first, s[k].last);
        in = WEFT_MAX(in, brought);
        out = WEFT_MAX(out, weft_tree_parts(leaves, s[0].first, s[g->sources - 1].last));
    }
    if (out == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&p->brought, in));
    WEFT_TRY(WEFT_NEW(&p->made, out));
    return mpi_new(p, weft_tree_room(leaves, out), &p->merge_work);
}

void mpi_merge_chunk(const weft_operation *o, const mpi_merge *g, int64_t c)
{
    const mpi_pending *p = o->state;
    weft_subtree *out = p->made;
    int leaves = o->t.leaves ? o->t.leaves : o->comm->size;
    const mpi_source *first = &p->sources[g->first_source], *last = first + g->sources - 1;
    int64_t passed = 0;
    if (g->simple) {
        int64_t start = p->ranges[g->first_range].start + c * g->each;
        weft_tree_add(o->t.dtype, only(o, first, c, start), only(o, last, c, start),
                      element(o, &g->to, 0, start), mpi_chunk_size(g->elements, g->each, c));
        return;
    }
    weft_tree tree = {
        .dtype = o->t.dtype, .leaves = leaves, .list = p->brought, .room = p->merge_work};
    walk w = begin(&p->ranges[g->first_range], g->ranges, g->elements, g->each, c);
    for (; next(&w); passed += w.count) {
        tree.listed = gather(o, g, leaves, c, passed, w.start, p->brought);
        int results = subtrees(leaves, first->first, last->last, out);
        for (int k = 0; k < results; k++) out[k].data = element(o, &g->to, k, w.start);
        weft_tree_join(&tree, out, results, w.count);
    }
}

#else
typedef int weft_no_mpi_merge; /* a file must not be empty */
#endif
