/* weft coordinator, weft server and weft join: the commands that run the processes of an elastic
 * run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "elastic.h"

/* --- options --- */

/* Whether an address is an in-process one; prints an error if so. Such an address connects threads
 * of one process, and each command is a process of its own. */
static bool is_inside(const char *address)
{
    char shown[64];
    if (!address || strncmp(address, "inproc:", strlen("inproc:")) != 0) return false;
    fprintf(stderr,
            "weft: %s is an address inside of one process, so no other process can be reached; "
            "give tcp://HOST:PORT or ipc://PATH\n",
            weft_printable(address, shown, sizeof(shown)));
    return true;
}

int member_begin(weft_context *context, weft_cluster_kind kind, const char *name, int argc,
                 char **argv, const char **words, int most, weft_cluster_options *o)
{
    const weft_option *table = weft_cluster_table(context, kind);
    int count = 0;
    memset(o, 0, sizeof(*o));
    weft_status status = weft_cluster_options_init(context, kind, o);
    if (status == WEFT_OK) status = weft_options_parse(table, o, argc, argv, most, words, &count);
    if (status == WEFT_OK && count < most && kind != WEFT_CLUSTER_COORDINATOR) {
        fprintf(stderr, "weft: %s needs %s\nTry 'weft help %s'.\n", name,
                count ? "the name or number of a member, as weft status prints them"
                      : "the address of a coordinator, tcp://HOST:PORT",
                name);
        return 2;
    }
    if (status == WEFT_OK) status = weft_options_check(table, o);
    if (status == WEFT_OK && (is_inside(o->listen) || (most > 0 && is_inside(words[0])))) return 2;
    if (status != WEFT_OK && weft_job_supervised()) {
        print_status_line(weft_status_name(status), weft_last_message());
        return 2;
    }
    if (status != WEFT_OK) return usage_failure(name);
    print_log(context, o->train.show.quiet);
    int code = load_plugins(context, table, o);
    if (code == 0) catch_signals();
    return code;
}

int member_end(weft_context *context, weft_cluster_options *o, weft_status status)
{
    weft_cluster_options_free(context, o);
    if (status == WEFT_OK) return 0;
    print_status_line(weft_status_name(status), weft_last_message());
    if (status == WEFT_ERR_INTERRUPTED) return interrupted_code();
    return status == WEFT_ERR_ARGUMENT ? 2 : 1;
}

/* --- weft coordinator --- */

/* The coordinator's log: whether it prints, and its last printed lines. */
typedef struct member_log {
    bool quiet, addressed;
    int64_t event;   /* the last printed event */
    char state[128]; /* the last printed state of the run */
} member_log;

/* Prints the clock time of an event `ago` seconds ago. A restarted coordinator learns of events
 * that happened before its start. */
static void print_time(double ago)
{
    char text[16];
    time_t then = time(NULL) - (time_t)(ago + 0.5);
    struct tm local;
    if (localtime_r(&then, &local) && strftime(text, sizeof(text), "%H:%M:%S", &local))
        printf("%s ", text);
}

/* Prints the events that are new since the last call. The status keeps only the latest events; the
 * number of those that were dropped between two calls is printed. */
static void print_events(member_log *log, const weft_cluster_status *s)
{
    int64_t first = s->event_count ? s->events[0].number : log->event + 1;
    if (first > log->event + 1) {
        long long more = (long long)(first - log->event - 1);
        print_time(0);
        printf("%lld more member%s joined or left\n", more, weft_plural(more));
    }
    for (int i = 0; i < s->event_count; i++) {
        if (s->events[i].number <= log->event) continue;
        log->event = s->events[i].number;
        print_time(s->events[i].ago);
        printf("%s\n", s->events[i].text);
    }
}

/* Prints the state of the run, if it differs from the last printed one. */
static void print_state(member_log *log, const weft_cluster_status *s)
{
    char state[sizeof(log->state)], text[64];
    if (s->fault)
        (void)snprintf(state, sizeof(state), "the run has failed");
    else if (s->over && s->count == 0)
        (void)snprintf(state, sizeof(state), "the run is over");
    else if (s->over)
        (void)snprintf(state, sizeof(state), "all steps are done; the members leave");
    else if (s->running)
        (void)snprintf(state, sizeof(state), "the run is under way");
    else
        (void)snprintf(state, sizeof(state), "the run waits for members: %s",
                       count_members(s, text, sizeof(text)));
    if (strcmp(state, log->state) == 0) return;
    memcpy(log->state, state, sizeof(state));
    print_time(0);
    printf("%s\n", state);
}

/* Prints news of the members, after the coordinator's address at the first call. Output is flushed,
 * since scripts may wait for the line with the address. */
static void on_members(void *user, const char *address, const weft_cluster_status *status)
{
    member_log *log = user;
    if (log->quiet) return;
    if (!log->addressed) {
        printf("coordinator at %s\n", address);
        print_run(status);
    }
    log->addressed = true;
    print_events(log, status);
    print_state(log, status);
    flush_stdout();
}

static const weft_option *coordinator_table(const weft_context *context)
{
    return weft_cluster_table((weft_context *)(uintptr_t)context, WEFT_CLUSTER_COORDINATOR);
}

static int run_coordinator(weft_context *context, int argc, char **argv)
{
    weft_cluster_options o;
    const char *file = NULL;
    int code =
        member_begin(context, WEFT_CLUSTER_COORDINATOR, "coordinator", argc, argv, &file, 0, &o);
    if (code) {
        weft_cluster_options_free(context, &o);
        return code;
    }
    member_log log = {.quiet = o.train.show.quiet};
    weft_status status = weft_coordinator_run(context, &o, &wanted_stop, on_members, &log);
    return member_end(context, &o, status);
}

const command command_coordinator = {
    .name = "coordinator",
    .usage = "[--listen ADDRESS] [options of weft train]",
    .summary = "coordinate an elastic run, whose learners and servers join and leave",
    .text =
        "Coordinates an elastic run. Takes the options of weft train; -n, --mesh and --servers\n"
        "are the numbers of learners and servers with which the run begins, and the data are\n"
        "only compared with those of the learners. The coordinator does not train: servers join\n"
        "with weft server, learners with weft join, and they continue if the coordinator fails.\n"
        "With --exchange gossip there are no servers. It ends when the run is complete.",
    .examples = "  weft coordinator -n 2 --exchange server:policy=async --servers 1 --data "
                "glyphs:size=16\n"
                "  weft coordinator --listen 'tcp://*:7070' --key c.key --allow allowed -n 4 \\\n"
                "    --exchange server:policy=ssp,bound=3 --servers 2 --replicas 1\n",
    .table = coordinator_table,
    .run = run_coordinator,
};

/* --- weft server --- */

static const weft_option *server_table(const weft_context *context)
{
    return weft_cluster_table((weft_context *)(uintptr_t)context, WEFT_CLUSTER_SERVER);
}

static int run_server(weft_context *context, int argc, char **argv)
{
    weft_cluster_options o;
    const char *address = NULL;
    keep_arrays();
    int code = member_begin(context, WEFT_CLUSTER_SERVER, "server", argc, argv, &address, 1, &o);
    if (code) {
        weft_cluster_options_free(context, &o);
        return code;
    }
    return member_end(context, &o, weft_server_run(context, address, &o, &wanted_stop));
}

const command command_server = {
    .name = "server",
    .usage = "tcp://HOST:PORT [--listen ADDRESS]",
    .summary = "host a part of the parameters of an elastic run",
    .text =
        "Joins the run of the coordinator at this address as a server. The coordinator assigns\n"
        "its ranges of the parameters and their update rule. The server ends when the run ends.\n"
        "At Ctrl-C or SIGTERM it hands its ranges over to the other servers and leaves. While it\n"
        "has the only copy of a range, or the coordinator or the server with the other copy does\n"
        "not answer, it says so and goes on; a second signal ends it at once.",
    .examples = "  weft server tcp://127.0.0.1:7070\n",
    .table = server_table,
    .run = run_server,
    .computes = true,
};

/* --- weft join --- */

static const weft_option *join_table(const weft_context *context)
{
    return weft_cluster_table((weft_context *)(uintptr_t)context, WEFT_CLUSTER_LEARNER);
}

/* A removed learner joins again with exponential backoff. The learner gives up after MOST_ATTEMPTS
 * attempts, which are counted anew after LONG_ENOUGH seconds of training. */
enum { MOST_ATTEMPTS = 6, LONG_ENOUGH = 60 };

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits before an attempt to join again, twice as long each time; false: a signal asks the process
 * to stop. */
static bool wait_before(int attempt)
{
    double until = seconds_now() + 0.25 * (1 << attempt);
    while (!wanted_stop.wanted && seconds_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return !wanted_stop.wanted;
}

static void print_rejoining(const weft_cluster_options *o, double quiet_seconds, int slot)
{
    char after[48] = "";
    if (quiet_seconds > 0)
        (void)snprintf(after, sizeof(after), " after %.0f s without a heartbeat", quiet_seconds);
    if (o->train.show.quiet) return;
    flush_stdout();
    fprintf(stderr, "weft: removed from the run%s; joining again as learner %d\n", after, slot);
}

/* Joins the run and trains. Joins at once again if another learner took the slot in the meantime or
 * the coordinator was replaced, and with --rejoin, after a wait, if the run has removed this
 * learner; at most MOST_ATTEMPTS times. */
static weft_status take_part(weft_context *context, const char *address,
                             const weft_cluster_options *o)
{
    weft_trainer *trainer = NULL;
    double quiet_seconds, began = seconds_now();
    weft_status status = weft_trainer_join(context, address, o, &wanted_stop, &trainer);
    if (status == WEFT_OK) status = run_trainer(trainer, weft_trainer_options(trainer));
    for (int attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
        if (status != WEFT_ERR_PEER || !trainer) break;
        if (weft_trainer_was_overtaken(trainer)) {
            status = weft_trainer_rejoin(context, address, o, &wanted_stop, &trainer);
            if (status == WEFT_OK) status = run_trainer(trainer, weft_trainer_options(trainer));
            continue;
        }
        if (!o->rejoin || !weft_trainer_was_lost(trainer, &quiet_seconds)) break;
        if (seconds_now() - began > LONG_ENOUGH) attempt = 1;
        if (!wait_before(attempt)) {
            status = WEFT_ERR_INTERRUPTED;
            break;
        }
        began = seconds_now();
        status = weft_trainer_rejoin(context, address, o, &wanted_stop, &trainer);
        if (status != WEFT_OK) break;
        print_rejoining(o, quiet_seconds, weft_trainer_slot(trainer));
        status = run_trainer(trainer, weft_trainer_options(trainer));
    }
    weft_trainer_destroy(&trainer);
    return status;
}

static int run_join(weft_context *context, int argc, char **argv)
{
    weft_cluster_options o;
    const char *address = NULL;
    keep_arrays();
    int code = member_begin(context, WEFT_CLUSTER_LEARNER, "join", argc, argv, &address, 1, &o);
    if (code) {
        weft_cluster_options_free(context, &o);
        return code;
    }
    return member_end(context, &o, take_part(context, address, &o));
}

const command command_join = {
    .name = "join",
    .usage = "tcp://HOST:PORT --data SPEC",
    .summary = "train as a learner of an elastic run",
    .text =
        "Joins the run of the coordinator at this address as a learner: model, options and\n"
        "parameters come from the run, the data must have the same shape. The learner begins at\n"
        "the current step of the run and may leave at any time (Ctrl-C, weft leave); the other\n"
        "members continue. With -n and --mesh it is a mesh of several ranks, whatever the\n"
        "meshes of other learners are. If the ranks share the parameters out (tensor,\n"
        "pipeline), rank 0 holds all parameters beside its shard.",
    .examples =
        "  weft join tcp://127.0.0.1:7070 --data glyphs:size=16\n"
        "  weft join 'tcp://10.0.0.1:7070#KEY' --key alice.key --data idx:mnist -n 2 --mesh "
        "data=2\n",
    .table = join_table,
    .run = run_join,
    .computes = true,
};
