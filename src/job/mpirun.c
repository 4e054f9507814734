/* Detects the version of mpirun, and builds the command line of a job. */
#include <stdio.h>
#include <stdlib.h>

#include "job/supervisor.h"

weft_status weft_job_find_mpirun(job *j)
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
