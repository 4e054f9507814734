/* Sets where malloc puts arrays, and when it gives them back to the system. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/exchange_ops.h"
#include "weft/plugin.h"

#ifdef __GLIBC__
/* SMALL: where a step allocates no arrays, those of the beginning and the end of a run are mapped
 * and unmapped. Otherwise malloc would keep what is freed below a threshold, which grows with each
 * larger array that is freed, and what a run takes would depend on what it has freed before. LARGE:
 * the most that malloc accepts. */
enum { SMALL = 256 << 10, LARGE = 32 << 20 };

static void set(const char *variable, int parameter, int bytes)
{
    if (!getenv(variable)) (void)mallopt(parameter, bytes);
}
#endif

void map_arrays(void)
{
#ifdef __GLIBC__
    set("MALLOC_MMAP_THRESHOLD_", M_MMAP_THRESHOLD, SMALL);
#endif
}

void keep_arrays(void)
{
#ifdef __GLIBC__
    set("MALLOC_MMAP_THRESHOLD_", M_MMAP_THRESHOLD, LARGE);
    set("MALLOC_TRIM_THRESHOLD_", M_TRIM_THRESHOLD, 2 * LARGE);
    set("MALLOC_ARENA_MAX", M_ARENA_MAX, 1);
#endif
}

bool sends_messages(const weft_context *context, const char *exchange)
{
    if (!exchange || weft_job_rank() < 0) return false;
    for (int i = 0;; i++) {
        const weft_entry *entry = weft_context_entry(context, WEFT_KIND_EXCHANGE, i);
        if (!entry) return false;
        if (strlen(entry->name) == strcspn(exchange, ":") &&
            !strncmp(entry->name, exchange, strlen(entry->name)))
            return !((const weft_exchange_ops *)entry->ops)->lockstep;
    }
}
