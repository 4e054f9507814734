/* weft load: runs a load test of an inference server, and shows its progress and results. */
#include "load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { MOST_TARGETS = 64 };

typedef struct view {
    const weft_load *load;
    bool bar, drawn;
} view;

static int count_rates(const weft_load *load)
{
    int count = 0;
    while (weft_load_at(load, count, NULL)) count++;
    return count;
}

static void clear(view *v)
{
    if (v->drawn) printf(CLEAR_LINE);
    v->drawn = false;
}

static void tick(void *user, int rate, double seconds)
{
    view *v = user;
    double planned = 0;
    char text[160], what[32];
    const weft_load_result *f = weft_load_at(v->load, rate, &planned);
    int columns = progress_columns();
    if (!v->bar) return;
    if (!f)
        (void)snprintf(text, sizeof(text), "warming up, %.0f s", seconds);
    else
        (void)snprintf(text, sizeof(text),
                       "rate %d of %d (%s), %.0f of %.0f s: %lld sent, %lld ok%s", rate + 1,
                       count_rates(v->load), load_text(f, what, sizeof(what)),
                       seconds < planned ? seconds : planned, planned, (long long)f->sent,
                       (long long)f->ok, seconds > planned ? ", waiting for answers" : "");
    if (columns > 1 && (size_t)columns <= strlen(text)) text[columns - 1] = '\0';
    printf(CLEAR_LINE "%s", text);
    flush_stdout();
    v->drawn = true;
}

static void print_targets(const weft_load *load, const weft_load_options *o)
{
    const char *model, *where;
    for (int i = 0; (model = weft_load_model(load, i, &where)); i++)
        printf("%s at %s\n", model, where);
    if (o->body)
        printf("requests: %s as it is", o->body);
    else
        printf("requests: %lld row%s of random numbers, %s", (long long)o->rows,
               weft_plural(o->rows), o->json_tensors ? "as JSON" : "as binary tensors");
    if (o->closed)
        printf("; the next when one has been answered\n");
    else
        printf("; arrivals: %s\n", load_arrivals(o));
    flush_stdout();
}

/* Returns the exit code: 1, with a message, if no request was answered with status 200. */
static int judge(const weft_load *load)
{
    const weft_load_result *f;
    const weft_load_failure *first = NULL;
    int64_t sent = 0, ok = 0;
    for (int i = 0; (f = weft_load_at(load, i, NULL)); i++) {
        sent += f->sent;
        ok += f->ok;
        if (!first && f->failure_kinds) first = &f->failures[0];
    }
    if (ok > 0) return 0;
    flush_stdout();
    if (!first)
        fprintf(stderr, "weft: no request was due; give more --seconds or a higher --rate\n");
    else
        fprintf(stderr,
                "weft: none of %lld request%s was answered with status 200; the first: %s\n",
                (long long)sent, weft_plural(sent), first->example);
    return 1;
}

static int report(const weft_load *load, const weft_load_options *o, weft_status run,
                  weft_output *picture)
{
    /* Results are printed even if the load was stopped. */
    bool measured = run == WEFT_OK || run == WEFT_ERR_INTERRUPTED;
    if (!measured) return report_failure(run);
    if (o->json)
        print_load_json(load, o);
    else
        print_load_table(load);
    int code = picture ? report_failure(plot_load(load, picture)) : 0;
    if (code == 0) code = judge(load);
    return run == WEFT_ERR_INTERRUPTED ? interrupted_code() : code;
}

static int make_load(weft_context *context, const weft_load_options *o, const char **targets,
                     int count)
{
    weft_load *load = NULL;
    weft_output *picture = NULL;
    if (!suffix_fits("load", "svg", o->svg ? o->svg : "", OTHER_PICTURES, "an SVG picture", ".svg"))
        return 2;
    (void)raise_file_limit(o->connections + 64);
    catch_signals();
    print_log(context, o->quiet);
    weft_status status = weft_load_open(context, o, targets, count, &wanted_stop, &load);
    if (status == WEFT_OK && o->svg)
        status = weft_output_open(o->svg, WEFT_OUTPUT_REPLACE, &picture);
    if (status != WEFT_OK) {
        weft_load_close(&load);
        return status == WEFT_ERR_INTERRUPTED ? interrupted_code() : report_failure(status);
    }
    view v = {.load = load, .bar = !o->quiet && !o->json && isatty(STDOUT_FILENO)};
    if (!o->quiet && !o->json) print_targets(load, o);
    status = weft_load_run(load, tick, &v);
    clear(&v);
    int code = report(load, o, status, picture);
    weft_status closed = weft_output_close(&picture, status == WEFT_OK || code >= EXIT_INTERRUPTED);
    if (code == 0) code = report_failure(closed);
    weft_load_close(&load);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_load_options options = {.rate = NULL};
    const weft_option *table = weft_load_table(context);
    const char *targets[MOST_TARGETS];
    int count = 0, code = 2;
    weft_status status = weft_options_init(table, &options);
    if (status == WEFT_OK)
        status = weft_options_parse(table, &options, argc, argv, MOST_TARGETS, targets, &count);
    if (status == WEFT_OK && count == 0) {
        fprintf(stderr, "weft: load: no target is given; name a server, as in weft load "
                        "http://localhost:8000\nTry 'weft help load'.\n");
    } else {
        code = status == WEFT_OK ? load_plugins(context, table, &options) : usage_failure("load");
        if (code == 0) code = make_load(context, &options, targets, count);
    }
    weft_options_free(table, &options);
    return code;
}

const command command_load = {
    .name = "load",
    .usage = "URL [URL...] [options]",
    .summary = "generate load for an inference server and measure its latency",
    .text =
        "A target is http[s]://HOST:PORT/v2/models/NAME of any server with the Open Inference\n"
        "Protocol v2 over HTTP; without a model, the server's only one. Requests are random\n"
        "inputs of the shape that the model declares; several targets are used in turn.\n\n"
        "At a rate (open loop), each request is sent when it is due, whether or not earlier\n"
        "ones were answered. Latency counts from the due time, so a stalled server cannot hide\n"
        "late requests (coordinated omission). With --closed a fixed number of requests is\n"
        "always outstanding, which measures the capacity of a server; latencies are then those\n"
        "of a saturated server. The table has for each rate the numbers of requests sent,\n"
        "answered with status 200 and failed, and mean, quantiles and maximum of the latency of\n"
        "answered requests. Sent is the sum of ok and failed. Ctrl-C stops early and prints the\n"
        "results so far.",
    .examples = "  weft load http://localhost:8000/v2/models/digits --rate 200 --seconds 30\n"
                "  weft load http://localhost:8000 --rate 100..800:100 --svg latency.svg\n"
                "  weft load http://localhost:8000 --closed 1,4,16 --rows 8\n"
                "  weft load http://localhost:8000 --rate 50@20,400@5,50@20 --no-pause\n"
                "  weft load http://localhost:8000 --arrivals bursts:size=10 --json\n",
    .table = weft_load_table,
    .run = run,
};
