/* Rows of tables by their indices, dropout by position, and rotary positions. */

/* INDEX: the type of indices. */
#ifndef INDEX
#define INDEX int
#endif

#ifdef ELEMENT
/* Rows of x [outer, rows, width]; an index out of range gives UNKNOWN. */
KERNEL(gather, 256, 1)
(BUFFER(ids), BUFFER(x), BUFFER(y), const int count, const int rows, const int width,
 const int indices)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int j = at % width, i = at / width % indices, o = at / (width * indices);
        const INDEX id = AT(ids, const INDEX)[i];
        AT(y, ELEMENT)[at] = id >= 0 && id < rows
                                 ? AT(x, const ELEMENT)[(o * rows + (int)id) * width + j]
                                 : UNKNOWN;
    }
}
#endif

/* The gradient of a table. The indices are sorted by row without atomics, so the order of additions
 * is that of the indices: `count_rows` counts, for each index, those before it of the same row and
 * links it with the next one; a work item then adds up the rows of its links. heads[rows] and
 * next[indices] are in scratch memory. */
KERNEL(link_rows, 256, 1)(BUFFER(ids), BUFFER(next), BUFFER(heads), const int indices,
                          const int rows)
{
    LOCAL i64 near[256];
    for (int first = GROUP_X * 256; first < indices; first += GROUPS_X * 256) {
        const int i = first + ITEM_X;
        const i64 own = i < indices ? (i64)AT(ids, const INDEX)[i] : -1;
        int found = 0x7fffffff;
        /* The next index of the same row, by tiles of 256. */
        for (int tile = first; tile < indices; tile += 256) {
            near[ITEM_X] =
                tile + ITEM_X < indices ? (i64)AT(ids, const INDEX)[tile + ITEM_X] : -1;
            BARRIER;
            for (int j = 0; j < 256 && found == 0x7fffffff && tile + j < indices; j++)
                if (tile + j > i && near[j] == own) found = tile + j;
            BARRIER;
        }
        if (i < indices) AT(next, int)[i] = found;
    }
}

/* The first index of each row: that which no other links to. */
KERNEL(first_rows, 256, 1)(BUFFER(ids), BUFFER(heads), const int indices, const int rows)
{
    for (int r = GROUP_X * 256 + ITEM_X; r < rows; r += GROUPS_X * 256) {
        int found = 0x7fffffff;
        for (int i = 0; i < indices && found == 0x7fffffff; i++)
            if (AT(ids, const INDEX)[i] == r) found = i;
        AT(heads, int)[r] = found;
    }
}

KERNEL(gather_grad, 256, 1)
(BUFFER(next), BUFFER(heads), BUFFER(dy), BUFFER(dx), const int count, const int rows,
 const int width, const int indices)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int j = at % width, r = at / width % rows, o = at / (width * rows);
        real_t sum = 0;
        for (int i = AT(heads, const int)[r]; i < indices; i = AT(next, const int)[i])
            sum += AT(dy, const real_t)[(o * indices + i) * width + j];
        AT(dx, real_t)[at] = sum;
    }
}

/* A table [batch, most, width] with the row at each sample's position replaced. */
KERNEL(write_rows, 256, 1)
(BUFFER(table), BUFFER(x), BUFFER(position), BUFFER(out), const int count, const int most,
 const int width)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int j = at % width, t = at / width % most, b = at / (width * most);
        AT(out, real_t)[at] = AT(position, const int)[b] == t
                                  ? AT(x, const real_t)[b * width + j]
                                  : AT(table, const real_t)[at];
    }
}

/* --- dropout: Philox4x32-10, see base/random.c and ops/dropout.c --- */

FUNCTION u32 philox(u32 k0, u32 k1, u32 x2, u32 x3, u32 x0, u32 x1,
                       const int lane)
{
    for (int round = 0; round < 10; round++) {
        const u64 p0 = (u64)0xD2511F53u * x0, p1 = (u64)0xCD9E8D57u * x2;
        x0 = (u32)(p1 >> 32) ^ x1 ^ k0;
        x1 = (u32)p1;
        x2 = (u32)(p0 >> 32) ^ x3 ^ k1;
        x3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return lane == 0 ? x0 : lane == 1 ? x1 : lane == 2 ? x2 : x3;
}

/* The part [samples, n1 .. n5] of a tensor whose samples are [w1 .. w5] begins at (b1 .. b5). */
KERNEL(dropout, 256, 1)
(BUFFER(x), BUFFER(step), BUFFER(first), BUFFER(y), const int count, const int each,
 const int start, const int key0, const int key1, const int threshold, const real_t keep,
 const int n1, const int n2, const int n3, const int n4, const int n5, const int w1, const int w2,
 const int w3, const int w4, const int w5, const int b1, const int b2, const int b3, const int b4,
 const int b5)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        int rest = at % each;
        i64 place = rest % n5 + b5, size = w5;
        rest /= n5;
        place += (rest % n4 + b4) * size;
        size *= w4;
        rest /= n4;
        place += (rest % n3 + b3) * size;
        size *= w3;
        rest /= n3;
        place += (rest % n2 + b2) * size;
        size *= w2;
        rest /= n2;
        place += (rest + b1) * size;
        const u64 sample =
            (u64)(i64)AT(first, const int)[0] + (u64)(i64)start + (u64)(at / each);
        const u64 high = (u64)(i64)AT(step, const int)[0] << 32 | sample;
        const u64 block = (u64)place >> 2;
        const u32 draw =
            philox((u32)key0, (u32)key1, (u32)high, (u32)(high >> 32), (u32)block,
                   (u32)(block >> 32), (int)(place & 3));
        AT(y, real_t)[at] =
            draw < (u32)threshold ? real(0) : AT(x, const real_t)[at] * keep;
    }
}

/* Rotates the pairs of elements of x [batch, t, heads, 2 pairs]. */
KERNEL(rotary, 256, 1)
(BUFFER(x), BUFFER(added), BUFFER(y), const int count, const int t, const int heads,
 const int pairs, const int interleaved, const int with_added, const int each_sample,
 const int first, const acc_t base, const acc_t sign)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int i = at % pairs, row = at / pairs, sample = row / (t * heads);
        acc_t position = (acc_t)(first + row / heads % t);
        if (with_added) position += (acc_t)AT(added, const int)[each_sample ? sample : 0];
        const acc_t angle = position * pow(base, -(acc_t)i / (acc_t)pairs);
        const acc_t c = cos(angle), s = sign * sin(angle);
        const int u = row * 2 * pairs + (interleaved ? 2 * i : i);
        const int v = u + (interleaved ? 1 : pairs);
        const acc_t a = (acc_t)AT(x, const real_t)[u], b = (acc_t)AT(x, const real_t)[v];
        AT(y, real_t)[u] = (real_t)(a * c - b * s);
        AT(y, real_t)[v] = (real_t)(b * c + a * s);
    }
}
