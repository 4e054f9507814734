/* Formats and parses the status lines of ranks on standard error, which launchers forward from
 * every machine: "weft: [rank 2 on beta: peer] ..." instead of "weft: ...". From these lines the
 * supervisor learns about ranks that share no memory with it, and it prints a message of several
 * ranks once. */
#include "job/status_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "job/status_page.h"
#include "weft/job.h"

bool weft_job_supervised(void)
{
    return getenv(WEFT_SUPERVISED_VARIABLE) != NULL;
}

void weft_job_status_line(const char *what, const char *message, char *out, size_t size)
{
    WEFT_NEED_VOID(what, message, out);
    char host[128] = "unknown";
    int rank = weft_job_rank();
    if (!weft_job_supervised()) {
        (void)snprintf(out, size, "weft: %s", message);
        return;
    }
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(out, size, "weft: [rank %d on %s: %s] %s", rank < 0 ? 0 : rank, host, what,
                   message);
}

bool weft_job_failed_elsewhere(weft_status status)
{
    return status == WEFT_ERR_PEER &&
           strncmp(weft_last_message(), WEFT_ENDED, sizeof(WEFT_ENDED) - 1) == 0;
}

bool weft_status_line_read(const char *line, weft_status_line *out)
{
    int used = 0;
    if (sscanf(line, "weft: [rank %d on %127[^:]: %15[a-z]]%n", &out->rank, out->host, out->what,
               &used) != 3 ||
        used == 0 || out->rank < 0 || out->rank >= WEFT_MAX_RANKS)
        return false;
    out->message = line + used + (line[used] == ' ');
    return true;
}

void weft_status_line_missing(const char *message, bool missing[WEFT_MAX_RANKS])
{
    static const char key[] = " missing:";
    const char *at = strstr(message, key);
    if (!at) return;
    at += sizeof(key) - 1;
    for (char *end; *at == ' '; at = end) {
        long rank = strtol(at, &end, 10);
        if (end == at) return;
        if (rank >= 0 && rank < WEFT_MAX_RANKS) missing[rank] = true;
    }
}
