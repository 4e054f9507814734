/* weft serve --simulate: forecasts latency and utilisation of several batching policies under a
 * load, by a simulation in virtual time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/forecast.h"
#include "weft/server.h"

enum { MOST_SIZES = 32 };

/* Reads a batch curve "ROWS=MS,ROWS=MS,..."; false: the text is invalid. */
static bool read_curve(const char *text, int64_t *rows, double *times, int *count)
{
    for (*count = 0; *text; ++*count) {
        char *end;
        if (*count == MOST_SIZES) return false;
        rows[*count] = strtoll(text, &end, 10);
        if (end == text || *end != '=') return false;
        text = end + 1;
        times[*count] = strtod(text, &end) / 1e3;
        if (end == text || (*end && *end != ',') || (*end == ',' && !end[1])) return false;
        text = *end ? end + 1 : end;
    }
    return *count > 0;
}

static int forecast_one(weft_context *context, weft_forecast_options *f, const char *policy)
{
    weft_forecast got;
    char refused[32] = "";
    f->policy = policy;
    weft_status status = weft_forecast_run(context, f, NULL, NULL, &got);
    if (status != WEFT_OK) return report_failure(status);
    if (got.refused > 0)
        (void)snprintf(refused, sizeof(refused), "%.1f %% refused",
                       100 * (double)got.refused / (double)f->requests);
    printf("%-28s %9.2f %9.2f %9.2f %9.2f %7.1f %6.0f %% %7lld %9.2f  %s\n", policy, got.mean * 1e3,
           got.p50 * 1e3, got.p95 * 1e3, got.p99 * 1e3, got.rows, 100 * got.utilisation,
           (long long)got.min_rows, got.max_delay * 1e3, refused);
    return 0;
}

int forecast_policies(weft_context *context, const weft_server_options *o)
{
    static const char *const others[] = {"none", "greedy", "fixed:wait=1000,max=8",
                                         "fixed:wait=5000,max=32"};
    int64_t rows[MOST_SIZES];
    double times[MOST_SIZES];
    weft_forecast_options f;
    weft_forecast_options_init(&f);
    if (!read_curve(o->service, rows, times, &f.curve_sizes)) {
        fprintf(stderr,
                "weft: service is '%s', must be ROWS=MS with commas between them, such as "
                "1=1.2,8=2.5\nTry 'weft help serve'.\n",
                o->service);
        return 2;
    }
    f.curve_rows = rows;
    f.curve_times = times;
    f.rate = o->rate;
    f.arrivals = o->arrivals;
    f.executors = (int)o->instances;
    f.limit = o->limit;
    f.waiting = o->waiting;
    f.requests = o->requests;
    f.seed = (uint64_t)o->seed;
    printf(
        "%g requests a second (%s), %d instance%s, batches of up to %lld rows; latencies in ms\n",
        f.rate, f.arrivals, f.executors, weft_plural(f.executors), (long long)f.limit);
    printf("%-28s %9s %9s %9s %9s %7s %8s %7s %9s\n", "policy", "mean", "p50", "p95", "p99", "rows",
           "busy", "need", "wait");
    int code = forecast_one(context, &f, o->policy);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others) && code == 0; i++)
        if (strcmp(others[i], o->policy) != 0) code = forecast_one(context, &f, others[i]);
    return code;
}
