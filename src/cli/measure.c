/* weft measure: measures this machine for predictions. */
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "weft/estimate.h"

static void on_measured(void *user, const char *what, double done)
{
    const bool *terminal = user;
    if (*terminal) printf(CLEAR_LINE "%3.0f %%  %s", 100 * done, what);
    flush_stdout();
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_measure_options options = {0};
    size_t times;
    double spread, begun = clock_seconds();
    bool terminal = isatty(STDOUT_FILENO);
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
    status = weft_measure(context, &options, &wanted_stop, on_measured, &terminal, &times, &spread);
    if (terminal) printf(CLEAR_LINE);
    int code = report_failure(status);
    if (status == WEFT_ERR_INTERRUPTED) code = interrupted_code();
    if (code == 0)
        printf("%s: %zu times, measured in %.0f s; two runs of a kernel differ by %.1f %% in the "
               "mean\n",
               options.output, times, clock_seconds() - begun, 200 * spread);
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
    .text = "Trains small networks for some steps, with one rank on all cores and with a rank on\n"
            "each core, and measures the times of their kernels and of transfers between ranks.\n"
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
    .tasks = TASKS_ALONE,
};
