/* One context for all tests of a program, and a log that records what the context reports. */
#ifndef WEFT_TESTS_CONTEXT_H
#define WEFT_TESTS_CONTEXT_H

#include "one_context.h"
#include "support.h"

/* The log lines of a context that are not WEFT_LOG_INFO: their number, and the last one. */
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
