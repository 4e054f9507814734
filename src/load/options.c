/* The option table of weft load. */
#include <stddef.h>

#include "base/registry.h"
#include "load/load.h"
#include "weft/load.h"

#define TEXT .kind = WEFT_OPT_STRING
#define WHOLE .kind = WEFT_OPT_INT
#define REAL .kind = WEFT_OPT_REAL
#define FLAG .kind = WEFT_OPT_FLAG, .initial = "false"
#define LOAD(field_)                                                                               \
    .size = sizeof(weft_load_options), .offset = offsetof(weft_load_options, field_)

static const weft_option rows[] = {
    {.name = "rate",
     .letter = 'r',
     .argument = "LIST",
     TEXT,
     LOAD(rate),
     .group = "Load",
     .help =
         "requests per second: 100,200 or 100..800:100 in turn, 100@30 for 30 seconds; default: "
         "100, or a trace as recorded"},
    {.name = "closed",
     .argument = "LIST",
     TEXT,
     LOAD(closed),
     .help =
         "closed loop instead of a rate: this many requests are always outstanding, as in 16 or "
         "1,4,16"},
    {.name = "seconds",
     .letter = 's',
     .argument = "S",
     .initial = "10",
     REAL,
     LOAD(seconds),
     .low = 0.001,
     .high = 1e6,
     .help = "duration of each rate"},
    {.name = "requests",
     .letter = 'n',
     .argument = "N",
     .initial = "0",
     WHOLE,
     LOAD(requests),
     .low = 0,
     .high = 1e12,
     .help = "largest number of requests per rate; 0: given by the duration"},
    {.name = "arrivals",
     .letter = 'a',
     .argument = "WAY",
     TEXT,
     LOAD(arrivals),
     .forms = WEFT_KIND_ARRIVALS,
     .help = "arrival process at a rate; default: poisson: "},
    {.name = "seed",
     .argument = "N",
     .initial = "1",
     WHOLE,
     LOAD(seed),
     .low = 0,
     .high = 9e15,
     .help = "seed of arrivals and inputs"},
    {.name = "warmup",
     .argument = "S",
     .initial = "0",
     REAL,
     LOAD(warmup),
     .low = 0,
     .high = 1e6,
     .help = "seconds of load at the first rate before the measurement begins"},
    {.name = "no-pause",
     FLAG,
     LOAD(no_pause),
     .help = "change from rate to rate without waiting for outstanding requests, as steps of one "
             "load"},
    {.name = "rows",
     .argument = "N",
     .initial = "1",
     WHOLE,
     LOAD(rows),
     .low = 1,
     .high = 1e6,
     .group = "Requests",
     .help = "rows of input per request"},
    {.name = "json-tensors", FLAG, LOAD(json_tensors), .help = "tensors as JSON instead of binary"},
    {.name = "body",
     .argument = "FILE",
     TEXT,
     LOAD(body),
     .help = "send FILE as the body of each request instead of random inputs"},
    {.name = "token",
     .argument = "TEXT",
     TEXT,
     LOAD(token),
     .help = "bearer token, which other users of this machine can see; --token-file hides it"},
    {.name = "token-file",
     .argument = "FILE",
     TEXT,
     LOAD(token_file),
     .help = "file with the bearer token, readable by its owner alone"},
    {.name = "ca",
     .argument = "FILE",
     TEXT,
     LOAD(ca),
     .help = "certificates, PEM, that may sign those of https targets; default: the system's"},
    {.name = "insecure", FLAG, LOAD(insecure), .help = "accept any certificate of https targets"},
    {.name = "connections",
     .letter = 'c',
     .argument = "N",
     .initial = "1024",
     WHOLE,
     LOAD(connections),
     .low = 1,
     .high = 65536,
     .help = "largest number of connections, which are opened when needed and kept open"},
    {.name = "timeout",
     .argument = "S",
     .initial = "10",
     REAL,
     LOAD(timeout),
     .low = 0.001,
     .high = 1e6,
     .help = "seconds after the due time at which a request counts as failed"},
    {.name = "svg",
     .argument = "FILE",
     TEXT,
     LOAD(svg),
     .group = "Output",
     .help = "plot latency quantiles as SVG"},
    {.name = "trace-out",
     .argument = "FILE",
     TEXT,
     LOAD(trace_out),
     .help = "write a line of CSV per request: due time, latency, status"},
    {.name = "json", FLAG, LOAD(json), .help = "print JSON"},
    {.name = "quiet",
     .letter = 'q',
     FLAG,
     LOAD(quiet),
     .help = "print the results only, without progress"},
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
