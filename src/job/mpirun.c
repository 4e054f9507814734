/* Detects the version of mpirun, and builds the command line of a job. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "job/supervisor.h"

/* Whether a folder of PATH has the program. */
static bool is_installed(const char *program)
{
    char *folders, *rest = NULL;
    const char *path = getenv("PATH");
    bool found = false;
    if (weft_strdup(path ? path : "/usr/bin:/bin", &folders) != WEFT_OK) return true;
    for (char *one = strtok_r(folders, ":", &rest); one && !found;
         one = strtok_r(NULL, ":", &rest)) {
        char *file;
        if (weft_format(&file, "%s/%s", one, program) != WEFT_OK) break;
        found = access(file, X_OK) == 0;
        free(file);
    }
    free(folders);
    return found;
}

/* The first line of a text that is neither empty nor a rule of dashes. */
static const char *first_words(const char *text, int *size)
{
    while (*text && (text[0] == '-' || isspace((unsigned char)text[0]))) text++;
    *size = (int)strcspn(text, "\n");
    return text;
}

/* Fails since mpirun does not say its version: it is not installed, or this machine cannot run it,
 * as at a limit of files or processes. `said`: what came in place of the version. */
static weft_status fail_mpirun(const char *said)
{
    if (!is_installed("mpirun"))
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "engine mpi needs mpirun, which was not found; install it (apt-get "
                         "install openmpi-bin) or use --engine threads");
    int size;
    said = first_words(said, &size);
    if (size == 0) said = first_words("it prints nothing", &size);
    return weft_fail(
        WEFT_ERR_IO,
        "mpirun is installed, but 'mpirun --version' fails here: %.*s; a limit of open "
        "files or processes may be too low (ulimit -n, ulimit -u)",
        size, said);
}

weft_status weft_job_find_mpirun(job *j)
{
    char text[4096] = "", rest[512];
    FILE *pipe = popen("mpirun --version 2>&1", "re");
    if (!pipe) return fail_mpirun(strerror(errno));
    size_t size = fread(text, 1, sizeof(text) - 1, pipe);
    text[size] = '\0';
    while (fread(rest, 1, sizeof(rest), pipe) > 0) continue; /* the version of MPICH is long */
    if (pclose(pipe) != 0 || !text[0]) return fail_mpirun(text);
    j->open_mpi = strstr(text, "Open MPI") != NULL || strstr(text, "OpenRTE") != NULL;
    if (!j->open_mpi && weft_job_is_step())
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "engine is mpi, but srun has started this command, and this mpirun cannot "
                         "start ranks inside a step of srun; let srun start the ranks (srun -n%lld "
                         "--mpi=pmi2), or leave srun out",
                         (long long)j->ranks);
    return WEFT_OK;
}

/* Most words that are added to the user's command line. */
enum { OWN_WORDS = 32 };

static void add(weft_command *w, const char *word)
{
    w->word[w->count++] = word;
}

/* Adds mpirun and its options. Open MPI would count slots and bind each rank to a core, neither of
 * which suits ranks with several threads, so options turn that off. */
static void mpirun_words(const job *j, weft_command *w)
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
        add(w, WEFT_STATUS_PAGE_VARIABLE);
        add(w, "-x");
        add(w, WEFT_SUPERVISED_VARIABLE);
        if (getenv("WEFT_PLUGINS")) {
            add(w, "-x");
            add(w, "WEFT_PLUGINS");
        }
    }
    /* Inside a step of srun mpirun would start daemons by srun, which waits for the resources that
     * the step holds. A task is one machine, on which mpirun starts the ranks itself. */
    if (j->open_mpi && weft_job_is_step()) {
        add(w, "--mca");
        add(w, "plm");
        add(w, "^slurm");
        add(w, "--mca");
        add(w, "ras");
        add(w, "^slurm");
    }
    if (!w->hosts) return;
    add(w, j->open_mpi ? "--host" : "-hosts");
    add(w, w->hosts);
}

weft_status weft_job_find_model(job *j)
{
    char *path;
    WEFT_TRY(weft_format(&path, "%s/latest/model.yaml", j->options->checkpoint));
    if (weft_file_exists(path) && !j->model)
        j->model = path;
    else
        free(path);
    return WEFT_OK;
}

weft_status weft_job_command(const job *j, bool resume, weft_command *w)
{
    int given = 0;
    while (j->arguments[given]) given++;
    *w = (weft_command){0};
    if (j->hosts.count > 0) WEFT_TRY(weft_hosts_text(&j->hosts, &w->hosts));
    WEFT_TRY(WEFT_NEW(&w->word, given + OWN_WORDS));
    (void)snprintf(w->numbers[1], sizeof(w->numbers[1]), "%lld", (long long)j->ranks);
    if (j->mpi) mpirun_words(j, w);
    add(w, j->program);
    for (int i = 0; j->arguments[i]; i++) add(w, j->arguments[i]);
    add(w, "--ranks");
    add(w, w->numbers[1]);
    if (j->model) {
        add(w, "--model");
        add(w, j->model);
    }
    if (j->mesh[0]) {
        add(w, "--mesh");
        add(w, j->mesh);
    }
    if (j->alone && j->options->zero > 0) { /* there is one rank to shard over */
        add(w, "--zero");
        add(w, "0");
    }
    if (resume) add(w, "--resume");
    return WEFT_OK;
}

void weft_command_free(weft_command *w)
{
    free(w->word);
    weft_free(w->hosts);
    *w = (weft_command){0};
}
