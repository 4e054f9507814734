/* weft measure: measures this machine for predictions. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "weft/estimate.h"

static void on_measured(void *user, const char *what, double done)
{
    const bool *terminal = user;
    if (*terminal) printf(CLEAR_LINE "%3.0f %%  %s", 100 * done, what);
    flush_stdout();
}

/* --- transfers between processes --- */

static void ignore(void *user, const char *line)
{
    (void)user;
    (void)line;
}

/* Has ranks of MPI measure their transfers into a file; whether they have. */
static bool run_ranks(weft_context *context, const weft_train_options *job, const char *file)
{
    char program[4096], *output = NULL;
    int code = 1;
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (size < 0 || asprintf(&output, "--output=%s", file) < 0) return false;
    program[size] = '\0';
    char *words[] = {"measure", "--engine=mpi", output, NULL};
    weft_status status = weft_job_run(context, job, program, words, ignore, NULL, &code);
    free(output);
    return status == WEFT_OK && code == 0;
}

/* Where there is MPI and more than one core, measures transfers between its processes and sets the
 * option `transfers` to their file, which is the caller's to remove. *lacking: this has failed. */
static bool measure_mpi(weft_context *context, weft_measure_options *options, bool *lacking)
{
    char ranks[16], mesh[24], *file = NULL;
    const weft_option *table = weft_train_table(context);
    weft_train_options job = {0};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool measured = false, refused = !options->overwrite && access(options->output, F_OK) == 0;
    if (cores < 2 || options->transfers || refused ||
        asprintf(&file, "%s.mpi", options->output) < 0)
        return false;
    (void)snprintf(ranks, sizeof(ranks), "%ld", cores);
    (void)snprintf(mesh, sizeof(mesh), "data=%ld", cores);
    weft_status status = weft_train_options_init(context, &job);
    if (status == WEFT_OK) status = weft_options_set(table, &job, "engine", "mpi");
    if (status == WEFT_OK) status = weft_options_set(table, &job, "ranks", ranks);
    if (status == WEFT_OK) status = weft_options_set(table, &job, "mesh", mesh);
    bool known = status == WEFT_OK; /* the engine */
    if (status == WEFT_OK) status = weft_job_check(context, &job);
    if (status == WEFT_OK) measured = run_ranks(context, &job, file);
    *lacking = known && !measured;
    if (measured)
        status = weft_options_set(weft_measure_table(context), options, "transfers", file);
    weft_options_free(table, &job);
    free(file);
    return measured && status == WEFT_OK;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_measure_options options = {0};
    size_t times;
    double spread, begun = clock_seconds();
    bool terminal = isatty(STDOUT_FILENO) && weft_job_rank() < 0;
    int words = 0;
    const weft_option *table = weft_measure_table(context);
    weft_status status = weft_options_init(table, &options);
    if (status == WEFT_OK)
        status = weft_options_parse(table, &options, argc, argv, 0, NULL, &words);
    if (status != WEFT_OK) {
        weft_options_free(table, &options);
        return usage_failure("measure");
    }
    print_log(context, true);
    catch_signals();
    bool lacking = false, alone = weft_job_rank() < 0;
    bool own = alone && measure_mpi(context, &options, &lacking);
    status = weft_measure(context, &options, &wanted_stop, on_measured, &terminal, &times, &spread);
    if (terminal) printf(CLEAR_LINE);
    if (own) unlink(options.transfers); /* its times are in the table */
    int code = report_failure(status);
    if (status == WEFT_ERR_INTERRUPTED) code = interrupted_code();
    if (code == 0 && alone)
        printf("%s: %zu times, measured in %.0f s; two runs of a kernel differ by %.1f %% in the "
               "mean\n",
               options.output, times, clock_seconds() - begun, 200 * spread);
    if (code == 0 && lacking)
        fprintf(stderr, "weft: transfers between processes of MPI were not measured\n");
    if (code == 0 && spread > 0.05)
        fprintf(stderr, "weft: the machine was busy or changed its speed while it was measured; "
                        "predictions are as uncertain. Measure again on an idle machine\n");
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
        "threads and, where there is MPI, as its processes.\n"
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
                "  weft plan --cluster here.yaml -n 2 --mesh data=2 --model lenet\n",
    .table = weft_measure_table,
    .run = run,
    .computes = true,
    .tasks = TASKS_RANKS,
};
