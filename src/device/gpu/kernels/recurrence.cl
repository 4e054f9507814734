/* lstm and gru, and their gradients, see ops/recurrence.c. Rows of the batch do not depend on each
 * other, so a group of 256 work items has a row, and goes through its positions in one launch. Its
 * state is in local memory if it has at most MOST units, otherwise in scratch memory. */
#ifdef MOST
#define ROOM_POINTER LOCAL_POINTER
#define ROOM(name, parts, behind) LOCAL real_t name[(parts) * MOST]
#define SETTLED BARRIER
#else
#define ROOM_POINTER GLOBAL
#define ROOM(name, parts, behind)                                                                  \
    GLOBAL real_t *name = AT(room, real_t) + ((i64)GROUP_X * 6 + (behind)) * units
#define SETTLED BARRIER_GLOBAL
#endif

#define SIZES                                                                                      \
    BUFFER(room), const int positions, const int units, const int backward, const int with_h,      \
        const int with_c, const int with_lengths

/* The number of positions of a row that count; all of them if the length is wrong: its states are
 * NaN then. */
#define LENGTH                                                                                     \
    const int given = with_lengths ? AT(lengths, const int)[row] : positions;                      \
    const int wrong = given < 0 || given > positions;                                              \
    const int length = wrong ? positions : given;

/* Element `unit` of the position before t in a sequence [b, t, units], or of the first state. */
#define BEFORE(sequence, first_state, has, unit)                                                   \
    (before >= 0 ? AT(sequence, const real_t)[(row * positions + before) * units + (unit)]         \
     : (has)     ? AT(first_state, const real_t)[row * units + (unit)]                             \
                 : real(0))

FUNCTION real_t sigmoid(const real_t x)
{
    return real(1) / (real(1) + exp(-x));
}

/* Product of the state and w [units, n], column j. */
FUNCTION real_t times(ROOM_POINTER const real_t *state, GLOBAL const real_t *w, const int units,
                      const int n, const int j)
{
    real_t sum = 0;
    for (int k = 0; k < units; k++) sum = fma(state[k], w[k * n + j], sum);
    return sum;
}

/* Adds d [n] times the transpose of w [units, n] to the gradient of the state: 16 lanes a unit. */
FUNCTION void add_product(ROOM_POINTER real_t *dh, ROOM_POINTER const real_t *d,
                          GLOBAL const real_t *w, LOCAL_POINTER real_t *table, const int units,
                          const int n)
{
    const int lane = ITEM_X % 16, part = ITEM_X / 16;
    for (int first = 0; first < units; first += 16) {
        const int u = first + part;
        real_t sum = 0;
        for (int j = lane; j < n && u < units; j += 16) sum = fma(d[j], w[u * n + j], sum);
        table[ITEM_X] = sum;
        SETTLED;
        if (lane == 0 && u < units) {
            for (int x = 1; x < 16; x++) sum += table[ITEM_X + x];
            dh[u] += sum;
        }
        SETTLED;
    }
}

KERNEL(lstm, 256, 1)
(BUFFER(g), BUFFER(w), BUFFER(h0), BUFFER(c0), BUFFER(lengths), BUFFER(y), BUFFER(h), BUFFER(c),
 BUFFER(gates), BUFFER(cells), SIZES)
{
    ROOM(state, 1, 0);
    ROOM(cell, 1, 1);
    ROOM(product, 4, 2);
    const int row = GROUP_X, all = 4 * units;
    LENGTH
    for (int u = ITEM_X; u < units; u += 256) {
        state[u] = wrong ? NAN_OF(real_t)
                         : with_h ? AT(h0, const real_t)[row * units + u]
                                  : real(0);
        cell[u] = wrong ? NAN_OF(real_t) : with_c ? AT(c0, const real_t)[row * units + u] : real(0);
    }
    SETTLED;
    for (int step = 0; step < positions; step++) {
        const int t = backward ? positions - 1 - step : step, at = row * positions + t;
        if (t < length) {
            for (int j = ITEM_X; j < all; j += 256)
                product[j] = AT(g, const real_t)[at * all + j] +
                             times(state, AT(w, const real_t), units, all, j);
            BARRIER_GLOBAL; /* the gates may lie over g, which other work items have read */
            for (int u = ITEM_X; u < units; u += 256) {
                const real_t i = sigmoid(product[u]), f = sigmoid(product[units + u]);
                const real_t z = tanh(product[2 * units + u]);
                const real_t o = sigmoid(product[3 * units + u]);
                GLOBAL real_t *to = AT(gates, real_t) + at * all + u;
                to[0] = i;
                to[units] = f;
                to[2 * units] = z;
                to[3 * units] = o;
                cell[u] = f * cell[u] + i * z;
                state[u] = o * tanh(cell[u]);
                AT(cells, real_t)[at * units + u] = cell[u];
                AT(y, real_t)[at * units + u] = state[u];
            }
            SETTLED;
        } else {
            for (int u = ITEM_X; u < units; u += 256) {
                for (int k = 0; k < 4; k++) AT(gates, real_t)[at * all + k * units + u] = 0;
                AT(cells, real_t)[at * units + u] = 0;
                AT(y, real_t)[at * units + u] = 0;
            }
        }
    }
    for (int u = ITEM_X; u < units; u += 256) {
        AT(h, real_t)[row * units + u] = state[u];
        AT(c, real_t)[row * units + u] = cell[u];
    }
}

KERNEL(gru, 256, 1)
(BUFFER(g), BUFFER(w), BUFFER(bias), BUFFER(h0), BUFFER(lengths), BUFFER(y), BUFFER(h),
 BUFFER(gates), BUFFER(inner), SIZES)
{
    ROOM(state, 1, 0);
    ROOM(product, 3, 1);
    const int row = GROUP_X, all = 3 * units;
    LENGTH
    for (int u = ITEM_X; u < units; u += 256)
        state[u] = wrong ? NAN_OF(real_t)
                         : with_h ? AT(h0, const real_t)[row * units + u]
                                  : real(0);
    SETTLED;
    for (int step = 0; step < positions; step++) {
        const int t = backward ? positions - 1 - step : step, at = row * positions + t;
        if (t < length) {
            for (int j = ITEM_X; j < all; j += 256)
                product[j] = AT(bias, const real_t)[j] +
                             times(state, AT(w, const real_t), units, all, j);
            SETTLED;
            for (int u = ITEM_X; u < units; u += 256) {
                GLOBAL const real_t *from = AT(g, const real_t) + at * all + u;
                GLOBAL real_t *to = AT(gates, real_t) + at * all + u;
                const real_t r = sigmoid(from[0] + product[u]);
                const real_t z = sigmoid(from[units] + product[units + u]);
                const real_t n = tanh(from[2 * units] + r * product[2 * units + u]);
                to[0] = r;
                to[units] = z;
                to[2 * units] = n;
                AT(inner, real_t)[at * units + u] = product[2 * units + u];
                state[u] = (1 - z) * n + z * state[u];
                AT(y, real_t)[at * units + u] = state[u];
            }
            SETTLED;
        } else {
            for (int u = ITEM_X; u < units; u += 256) {
                for (int k = 0; k < 3; k++) AT(gates, real_t)[at * all + k * units + u] = 0;
                AT(inner, real_t)[at * units + u] = 0;
                AT(y, real_t)[at * units + u] = 0;
            }
        }
    }
    for (int u = ITEM_X; u < units; u += 256) AT(h, real_t)[row * units + u] = state[u];
}

/* The position before t, or -1. */
#define BEFORE_T                                                                                   \
    int before = backward ? t + 1 : t - 1;                                                         \
    if (before >= length) before = -1;

KERNEL(lstm_grad, 256, 1)
(BUFFER(gates), BUFFER(cells), BUFFER(y), BUFFER(w), BUFFER(h0), BUFFER(c0), BUFFER(lengths),
 BUFFER(dy), BUFFER(dh), BUFFER(dc), BUFFER(dg), BUFFER(states), BUFFER(dh0), BUFFER(dc0), SIZES,
 const int with_dy, const int with_dh, const int with_dc)
{
    LOCAL real_t table[256];
    ROOM(of_h, 1, 0);
    ROOM(of_c, 1, 1);
    ROOM(d, 4, 2);
    const int row = GROUP_X, all = 4 * units;
    LENGTH
    for (int u = ITEM_X; u < units; u += 256) {
        of_h[u] = with_dh ? AT(dh, const real_t)[row * units + u] : real(0);
        of_c[u] = with_dc ? AT(dc, const real_t)[row * units + u] : real(0);
    }
    SETTLED;
    for (int step = positions - 1; step >= 0; step--) {
        const int t = backward ? positions - 1 - step : step, at = row * positions + t;
        if (t < length) {
            BEFORE_T
            for (int u = ITEM_X; u < units; u += 256) {
                GLOBAL const real_t *gate = AT(gates, const real_t) + at * all + u;
                const real_t i = gate[0], f = gate[units], z = gate[2 * units];
                const real_t o = gate[3 * units];
                const real_t c = tanh(AT(cells, const real_t)[at * units + u]);
                const real_t slope =
                    (with_dy ? AT(dy, const real_t)[at * units + u] : real(0)) + of_h[u];
                const real_t of_cell = of_c[u] + slope * o * (1 - c * c);
                d[u] = of_cell * z * i * (1 - i);
                d[units + u] = of_cell * BEFORE(cells, c0, with_c, u) * f * (1 - f);
                d[2 * units + u] = of_cell * i * (1 - z * z);
                d[3 * units + u] = slope * c * o * (1 - o);
                AT(states, real_t)[at * units + u] = BEFORE(y, h0, with_h, u);
                for (int k = 0; k < 4; k++)
                    AT(dg, real_t)[at * all + k * units + u] = d[k * units + u];
                of_c[u] = of_cell * f;
                of_h[u] = 0;
            }
            SETTLED;
            add_product(of_h, d, AT(w, const real_t), table, units, all);
        } else {
            for (int u = ITEM_X; u < units; u += 256) {
                for (int k = 0; k < 4; k++) AT(dg, real_t)[at * all + k * units + u] = 0;
                AT(states, real_t)[at * units + u] = 0;
            }
        }
    }
    for (int u = ITEM_X; u < units; u += 256) {
        AT(dh0, real_t)[row * units + u] = of_h[u];
        AT(dc0, real_t)[row * units + u] = of_c[u];
    }
}

KERNEL(gru_grad, 256, 1)
(BUFFER(gates), BUFFER(inner), BUFFER(y), BUFFER(w), BUFFER(h0), BUFFER(lengths), BUFFER(dy),
 BUFFER(dh), BUFFER(dg), BUFFER(products), BUFFER(states), BUFFER(dh0), SIZES, const int with_dy,
 const int with_dh)
{
    LOCAL real_t table[256];
    ROOM(of_h, 1, 0);
    ROOM(d, 3, 1);
    const int row = GROUP_X, all = 3 * units;
    LENGTH
    for (int u = ITEM_X; u < units; u += 256)
        of_h[u] = with_dh ? AT(dh, const real_t)[row * units + u] : real(0);
    SETTLED;
    for (int step = positions - 1; step >= 0; step--) {
        const int t = backward ? positions - 1 - step : step, at = row * positions + t;
        if (t < length) {
            BEFORE_T
            for (int u = ITEM_X; u < units; u += 256) {
                GLOBAL const real_t *gate = AT(gates, const real_t) + at * all + u;
                GLOBAL real_t *to = AT(dg, real_t) + at * all + u;
                const real_t r = gate[0], z = gate[units], n = gate[2 * units];
                const real_t h = BEFORE(y, h0, with_h, u);
                const real_t slope =
                    (with_dy ? AT(dy, const real_t)[at * units + u] : real(0)) + of_h[u];
                const real_t dn = slope * (1 - z) * (1 - n * n);
                AT(states, real_t)[at * units + u] = h;
                d[u] = dn * AT(inner, const real_t)[at * units + u] * r * (1 - r);
                d[units + u] = slope * (h - n) * z * (1 - z);
                d[2 * units + u] = dn * r;
                to[0] = d[u];
                to[units] = d[units + u];
                to[2 * units] = dn;
                for (int k = 0; k < 3; k++)
                    AT(products, real_t)[at * all + k * units + u] = d[k * units + u];
                of_h[u] = slope * z;
            }
            SETTLED;
            add_product(of_h, d, AT(w, const real_t), table, units, all);
        } else {
            for (int u = ITEM_X; u < units; u += 256) {
                for (int k = 0; k < 3; k++) {
                    AT(dg, real_t)[at * all + k * units + u] = 0;
                    AT(products, real_t)[at * all + k * units + u] = 0;
                }
                AT(states, real_t)[at * units + u] = 0;
            }
        }
    }
    for (int u = ITEM_X; u < units; u += 256) AT(dh0, real_t)[row * units + u] = of_h[u];
}
