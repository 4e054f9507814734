/* One context for all tests of a program, with what makes and frees it. */
#ifndef WEFT_TESTS_CONTEXT_H
#define WEFT_TESTS_CONTEXT_H

#include "support.h"

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

/* What a context said, but for its explanations. */
typedef struct said {
    int lines;
    char last[512];
} said;

static inline void hear(void *user, weft_log_level level, const char *text)
{
    said *s = user;
    if (level == WEFT_LOG_INFO) return;
    s->lines++;
    (void)snprintf(s->last, sizeof(s->last), "%s", text);
}

#endif
