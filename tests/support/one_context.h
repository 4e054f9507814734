/* One weft_context that all tests of a program share, with cmocka's group setup and teardown. */
#ifndef WEFT_TESTS_ONE_CONTEXT_H
#define WEFT_TESTS_ONE_CONTEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "weft/context.h"

static weft_context *context;

static int setup(void **state)
{
    (void)state;
    return weft_context_create(&context) != WEFT_OK;
}

static int teardown(void **state)
{
    (void)state;
    weft_context_destroy(&context);
    return 0;
}

#endif
