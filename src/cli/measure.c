/* weft measure: measures this machine for predictions. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "machine_use.h"
#include "weft/estimate.h"

typedef struct showing {
    bool terminal;
    bool supervised; /* and the supervisor does not know yet that all ranks are there */
} showing;

static void on_measured(void *user, const char *what, double done)
{
    showing *s = user;
    if (s->supervised) print_status_line("built", "");
    s->supervised = false;
    if (s->terminal) printf(CLEAR_LINE "%3.0f %%  %s", 100 * done, what);
    flush_stdout();
}

/* Notes of the small networks say nothing about this machine. */
static void on_warning(void *user, weft_log_level level, const char *text)
{
    (void)user;
    if (level <= WEFT_LOG_WARNING) fprintf(stderr, "weft: %s\n", text);
}

/* --- transfers between processes --- */

static void ignore(void *user, const char *line)
{
    (void)user;
    (void)line;
}

/* Options of a job with so many ranks of MPI; hosts NULL: on this machine. */
static weft_status fill_job(weft_context *context, int ranks, const char *hosts,
                            weft_train_options *job)
{
    char text[16], mesh[24];
    const weft_option *table = weft_train_table(context);
    (void)snprintf(text, sizeof(text), "%d", ranks);
    (void)snprintf(mesh, sizeof(mesh), "data=%d", ranks);
    weft_status status = weft_train_options_init(context, job);
    if (status == WEFT_OK) status = weft_options_set(table, job, "engine", "mpi");
    if (status == WEFT_OK) status = weft_options_set(table, job, "ranks", text);
    if (status == WEFT_OK) status = weft_options_set(table, job, "mesh", mesh);
    if (status == WEFT_OK && hosts) status = weft_options_set(table, job, "hosts", hosts);
    return status;
}

/* Starts this command as the ranks of a job, with these words. */
static weft_status run_ranks(weft_context *context, const weft_train_options *job, char **words,
                             weft_job_fn fn, int *code)
{
    char program[4096];
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    *code = 1;
    if (size < 0) return WEFT_OK;
    program[size] = '\0';
    return weft_job_run(context, job, program, words, fn, NULL, code);
}

/* A signal that comes while there is a job stops that alone. */
static bool is_stopped(void)
{
    if (weft_job_stopped_by() != 0) wanted_stop.wanted = 1;
    return wanted_stop.wanted != 0;
}

/* Where there is MPI and more than one core, measures transfers between its processes and sets the
 * option `transfers` to their file, which is the caller's to remove. *lacking: this has failed. */
static bool measure_mpi(weft_context *context, weft_measure_options *options, bool *lacking)
{
    char *output = NULL;
    weft_train_options job = {0};
    cpu_set_t mine;
    int cores = sched_getaffinity(0, sizeof(mine), &mine) == 0 ? CPU_COUNT(&mine) : 1, code = 1;
    *lacking = false;
    bool refused = !options->overwrite && access(options->output, F_OK) == 0;
    if (cores < 2 || options->transfers || refused ||
        asprintf(&output, "--output=%s.mpi%ld", options->output, (long)getpid()) < 0)
        return false;
    weft_status status = fill_job(context, cores, NULL, &job);
    bool known = status == WEFT_OK; /* the engine */
    if (status == WEFT_OK) status = weft_job_check(context, &job);
    char *words[] = {"measure", "--engine=mpi", output, NULL};
    if (status == WEFT_OK) status = run_ranks(context, &job, words, ignore, &code);
    bool measured = status == WEFT_OK && code == 0;
    *lacking = known && !measured && !is_stopped();
    if (!measured) unlink(strchr(output, '=') + 1);
    if (measured)
        status = weft_options_set(weft_measure_table(context), options, "transfers",
                                  strchr(output, '=') + 1);
    weft_options_free(weft_train_table(context), &job);
    free(output);
    return measured && status == WEFT_OK;
}

/* --- several machines --- */

static int count_hosts(const char *hosts)
{
    int count = 1;
    for (; *hosts; hosts++) count += *hosts == ',';
    return count;
}

/* Starts a rank on each of the hosts; the command line of the ranks is that of this command, and
 * one further word, unless it is NULL. */
static weft_status run_on_hosts(weft_context *context, const weft_train_options *job, int argc,
                                char **argv, char *further, int *code)
{
    char **words = calloc((size_t)argc + 4, sizeof(*words));
    int count = 0;
    if (!words) return WEFT_ERR_MEMORY;
    words[count++] = "measure";
    for (int i = 0; i < argc; i++) words[count++] = argv[i];
    words[count++] = "--engine=mpi";
    words[count++] = further;
    weft_status status = run_ranks(context, job, words, print_line, code);
    free(words);
    return status;
}

/* Measures the transfers of processes of this machine, then has the ranks measure. */
static weft_status measure_on_hosts(weft_context *context, const weft_train_options *job,
                                    weft_measure_options *options, int argc, char **argv, int *code)
{
    char *transfers = NULL;
    bool lacking, own = measure_mpi(context, options, &lacking);
    if (lacking) fprintf(stderr, "weft: transfers between processes of MPI were not measured\n");
    if (own && asprintf(&transfers, "--transfers=%s", options->transfers) < 0) transfers = NULL;
    *code = 1;
    weft_status status =
        wanted_stop.wanted ? WEFT_OK : run_on_hosts(context, job, argc, argv, transfers, code);
    if (own) unlink(options->transfers);
    free(transfers);
    return status;
}

/* A host that does not answer is told before anything is measured. */
static int run_hosts(weft_context *context, weft_measure_options *options, int argc, char **argv)
{
    weft_train_options job = {0};
    int code = 1, hosts = count_hosts(options->hosts);
    int64_t machines;
    double begun = clock_seconds();
    weft_status status = fill_job(context, hosts, options->hosts, &job);
    if (status == WEFT_OK) status = weft_job_check(context, &job);
    if (status == WEFT_OK)
        status = run_on_hosts(context, &job, argc, argv, options->check ? NULL : "--check", &code);
    bool measures = status == WEFT_OK && code == 0 && !options->check;
    if (measures) status = measure_on_hosts(context, &job, options, argc, argv, &code);
    if (status == WEFT_OK && code != 0 && is_stopped()) code = interrupted_code();
    if (measures && status == WEFT_OK && code == 0)
        status = weft_cluster_machines(options->output, &machines);
    if (status == WEFT_OK && code == 0 && measures)
        printf("%s: %lld machines and the links between them, measured in %.0f s\n",
               options->output, (long long)machines, clock_seconds() - begun);
    else if (status == WEFT_OK && code == 0)
        printf("a process runs on each of %d machines\n", hosts);
    weft_options_free(weft_train_table(context), &job);
    return status == WEFT_OK ? code : report_failure(status);
}

/* spread: 0 where no kernel ran twice. others: share of the cores that other programs took. */
static void tell(const weft_measure_options *options, size_t times, double seconds, double spread,
                 double others)
{
    static const double most_spread = 0.05, most_others = 0.05;
    if (weft_job_rank() < 0) {
        printf("%s: %zu times, measured in %.0f s; ", options->output, times, seconds);
        if (spread > 0)
            printf("two runs of a kernel differ by %.1f %% in the mean\n", 200 * spread);
        else
            printf("no kernel ran twice, so that their differences are not known; give more "
                   "--seconds\n");
    }
    if (others > most_others && !options->hosts)
        fprintf(stderr, "weft: other programs took %.0f %% of the cores while they were measured\n",
                100 * others);
    /* The log names those of several machines that were busy. */
    if ((spread > most_spread || others > most_others) && !options->hosts)
        fprintf(stderr, "weft: the machine was busy or changed its speed while it was measured; "
                        "predictions are as uncertain. Measure again on an idle machine\n");
}

/* Takes the name of the file of `transfers` away, so that it is not left, however this process
 * ends.
 */
static weft_status hide_transfers(weft_context *context, weft_measure_options *options)
{
    char path[64];
    FILE *file = fopen(options->transfers, "re"); /* until this process ends */
    if (!file) return WEFT_OK;                    /* the message has its name */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(file));
    unlink(options->transfers);
    return weft_options_set(weft_measure_table(context), options, "transfers", path);
}

/* Measures in this process. */
static int run_here(weft_context *context, weft_measure_options *options)
{
    size_t times;
    double spread, begun = clock_seconds();
    bool rank = weft_job_rank() >= 0, of_hosts = rank && options->hosts, lacking = false;
    bool supervised = of_hosts && weft_job_supervised();
    showing s = {.terminal = isatty(STDOUT_FILENO) && !rank, .supervised = supervised};
    weft_context_set_log(context, of_hosts && weft_job_rank() == 0 ? on_warning : NULL, NULL);
    if (supervised) print_status_line("started", "");
    weft_status status = WEFT_OK;
    machine_use before = machine_use_now();
    if (!rank && measure_mpi(context, options, &lacking)) status = hide_transfers(context, options);
    if (status == WEFT_OK)
        status = weft_measure(context, options, &wanted_stop, on_measured, &s, &times, &spread);
    machine_use after = machine_use_now();
    if (s.terminal) printf(CLEAR_LINE);
    int code = report_failure(status);
    if (status == WEFT_ERR_INTERRUPTED) code = interrupted_code();
    if (code != 0) return code;
    if (supervised) print_status_line("finished", "");
    tell(options, times, clock_seconds() - begun, spread, machine_use_by_others(&before, &after));
    if (lacking) fprintf(stderr, "weft: transfers between processes of MPI were not measured\n");
    return 0;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_measure_options options = {0};
    int words = 0;
    const weft_option *table = weft_measure_table(context);
    keep_arrays(); /* as processes that exchange messages do */
    weft_status status = weft_options_init(table, &options);
    if (status == WEFT_OK)
        status = weft_options_parse(table, &options, argc, argv, 0, NULL, &words);
    int code = 0;
    catch_signals();
    if (status != WEFT_OK)
        code = usage_failure("measure");
    else if (options.hosts && weft_job_rank() < 0)
        code = run_hosts(context, &options, argc, argv);
    else
        code = run_here(context, &options);
    weft_options_free(table, &options);
    return code;
}

const command command_measure = {
    .name = "measure",
    .usage = "[options]",
    .summary = "measure this machine, to predict the time of runs",
    .text =
        "Trains small networks for some steps, with one rank on all cores and with a rank on\n"
        "each core, and measures the times of their kernels and of transfers between ranks, as\n"
        "threads and, where there is MPI, as its processes. With --hosts each of these machines\n"
        "does so at the same time, and links between them are measured pairwise.\n"
        "Writes a cluster file with this one machine, and the times beside it. weft plan\n"
        "--cluster FILE estimates the time of runs from them, also on clusters of several\n"
        "such machines, which are lines of the file:\n\n"
        "  times: here.yaml.times   measured times of kernels, from the folder of the file\n"
        "  latency: 0.0001          of links between machines, in seconds\n"
        "  bandwidth: 125e6         bytes a second that a machine sends, and that it receives\n"
        "  machines:\n"
        "    - count: 3             equal machines\n"
        "      cores: 8\n"
        "      memory: 16e9         bytes; a run that does not fit is told\n"
        "      speed: 0.5           relative to the measured one; and jitter, slow, slowdown,\n"
        "                           latency and others, as in weft help simulate",
    .examples = "  weft measure -o here.yaml\n"
                "  weft measure -o room.yaml --hosts alpha,beta,gamma\n"
                "  weft plan --cluster here.yaml -n 2 --mesh data=2 --model lenet\n",
    .table = weft_measure_table,
    .run = run,
    .computes = true,
    .tasks = TASKS_RANKS,
};
