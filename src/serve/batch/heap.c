/* Two binary heaps: one of indices into an array whose elements store their position in the heap,
 * so that any element can be removed; and one of times, of which only the smallest can be
 * removed. */
#include "serve/batch/batch_internal.h"

weft_status weft_heap_reserve(weft_heap *heap)
{
    return WEFT_GROW(&heap->item, &heap->capacity, heap->count);
}

static void lay(weft_heap *h, const weft_heap_order *o, void *things, int entry, int thing)
{
    h->item[entry] = thing;
    *o->place(things, thing) = entry;
}

/* Moves an element up while it precedes its parent. */
static void rise(weft_heap *h, const weft_heap_order *o, void *things, int entry, int thing)
{
    while (entry > 0) {
        int above = (entry - 1) / 2;
        if (!o->before(things, thing, h->item[above])) break;
        lay(h, o, things, entry, h->item[above]);
        entry = above;
    }
    lay(h, o, things, entry, thing);
}

/* Moves an element down while a child precedes it. */
static int sink(weft_heap *h, const weft_heap_order *o, void *things, int entry, int thing)
{
    for (int below = 2 * entry + 1; below < h->count; below = 2 * entry + 1) {
        if (below + 1 < h->count && o->before(things, h->item[below + 1], h->item[below])) below++;
        if (!o->before(things, h->item[below], thing)) break;
        lay(h, o, things, entry, h->item[below]);
        entry = below;
    }
    return entry;
}

void weft_heap_put(weft_heap *heap, const weft_heap_order *order, void *things, int thing)
{
    rise(heap, order, things, heap->count++, thing);
}

void weft_heap_drop(weft_heap *heap, const weft_heap_order *order, void *things, int thing)
{
    int entry = *order->place(things, thing), last = heap->item[--heap->count];
    if (last == thing) return;
    entry = sink(heap, order, things, entry, last);
    rise(heap, order, things, entry, last);
}

void weft_time_heap_add(double *at, int *count, double time)
{
    int i = (*count)++;
    for (; i > 0 && at[(i - 1) / 2] > time; i = (i - 1) / 2) at[i] = at[(i - 1) / 2];
    at[i] = time;
}

void weft_time_heap_pop(double *at, int *count)
{
    double last = at[--*count];
    int i = 0;
    for (int below = 1; below < *count; below = 2 * i + 1) {
        if (below + 1 < *count && at[below + 1] < at[below]) below++;
        if (at[below] >= last) break;
        at[i] = at[below];
        i = below;
    }
    at[i] = last;
}
