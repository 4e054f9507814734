/* weft serve --simulate: forecasts latency and utilisation of several batching policies under a
 * load, by a simulation in virtual time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/forecast.h"
#include "weft/server.h"

enum { MOST_SIZES = 32, MOST_INSTANCES = 64 };

/* The times of batches, and by how much several at a time slow each other down. */
typedef struct curve {
    int64_t rows[MOST_SIZES];
    double times[MOST_SIZES], slowdown[MOST_INSTANCES];
    int count, instances;
} curve;

/* Reads batch times "ROWS=MS,ROWS=MS,..."; false: the text is invalid. */
static bool read_service(const char *text, curve *c)
{
    for (c->count = 0; *text; c->count++) {
        char *end;
        if (c->count == MOST_SIZES) return false;
        c->rows[c->count] = strtoll(text, &end, 10);
        if (end == text || *end != '=') return false;
        text = end + 1;
        c->times[c->count] = strtod(text, &end) / 1e3;
        if (end == text || (*end && *end != ',') || (*end == ',' && !end[1])) return false;
        text = *end ? end + 1 : end;
    }
    return c->count > 0;
}

static int forecast_one(weft_context *context, weft_forecast_options *f, const char *policy)
{
    weft_forecast got;
    char refused[64] = "";
    f->policy = policy;
    weft_status status = weft_forecast_run(context, f, NULL, NULL, &got);
    if (status != WEFT_OK) return report_failure(status);
    int used = 0;
    if (got.refused > 0)
        used = snprintf(refused, sizeof(refused), "%.1f %% refused  ",
                        100 * (double)got.refused / (double)f->requests);
    if (got.late > 0)
        (void)snprintf(refused + used, sizeof(refused) - (size_t)used, "%.1f %% late",
                       100 * (double)got.late / (double)f->requests);
    printf("%-28s %9.2f %9.2f %9.2f %9.2f %7.1f %6.0f %% %7lld %9.2f  %s\n", policy, got.mean * 1e3,
           got.p50 * 1e3, got.p95 * 1e3, got.p99 * 1e3, got.rows, 100 * got.utilisation,
           (long long)got.min_rows, got.max_delay * 1e3, refused);
    return 0;
}

/* Takes the batch times of 1, 2, 3, 4, 6, 8, 12 and so on up to `limit` rows from a queue. */
static void take_curve(weft_batch_queue *queue, int64_t limit, curve *c)
{
    for (int64_t rows = 1; rows < limit; rows += (rows & (rows - 1)) ? rows / 3 : (rows + 1) / 2)
        c->rows[c->count++] = rows;
    c->rows[c->count++] = limit;
    for (int i = 0; i < c->count; i++)
        c->times[i] = weft_batch_queue_batch_time(queue, c->rows[i], 1);
    double alone = c->times[c->count - 1];
    for (int e = 0; e < MOST_INSTANCES; e++) c->slowdown[e] = 1;
    for (int e = 0; e < c->instances && alone > 0; e++)
        c->slowdown[e] = weft_batch_queue_batch_time(queue, limit, e + 1) / alone;
}

static int read_times(const weft_server_options *o, weft_batch_queue *queue, curve *c)
{
    const char *service = o->service ? o->service : "1=1,8=2,64=10";
    if (queue) {
        take_curve(queue, o->limit, c);
        if (c->times[0] > 0) return 0;
        fprintf(stderr,
                "weft: the batch times of the model are not known; give --measure above 0\n");
        return 1;
    }
    if (read_service(service, c)) return 0;
    fprintf(stderr,
            "weft: service is '%s', must be ROWS=MS with commas between them, such as "
            "1=1.2,8=2.5\nTry 'weft help serve'.\n",
            service);
    return 2;
}

int forecast_policies(weft_context *context, const weft_server_options *o, weft_batch_queue *queue)
{
    static const char *const others[] = {"none", "greedy", "fixed:wait=1000,max=8",
                                         "fixed:wait=5000,max=32"};
    curve c = {.instances = (int)o->instances};
    weft_forecast_options f;
    int code = read_times(o, queue, &c);
    if (code != 0) return code;
    weft_forecast_options_init(&f);
    f.curve_rows = c.rows;
    f.curve_times = c.times;
    f.curve_sizes = c.count;
    f.slowdown = queue ? c.slowdown : NULL;
    f.rate = o->rate;
    f.arrivals = o->arrivals;
    f.executors = c.instances;
    f.limit = o->limit;
    f.waiting = o->waiting;
    f.queue_timeout = o->patience;
    f.requests = o->requests;
    f.seed = (uint64_t)o->seed;
    printf(
        "%g requests a second (%s), %d instance%s, batches of up to %lld rows; latencies in ms\n",
        f.rate, f.arrivals, f.executors, weft_plural(f.executors), (long long)f.limit);
    printf("%-28s %9s %9s %9s %9s %7s %8s %7s %9s\n", "policy", "mean", "p50", "p95", "p99", "rows",
           "busy", "need", "wait");
    code = forecast_one(context, &f, o->policy);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others) && code == 0; i++)
        if (strcmp(others[i], o->policy) != 0) code = forecast_one(context, &f, others[i]);
    return code;
}
