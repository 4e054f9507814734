/* The supervisor of a job: starts its processes, has them watched (monitor.c) and a failure
 * diagnosed (failure.c), and starts the job again on the remaining ranks. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/child.h"
#include "job/supervisor.h"

/* Environment variables in which launchers tell a process its rank, in the order in which they are
 * read. */
static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

int weft_job_rank(void)
{
    for (size_t i = 0; i < WEFT_COUNT(rank_variables); i++) {
        int64_t rank;
        const char *text = getenv(rank_variables[i]);
        if (text && weft_parse_int(text, &rank)) return (int)rank;
    }
    return -1;
}

bool weft_job_needed(const weft_job_options *o)
{
    if (weft_job_rank() >= 0 || getenv(WEFT_SUPERVISED_VARIABLE)) return false;
    return o->max_restarts > 0 || o->mpi || o->members;
}

/* Whether a rank left before the end of the run. With other machines only the end of rank 0 is
 * known. */
static bool unfinished(const job *j)
{
    if (j->afar) return j->finished == 0;
    for (int r = 0; r < (int)j->ranks; r++)
        if (atomic_load(&j->page->stage[r]) != WEFT_STAGE_FINISHED) return true;
    return false;
}

/* Starts the job once, and watches it until its end. If this process dies, its child gets SIGKILL
 * or, if it is mpirun, SIGHUP, after which mpirun ends the ranks on all machines. */
static weft_status run_once(job *j, bool resume, int *code)
{
    weft_command w;
    weft_child c;
    int times, asked;
    bool killed = false;
    weft_status status = weft_job_command(j, resume, &w);
    weft_orphans_begin(&j->orphans, j->environment[0]);
    if (status == WEFT_OK)
        status = weft_child_start((char *const *)(uintptr_t)w.word, j->environment,
                                  j->mpi ? WEFT_ENDS_LAUNCHER : SIGKILL, j->mpi, &c);
    weft_command_free(&w);
    if (status == WEFT_OK) {
        j->orphans.group = c.pid;
        weft_job_watch(j, &c);
        int state = weft_child_end(&c);
        killed = WIFSIGNALED(state);
        *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
        if (*code == 0 && unfinished(j)) *code = 1;
        /* Not the signal by which the supervisor killed the job. */
        if (*code > 2 && j->cut_short) *code = 1;
        if (*code != 0 && j->own) *code = j->own; /* a launcher may change the exit code */
        asked = weft_job_asked(&times);
        if (*code != 0 && (!weft_job_stopped(j, *code, asked) || weft_job_unsaved(j, *code, times)))
            weft_job_ended(j, state);
    }
    weft_orphans_end(&j->orphans); /* no orphan may still write files when the job restarts */
    if (j->mpi && killed) {
        j->page->job[sizeof(j->page->job) - 1] = '\0';
        weft_openmpi_cleanup(j->orphans.group, j->page->job);
    }
    return status;
}

static void begin_anew(job *j)
{
    j->dead = j->lost_at = -1;
    j->no_host = j->together = j->left = j->explained = j->in_block = false;
    j->built = j->cut_short = false;
    j->ending = j->finished = j->worked = j->looked = j->bereft = 0;
    j->own = 0;
    j->own_words = 0;
    j->block[0] = j->lost_host[0] = j->stopped[0] = '\0';
    j->started_on[0] = '\0';
    memset(j->missing, 0, sizeof(j->missing));
    memset(j->started, 0, sizeof(j->started));
    weft_hosts_forget(&j->hosts);
    atomic_store(&j->page->has_begun, false);
    memset(j->page->job, 0, sizeof(j->page->job));
    for (int r = 0; r < WEFT_MAX_RANKS; r++) {
        j->on[r] = -1;
        atomic_store(&j->page->step[r], 0);
        atomic_store(&j->page->stage[r], WEFT_STAGE_NONE);
        atomic_store(&j->page->pid[r], 0);
        memset(j->page->note[r], 0, WEFT_NOTE_SIZE);
    }
}

static weft_status run_all(job *j, int *code)
{
    bool resume = j->options->resume;
    if (j->options->workers) return weft_job_run_workers(j, code);
    for (j->restarts = weft_job_most_restarts(j->options);; j->restarts--) {
        begin_anew(j);
        WEFT_TRY(j->options->members ? weft_job_run_members(j, resume, code)
                                     : run_once(j, resume, code));
        int times, asked = weft_job_asked(&times);
        if (weft_job_stopped(j, *code, asked)) {
            if (j->stopped[0]) weft_job_log(j, "%s", j->stopped);
            weft_job_report_unsaved(j, *code, times);
            if (times > 1 || (asked && *code > 2)) *code = 128 + asked;
            return WEFT_OK;
        }
        if (*code != 0) weft_job_report_death(j);
        if (j->restarts > 0 && j->own == 1 && !j->options->members)
            weft_job_log(j, "weft: no restart: it would end the same way");
        if (j->restarts <= 0 || asked || !weft_job_can_restart(j, *code)) return WEFT_OK;
        weft_job_shrink(j);
        WEFT_TRY(weft_job_find_model(j));
        char size[48];
        resume = weft_job_has_checkpoint(j);
        weft_job_log(j, "weft: %s with %s (%lld restart%s left)",
                     resume ? "starting again from the newest checkpoint"
                            : "starting again from the first step, since no checkpoint was written "
                              "yet,",
                     weft_job_size(j, size, sizeof(size)), (long long)j->restarts - 1,
                     weft_plural(j->restarts - 1));
    }
}

static weft_status supervise(job *j, int *code)
{
    struct sigaction before[WEFT_CAUGHT];
    char where[128], page[160];
    int file;
    /* The first entry marks the processes of the job, as this process may have other children. The
     * last two let Open MPI run as root, as in containers. */
    j->environment[0] = page;
    j->environment[1] = WEFT_SUPERVISED_VARIABLE "=1";
    if (j->mpi) j->environment[2] = "OMPI_ALLOW_RUN_AS_ROOT=1";
    if (j->mpi) j->environment[3] = "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    if (j->mpi) WEFT_TRY(weft_job_find_mpirun(j));
    if (j->mpi) WEFT_TRY(weft_hosts_parse(j->options->hosts, &j->hosts));
    j->afar = j->hosts.count > 0;
    WEFT_TRY(weft_status_page_make(where, sizeof(where), &j->page, &file));
    (void)snprintf(page, sizeof(page), WEFT_STATUS_PAGE_VARIABLE "=%s", where);
    weft_job_catch(before);
    weft_status status = run_all(j, code);
    weft_job_release(before);
    weft_status_page_unmap(j->page);
    close(file);
    return status;
}

weft_status weft_job_supervise(const weft_job_options *options, const char *program,
                               char *const *arguments, weft_job_fn tell, void *user, int *code)
{
    job *j; /* too large for the stack */
    WEFT_TRY(WEFT_NEW(&j, 1));
    *j = (job){.options = options,
               .program = program,
               .arguments = arguments,
               .tell = tell,
               .user = user,
               .mpi = options->mpi,
               .ranks = WEFT_MAX(options->ranks, (int64_t)1)};
    weft_status status = supervise(j, code);
    weft_hosts_free(&j->hosts);
    free(j->model);
    free(j);
    return status;
}
