/* Sums and maxima over some axes, always in the same order. Axes are described by six sizes and
 * strides of those that are kept, and of those that are reduced. */
#define AXES(x)                                                                                    \
    const int x##n1, const int x##n2, const int x##n3, const int x##n4, const int x##n5,           \
        const int x##s0, const int x##s1, const int x##s2, const int x##s3, const int x##s4,       \
        const int x##s5
#define PASS(x) x##n1, x##n2, x##n3, x##n4, x##n5, x##s0, x##s1, x##s2, x##s3, x##s4, x##s5

/* The offset of position i along some axes. */
FUNCTION int place(int i, AXES(a))
{
    int at = i % an5 * as5;
    i /= an5;
    at += i % an4 * as4;
    i /= an4;
    at += i % an3 * as3;
    i /= an3;
    at += i % an2 * as2;
    i /= an2;
    at += i % an1 * as1;
    return at + i / an1 * as0;
}

#if MAX
#define ALL(all) real_t all = (real_t)-INFINITY
#define ADD(all, value) all = larger_of(all, value)
#define OF_GROUP group_max
#else
#define ALL(all) SUM_BEGIN(all)
#define ADD(all, value) SUM_ADD(all, value)
#define OF_GROUP group_sum
#endif

/* One work item for each output: neighbours read neighbours if the last axis is kept. */
KERNEL(by_item, 256, 1)
(BUFFER(x), BUFFER(y), const int outputs, const int terms, const real_t factor, AXES(k), AXES(r))
{
    for (int o = GROUP_X * 256 + ITEM_X; o < outputs; o += GROUPS_X * 256) {
        GLOBAL const real_t *from = AT(x, const real_t) + place(o, PASS(k));
        ALL(all);
        for (int i = 0; i < terms; i++) ADD(all, from[place(i, PASS(r))]);
        AT(y, real_t)[o] = all * factor;
    }
}

/* One group for each output and slice of its terms. With one slice the result is final; otherwise
 * slices go to scratch memory, and `finish` adds them. */
KERNEL(by_group, 256, 1)
(BUFFER(x), BUFFER(y), BUFFER(partial), const int terms, const int slices, const int slice,
 const real_t factor, AXES(k), AXES(r))
{
    LOCAL real_t table[256];
    const int o = GROUP_X / slices, part = GROUP_X % slices;
    const int end = (part + 1) * slice < terms ? (part + 1) * slice : terms;
    GLOBAL const real_t *from = AT(x, const real_t) + place(o, PASS(k));
    ALL(all);
    for (int i = part * slice + ITEM_X; i < end; i += 256)
        ADD(all, from[place(i, PASS(r))]);
    all = OF_GROUP(table, ITEM_X, all);
    if (ITEM_X == 0) {
        if (slices == 1)
            AT(y, real_t)[o] = all * factor;
        else
            AT(partial, real_t)[GROUP_X] = all;
    }
}

KERNEL(finish, 256, 1)
(BUFFER(partial), BUFFER(y), const int outputs, const int slices, const real_t factor)
{
    for (int o = GROUP_X * 256 + ITEM_X; o < outputs; o += GROUPS_X * 256) {
        ALL(all);
        for (int s = 0; s < slices; s++)
            ADD(all, AT(partial, const real_t)[o * slices + s]);
        AT(y, real_t)[o] = all * factor;
    }
}

/* The mean of the first positions of x [b, t, w]. */
KERNEL(sequence_mean, 256, 1)
(BUFFER(x), BUFFER(lengths), BUFFER(y), const int batch, const int t, const int w)
{
    for (int o = GROUP_X * 256 + ITEM_X; o < batch * w; o += GROUPS_X * 256) {
        const int b = o / w, c = o % w;
        int n = AT(lengths, const int)[b];
        n = n < 0 ? 0 : n > t ? t : n;
        SUM_BEGIN(sum);
        for (int p = 0; p < n; p++) SUM_ADD(sum, AT(x, const real_t)[(b * t + p) * w + c]);
        AT(y, real_t)[o] = n > 0 ? sum / (real_t)n : real(0);
    }
}

KERNEL(sequence_mean_grad, 256, 1)
(BUFFER(dy), BUFFER(lengths), BUFFER(dx), const int batch, const int t, const int w)
{
    for (int i = GROUP_X * 256 + ITEM_X; i < batch * t * w; i += GROUPS_X * 256) {
        const int b = i / (t * w), p = i / w % t, c = i % w;
        int n = AT(lengths, const int)[b];
        n = n < 0 ? 0 : n > t ? t : n;
        AT(dx, real_t)[i] = p < n ? AT(dy, const real_t)[b * w + c] / (real_t)n : real(0);
    }
}
