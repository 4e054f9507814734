/* Optimizer steps, counters and sums over micro-batches, element by element. */

KERNEL(sgd, 256, 1)
(BUFFER(w), BUFFER(g), BUFFER(m), BUFFER(lr), BUFFER(w_out), BUFFER(m_out), const int count,
 const int with_momentum, const int nesterov, const real_t momentum, const real_t keep,
 const real_t drop, const real_t decay, GUARD)
{
    if (STOPPED) return;
    const real_t rate = AT(lr, const real_t)[0];
    for (int i = GROUP_X * 256 + ITEM_X; i < count; i += GROUPS_X * 256) {
        const real_t old = AT(w, const real_t)[i];
        real_t step = AT(g, const real_t)[i] + decay * old;
        if (with_momentum) {
            const real_t last = AT(m, const real_t)[i];
            const real_t moved = keep * last + (step - drop * last);
            AT(m_out, real_t)[i] = moved;
            step = nesterov ? step + momentum * moved : moved;
        }
        AT(w_out, real_t)[i] = old - rate * step;
    }
}

KERNEL(adam, 256, 1)
(BUFFER(w), BUFFER(g), BUFFER(m), BUFFER(v), BUFFER(lr), BUFFER(age), BUFFER(w_out), BUFFER(m_out),
 BUFFER(v_out), const int count, const int decoupled, const acc_t log1, const acc_t log2,
 const acc_t decay, const acc_t smallest, const real_t epsilon, const real_t keep1,
 const real_t drop1, const real_t add1, const real_t keep2, const real_t drop2, const real_t add2,
 GUARD)
{
    LOCAL real_t of_step[4]; /* the same for all elements, computed by one item of a group */
    if (STOPPED) return;
    if (ITEM_X == 0) {
        const acc_t rate_of = (acc_t)AT(lr, const real_t)[0];
        const acc_t t = (acc_t)AT(age, const int)[0] + 1;
        /* 1 - beta^t, from the logarithm of beta. */
        const acc_t correction = acc(1) / sqrt(-expm1(t * log2));
        of_step[0] = (real_t)correction;
        of_step[1] = (real_t)(correction * smallest);
        of_step[2] = (real_t)(rate_of / -expm1(t * log1));
        of_step[3] = decoupled ? (real_t)(rate_of * decay) : real(0);
    }
    BARRIER;
    const real_t root = of_step[0], least = of_step[1], rate = of_step[2], own = of_step[3];
    const real_t coupled = decoupled ? real(0) : (real_t)decay;
    for (int i = GROUP_X * 256 + ITEM_X; i < count; i += GROUPS_X * 256) {
        const real_t old = AT(w, const real_t)[i];
        const real_t grad = AT(g, const real_t)[i] + coupled * old;
        const real_t old1 = AT(m, const real_t)[i], old2 = AT(v, const real_t)[i];
        const real_t first = keep1 * old1 + (add1 * grad - drop1 * old1);
        const real_t second = keep2 * old2 + (add2 * grad * grad - drop2 * old2);
        const real_t below = sqrt(second) * root + epsilon;
        AT(m_out, real_t)[i] = first;
        AT(v_out, real_t)[i] = second;
        AT(w_out, real_t)[i] = old - (own * old + rate * first / (below < least ? least : below));
    }
}

#ifdef RATE
#define PI ((acc_t)3.14159265358979323846)
FUNCTION acc_t between(const acc_t from, const acc_t to, const acc_t share)
{
    return to + (from - to) * acc(0.5) * (1 + cos(PI * share));
}

/* The learning rate of a step, see base/learning_rate.c; RATE is the formula of the schedule. */
KERNEL(schedule, 256, 1)
(BUFFER(count), BUFFER(out), const acc_t lr, const acc_t factor, const acc_t least,
 const acc_t warmup, const acc_t total, const acc_t every, const acc_t first, const acc_t at,
 const acc_t pace)
{
    if (ITEM_X == 0) {
        const acc_t exact = at + pace * ((acc_t)AT(count, const int)[0] - first);
        const acc_t whole = round(exact);
        const acc_t step = fabs(exact - whole) < acc(1e-6) ? whole : exact;
        acc_t done = 1, rate;
        if (step < warmup) {
            rate = lr * fmin((step + 1) / warmup, acc(1));
        } else {
            if (total > warmup) done = fmin((step - warmup) / (total - warmup), acc(1));
            rate = (acc_t)(RATE);
        }
        AT(out, real_t)[0] = (real_t)rate;
    }
}
#endif

/* The count stays at its largest value. */
KERNEL(counter, 256, 1)(BUFFER(from), BUFFER(to), GUARD)
{
    if (ITEM_X == 0 && !STOPPED) {
        const int count = AT(from, const int)[0];
        AT(to, int)[0] = count < 0x7fffffff ? count + 1 : count;
    }
}

/* Sets the flag by which guarded kernels are stopped, each group for one number. */
KERNEL(watch, 256, 1)(BUFFER(x), BUFFER(flag))
{
    if (ITEM_X == 0 && !isfinite(AT(x, const real_t)[GROUP_X])) AT(flag, int)[0] = 1;
}

/* The end of the subtree that begins at leaf `first`, at a level. */
FUNCTION int subtree_end(const int leaves, const int first, const int level)
{
    const i64 end = (i64)first + ((i64)1 << level);
    return end < leaves ? (int)end : leaves;
}

/* Whether the subtrees [first, middle) and [middle, end) are added in the tree of all leaves. */
FUNCTION int siblings(const int leaves, const int first, const int middle, const int end)
{
    int level = 0;
    while ((1 << level) < middle - first) level++;
    return middle - first == 1 << level && first % (2 << level) == 0 &&
           end == subtree_end(leaves, first, level + 1);
}

/* Where leaf v goes on a stack of subtree sums that begins with leaf `first`: its place, and how
 * often the topmost two places are then added. */
FUNCTION void push(const int leaves, const int first, const int v, LOCAL_POINTER int *to)
{
    int start[64], depth = 0, place = 0, merges = 0;
    for (int leaf = first; leaf <= v; leaf++) {
        place = depth;
        merges = 0;
        start[depth++] = leaf;
        while (depth > 1 && siblings(leaves, start[depth - 2], start[depth - 1], leaf + 1)) {
            depth--;
            merges++;
        }
    }
    to[0] = place;
    to[1] = merges;
}

#ifdef PLACES
/* Adds a micro-batch to the stack, whose places are generated parameters. */
KERNEL(accumulate_tree, 256, 1)
(BUFFER(addend), BUFFER(index), const int count, const int leaves, const int first PARAMETERS)
{
    LOCAL int way[2];
    if (ITEM_X == 0) push(leaves, first, (int)AT(index, const real_t)[0] + first, way);
    BARRIER;
    const int place = way[0], merges = way[1];
    for (int i = GROUP_X * 256 + ITEM_X; i < count; i += GROUPS_X * 256) {
        real_t stack[PLACES], right = AT(addend, const real_t)[i];
        LOADS
        if (merges == 0) stack[place] = right;
        for (int q = place - 1; q >= place - merges; q--) {
            stack[q] += right;
            right = stack[q];
        }
        STORES
    }
}
#endif

#ifdef DOUBLES
/* --- exact sums: digits of 14 bits, see base/exact_sum.c --- */
#define BITS 14
#define DIGITS 156
#define DIGIT_MASK 16383

/* Adds the squares of at most 2^17 elements to the digits of a group, which cannot overflow. Sums of
 * integers do not depend on the order of the atomic additions. */
KERNEL(squares, 256, 1)
(BUFFER(x), BUFFER(digits), BUFFER(endless), const int count, const int each)
{
    LOCAL u32 digit[DIGITS + 2];
    LOCAL u32 infinite[1];
    for (int d = ITEM_X; d < DIGITS + 2; d += 256) digit[d] = 0;
    if (ITEM_X == 0) infinite[0] = 0;
    BARRIER;
    const int end = (GROUP_X + 1) * each < count ? (GROUP_X + 1) * each : count;
    for (int i = GROUP_X * each + ITEM_X; i < end; i += 256) {
        const double v = (double)AT(x, const real_t)[i];
        const u64 bits = AS_U64(v * v);
        const int power = (int)(bits >> 52) & 2047;
        u64 mantissa = bits & (((u64)1 << 52) - 1);
        if (power == 2047) {
            ATOMIC_ADD(&infinite[0], 1);
        } else {
            if (power > 0) mantissa |= (u64)1 << 52;
            const int bit = power > 0 ? power - 1 : 0, shift = bit % BITS;
            int d = bit / BITS;
            ATOMIC_ADD(&digit[d], (u32)(mantissa << shift) & DIGIT_MASK);
            mantissa >>= BITS - shift;
            for (d++; mantissa > 0; d++, mantissa >>= BITS)
                ATOMIC_ADD(&digit[d], (u32)mantissa & DIGIT_MASK);
        }
    }
    BARRIER;
    for (int d = ITEM_X; d < DIGITS; d += 256)
        AT(digits, u32)[GROUP_X * DIGITS + d] = digit[d];
    if (ITEM_X == 0) AT(endless, u32)[GROUP_X] = infinite[0];
}

/* Carries the digits of all groups. */
KERNEL(add_squares, 256, 1)
(BUFFER(digits), BUFFER(endless), BUFFER(out), const int groups)
{
    LOCAL u64 digit[DIGITS];
    for (int d = ITEM_X; d < DIGITS; d += 256) {
        u64 sum = 0;
        for (int g = 0; g < groups; g++) sum += AT(digits, const u32)[g * DIGITS + d];
        digit[d] = sum;
    }
    BARRIER;
    if (ITEM_X == 0) {
        u64 over = 0;
        u32 infinite = 0;
        for (int g = 0; g < groups; g++) infinite += AT(endless, const u32)[g];
        for (int d = 0; d < DIGITS; d++) {
            over += digit[d];
            AT(out, real_t)[d] = (real_t)(over & DIGIT_MASK);
            over >>= BITS;
        }
        if (infinite) AT(out, real_t)[0] = (real_t)INFINITY;
    }
}

KERNEL(add_exact, 256, 1)(BUFFER(a), BUFFER(b), BUFFER(out))
{
    GLOBAL const real_t *x = AT(a, const real_t), *y = AT(b, const real_t);
    if (ITEM_X == 0) {
        const int finite = isfinite(x[0] + y[0]);
        u64 over = 0;
        for (int d = 0; d < DIGITS; d++) {
            over += finite ? (u64)x[d] + (u64)y[d] : 0;
            AT(out, real_t)[d] = (real_t)(over & DIGIT_MASK);
            over >>= BITS;
        }
        if (!finite) AT(out, real_t)[0] = (real_t)INFINITY;
    }
}

/* The root of an exact sum or, with a limit, the factor that clips a vector of this norm. */
KERNEL(exact_root, 256, 1)(BUFFER(x), BUFFER(out), const acc_t limit)
{
    LOCAL u32 whole[DIGITS];
    GLOBAL const real_t *digit = AT(x, const real_t);
    if (ITEM_X == 0) {
        double norm = INFINITY;
        if (isfinite(digit[0])) {
            u64 over = 0;
            int top = 0;
            for (int d = 0; d < DIGITS; d++) {
                over += (u64)digit[d];
                whole[d] = (u32)(over & DIGIT_MASK);
                over >>= BITS;
                if (whole[d]) top = d;
            }
            const int last = top > 5 ? top - 5 : 0;
            double value = 0;
            for (int d = top; d >= last; d--) value = value * (DIGIT_MASK + 1) + whole[d];
            norm = ldexp(sqrt(value), (BITS * last - 1074) / 2);
        }
        double result = norm;
        if (limit >= 0) result = norm > limit ? limit / norm : 1;
        AT(out, real_t)[0] = isfinite(norm) ? (real_t)result : NAN_OF(real_t);
    }
}
#endif
