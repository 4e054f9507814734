/* The table of the options of `weft serve`. */
#include <stddef.h>

#include "base/registry.h"
#include "base/option_rows.h"
#include "load/load.h"
#include "serve/batch/batch_internal.h"
#include "weft/serve.h"

#define AT(field_)                                                                                 \
    .size = sizeof(weft_server_options), .offset = offsetof(weft_server_options, field_)

static const weft_option rows[] = {
    OPTION("policy", "SPEC", TEXT_IS("adaptive"), AT(policy), .letter = 'p', .group = "Batches",
           .forms = WEFT_KIND_POLICY,
           .help = "batching policy: when a batch starts, and how many requests it holds: "),
    OPTION("limit", "ROWS", WHOLE("64", 1, 4096), AT(limit), .letter = 'b',
           .help = "largest batch, in rows"),
    OPTION("waiting", "ROWS", WHOLE("4096", 1, 1e9), AT(waiting),
           .help =
               "rows that may be queued per model; further requests are refused with 503, and one "
               "of more rows with 400"),
    OPTION("share", "LIST", TEXT, AT(share),
           .help =
               "weights of models that wait for the same instances, MODEL=N with commas between "
               "them; a model that is not named has 1"),
    OPTION(
        "patience", "S", REAL("0", 0, 1e6), AT(patience),
        .help =
            "queue timeout in seconds: a request whose batch has not started by then is refused, "
            "and so is one on its arrival whose batch cannot have started by then; 0: none"),
    OPTION("instances", "N", WHOLE("1", 1, 64), AT(instances), .letter = 'n', .group = "Machine",
           .help = "number of batches computed concurrently, each on its own cores"),
    OPTION(
        "processes", "P", WHOLE("1", 1, 64), AT(processes),
        .help =
            "number of processes on the port (SO_REUSEPORT), each with its share of the cores; one "
            "that dies is restarted. Each has limits of its own: --connections, --waiting, "
            "--rate-limit"),
    OPTION(
        "threads", "N", WHOLE("0", 0, 1024), AT(threads), .letter = 't',
        .help =
            "threads of an instance, or of each of its ranks; 0: the cores of the process divided "
            "by instances and ranks, or one if the largest batch is small (50 MFLOP)"),
    OPTION("mesh", "SPEC", TEXT, AT(mesh),
           .help =
               "mesh of ranks that compute a batch together, as in training: tensor=2, domain=2, "
               "pipeline=2, data=2, or products"),
    OPTION("device", "NAME", TEXT_IS("cpu"), AT(device), .help = "device of the models"),
    OPTION(
        "measure", "S", REAL("2", 0, 3600), AT(measure),
        .help =
            "seconds to measure batch times when a model is loaded; 0: none, they are learned from "
            "the first batches"),
    OPTION("times", "DIR", TEXT, AT(times),
           .help =
               "folder for the measured batch times, as NAME.json, or none; default: times.json "
               "beside the model, if it is writable"),
    OPTION(
        "tune", "FILE", TEXT, AT(tune),
        .help =
            "choose kernels by times measured on this machine, in this file; what it lacks for a "
            "model is measured when the model is loaded"),
    OPTION("models", "DIR", TEXT, AT(models), .group = "Models",
           .help =
               "model repository, DIR/NAME/VERSION, of which the newest version of each model is "
               "served"),
    OPTION("all-versions", NULL, FLAG, AT(all_versions), .with = "models",
           .help = "serve all versions in DIR at the same time"),
    OPTION("watch", "S", REAL("0", 0, 86400), AT(watch), .with = "models",
           .help =
               "seconds between scans of DIR for new, changed and removed versions; 0: no scans"),
    OPTION("host", "ADDRESS", TEXT_IS("127.0.0.1"), AT(host), .group = "Network",
           .help =
               "address to listen on; 0.0.0.0: all addresses of this machine, reachable from the "
               "network"),
    OPTION("port", "N", WHOLE("8000", 0, 65535), AT(port), .help = "port; 0: any free one"),
    OPTION(
        "metrics-port", "N", WHOLE("8002", -1, 65535), AT(metrics_port),
        .help =
            "separate port for the metrics; 0: any free one; -1: none. /metrics of the main port "
            "always has them"),
    OPTION("certificate", "FILE", TEXT, AT(certificate),
           .help =
               "serve TLS (https) with this certificate chain, PEM, the server certificate first"),
    OPTION(
        "key", "FILE", TEXT, AT(key), .with = "certificate",
        .help =
            "private key of the certificate, PEM, which other users may not read (its group may)"),
    OPTION(
        "tokens", "FILE", TEXT, AT(tokens),
        .help =
            "bearer tokens: lines MODEL TOKEN, * for all models, in a file that is readable by its "
            "owner alone"),
    OPTION(
        "log", "FILE", TEXT, AT(log),
        .help =
            "append a line of JSON per request, except good health checks, to a file; -: standard "
            "output. SIGHUP opens it again"),
    OPTION(
        "cors", "LIST", TEXT, AT(cors),
        .help =
            "origins whose pages may ask from a browser, as https://a.example, with commas between "
            "them; *: all"),
    OPTION("proxies", "LIST", TEXT, AT(proxies),
           .help = "addresses and networks of trusted proxies, with commas between them: for their "
                   "requests the log and the rate limit name the client in X-Forwarded-For"),
    OPTION("rate-limit", "N", REAL("0", 0, 1e9), AT(rate_limit),
           .help = "requests per second from one address; more are refused with 429; 0: no limit"),
    OPTION("headers", "KIB", WHOLE("16", 4, 4096), AT(headers),
           .help = "largest request header, in KiB"),
    OPTION("body", "MIB", WHOLE("64", 1, 4096), AT(body), .help = "largest request body, in MiB"),
    OPTION("connections", "N", WHOLE("12000", 1, 1000000), AT(connections),
           .help = "largest number of open connections"),
    OPTION("timeout", "S", REAL("90", 1, 86400), AT(timeout),
           .help =
               "seconds without progress after which a connection is closed; longer than the idle "
               "time of a proxy before the server, which is 60 in many"),
    OPTION("receive", "S", REAL("300", 1, 86400), AT(receive),
           .help =
               "seconds in which a request must have arrived and a response must have been read in "
               "full"),
    OPTION(
        "drain", "S", REAL("30", 0, 86400), AT(drain),
        .help =
            "seconds after SIGTERM in which outstanding requests may finish, also those whose body "
            "is still arriving"),
    OPTION("control", NULL, FLAG, AT(control), .help = "let clients load and unload models"),
    OPTION("quiet", NULL, FLAG, AT(quiet), .letter = 'q', .help = "print errors only"),
    OPTION("simulate", NULL, FLAG, AT(simulate), .group = "Simulation",
           .help =
               "print the expected latency of each policy from a simulation, and serve nothing"),
    OPTION("rate", "N", REAL("100", 1e-6, 1e9), AT(rate), .with = "simulate",
           .help = "requests per second"),
    OPTION("arrivals", "SPEC", TEXT_IS("poisson"), AT(arrivals), .forms = WEFT_KIND_ARRIVALS,
           .with = "simulate", .help = "arrival process: "),
    OPTION("service", "LIST", TEXT, AT(service), .with = "simulate",
           .help =
               "batch times in milliseconds as ROWS=MS, separated by commas; default: those of the "
               "model, or without one 1=1,8=2,64=10"),
    OPTION("requests", "N", WHOLE("50000", 100, 1e8), AT(requests), .with = "simulate",
           .help = "number of simulated requests"),
    OPTION("seed", "N", WHOLE("1", 0, 1e15), AT(seed), .with = "simulate",
           .help = "seed of the arrivals"),
    {.name = NULL},
};

static weft_status add_names(weft_context *context, void **out)
{
    *out = NULL;
    WEFT_TRY(weft_context_add_table(context, rows));
    return weft_policies_register(context);
}

weft_status weft_serve_register(const weft_context *context)
{
    static const weft_singleton_kind kind = {.make = add_names};
    void *nothing;
    WEFT_NEED(context);
    WEFT_TRY(weft_load_register(context));
    return weft_context_singleton(context, &kind, &nothing);
}

const weft_option *weft_server_table(const weft_context *context)
{
    static const weft_option none[] = {{.name = NULL}};
    WEFT_NEED_ELSE(NULL, context);
    return weft_serve_register(context) == WEFT_OK ? weft_context_table(context, rows) : none;
}
