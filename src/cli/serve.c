/* weft serve: loads models and serves them over HTTP until a signal arrives. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "weft/output.h"
#include "weft/server.h"

enum { MOST_MODELS = 64 };

/* An argument NAME=CHECKPOINT; an argument without a name is named "model". */
typedef struct word {
    char name[256];
    const char *path;
} word;

static word split(const char *text)
{
    word w = {.name = "model", .path = text};
    const char *equals = strchr(text, '=');
    if (!equals) return w;
    w.path = equals + 1;
    /* A name that is too long remains too long for a model's name, which is refused later. */
    (void)snprintf(w.name, sizeof(w.name), "%.*s", (int)(equals - text), text);
    return w;
}

static weft_status check_names(const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++) {
            word one = split(words[i]), other = split(words[k]);
            if (strcmp(one.name, other.name) != 0) continue;
            fprintf(stderr,
                    "weft: two models are named '%s'; give each a name of its own, "
                    "NAME=CHECKPOINT\n",
                    one.name);
            return WEFT_ERR_ARGUMENT;
        }
    return WEFT_OK;
}

/* A share must be that of a model on the command line; a folder of models may get it later. */
static weft_status check_shares(const weft_server_options *o, const char *const *words, int count)
{
    for (const char *at = o->models ? NULL : o->share; at && *at;) {
        size_t size = strcspn(at, "=,");
        bool found = false;
        for (int i = 0; i < count && !found; i++) {
            word w = split(words[i]);
            found = strlen(w.name) == size && memcmp(w.name, at, size) == 0;
        }
        if (!found) {
            fprintf(stderr, "weft: share names the model '%.*s', which is not served\n", (int)size,
                    at);
            return WEFT_ERR_ARGUMENT;
        }
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return WEFT_OK;
}

/* Loads the models. Every model that an argument names must load; of the folder --models one is
 * enough, or none if the folder is watched. */
static weft_status load(weft_service *service, const weft_server_options *o,
                        const char *const *words, int count)
{
    weft_service_item item;
    bool any = false;
    for (int i = 0; i < count; i++) {
        word w = split(words[i]);
        weft_status status = weft_service_load(service, w.name, w.path);
        if (status != WEFT_OK) {
            (void)report_failure(status);
            return status;
        }
        if (!o->quiet) printf("%s: %s, version 1\n", w.name, w.path);
        any = true;
    }
    if (!o->models) return WEFT_OK;
    weft_status status = weft_service_poll_models(service);
    if (status != WEFT_OK) {
        (void)report_failure(status);
        return status;
    }
    for (int i = count; weft_service_entry(service, i, &item); i++) {
        any = any || item.ready;
        if (item.ready && !o->quiet)
            printf("%s: %s/%s/%lld, version %lld\n", item.name, o->models, item.name,
                   (long long)item.version, (long long)item.version);
    }
    /* A watched folder may get models later. */
    if (any || o->watch > 0) return WEFT_OK;
    fprintf(stderr, "weft: no model in %s could be loaded\n", o->models);
    return WEFT_ERR_IO;
}

static weft_status make_service(weft_context *context, const weft_server_options *o,
                                weft_service **out)
{
    weft_service_options s;
    weft_service_options_init(&s);
    s.device = o->device;
    s.instances = (int)o->instances;
    s.threads = (int)o->threads;
    s.policy = o->policy;
    s.limit = o->limit;
    s.waiting = o->waiting;
    s.shares = o->share;
    s.mesh = o->mesh;
    s.measure = o->measure;
    s.times = o->times;
    s.tune = o->tune;
    s.models = o->models;
    s.all_versions = o->all_versions;
    s.watch = o->watch;
    return weft_service_create(context, &s, out);
}

void print_url(const char *before, const weft_server_options *o, int port)
{
    bool six = strchr(o->host, ':');
    printf("%s%s://%s%s%s:%d", before, o->certificate ? "https" : "http", six ? "[" : "", o->host,
           six ? "]" : "", port);
}

/* --- signals --- */

/* The thread that waits for a signal to end. */
typedef struct end_signal {
    pthread_t thread;
    sigset_t signals;
    /* atomic: the main thread waits for this one; NULL: models are being loaded */
    weft_server *server;
    bool ending; /* atomic: the main thread ends this one */
    bool joined;
} end_signal;

/* Waits for a signal to end, and meanwhile reloads at each SIGHUP. Returns its number. */
static int wait_for_signal(const end_signal *e)
{
    for (int number;;) {
        if (sigwait(&e->signals, &number) != 0) continue;
        if (number != SIGHUP) return number;
        weft_server *server = __atomic_load_n(&e->server, __ATOMIC_ACQUIRE);
        if (server) weft_server_reload(server);
    }
}

/* A signal while models are being loaded ends the process at once, since nobody can have sent it a
 * request yet. */
static void *wait_for_end(void *user)
{
    end_signal *e = user;
    (void)wait_for_signal(e);
    if (!__atomic_load_n(&e->server, __ATOMIC_ACQUIRE) &&
        !__atomic_load_n(&e->ending, __ATOMIC_ACQUIRE)) {
        (void)fflush(stdout);
        weft_output_abandon_all(); /* batch times may be being written */
        _exit(0);
    }
    return NULL;
}

/* Blocks SIGTERM, SIGINT and SIGHUP, for all threads that are started later, and begins to wait for
 * them. An ignored SIGHUP stays ignored (nohup). */
static bool begin_wait(end_signal *e)
{
    struct sigaction before;
    sigemptyset(&e->signals);
    sigaddset(&e->signals, SIGTERM);
    sigaddset(&e->signals, SIGINT);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaddset(&e->signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &e->signals, NULL);
    if (pthread_create(&e->thread, NULL, wait_for_end, e) == 0) return true;
    fprintf(stderr, "weft: no thread can be started that waits for signals\n");
    return false;
}

/* Waits for a signal that arrives while the server drains, and ends the process. */
static void *wait_for_second(void *user)
{
    const end_signal *e = user;
    int number = wait_for_signal(e);
    (void)fflush(stdout);
    weft_output_abandon_all();
    _exit(128 + number);
}

/* From now on a signal ends the process at once; if no thread can be started, the server drains to
 * its end. */
static void end_on_second(end_signal *e)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_second, e) == 0) pthread_detach(thread);
}

static void join_wait(end_signal *e)
{
    pthread_join(e->thread, NULL);
    e->joined = true;
}

/* Ends the thread if no signal has. */
static void end_wait(end_signal *e)
{
    if (e->joined) return;
    __atomic_store_n(&e->ending, true, __ATOMIC_RELEASE);
    pthread_kill(e->thread, SIGINT);
    join_wait(e);
}

/* --- serving --- */

/* Serves until a signal arrives, then completes the requests in progress. */
static int answer(weft_service *service, const weft_server_options *o, end_signal *end)
{
    weft_server *server;
    int port, metrics, code = 0;
    weft_status status = weft_server_start(service, o, &server);
    if (status != WEFT_OK) return report_failure(status);
    __atomic_store_n(&end->server, server, __ATOMIC_RELEASE);
    weft_server_ports(server, &port, &metrics);
    if (weft_job_supervised()) {
        print_status_line("built", ""); /* the supervisor prints the ports */
    } else if (!o->quiet) {
        print_url("listening on ", o, port);
        if (metrics >= 0) print_url(" (metrics at ", o, metrics);
        printf(metrics >= 0 ? "/metrics)\n" : "\n");
        flush_stdout();
    }
    join_wait(end);
    __atomic_store_n(&end->server, NULL, __ATOMIC_RELEASE);
    if (!weft_job_supervised()) end_on_second(end); /* a supervisor kills its processes */
    if (!weft_server_drain(server, o->drain)) {
        fprintf(stderr, "weft: some requests were not answered within %g s and are cut off\n",
                o->drain);
        code = 1;
    }
    weft_server_stop(&server);
    return code;
}

/* Each connection needs an open file, and so do models and their loading. */
static void allow_connections(const weft_server_options *o)
{
    const int64_t wanted = o->connections + 256, limit = raise_file_limit(wanted);
    if (limit < wanted && !o->quiet)
        fprintf(stderr,
                "weft: this process may have %lld open files, too few for --connections %lld; "
                "raise the hard limit (ulimit -Hn), or give fewer connections\n",
                (long long)limit, (long long)o->connections);
}

static int load_and_answer(weft_context *context, const weft_server_options *o,
                           const char *const *words, int count, end_signal *end)
{
    weft_service *service = NULL;
    weft_status status = weft_server_share_quota(context, o);
    if (status == WEFT_OK) status = make_service(context, o, &service);
    if (status != WEFT_OK) return report_failure(status);
    status = check_names(words, count);
    if (status == WEFT_OK) status = check_shares(o, words, count);
    if (status == WEFT_OK) status = load(service, o, words, count);
    int code = status == WEFT_OK ? answer(service, o, end) : status == WEFT_ERR_ARGUMENT ? 2 : 1;
    weft_service_destroy(&service);
    return code;
}

static int serve(weft_context *context, const weft_server_options *o, const char *const *words,
                 int count)
{
    end_signal end = {.server = NULL};
    signal(SIGPIPE, SIG_IGN);
    if (!begin_wait(&end)) return 1;
    print_log(context, o->quiet);
    allow_connections(o);
    int code = load_and_answer(context, o, words, count, &end);
    end_wait(&end);
    return code;
}

/* --- simulation --- */

/* Loads the model, if one is given, for its batch times, and prints what to expect. */
static int simulate(weft_context *context, const weft_server_options *o, const char *const *words,
                    int count)
{
    const char *wrong = count > 1 || o->models    ? "takes one model, NAME=CHECKPOINT, or none"
                        : count > 0 && o->service ? "takes a model or --service, not both"
                        : o->processes > 1 ? "is of one process: give its share of the --rate"
                                           : NULL;
    if (wrong) {
        fprintf(stderr, "weft: --simulate %s\nTry 'weft help serve'.\n", wrong);
        return 2;
    }
    if (count == 0) return forecast_policies(context, o, NULL);
    weft_service *service = NULL;
    word w = split(words[0]);
    print_log(context, o->quiet);
    weft_status status = make_service(context, o, &service);
    if (status == WEFT_OK) status = weft_service_load(service, w.name, w.path);
    int code = report_failure(status);
    if (code == 0) {
        weft_servable *servable = weft_service_hold(service, w.name, 0);
        code = forecast_policies(context, o, weft_servable_queue(servable));
        weft_servable_release(&servable);
    }
    weft_service_destroy(&service);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    weft_server_options options = {0};
    const weft_option *table = weft_server_table(context);
    const char *words[MOST_MODELS];
    int count = 0, code;
    weft_status status = weft_options_init(table, &options);
    if (status == WEFT_OK)
        status = weft_options_parse(table, &options, argc, argv, MOST_MODELS, words, &count);
    if (status == WEFT_OK) status = weft_options_check(table, &options);
    if (status != WEFT_OK) {
        code = usage_failure("serve");
    } else if ((code = load_plugins(context, table, &options)) != 0) {
        /* reported */
    } else if (options.simulate) {
        code = simulate(context, &options, words, count);
    } else if (count == 0 && !options.models) {
        fprintf(stderr, "weft: no model is given; add NAME=CHECKPOINT or --models DIR\n"
                        "Try 'weft help serve'.\n");
        code = 2;
    } else if (weft_server_supervises(&options)) {
        code = serve_processes(context, &options, words, count);
    } else {
        code = serve(context, &options, words, count);
    }
    weft_options_free(table, &options);
    return code;
}

const command command_serve = {
    .name = "serve",
    .usage = "[NAME=CHECKPOINT ...] [--models DIR] [options]",
    .summary = "serve trained models over HTTP",
    .text =
        "Requests follow the Open Inference Protocol v2 (REST), with tensors in JSON or binary.\n"
        "The input is x, rows of features as in the training data, or has the names of several\n"
        "inputs; the output is prediction: probabilities of classes, or numbers in the units of\n"
        "the target. Models of the next token continue texts (generate, generate_stream).\n"
        "Requests are computed in batches. The default policy, adaptive, measures batch times and\n"
        "arrivals, and chooses batch size and wait so that the mean latency at the present load\n"
        "is least; nothing is set by hand. After SIGTERM and Ctrl-C the server finishes\n"
        "outstanding requests and ends; a second signal ends it at once. --models DIR serves a\n"
        "model repository, DIR/NAME/VERSION, of checkpoints or exported folders. With --processes\n"
        "a supervisor runs several processes on one port and restarts those that die. --simulate\n"
        "serves nothing and prints the expected latency of each policy at a load, with the batch\n"
        "times of a model that is named, or of --service.",
    .examples =
        "  weft serve digits=runs/mnist/latest\n"
        "  weft serve digits=runs/mnist iris=runs/iris --instances 2 --policy adaptive:goal=p99\n"
        "  weft serve --models models --watch 10 --control\n"
        "  weft serve --simulate --rate 800 --service 1=1.2,8=2.5,64=12\n",
    .table = weft_server_table,
    .run = run,
    .computes = true,
};
