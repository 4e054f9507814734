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

/* The sum of the values of a group's 256 items, or the largest one, by a fixed tree. NaN wins. */
FUNCTION acc_t group_sum(LOCAL_POINTER acc_t *table, const int item, const acc_t value)
{
    table[item] = value;
    BARRIER;
    for (int stride = 128; stride > 0; stride /= 2) {
        if (item < stride) table[item] += table[item + stride];
        BARRIER;
    }
    const acc_t sum = table[0];
    BARRIER;
    return sum;
}

FUNCTION acc_t larger_of(const acc_t a, const acc_t b)
{
    return b > a || b != b ? b : a;
}

FUNCTION acc_t group_max(LOCAL_POINTER acc_t *table, const int item, const acc_t value)
{
    table[item] = value;
    BARRIER;
    for (int stride = 128; stride > 0; stride /= 2) {
        if (item < stride) table[item] = larger_of(table[item], table[item + stride]);
        BARRIER;
    }
    const acc_t top = table[0];
    BARRIER;
    return top;
}

/* Functions of the formulas of operators. */
#define el_exp(x) exp(x)
#define el_log(x) log(x)
#define el_pow(x, y) pow(x, y)
#define el_sqrt(x) sqrt(x)
#define el_abs(x) fabs(x)
