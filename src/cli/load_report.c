/* Prints the measurements of a load test as a table or as JSON. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "load.h"

static const struct {
    const char *name;
    double at;
} quantiles[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}};
enum { QUANTILES = sizeof(quantiles) / sizeof(quantiles[0]) };

const char *span_text(double seconds, char *out, size_t size)
{
    double us = seconds * 1e6;
    if (us < 999.5)
        (void)snprintf(out, size, "%.*f us", us < 9.95, us);
    else if (us < 999.5e3)
        (void)snprintf(out, size, "%.*f ms", us < 9.995e3 ? 2 : us < 99.95e3, us / 1e3);
    else
        (void)snprintf(out, size, "%.*f s", us < 9.995e6 ? 2 : us < 99.95e6, seconds);
    return out;
}

const char *load_text(const weft_load_result *f, char *out, size_t size)
{
    if (f->closed)
        (void)snprintf(out, size, "%lld at once", (long long)f->closed);
    else if (f->rate > 0)
        (void)snprintf(out, size, "%.6g", f->rate);
    else
        (void)snprintf(out, size, "as recorded");
    return out;
}

double load_achieved(const weft_load_result *f)
{
    return f->seconds > 0 ? (double)f->ok / f->seconds : 0;
}

/* --- the table --- */

static void print_row(const weft_load_result *f)
{
    char text[32];
    printf("%12s %9lld %9lld %7lld %10.6g", load_text(f, text, sizeof(text)), (long long)f->sent,
           (long long)f->ok, (long long)f->failed, load_achieved(f));
    printf(" %9s", f->ok ? span_text(weft_load_mean(&f->latency), text, sizeof(text)) : "-");
    for (int q = 0; q < QUANTILES; q++)
        printf(" %9s", f->ok ? span_text(weft_load_quantile(&f->latency, quantiles[q].at), text,
                                         sizeof(text))
                             : "-");
    printf(" %9s\n", f->ok ? span_text(f->latency.high, text, sizeof(text)) : "-");
}

static void print_failures(const weft_load_result *f)
{
    char text[32];
    for (int i = 0; i < f->failure_kinds; i++) {
        const weft_load_failure *x = &f->failures[i];
        printf("  at %s: %lld request%s failed: ", load_text(f, text, sizeof(text)),
               (long long)x->count, weft_plural(x->count));
        if (x->status)
            printf("status %d%s%s\n", x->status, *x->example ? ", such as: " : "", x->example);
        else
            printf("%s, such as: %s\n", x->what, x->example);
    }
    if (f->resent)
        printf("  at %s: %lld request%s sent again, over connections that the server had closed\n",
               load_text(f, text, sizeof(text)), (long long)f->resent, weft_plural(f->resent));
}

static void print_waits(const weft_load_result *f)
{
    char text[32];
    if (f->waited && !f->closed)
        printf("  at %s: %lld request%s found all connections in use, and waited for one; that is "
               "in these latencies\n",
               load_text(f, text, sizeof(text)), (long long)f->waited, weft_plural(f->waited));
}

/* Prints how late the generator sent requests (send delay); warns if the delay is so long that the
 * latencies are unreliable. */
static void print_lateness(const weft_load *load)
{
    const weft_load_result *f, *worst = NULL;
    char text[32], late[32];
    double most = 0;
    for (int i = 0; (f = weft_load_at(load, i, NULL)); i++) {
        double p99 = weft_load_quantile(&f->send_delay, 0.99);
        if (p99 > most) worst = f;
        if (p99 > most) most = p99;
    }
    if (!worst) return;
    printf("Latencies count from when a request was due. At p99 the load itself was late by %s",
           span_text(most, late, sizeof(late)));
    if (most > 1e-3 && most > weft_load_quantile(&worst->latency, 0.5) / 10)
        printf(" (at %s), which is in\nthese latencies: to trust them take a lower rate, or leave "
               "the load more of the machine",
               load_text(worst, text, sizeof(text)));
    printf(".\n");
}

/* Warns if the load generator itself was the bottleneck. */
static void print_busy(const weft_load *load)
{
    const double MOST = 0.9;
    const weft_load_result *f, *worst = NULL;
    char text[32];
    for (int i = 0; (f = weft_load_at(load, i, NULL)); i++)
        if (f->sent && f->busy > MOST && (!worst || f->busy > worst->busy)) worst = f;
    if (!worst) return;
    printf("At %s the load itself was at work for %.0f %% of the time: this is how much it can "
           "make, rather than how much the\nserver can answer; leave it more of the machine, or "
           "make several loads.\n",
           load_text(worst, text, sizeof(text)), 100 * worst->busy);
}

void print_load_table(const weft_load *load)
{
    const weft_load_result *f;
    printf("%12s %9s %9s %7s %10s %9s", "requests/s", "sent", "ok", "failed", "answered/s", "mean");
    for (int q = 0; q < QUANTILES; q++) printf(" %9s", quantiles[q].name);
    printf(" %9s\n", "max");
    for (int i = 0; (f = weft_load_at(load, i, NULL)); i++)
        if (f->sent) print_row(f);
    for (int i = 0; (f = weft_load_at(load, i, NULL)); i++) {
        print_failures(f);
        print_waits(f);
    }
    print_lateness(load);
    print_busy(load);
}

/* --- JSON --- */

static void json_number(const char *name, double value)
{
    char text[32];
    printf(",\"%s\":%s", name, weft_json_real(value, 9, text, sizeof(text)));
}

static void json_cells(const char *name, const weft_load_histogram *cells)
{
    printf(",\"%s\":{\"count\":%lld", name, (long long)cells->count);
    json_number("mean", weft_load_mean(cells));
    json_number("min", cells->low);
    for (int q = 0; q < QUANTILES; q++)
        json_number(quantiles[q].name, weft_load_quantile(cells, quantiles[q].at));
    json_number("max", cells->high);
    putchar('}');
}

/* Prints the nonempty buckets of the histogram as [i, count]; bucket i has latencies below
 * 1.01^(i+1) us. */
static void json_histogram(const weft_load_histogram *cells)
{
    bool first = true;
    printf(",\"histogram\":[");
    for (int i = 0; i < WEFT_LOAD_BUCKETS; i++) {
        if (!cells->buckets[i]) continue;
        printf("%s[%d,%lld]", first ? "" : ",", i, (long long)cells->buckets[i]);
        first = false;
    }
    printf("]");
}

static void json_row(const weft_load_result *f)
{
    printf("{\"sent\":%lld,\"ok\":%lld,\"failed\":%lld,\"closed\":%lld", (long long)f->sent,
           (long long)f->ok, (long long)f->failed, (long long)f->closed);
    json_number("rate", f->rate);
    json_number("seconds", f->seconds);
    json_number("achieved", load_achieved(f));
    json_number("busy", f->busy);
    printf(",\"rows\":%lld,\"waited\":%lld,\"again\":%lld,\"opened\":%lld", (long long)f->rows,
           (long long)f->waited, (long long)f->resent, (long long)f->opened);
    json_cells("latency", &f->latency);
    json_cells("late", &f->send_delay);
    printf(",\"failures\":[");
    for (int i = 0; i < f->failure_kinds; i++) {
        printf("%s{\"status\":%d,\"what\":", i ? "," : "", f->failures[i].status);
        print_json_string(f->failures[i].what);
        printf(",\"count\":%lld,\"example\":", (long long)f->failures[i].count);
        print_json_string(f->failures[i].example);
        putchar('}');
    }
    putchar(']');
    json_histogram(&f->latency);
    putchar('}');
}

const char *load_arrivals(const weft_load_options *options)
{
    return options->arrivals ? options->arrivals : "poisson";
}

void print_load_json(const weft_load *load, const weft_load_options *options)
{
    const weft_load_result *f;
    const char *model, *where;
    printf("{\"targets\":[");
    for (int i = 0; (model = weft_load_model(load, i, &where)); i++) {
        printf("%s{\"model\":", i ? "," : "");
        print_json_string(model);
        printf(",\"url\":");
        print_json_string(where);
        putchar('}');
    }
    printf("],\"arrivals\":");
    if (options->closed)
        printf("null");
    else
        print_json_string(load_arrivals(options));
    printf(",\"seed\":%lld,\"rates\":[", (long long)options->seed);
    for (int i = 0, shown = 0; (f = weft_load_at(load, i, NULL)); i++) {
        if (!f->sent) continue;
        if (shown++) putchar(',');
        json_row(f);
    }
    printf("]}\n");
}
