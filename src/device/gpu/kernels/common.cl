/* What all kinds of kernels share. A buffer is passed as memory and an offset, since parts of a
 * buffer must begin at certain addresses in OpenCL. Indices have 32 bits. */
#define BUFFER(x) GLOBAL char *x##_memory, const i64 x##_offset
#define AT(x, type) ((GLOBAL type *)(x##_memory + x##_offset))
/* The last parameter of a kernel that may write parameters or state: a flag, or no memory. While it
 * is not 0, the kernel writes nothing. */
#define GUARD BUFFER(guard)
#define STOPPED (guard_memory != 0 && AT(guard, const int)[0] != 0)
#define real(constant) ((real_t)(constant))
#define acc(constant) ((acc_t)(constant))
#define NAN_OF(type) ((type)0 / (type)0)

/* A sum of any number of values in one work item, of type real_t: the rounding error of an addition
 * is taken off the next value (Kahan's sum), so the error does not grow with their number. */
#ifdef REAL_IS_DOUBLE
#define SUM_BEGIN(x) real_t x = 0
#define SUM_ADD(x, value) x += value
#else
#define SUM_BEGIN(x) real_t x = 0, x##_over = 0
#define SUM_ADD(x, value) x = plus(x, value, &x##_over)
FUNCTION float plus(const float sum, const float value, float *over)
{
    const float add = value - *over, all = sum + add, error = (all - sum) - add;
    *over = error == error ? error : 0; /* infinity stays what it is */
    return all;
}
#endif

/* The sum of the values of a group's 256 items, or the largest one, by a fixed tree. NaN wins. */
FUNCTION real_t group_sum(LOCAL_POINTER real_t *table, const int item, const real_t value)
{
    table[item] = value;
    BARRIER;
    for (int stride = 128; stride > 0; stride /= 2) {
        if (item < stride) table[item] += table[item + stride];
        BARRIER;
    }
    const real_t sum = table[0];
    BARRIER;
    return sum;
}

FUNCTION real_t larger_of(const real_t a, const real_t b)
{
    return b > a || b != b ? b : a;
}

FUNCTION real_t group_max(LOCAL_POINTER real_t *table, const int item, const real_t value)
{
    table[item] = value;
    BARRIER;
    for (int stride = 128; stride > 0; stride /= 2) {
        if (item < stride) table[item] = larger_of(table[item], table[item + stride]);
        BARRIER;
    }
    const real_t top = table[0];
    BARRIER;
    return top;
}

/* Functions of the formulas of operators. */
#define el_exp(x) exp(x)
#define el_log(x) log(x)
#define el_pow(x, y) pow(x, y)
#define el_sqrt(x) sqrt(x)
#define el_abs(x) fabs(x)
