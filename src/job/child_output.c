/* Reads the output of the processes of a job of members, and describes their ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/process_set.h"
#include "job/status_line.h"
#include "weft/plan.h"

const char *weft_child_process_name(const child_process *p, char *out, size_t size)
{
    static const char *const roles[] = {"the coordinator", "server", "learner", "process"};
    const char *role = roles[p->part->role];
    if (p->part->role == WEFT_PART_COORDINATOR)
        (void)snprintf(out, size, "%s", role);
    else
        (void)snprintf(out, size, "%s %d", role, p->part->slot);
    return out;
}

/* Handles a line of a process's standard error. Output is forwarded at once, except the final error
 * message, which is held until it is decided whether the process is restarted. */
static void end_line(process_set *t, child_process *p)
{
    weft_status_line said;
    p->line_size = 0;
    bool own = weft_status_line_read(p->line, &said);
    bool finished = own && strcmp(said.what, WEFT_RANK_STATUS_FINISHED) == 0;
    if (finished && p->part->role == WEFT_PART_LEARNER && p->part->slot == 0)
        t->end_reported = weft_job_seconds(t->j);
    bool built = own && strcmp(said.what, WEFT_RANK_STATUS_BUILT) == 0;
    p->ready = p->ready || built;
    if (finished || built) return;
    if (own) {
        memcpy(p->what, said.what, sizeof(p->what));
        (void)snprintf(p->said, sizeof(p->said), "%.1000s", said.message);
    } else if (!t->closing) {
        weft_job_log(t->j, "%s", p->line);
    }
}

void weft_child_process_read(process_set *t, child_process *p, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool end = text[i] == '\n';
        if (!end) p->line[p->line_size++] = text[i] ? text[i] : ' ';
        p->line[p->line_size] = '\0';
        if (end || p->line_size == sizeof(p->line) - 1) end_line(t, p);
    }
}

void weft_child_process_drain(process_set *t, child_process *p)
{
    char text[4096];
    int flags = fcntl(p->child.errors, F_GETFL);
    (void)fcntl(p->child.errors, F_SETFL, flags | O_NONBLOCK);
    for (ssize_t got;
         (got = read(p->child.errors, text, sizeof(text))) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0) weft_child_process_read(t, p, text, (size_t)got);
    if (p->line_size > 0) end_line(t, p);
}

int64_t weft_child_process_step(const process_set *t, const child_process *p)
{
    const job *j = t->j;
    int64_t mesh = 1;
    if (p->part->role != WEFT_PART_LEARNER) return 0;
    if (j->options->mesh && weft_mesh_ranks(j->options->mesh, &mesh) != WEFT_OK) return 0;
    int64_t rank = p->part->slot * mesh;
    return rank < WEFT_MAX_RANKS ? atomic_load(&j->page->step[rank]) : 0;
}

void weft_child_process_explain_start(child_process *p)
{
    char name[64];
    (void)snprintf(p->why, sizeof(p->why), "%s: %.1000s",
                   weft_child_process_name(p, name, sizeof(name)), weft_last_message());
}

void weft_child_process_explain(const process_set *t, child_process *p, int state)
{
    char name[64], how[128], when[48] = "";
    int64_t step = weft_child_process_step(t, p);
    weft_child_process_name(p, name, sizeof(name));
    if (step > 0) (void)snprintf(when, sizeof(when), " in step %lld", (long long)step);
    if (p->hung)
        (void)snprintf(how, sizeof(how), "was stopped for %g s, and has been ended",
                       t->j->options->failure_timeout);
    else if (WIFSIGNALED(state))
        (void)snprintf(how, sizeof(how), "died of signal %d (%s)%s", WTERMSIG(state),
                       strsignal(WTERMSIG(state)), when);
    else
        (void)snprintf(how, sizeof(how), "ended with code %d%s", WEXITSTATUS(state), when);
    bool words = !WIFSIGNALED(state) && p->said[0];
    (void)snprintf(p->why, sizeof(p->why), "%s %s%s%s", name, how, words ? ": " : "",
                   words ? p->said : "");
}
