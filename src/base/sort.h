/* Sorts numbers. */
#ifndef WEFT_BASE_SORT_H
#define WEFT_BASE_SORT_H

#include <stdlib.h>

static inline int weft_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts `count` numbers, the smallest first; none of them is NaN. */
static inline void weft_sort_doubles(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof(*numbers), weft_compare_doubles);
}

#endif
