/* Attention and its gradient by tiles of 16 queries and 16 keys (Dao et al. 2022), so that scores
 * are never in memory. A group has 16 x 16 work items and makes a slice of the columns of its
 * results, of D_PARTS parts of 16 columns of a query, and E_PARTS of a value; groups of different
 * slices compute the same scores. */
#define D_COLUMN(r) ((GROUP_Z * D_PARTS + (r)) * 16 + ITEM_X)
#define E_COLUMN(r) ((GROUP_Z * E_PARTS + (r)) * 16 + ITEM_X)
#define SIZES                                                                                      \
    const int t, const int s, const int h, const int g, const int d, const int e,                  \
        const int causal, const int first, const int with_lengths, const real_t scale

/* Row i of head `head` of x [b, rows, heads, width], column c; 0 outside. */
#define ELEMENT_OF(x, rows, heads, head, width, i, c)                                              \
    ((i) < (rows) && (c) < (width)                                                                 \
         ? AT(x, const real_t)[((b * (rows) + (i)) * (heads) + (head)) * (width) + (c)]            \
         : real(0))

/* The number of keys that query i sees, which are a prefix. */
FUNCTION int seen(const int keys, const int causal, const int first, const int i)
{
    int n = keys;
    if (causal && first + i + 1 < n) n = first + i + 1;
    return n < 0 ? 0 : n;
}

/* The keys of sample b, for all its queries. */
#define KEYS                                                                                       \
    (!with_lengths                        ? s                                                      \
     : AT(lengths, const int)[b] < 0      ? 0                                                      \
     : AT(lengths, const int)[b] < s      ? AT(lengths, const int)[b]                              \
                                          : s)

KERNEL(attention, 16, 16)
(BUFFER(q), BUFFER(k), BUFFER(v), BUFFER(lengths), BUFFER(y), BUFFER(sums), SIZES)
{
    LOCAL real_t left[16][17], right[16][17], weight[16][17];
    const int b = GROUP_Y / h, head = GROUP_Y % h, of_keys = head / (h / g);
    const int i = GROUP_X * 16 + ITEM_Y, keys = KEYS;
    const int last = GROUP_X * 16 + 15 < t ? GROUP_X * 16 + 15 : t - 1;
    const int own = i < t ? seen(keys, causal, first, i) : 0;
    const int most = seen(keys, causal, first, last);
    real_t top = (real_t)-INFINITY, sum = 0, out[E_PARTS];
    for (int r = 0; r < E_PARTS; r++) out[r] = 0;
    for (int from = 0; from < most; from += 16) {
        real_t dot = 0;
        for (int c = 0; c < d; c += 16) {
            left[ITEM_Y][ITEM_X] = ELEMENT_OF(q, t, h, head, d, i, c + ITEM_X);
            right[ITEM_Y][ITEM_X] = ELEMENT_OF(k, s, g, of_keys, d, from + ITEM_Y, c + ITEM_X);
            BARRIER;
            ROLLED for (int x = 0; x < 16; x++)
                dot = fma(left[ITEM_Y][x], right[ITEM_X][x], dot);
            BARRIER;
        }
        const int there = own - from < 16 ? own - from : 16; /* may be below 0 */
        const real_t score = dot * scale;
        weight[ITEM_Y][ITEM_X] = score;
        BARRIER;
        real_t higher = top;
        for (int x = 0; x < there; x++) {
            const real_t other = weight[ITEM_Y][x];
            higher = other > higher || other != other ? other : higher;
        }
        BARRIER;
        weight[ITEM_Y][ITEM_X] = ITEM_X < there ? exp(score - higher) : real(0);
        BARRIER;
        const real_t factor = sum == 0 ? real(0) : exp(top - higher);
        sum *= factor;
        for (int x = 0; x < there; x++) sum += weight[ITEM_Y][x];
        top = higher;
        for (int r = 0; r < E_PARTS; r++) {
            right[ITEM_Y][ITEM_X] =
                ELEMENT_OF(v, s, g, of_keys, e, from + ITEM_Y, E_COLUMN(r));
            BARRIER;
            out[r] *= factor;
            for (int x = 0; x < there; x++)
                out[r] = fma(weight[ITEM_Y][x], right[x][ITEM_X], out[r]);
            BARRIER;
        }
    }
    if (i < t) {
        for (int r = 0; r < E_PARTS; r++)
            if (E_COLUMN(r) < e)
                AT(y, real_t)[((b * t + i) * h + head) * e + E_COLUMN(r)] =
                    own > 0 ? out[r] / sum : real(0);
        if (ITEM_X == 0 && GROUP_Z == 0) {
            GLOBAL real_t *to = AT(sums, real_t) + ((b * h + head) * t + i) * 2;
            to[0] = sum != sum ? NAN_OF(real_t) : top;
            to[1] = own > 0 ? log(sum) : real(0);
        }
    }
}

/* The gradient of the queries: rows are queries. */
KERNEL(attention_dq, 16, 16)
(BUFFER(dy), BUFFER(q), BUFFER(k), BUFFER(v), BUFFER(y), BUFFER(sums), BUFFER(lengths), BUFFER(dq),
 SIZES)
{
    LOCAL real_t left[16][17], right[16][17], more[16][17], weight[16][17];
    const int b = GROUP_Y / h, head = GROUP_Y % h, of_keys = head / (h / g);
    const int i = GROUP_X * 16 + ITEM_Y, keys = KEYS;
    const int last = GROUP_X * 16 + 15 < t ? GROUP_X * 16 + 15 : t - 1;
    const int own = i < t ? seen(keys, causal, first, i) : 0;
    const int most = seen(keys, causal, first, last);
    GLOBAL const real_t *row = AT(sums, const real_t) + ((b * h + head) * t + (i < t ? i : 0)) * 2;
    real_t out[D_PARTS];
    for (int r = 0; r < D_PARTS; r++) out[r] = 0;
    for (int from = 0; from < most; from += 16) {
        real_t dot = 0, slope = 0;
        for (int c = 0; c < d; c += 16) {
            left[ITEM_Y][ITEM_X] = ELEMENT_OF(q, t, h, head, d, i, c + ITEM_X);
            right[ITEM_Y][ITEM_X] = ELEMENT_OF(k, s, g, of_keys, d, from + ITEM_Y, c + ITEM_X);
            BARRIER;
            ROLLED for (int x = 0; x < 16; x++)
                dot = fma(left[ITEM_Y][x], right[ITEM_X][x], dot);
            BARRIER;
        }
        for (int c = 0; c < e; c += 16) {
            left[ITEM_Y][ITEM_X] = ELEMENT_OF(dy, t, h, head, e, i, c + ITEM_X);
            more[ITEM_Y][ITEM_X] = ELEMENT_OF(y, t, h, head, e, i, c + ITEM_X);
            right[ITEM_Y][ITEM_X] = ELEMENT_OF(v, s, g, of_keys, e, from + ITEM_Y, c + ITEM_X);
            BARRIER;
            ROLLED for (int x = 0; x < 16; x++)
                slope = fma(left[ITEM_Y][x], right[ITEM_X][x] - more[ITEM_Y][x], slope);
            BARRIER;
        }
        const int there = own - from < 16 ? own - from : 16;
        const real_t score = dot * scale;
        weight[ITEM_Y][ITEM_X] =
            ITEM_X < there ? slope * exp(score - row[0] - row[1]) : real(0);
        BARRIER;
        for (int r = 0; r < D_PARTS; r++) {
            right[ITEM_Y][ITEM_X] =
                ELEMENT_OF(k, s, g, of_keys, d, from + ITEM_Y, D_COLUMN(r));
            BARRIER;
            for (int x = 0; x < there; x++)
                out[r] = fma(weight[ITEM_Y][x], right[x][ITEM_X], out[r]);
            BARRIER;
        }
    }
    for (int r = 0; r < D_PARTS; r++)
        if (i < t && D_COLUMN(r) < d)
            AT(dq, real_t)[((b * t + i) * h + head) * d + D_COLUMN(r)] =
                out[r] * scale;
}

/* The gradients of keys and values: rows are keys; all queries of the heads that they serve come in
 * order. */
KERNEL(attention_dkv, 16, 16)
(BUFFER(dy), BUFFER(q), BUFFER(k), BUFFER(v), BUFFER(y), BUFFER(sums), BUFFER(lengths), BUFFER(dk),
 BUFFER(dv), SIZES)
{
    LOCAL real_t left[16][17], right[16][17], more[16][17], of_score[16][17], of_value[16][17];
    const int b = GROUP_Y / g, of_keys = GROUP_Y % g;
    const int j = GROUP_X * 16 + ITEM_Y, keys = KEYS;
    /* With a causal mask, key j is seen by queries from j - first on. */
    const int before = causal && GROUP_X * 16 - first > 0 ? GROUP_X * 16 - first : 0;
    real_t to_k[D_PARTS], to_v[E_PARTS];
    for (int r = 0; r < D_PARTS; r++) to_k[r] = 0;
    for (int r = 0; r < E_PARTS; r++) to_v[r] = 0;
    for (int head = of_keys * (h / g); head < (of_keys + 1) * (h / g); head++)
        for (int from = before / 16 * 16; from < t; from += 16) {
            const int i = from + ITEM_X;
            real_t dot = 0, slope = 0;
            for (int c = 0; c < d; c += 16) {
                left[ITEM_Y][ITEM_X] = ELEMENT_OF(k, s, g, of_keys, d, j, c + ITEM_X);
                right[ITEM_Y][ITEM_X] =
                    ELEMENT_OF(q, t, h, head, d, from + ITEM_Y, c + ITEM_X);
                BARRIER;
                ROLLED for (int x = 0; x < 16; x++)
                    dot = fma(right[ITEM_X][x], left[ITEM_Y][x], dot);
                BARRIER;
            }
            for (int c = 0; c < e; c += 16) {
                left[ITEM_Y][ITEM_X] = ELEMENT_OF(v, s, g, of_keys, e, j, c + ITEM_X);
                right[ITEM_Y][ITEM_X] =
                    ELEMENT_OF(dy, t, h, head, e, from + ITEM_Y, c + ITEM_X);
                more[ITEM_Y][ITEM_X] = ELEMENT_OF(y, t, h, head, e, from + ITEM_Y, c + ITEM_X);
                BARRIER;
                ROLLED for (int x = 0; x < 16; x++)
                    slope = fma(right[ITEM_X][x], left[ITEM_Y][x] - more[ITEM_X][x], slope);
                BARRIER;
            }
            real_t p = 0;
            if (i < t && j < seen(keys, causal, first, i)) {
                GLOBAL const real_t *row =
                    AT(sums, const real_t) + ((b * h + head) * t + i) * 2;
                p = exp(dot * scale - row[0] - row[1]);
            }
            of_value[ITEM_Y][ITEM_X] = p;
            of_score[ITEM_Y][ITEM_X] = p * slope;
            /* The queries of this tile that see the key. */
            int begin = causal && j - first - from > 0 ? j - first - from : 0;
            const int end = j >= keys ? 0 : t - from < 16 ? t - from : 16;
            BARRIER;
            for (int r = 0; r < D_PARTS; r++) {
                right[ITEM_Y][ITEM_X] =
                    ELEMENT_OF(q, t, h, head, d, from + ITEM_Y, D_COLUMN(r));
                BARRIER;
                for (int x = begin; x < end; x++)
                    to_k[r] = fma(of_score[ITEM_Y][x], right[x][ITEM_X], to_k[r]);
                BARRIER;
            }
            for (int r = 0; r < E_PARTS; r++) {
                right[ITEM_Y][ITEM_X] =
                    ELEMENT_OF(dy, t, h, head, e, from + ITEM_Y, E_COLUMN(r));
                BARRIER;
                for (int x = begin; x < end; x++)
                    to_v[r] = fma(of_value[ITEM_Y][x], right[x][ITEM_X], to_v[r]);
                BARRIER;
            }
        }
    if (j < s) {
        for (int r = 0; r < D_PARTS; r++)
            if (D_COLUMN(r) < d)
                AT(dk, real_t)[((b * s + j) * g + of_keys) * d + D_COLUMN(r)] =
                    to_k[r] * scale;
        for (int r = 0; r < E_PARTS; r++)
            if (E_COLUMN(r) < e)
                AT(dv, real_t)[((b * s + j) * g + of_keys) * e + E_COLUMN(r)] = to_v[r];
    }
}
