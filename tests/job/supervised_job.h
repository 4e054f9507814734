/* Makes a job whose status page and messages a test sees, and feeds it the output of a launcher. */
#ifndef WEFT_TESTS_SUPERVISED_JOB_H
#define WEFT_TESTS_SUPERVISED_JOB_H

#include <stdatomic.h>
#include <stdio.h>

#include "job/supervisor.h"
#include "support.h"

static char told[16384];
static weft_status_page page;

static inline void tell(void *user, const char *line)
{
    (void)user;
    size_t used = strlen(told);
    (void)snprintf(told + used, sizeof(told) - used, "%s\n", line);
}

static char folder[] = "c";
static weft_job_options options = {.checkpoint = folder};

static inline job begin(int64_t ranks, const char *hosts)
{
    job j = {.options = &options, .mpi = true, .ranks = ranks, .dead = -1, .lost_at = -1};
    j.tell = tell;
    j.page = &page;
    memset(&page, 0, sizeof(page));
    told[0] = '\0';
    for (int r = 0; r < (int)ranks; r++) {
        j.on[r] = -1;
        atomic_store(&page.step[r], 100 + r);
        (void)snprintf(page.note[r], WEFT_NOTE_SIZE, "in all-reduce of value %d", r);
    }
    assert_int_equal(weft_hosts_parse(hosts, &j.hosts), WEFT_OK);
    j.afar = j.hosts.count > 0;
    return j;
}

static inline void hear(job *j, const char *text)
{
    weft_job_hear(j, text, strlen(text));
}

#endif
