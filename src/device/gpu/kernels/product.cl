/* Products by tiles: TM x TN elements of the result for each group of 16 x 16 work items, of which
 * each keeps RM x RN sums in registers; TK terms at a time are in local memory.
 *
 * A convolution is a product whose right operand is gathered from the image: element (p, j) is at
 * the sum of a part of p and a part of j, along each dimension of space. The parts of the terms of
 * a tile are computed once for it (`terms`), the parts of a column once for each work item.
 *
 *   KIND 0  a b, strided     KIND 1  y = conv(x, w)     left w, columns (sample, position of y)
 *   KIND 2  dx from dy, w: columns (sample, position of x)
 *   KIND 3  dw from dy, x: columns (channel of x, element of the kernel)
 *
 * If the sum is cut into slices, each writes its sums to scratch memory, and sum_slices adds them
 * in order. */
#define TK 16
#define RM (TM / 16)
#define RN (TN / 16)

/* The row and the column of sum (r, c) of a work item. In tiles of 64 and more an item has four
 * neighbours each, which it reads from local memory, and writes, as one. */
#if TM >= 64
#define ROW(r) ((r) / 4 * 64 + ITEM_Y * 4 + (r) % 4)
#else
#define ROW(r) (ITEM_Y + 16 * (r))
#endif
#if TN >= 64
#define COLUMN(c) ((c) / 4 * 64 + ITEM_X * 4 + (c) % 4)
#else
#define COLUMN(c) (ITEM_X + 16 * (c))
#endif
#ifdef REAL_IS_DOUBLE
#define LOAD(to, count, from, place)                                                               \
    for (int x = 0; x < count; x++) to[x] = from[place(x)];
#else
#define LOAD(to, count, from, place)                                                               \
    for (int x = 0; x < count; x += count < 4 ? 1 : 4) {                                           \
        if (count < 4) {                                                                           \
            to[x] = from[place(x)];                                                                \
        } else {                                                                                   \
            const float4 four = *(LOCAL_POINTER const float4 *)&from[place(x)];                    \
            to[x] = four.x;                                                                        \
            to[x + (count < 4 ? 0 : 1)] = four.y;                                                  \
            to[x + (count < 4 ? 0 : 2)] = four.z;                                                  \
            to[x + (count < 4 ? 0 : 3)] = four.w;                                                  \
        }                                                                                          \
    }
#endif

#if KIND == 0
#define SIZES                                                                                      \
    const int ai, const int ap, const int bp, const int bj, const int a_batch, const int b_batch
#else
/* Channels of x and y in a group; sizes of x and y, of the kernel, stride, padding, dilation. */
#define SIZES                                                                                      \
    const int groups, const int in, const int out, const int x0, const int x1, const int x2,       \
        const int y0, const int y1, const int y2, const int k0, const int k1, const int k2,        \
        const int s0, const int s1, const int s2, const int q0, const int q1, const int q2,        \
        const int d0, const int d1, const int d2
#define KERNEL_SIZE (k0 * k1 * k2)
#define X_PLANE (x0 * x1 * x2)
#define Y_PLANE (y0 * y1 * y2)
#endif

/* The index in the result of element (i, j) of product z. */
#if KIND == 1
#define PLACE(z, i, j)                                                                             \
    (((j) / Y_PLANE * groups + (z)) * out + (i)) * Y_PLANE + (j) % Y_PLANE
#elif KIND == 2
#define PLACE(z, i, j) (((j) / X_PLANE * groups + (z)) * in + (i)) * X_PLANE + (j) % X_PLANE
#else
#define PLACE(z, i, j) ((z)*m + (i)) * n + (j)
#endif

#if SLICED
#define OUTPUTS , BUFFER(partial)
#else
#define OUTPUTS EPILOGUE_PARAMETERS
#endif

#if SUM == 0
KERNEL(product, 16, 16)
(BUFFER(a), BUFFER(b), const int m, const int n, const int k, const int slices, const int slice,
 const int a_fast, const int b_fast, SIZES OUTPUTS)
{
    LOCAL real_t left[TK][TM + 4] __attribute__((aligned(16)));
    LOCAL real_t right[TK][TN + 4] __attribute__((aligned(16)));
    LOCAL int terms[TK][5];
    GLOBAL const real_t *from_a = AT(a, const real_t);
    GLOBAL const real_t *from_b = AT(b, const real_t);
    const int item = ITEM_Y * 16 + ITEM_X;
    const int z = GROUP_Z / slices, part = GROUP_Z % slices;
    const int row = GROUP_Y * TM, column = GROUP_X * TN;
    const int begin = part * slice, end = begin + slice < k ? begin + slice : k;
    real_t sum[RM][RN];
    for (int r = 0; r < RM; r++)
        for (int c = 0; c < RN; c++) sum[r][c] = 0;
#if KIND == 0
    from_a += z * a_batch;
    from_b += z * b_batch;
    const int by_row = ai;
#else
    const int mine = column + item % TN < n ? column + item % TN : 0;
#endif
#if KIND == 1
    const int by_row = in * KERNEL_SIZE;
    from_a += z * out * by_row;
    int rest = mine % Y_PLANE;
    const int c2 = rest % y2 * s2 - q2;
    rest /= y2;
    const int c1 = rest % y1 * s1 - q1, c0 = rest / y1 * s0 - q0;
    from_b += (mine / Y_PLANE * groups + z) * in * X_PLANE;
#elif KIND == 2
    const int by_row = KERNEL_SIZE;
    from_a += z * out * in * KERNEL_SIZE;
    int rest = mine % X_PLANE;
    const int c2 = rest % x2 + q2;
    rest /= x2;
    const int c1 = rest % x1 + q1, c0 = rest / x1 + q0;
    from_b += (mine / X_PLANE * groups + z) * out * Y_PLANE;
#elif KIND == 3
    const int by_row = Y_PLANE;
    from_a += z * out * Y_PLANE;
    int rest = mine % KERNEL_SIZE;
    const int c2 = rest % k2 * d2;
    rest /= k2;
    const int c1 = rest % k1 * d1, c0 = rest / k1 * d0;
    from_b += (z * in + mine / KERNEL_SIZE) * X_PLANE;
#endif
    for (int first = begin; first < end; first += TK) {
        if (item < TK) {
            const int p = first + item < end ? first + item : begin;
#if KIND == 0
            terms[item][0] = p * ap;
            terms[item][1] = p * bp;
#elif KIND == 1
            int own = p % KERNEL_SIZE;
            terms[item][0] = p;
            terms[item][1] = p / KERNEL_SIZE * X_PLANE;
            terms[item][4] = own % k2 * d2;
            own /= k2;
            terms[item][3] = own % k1 * d1;
            terms[item][2] = own / k1 * d0;
#elif KIND == 2
            int own = p % KERNEL_SIZE;
            terms[item][0] = p / KERNEL_SIZE * in * KERNEL_SIZE + own;
            terms[item][1] = p / KERNEL_SIZE * Y_PLANE;
            terms[item][4] = -(own % k2 * d2);
            own /= k2;
            terms[item][3] = -(own % k1 * d1);
            terms[item][2] = -(own / k1 * d0);
#else
            int own = p % Y_PLANE;
            terms[item][0] = p / Y_PLANE * groups * out * Y_PLANE + own;
            terms[item][1] = p / Y_PLANE * groups * in * X_PLANE;
            terms[item][4] = own % y2 * s2 - q2;
            own /= y2;
            terms[item][3] = own % y1 * s1 - q1;
            terms[item][2] = own / y1 * s0 - q0;
#endif
        }
        BARRIER;
        for (int e = item; e < TM * TK; e += 256) {
            const int i = a_fast ? e / TK : e % TM, p = a_fast ? e % TK : e / TM;
            left[p][i] = row + i < m && first + p < end
                             ? from_a[(row + i) * by_row + terms[p][0]]
                             : real(0);
        }
        for (int e = item; e < TN * TK; e += 256) {
#if KIND == 0
            const int j = b_fast ? e / TK : e % TN, p = b_fast ? e % TK : e / TN;
            right[p][j] = column + j < n && first + p < end
                              ? from_b[terms[p][1] + (column + j) * bj]
                              : real(0);
#else
            const int j = item % TN, p = e / TN;
            int u0 = c0 + terms[p][2], u1 = c1 + terms[p][3], u2 = c2 + terms[p][4];
            bool there = column + j < n && first + p < end && u0 >= 0 && u1 >= 0 && u2 >= 0;
#if KIND == 2
#if STRIDED
            there = there && u0 % s0 == 0 && u1 % s1 == 0 && u2 % s2 == 0;
            u0 /= s0;
            u1 /= s1;
            u2 /= s2;
#endif
            there = there && u0 < y0 && u1 < y1 && u2 < y2;
            right[p][j] = there ? from_b[terms[p][1] + (u0 * y1 + u1) * y2 + u2] : real(0);
#else
            there = there && u0 < x0 && u1 < x1 && u2 < x2;
            right[p][j] = there ? from_b[terms[p][1] + (u0 * x1 + u1) * x2 + u2] : real(0);
#endif
#endif
        }
        BARRIER;
        ROLLED for (int p = 0; p < TK; p++) {
            real_t of_a[RM], of_b[RN];
            LOAD(of_a, RM, left[p], ROW)
            LOAD(of_b, RN, right[p], COLUMN)
            for (int r = 0; r < RM; r++)
                for (int c = 0; c < RN; c++) sum[r][c] = fma(of_a[r], of_b[c], sum[r][c]);
        }
        BARRIER;
    }
    for (int r = 0; r < RM; r++)
        for (int c = 0; c < RN; c++) {
            const int i = row + ROW(r), j = column + COLUMN(c);
            if (i < m && j < n) {
                const real_t value = sum[r][c];
#if SLICED
                AT(partial, real_t)[(GROUP_Z * m + i) * n + j] = value;
#else
                const int at = PLACE(z, i, j);
                EPILOGUE
#endif
            }
        }
}

#else
KERNEL(sum_slices, 256, 1)
(BUFFER(partial), const int m, const int n, const int batch, const int slices,
 SIZES EPILOGUE_PARAMETERS)
{
    for (int e = GROUP_X * 256 + ITEM_X; e < m * n * batch; e += GROUPS_X * 256) {
        const int j = e % n, i = e / n % m, z = e / (m * n);
        real_t value = 0;
        for (int s = 0; s < slices; s++)
            value += AT(partial, const real_t)[((z * slices + s) * m + i) * n + j];
        const int at = PLACE(z, i, j);
        EPILOGUE
    }
}
#endif
