/* The gradient of a table whose rows were taken by their indices. The indices are sorted by row (a
 * stable radix sort, least digits first), so that the additions to a row are in the order of the
 * indices in every run: time in proportion to indices and rows. Indices are cut into `groups` parts
 * of `each`, a multiple of 256, which keep their order in each pass. */
#define DIGITS 256

/* The row of each index; an index out of range comes behind all rows, and counts nowhere. */
KERNEL(row_keys, 256, 1)
(BUFFER(ids), BUFFER(key), BUFFER(from), const int indices, const int rows)
{
    for (int i = GROUP_X * 256 + ITEM_X; i < indices; i += GROUPS_X * 256) {
        const INDEX id = AT(ids, const INDEX)[i];
        AT(key, int)[i] = id >= 0 && id < rows ? (int)id : rows;
        AT(from, int)[i] = i;
    }
}

#define DIGIT_OF(key) ((key) >> shift & (DIGITS - 1))

/* The number of keys with each digit in each part: counts [digits, groups]. Sums of integers do not
 * depend on the order of the atomic additions. */
KERNEL(count_digits, 256, 1)
(BUFFER(key), BUFFER(counts), const int indices, const int each, const int groups, const int shift)
{
    LOCAL u32 count[DIGITS];
    const int end = (GROUP_X + 1) * each < indices ? (GROUP_X + 1) * each : indices;
    count[ITEM_X] = 0;
    BARRIER;
    for (int i = GROUP_X * each + ITEM_X; i < end; i += 256)
        ATOMIC_ADD(&count[DIGIT_OF(AT(key, const int)[i])], 1);
    BARRIER;
    AT(counts, int)[ITEM_X * groups + GROUP_X] = (int)count[ITEM_X];
}

/* Turns counts into the places at which the keys of each digit and part begin. One group: a work
 * item has the counts of a digit. */
KERNEL(begin_digits, 256, 1)(BUFFER(counts), const int groups)
{
    LOCAL int below[DIGITS];
    GLOBAL int *own = AT(counts, int) + ITEM_X * groups;
    int sum = 0;
    for (int g = 0; g < groups; g++) sum += own[g];
    below[ITEM_X] = sum;
    BARRIER;
    for (int stride = 1; stride < DIGITS; stride *= 2) {
        const int other = ITEM_X >= stride ? below[ITEM_X - stride] : 0;
        BARRIER;
        below[ITEM_X] += other;
        BARRIER;
    }
    sum = below[ITEM_X] - sum;
    for (int g = 0; g < groups; g++) {
        const int count = own[g];
        own[g] = sum;
        sum += count;
    }
}

/* Moves keys, and the indices that they are from, to their places. In a tile of 256 keys a key
 * comes behind those of its digit before it. */
KERNEL(move_keys, 256, 1)
(BUFFER(key), BUFFER(from), BUFFER(counts), BUFFER(to_key), BUFFER(to_from), const int indices,
 const int each, const int groups, const int shift)
{
    LOCAL int place[DIGITS], digit[256];
    const int end = (GROUP_X + 1) * each < indices ? (GROUP_X + 1) * each : indices;
    place[ITEM_X] = AT(counts, const int)[ITEM_X * groups + GROUP_X];
    for (int first = GROUP_X * each; first < end; first += 256) {
        const int i = first + ITEM_X, size = end - first < 256 ? end - first : 256;
        const int own = i < end ? AT(key, const int)[i] : 0, d = DIGIT_OF(own);
        int before = 0, all = 0;
        digit[ITEM_X] = d;
        BARRIER;
        for (int j = 0; j < size; j++) {
            const int same = digit[j] == d;
            all += same;
            before += j < ITEM_X ? same : 0;
        }
        const int at = place[d] + before;
        BARRIER;
        if (i < end) {
            AT(to_key, int)[at] = own;
            AT(to_from, int)[at] = AT(from, const int)[i];
            if (before == all - 1) place[d] = at + 1; /* the last one of its digit */
        }
        BARRIER;
    }
}

/* The place at which each row begins among the sorted keys. */
KERNEL(begin_rows, 256, 1)(BUFFER(key), BUFFER(begin), const int indices, const int rows)
{
    for (int r = GROUP_X * 256 + ITEM_X; r <= rows; r += GROUPS_X * 256) {
        int low = 0, high = indices;
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (AT(key, const int)[middle] < r)
                low = middle + 1;
            else
                high = middle;
        }
        AT(begin, int)[r] = low;
    }
}

KERNEL(table_grad, 256, 1)
(BUFFER(from), BUFFER(begin), BUFFER(dy), BUFFER(dx), const int count, const int rows,
 const int width, const int indices)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int j = at % width, r = at / width % rows, o = at / (width * rows);
        const int end = AT(begin, const int)[r + 1];
        SUM_BEGIN(sum);
        for (int k = AT(begin, const int)[r]; k < end; k++)
            SUM_ADD(sum, AT(dy, const real_t)[(o * indices + AT(from, const int)[k]) * width + j]);
        AT(dx, real_t)[at] = sum;
    }
}
