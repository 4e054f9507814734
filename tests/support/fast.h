/* How much of their tables tests go through. */
#ifndef WEFT_TESTS_FAST_H
#define WEFT_TESTS_FAST_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Whether tests go through all combinations of their tables; with WEFT_FAST=1 they take a part. */
static inline bool in_full(void)
{
    return getenv("WEFT_FAST") == NULL;
}

/* Whether tests take each path of the code once, not with all numbers: with WEFT_FAST=2, which the
 * gate sets under the sanitizers. */
static inline bool paths_alone(void)
{
    const char *fast = getenv("WEFT_FAST");
    return fast && strcmp(fast, "2") == 0;
}

/* Whether case i of a product is taken: each in full, one of `some` in short, one of `few` where
 * each path is taken once. With i the sum of the indices, each value of each index has its turn. */
static inline bool taken(size_t i, size_t some, size_t few)
{
    return in_full() || i % (paths_alone() ? few : some) == 0;
}

#endif
