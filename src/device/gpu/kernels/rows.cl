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

/* The cosine and sine of the angles of `positions` positions, for all heads and, unless `added` is of
 * each sample, for all samples: turns [samples, positions, pairs, 2]. An angle of many turns needs
 * more digits than real_t may have. */
KERNEL(turns, 256, 1)
(BUFFER(added), BUFFER(turn), const int count, const int positions, const int pairs,
 const int with_added, const int first, const acc_t base, const acc_t sign)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int i = at % pairs, row = at / pairs;
        acc_t position = (acc_t)(first + row % positions);
        if (with_added) position += (acc_t)AT(added, const int)[row / positions];
        const acc_t angle = position * pow(base, -(acc_t)i / (acc_t)pairs);
        AT(turn, real_t)[2 * at] = (real_t)cos(angle);
        AT(turn, real_t)[2 * at + 1] = (real_t)(sign * sin(angle));
    }
}

/* Rotates the pairs of elements of x [batch, positions, heads, 2 pairs]. */
KERNEL(rotary, 256, 1)
(BUFFER(x), BUFFER(turn), BUFFER(y), const int count, const int heads, const int pairs,
 const int interleaved, const int rows)
{
    for (int at = GROUP_X * 256 + ITEM_X; at < count; at += GROUPS_X * 256) {
        const int i = at % pairs, row = at / pairs, place = row / heads % rows;
        const real_t c = AT(turn, const real_t)[2 * (place * pairs + i)];
        const real_t s = AT(turn, const real_t)[2 * (place * pairs + i) + 1];
        const int u = row * 2 * pairs + (interleaved ? 2 * i : i);
        const int v = u + (interleaved ? 1 : pairs);
        const real_t a = AT(x, const real_t)[u], b = AT(x, const real_t)[v];
        AT(y, real_t)[u] = a * c - b * s;
        AT(y, real_t)[v] = b * c + a * s;
    }
}
