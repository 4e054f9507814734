/* The option table of weft load. */
#include <stddef.h>

#include "base/option_rows.h"
#include "base/registry.h"
#include "load/load.h"
#include "weft/load.h"

#define LOAD(field_)                                                                               \
    .size = sizeof(weft_load_options), .offset = offsetof(weft_load_options, field_)

static const weft_option rows[] = {
    OPTION(
        "rate", "LIST", TEXT, LOAD(rate), .letter = 'r', .group = "Load",
        .help =
            "requests per second: 100,200 or 100..800:100 in turn, 100@30 for 30 seconds; default: "
            "100, or a trace as recorded"),
    OPTION(
        "closed", "LIST", TEXT, LOAD(closed),
        .help =
            "closed loop instead of a rate: this many requests are always outstanding, as in 16 or "
            "1,4,16"),
    OPTION("seconds", "S", REAL("10", 0.001, 1e6), LOAD(seconds), .letter = 's',
           .help = "duration of each rate"),
    OPTION("requests", "N", WHOLE("0", 0, 1e12), LOAD(requests), .letter = 'n',
           .help = "largest number of requests per rate; 0: given by the duration"),
    OPTION("arrivals", "WAY", TEXT, LOAD(arrivals), .letter = 'a', .forms = WEFT_KIND_ARRIVALS,
           .help = "arrival process at a rate; default: poisson: "),
    OPTION("seed", "N", WHOLE("1", 0, 9e15), LOAD(seed), .help = "seed of arrivals and inputs"),
    OPTION("warmup", "S", REAL("0", 0, 1e6), LOAD(warmup),
           .help = "seconds of load at the first rate before the measurement begins"),
    OPTION("no-pause", NULL, FLAG, LOAD(no_pause),
           .help =
               "change from rate to rate without waiting for outstanding requests, as steps of one "
               "load"),
    OPTION("rows", "N", WHOLE("1", 1, 1e6), LOAD(rows), .group = "Requests",
           .help = "rows of input per request"),
    OPTION("json-tensors", NULL, FLAG, LOAD(json_tensors),
           .help = "tensors as JSON instead of binary"),
    OPTION("body", "FILE", TEXT, LOAD(body),
           .help = "send FILE as the body of each request instead of random inputs"),
    OPTION("token", "TEXT", TEXT, LOAD(token),
           .help =
               "bearer token, which other users of this machine can see; --token-file hides it"),
    OPTION("token-file", "FILE", TEXT, LOAD(token_file),
           .help = "file with the bearer token, readable by its owner alone"),
    OPTION("ca", "FILE", TEXT, LOAD(ca),
           .help =
               "certificates, PEM, that may sign those of https targets; default: the system's"),
    OPTION("insecure", NULL, FLAG, LOAD(insecure),
           .help = "accept any certificate of https targets"),
    OPTION("connections", "N", WHOLE("1024", 1, 65536), LOAD(connections), .letter = 'c',
           .help = "largest number of connections, which are opened when needed and kept open"),
    OPTION("timeout", "S", REAL("10", 0.001, 1e6), LOAD(timeout),
           .help = "seconds after the due time at which a request counts as failed"),
    OPTION("svg", "FILE", TEXT, LOAD(svg), .group = "Output",
           .help = "plot latency quantiles as SVG"),
    OPTION("trace-out", "FILE", TEXT, LOAD(trace_out),
           .help = "write a line of CSV per request: due time, latency, status"),
    OPTION("json", NULL, FLAG, LOAD(json), .help = "print JSON"),
    OPTION("quiet", NULL, FLAG, LOAD(quiet), .letter = 'q',
           .help = "print the results only, without progress"),
    {.name = NULL},
};

static weft_status add_names(weft_context *context, void **out)
{
    *out = NULL;
    WEFT_TRY(weft_context_add_table(context, rows));
    return weft_arrivals_register(context);
}

weft_status weft_load_register(const weft_context *context)
{
    static const weft_singleton_kind kind = {.make = add_names};
    void *nothing;
    return weft_context_singleton(context, &kind, &nothing);
}

const weft_option *weft_load_table(const weft_context *context)
{
    static const weft_option none[] = {{.name = NULL}};
    WEFT_NEED_ELSE(NULL, context);
    return weft_load_register(context) == WEFT_OK ? weft_context_table(context, rows) : none;
}
