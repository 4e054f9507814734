/* The supervisor of a job: starts its processes, tells who died where and in which step, and starts
 * it again on what is left. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/job.h"
#include "train/train.h"
#include "weft/plan.h"

#define SUPERVISED "WEFT_SUPERVISED"
enum { MOST_WORDS = 512, GRACE = 5 };

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
    if (weft_job_rank() >= 0 || getenv(SUPERVISED)) return false;
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

typedef struct words {
    const char *word[MOST_WORDS];
    int count;
    char numbers[4][32];
} words;

static void add(words *w, const char *word)
{
    if (w->count < MOST_WORDS - 1) w->word[w->count++] = word;
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
        add(w, SUPERVISED);
    }
    if (!j->options->hosts) return;
    add(w, j->open_mpi ? "--host" : "-hosts");
    add(w, j->options->hosts);
}

static void all_words(const job *j, bool again, words *w)
{
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
    w->word[w->count] = NULL;
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

/* Passes on what the ranks say on stderr until the job closes it. */
static void watch(job *j, int errors, pid_t pid)
{
    char line[4096];
    size_t size = 0;
    double since = weft_seconds(), first_end = 0;
    bool killed = false;
    for (;;) {
        struct pollfd waiting = {.fd = errors, .events = POLLIN};
        int ready = poll(&waiting, 1, 200);
        if (!killed && j->mpi && j->ranks > 1 && !j->options->hosts &&
            stuck(j, since, &first_end)) {
            killed = true;
            kill(pid, SIGTERM); /* mpirun then ends its ranks, stopped ones too */
        }
        if (ready < 0 && errno != EINTR) break;
        if (ready <= 0) continue;
        ssize_t got = read(errors, line + size, sizeof(line) - 1 - size);
        if (got <= 0) break;
        size += (size_t)got;
        line[size] = '\0';
        char *next = line;
        for (char *end; (end = strchr(next, '\n')); next = end + 1) {
            *end = '\0';
            weft_job_line(j, next);
        }
        size = strlen(next);
        if (next == line && size == sizeof(line) - 1) size = 0; /* no line is that long */
        memmove(line, next, size);
    }
    line[size] = '\0';
    if (size > 0) weft_job_line(j, line);
    if (j->in_block) weft_job_line(j, "--------------------"); /* it was cut off */
}

static volatile sig_atomic_t child; /* to pass signals on to */

static void pass_on(int number)
{
    if (child > 0) kill((pid_t)child, number);
}

/* Whether a rank left without having come to the end. Ranks of other machines write elsewhere. */
static bool unfinished(const job *j)
{
    for (int r = 0; r < (int)j->ranks; r++)
        if (atomic_load(&j->board->stage[r]) != WEFT_STAGE_FINISHED) return true;
    return false;
}

static weft_status run_once(job *j, bool again, int *code)
{
    int ends[2], state = 0;
    words w = {.count = 0};
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) return weft_fail(WEFT_ERR_IO, "no pipe: %s", strerror(errno));
    all_words(j, again, &w);
    weft_orphans_begin(&j->orphans);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    int failed =
        posix_spawnp(&pid, w.word[0], &actions, NULL, (char *const *)(uintptr_t)w.word, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        weft_orphans_end(&j->orphans);
        return weft_fail(WEFT_ERR_IO, "%s cannot be started: %s", w.word[0], strerror(failed));
    }
    child = pid;
    watch(j, ends[0], pid);
    close(ends[0]);
    while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
    }
    child = 0;
    weft_orphans_end(&j->orphans); /* none of them may still write when the job goes on */
    *code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (*code == 0 && !j->options->hosts && unfinished(j)) *code = 1;
    if (*code != 0) weft_job_ended(j, state);
    return WEFT_OK;
}

/* --- after a death --- */

/* The most ranks, without the lost one, that can go on. Learners are as many as are left. In a mesh
 * the data axis shrinks: the other axes stay whole, and it must divide the virtual workers. Places
 * are the user's. */
static int64_t ranks_left(const job *j)
{
    const weft_train_options *o = j->options;
    int64_t mesh = j->ranks, data = j->ranks, most = j->mpi ? j->ranks - 1 : j->ranks;
    if (o->place || (o->mesh && (weft_mesh_ranks(o->mesh, &mesh) != WEFT_OK ||
                                 weft_mesh_axis(o->mesh, "data", &data) != WEFT_OK)))
        return j->ranks;
    if (o->exchange) {
        if (!o->mesh) mesh = 1;
        return most / mesh > 1 ? most / mesh * mesh : j->ranks;
    }
    int64_t others = mesh / data;
    for (int64_t n = most / others; n >= 1; n--)
        if (o->virtual_workers == 0 || o->virtual_workers % n == 0) return n * others;
    return j->ranks;
}

/* The same mesh with its data axis as long as there are ranks. */
static void shrink_mesh(job *j)
{
    static const char *const axes[] = {"domain", "tensor", "pipeline"};
    const weft_train_options *o = j->options;
    int64_t others = 1, size, all;
    size_t used = 0;
    if (o->exchange || o->place || (o->mesh && weft_mesh_ranks(o->mesh, &all) != WEFT_OK)) return;
    for (size_t i = 0; i < WEFT_COUNT(axes) && o->mesh; i++) {
        if (weft_mesh_axis(o->mesh, axes[i], &size) != WEFT_OK) return;
        others *= size;
        used += (size_t)snprintf(j->mesh + used, sizeof(j->mesh) - used, "%s=%lld,", axes[i],
                                 (long long)size);
    }
    (void)snprintf(j->mesh + used, sizeof(j->mesh) - used, "data=%lld",
                   (long long)(j->ranks / others));
    j->alone = j->ranks == others;
}

static bool can_restart(const job *j, int code)
{
    int64_t *steps = NULL;
    int count = 0;
    if (code == 0 || code == 2 || code == 130 || !j->options->checkpoint) return false;
    if (weft_checkpoint_list(j->options->checkpoint, &steps, &count) != WEFT_OK) return false;
    free(steps);
    return true; /* without a checkpoint it begins anew */
}

static weft_status run_all(job *j, int *code)
{
    bool again = j->options->resume;
    for (int64_t left = j->options->max_restarts;; left--) {
        j->dead = -1;
        j->no_host = j->together = j->left = j->explained = j->in_block = false;
        j->block[0] = '\0';
        for (int r = 0; r < WEFT_MAX_RANKS; r++) {
            atomic_store(&j->board->step[r], 0);
            atomic_store(&j->board->stage[r], WEFT_STAGE_NONE);
            memset(j->board->note[r], 0, WEFT_NOTE_SIZE);
        }
        WEFT_TRY(run_once(j, again, code));
        if (*code != 0) weft_job_tell_death(j);
        if (left <= 0 || !can_restart(j, *code)) return WEFT_OK;
        if (j->dead >= 0) {
            j->ranks = ranks_left(j);
            shrink_mesh(j);
        }
        weft_job_say(
            j,
            "weft: starting again from the newest checkpoint with %lld rank%s (%lld restart%s "
            "left)",
            (long long)j->ranks, j->ranks == 1 ? "" : "s", (long long)left - 1,
            left == 2 ? "" : "s");
        again = true;
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
    const char *folder = getenv("TMPDIR");
    if (j.mpi) WEFT_TRY(find_mpirun(&j));
    WEFT_TRY(weft_format(&j.board_path, "%s/weft-%d-%lld", folder ? folder : "/tmp", (int)getpid(),
                         (long long)(weft_seconds() * 1e6)));
    weft_status status = weft_board_make(j.board_path, &j.board);
    if (status == WEFT_OK) {
        struct sigaction pass = {.sa_handler = pass_on}, old[2];
        setenv(WEFT_BOARD_VARIABLE, j.board_path, 1);
        setenv(SUPERVISED, "1", 1);
        if (j.mpi) { /* containers run as root */
            setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
            setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
        }
        sigaction(SIGINT, &pass, &old[0]);
        sigaction(SIGTERM, &pass, &old[1]);
        status = run_all(&j, code);
        sigaction(SIGINT, &old[0], NULL);
        sigaction(SIGTERM, &old[1], NULL);
        unsetenv(SUPERVISED);
        unsetenv(WEFT_BOARD_VARIABLE);
        weft_board_unmap(j.board);
        unlink(j.board_path);
    }
    free(j.board_path);
    return status;
}
