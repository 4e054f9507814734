/* The supervisor of a job: starts its processes, tells who died where and in which step, and starts
 * it again on what is left. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/child.h"
#include "train/job.h"
#include "train/train.h"

enum { GRACE = 5 };

/* In the order in which launchers are recognised. */
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

bool weft_job_wanted(const weft_train_options *o)
{
    if (weft_job_rank() >= 0 || getenv(WEFT_SUPERVISED_VARIABLE)) return false;
    return o->max_restarts > 0 || strcmp(o->engine, "mpi") == 0;
}

/* --- which mpirun --- */

static weft_status find_mpirun(job *j)
{
    char text[512] = "";
    FILE *pipe = popen("mpirun --version 2>/dev/null", "re");
    if (pipe) {
        size_t size = fread(text, 1, sizeof(text) - 1, pipe);
        text[size] = '\0';
        (void)pclose(pipe);
    }
    if (!text[0])
        return weft_fail(
            WEFT_ERR_UNSUPPORTED,
            "engine mpi needs mpirun, which was not found; install it (apt-get install "
            "openmpi-bin) or use --engine threads");
    j->open_mpi = strstr(text, "Open MPI") != NULL || strstr(text, "OpenRTE") != NULL;
    return WEFT_OK;
}

/* A command line. Words beside the user's own are few. */
enum { OWN_WORDS = 32 };
typedef struct words {
    const char **word;
    int count;
    char numbers[2][32];
} words;

static void add(words *w, const char *word)
{
    w->word[w->count++] = word;
}

/* Open MPI counts slots and binds ranks to cores: neither fits ranks with threads of their own. */
static void mpirun_words(const job *j, words *w)
{
    (void)snprintf(w->numbers[0], sizeof(w->numbers[0]), "%lld", (long long)j->ranks);
    add(w, "mpirun");
    add(w, "-n");
    add(w, w->numbers[0]);
    if (j->open_mpi) {
        add(w, "--oversubscribe");
        add(w, "--bind-to");
        add(w, "none");
        add(w, "--mca");
        add(w, "plm_rsh_args");
        add(w, "-o ConnectTimeout=10 -o BatchMode=yes");
        add(w, "-x");
        add(w, WEFT_BOARD_VARIABLE);
        add(w, "-x");
        add(w, WEFT_SUPERVISED_VARIABLE);
    }
    if (!j->options->hosts) return;
    add(w, j->open_mpi ? "--host" : "-hosts");
    add(w, j->options->hosts);
}

static weft_status all_words(const job *j, bool again, words *w)
{
    int given = 0;
    while (j->arguments[given]) given++;
    WEFT_TRY(WEFT_NEW(&w->word, given + OWN_WORDS));
    (void)snprintf(w->numbers[1], sizeof(w->numbers[1]), "%lld", (long long)j->ranks);
    if (j->mpi) mpirun_words(j, w);
    add(w, j->program);
    for (int i = 0; j->arguments[i]; i++) add(w, j->arguments[i]);
    add(w, "--ranks");
    add(w, w->numbers[1]);
    if (j->mesh[0]) {
        add(w, "--mesh");
        add(w, j->mesh);
    }
    if (j->alone && j->options->zero > 0) { /* nothing to spread anything over */
        add(w, "--zero");
        add(w, "0");
    }
    if (again) add(w, "--resume");
    return WEFT_OK;
}

/* --- watching --- */

/* MPI starts and ends by calls that wait for everybody without a limit, so the limit is kept here:
 * all ranks must be built within the time of a collective, and end within that of the first one. */
static bool stuck(job *j, double since, double *first_end)
{
    int built = 0, finished = 0, late = -1;
    for (int r = 0; r < (int)j->ranks; r++) {
        int stage = atomic_load(&j->board->stage[r]);
        built += stage >= WEFT_STAGE_BUILT;
        finished += stage == WEFT_STAGE_FINISHED;
    }
    double now = weft_seconds(), limit = j->options->timeout + GRACE;
    if (finished > 0 && *first_end == 0) *first_end = now;
    bool starting = built < j->ranks && now - since > limit;
    bool ending = finished > 0 && finished < j->ranks && now - *first_end > limit;
    if (!starting && !ending) return false;
    for (int r = 0; r < (int)j->ranks && late < 0; r++)
        if (atomic_load(&j->board->stage[r]) < (starting ? WEFT_STAGE_BUILT : WEFT_STAGE_FINISHED))
            late = r;
    weft_job_say(
        j,
        "weft: the job has not %s after %.0f s: rank %d has not come (of %lld ranks %d are there); "
        "a longer --timeout would wait for it",
        starting ? "started" : "ended", limit, late, (long long)j->ranks,
        starting ? built : finished);
    return true;
}

static volatile sig_atomic_t asked; /* the signal that asked for the end */
static volatile sig_atomic_t times; /* how often it did */

static void on_signal(int number)
{
    if (!asked) asked = number;
    times = times + 1;
}

/* The first signal lets the ranks save and stop, the next ends them: mpirun does that to its own.
 */
static void pass_on(const job *j, const weft_child *c, int *done)
{
    int now = times;
    if (now > 0 && *done == 0) weft_child_ask(c);
    if (now > 1 && *done < 2) kill(c->pid, j->mpi ? SIGTERM : SIGKILL);
    *done = now;
}

/* Passes on what the ranks say on stderr until the job closes it. */
static void watch(job *j, const weft_child *c)
{
    char text[4096];
    double since = weft_seconds(), first_end = 0;
    bool killed = false;
    for (int passed = 0;;) {
        struct pollfd waiting = {.fd = c->errors, .events = POLLIN};
        int ready = poll(&waiting, 1, 200);
        pass_on(j, c, &passed);
        if (!killed && j->mpi && j->ranks > 1 && !j->options->hosts &&
            stuck(j, since, &first_end)) {
            killed = true;
            kill(c->pid, SIGTERM); /* mpirun then ends its ranks, stopped ones too */
        }
        if (ready < 0 && errno != EINTR) break;
        if (ready <= 0) continue;
        ssize_t got = read(c->errors, text, sizeof(text));
        if (got <= 0) break;
        weft_job_hear(j, text, (size_t)got);
    }
    weft_job_heard_all(j);
}

/* Whether a rank left without having come to the end. Ranks of other machines write elsewhere. */
static bool unfinished(const job *j)
{
    for (int r = 0; r < (int)j->ranks; r++)
        if (atomic_load(&j->board->stage[r]) != WEFT_STAGE_FINISHED) return true;
    return false;
}

/* If this process dies, so do the ranks: at once where they are its child, and mpirun ends its own,
 * on all machines. */
static weft_status run_once(job *j, bool again, int *code)
{
    words w = {.count = 0};
    weft_child c;
    WEFT_TRY(all_words(j, again, &w));
    weft_orphans_begin(&j->orphans);
    weft_status status =
        weft_child_start((char *const *)(uintptr_t)w.word, j->mpi ? SIGTERM : SIGKILL, &c);
    free(w.word);
    if (status == WEFT_OK) {
        watch(j, &c);
        int state = weft_child_end(&c);
        *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
        if (*code == 0 && !j->options->hosts && unfinished(j)) *code = 1;
        if (*code != 0 && !weft_job_stopped(j, *code, asked)) weft_job_ended(j, state);
    }
    weft_orphans_end(&j->orphans); /* none of them may still write when the job goes on */
    return status;
}

static weft_status run_all(job *j, int *code)
{
    bool again = j->options->resume;
    for (int64_t left = j->options->max_restarts;; left--) {
        j->dead = -1;
        j->no_host = j->together = j->left = j->explained = j->in_block = false;
        j->block[0] = j->lost_host[0] = '\0';
        for (int r = 0; r < WEFT_MAX_RANKS; r++) {
            atomic_store(&j->board->step[r], 0);
            atomic_store(&j->board->stage[r], WEFT_STAGE_NONE);
            memset(j->board->note[r], 0, WEFT_NOTE_SIZE);
        }
        WEFT_TRY(run_once(j, again, code));
        if (weft_job_stopped(j, *code, asked)) {
            if (times > 1 || (asked && *code > 2)) *code = 128 + asked;
            return WEFT_OK;
        }
        if (*code != 0) weft_job_tell_death(j);
        if (left <= 0 || asked || !weft_job_can_restart(j, *code)) return WEFT_OK;
        weft_job_shrink(j);
        weft_job_say(
            j,
            "weft: starting again from the newest checkpoint with %lld rank%s (%lld restart%s "
            "left)",
            (long long)j->ranks, j->ranks == 1 ? "" : "s", (long long)left - 1,
            left == 2 ? "" : "s");
        again = true;
    }
}

/* Signals that ask for the end come here while a job runs; one that is ignored (nohup) stays so. */
static const int asking[] = {SIGINT, SIGTERM, SIGHUP};
enum { ASKING = WEFT_COUNT(asking) };

static void catch_signals(struct sigaction before[ASKING])
{
    struct sigaction action = {.sa_handler = on_signal};
    asked = times = 0;
    for (int i = 0; i < ASKING; i++) {
        sigaction(asking[i], NULL, &before[i]);
        if (asking[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
            sigaction(asking[i], &action, NULL);
    }
}

weft_status weft_job_run(const weft_train_options *options, const char *program,
                         char *const *arguments, weft_job_fn tell, void *user, int *code)
{
    job j = {.options = options,
             .program = program,
             .arguments = arguments,
             .tell = tell,
             .user = user,
             .mpi = strcmp(options->engine, "mpi") == 0,
             .ranks = WEFT_MAX(options->ranks, (int64_t)1)};
    struct sigaction before[ASKING];
    char where[128];
    int file;
    if (j.mpi) WEFT_TRY(find_mpirun(&j));
    WEFT_TRY(weft_board_make(where, sizeof(where), &j.board, &file));
    setenv(WEFT_BOARD_VARIABLE, where, 1);
    setenv(WEFT_SUPERVISED_VARIABLE, "1", 1);
    if (j.mpi) { /* containers run as root */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    catch_signals(before);
    weft_status status = run_all(&j, code);
    for (int i = 0; i < ASKING; i++) sigaction(asking[i], &before[i], NULL);
    unsetenv(WEFT_SUPERVISED_VARIABLE);
    unsetenv(WEFT_BOARD_VARIABLE);
    weft_board_unmap(j.board);
    close(file);
    return status;
}
