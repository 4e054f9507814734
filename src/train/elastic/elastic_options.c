/* The option tables of the processes of elastic runs. Each kind of process takes some rows of weft
 * train, and options of its own, such as --listen and --key. */
#include <math.h>
#include <stddef.h>

#include "base/settings.h"
#include "base/base.h"
#include "job/job.h"
#include "train/elastic/elastic.h"
#include "base/option_rows.h"

#define OWN(field_) .offset = offsetof(weft_cluster_options, field_)

_Static_assert(offsetof(weft_cluster_options, train) == 0, "rows of weft train fit as they are");

static const weft_option own_rows[] = {
    OPTION("listen", "ADDRESS", TEXT, OWN(listen), .group = "Connections",
           .help =
               "address for other members: tcp://HOST:PORT, with * for all interfaces; default: "
               "tcp://127.0.0.1:7070 for a coordinator; for a server, and for a learner of gossip, "
               "any "
               "free port, of all interfaces with --key or --open-unencrypted; a range such as "
               "tcp://*:7100-7199 is the first port that is free"),
    OPTION("key", "FILE", TEXT, OWN(key), .group = "Connections",
           .help =
               "secret key of this process (weft keygen); with it all TCP traffic is encrypted and "
               "authenticated"),
    OPTION("allow", "FILE", TEXT, OWN(allow), .with = "key",
           .help = "file of the public keys that are admitted, one per line"),
    OPTION(
        "open-unencrypted", NULL, FLAG, OWN(open_unencrypted),
        .help =
            "without keys: accept connections from other machines and connect to them; any process "
            "that reaches the port can join and read the traffic"),
    OPTION("failure-timeout", "SECONDS", REAL("10", 1, 1e6), OWN(failure_timeout),
           .formerly = "silence",
           .help = "seconds without a heartbeat after which a member is removed from the run"),
    OPTION("rejoin", NULL, FLAG, OWN(rejoin),
           .help =
               "if this learner was removed because its heartbeats failed to arrive in time, join "
               "again as a new member, with the parameters of the run"),
    {.name = NULL},
};

/* The options that each kind of process chooses for itself. */
static const char LEARNER[] =
    "data,ranks,mesh,device,threads,no-bind,timeout,check-collectives,"
    "checkpoint,checkpoint-every,keep,evaluate-every,metric,resume,drop-state,"
    "metrics,trace,quiet,progress";
static const char SERVER[] = "device,threads,timeout,quiet";
static const char GUEST[] = "timeout,quiet";
/* The options that a coordinator does not use, since it does not train. */
static const char NOT_COORDINATOR[] =
    "engine,hosts,checkpoint-every,keep,evaluate-every,metric,metrics,"
    "trace,progress,max-restarts,profile,no-bind,"
    "check-collectives,place";

bool weft_cluster_is_own(const char *option)
{
    return weft_is_listed(LEARNER, option) || weft_is_listed(NOT_COORDINATOR, option);
}

bool weft_cluster_takes(weft_cluster_kind kind, const char *option)
{
    switch (kind) {
    case WEFT_CLUSTER_COORDINATOR: return !weft_is_listed(NOT_COORDINATOR, option);
    case WEFT_CLUSTER_SERVER: return weft_is_listed(SERVER, option);
    case WEFT_CLUSTER_LEARNER: return weft_is_listed(LEARNER, option);
    case WEFT_CLUSTER_GUEST: return weft_is_listed(GUEST, option);
    }
    return false;
}

#define OF(kind) (1U << WEFT_CLUSTER_##kind)
/* The kinds of process that have an own row; all have those that are not listed. */
static const struct {
    const char *option;
    unsigned kinds;
} own_kinds[] = {
    {"listen", OF(COORDINATOR) | OF(SERVER) | OF(LEARNER)},
    {"allow", OF(COORDINATOR) | OF(SERVER)},
    {"rejoin", OF(LEARNER)},
    {"failure-timeout", OF(COORDINATOR)},
};

/* Rows that have another default (NULL: the same) or another help for some kinds of process. */
static const struct {
    const char *option;
    unsigned kinds;
    const char *initial, *help;
} changes[] = {
    {"timeout", ~OF(COORDINATOR), "60",
     "give up after this many seconds without a message from the run"},
    {"resume", OF(COORDINATOR), NULL,
     "the run resumes from DIR/latest; without a checkpoint there, this command ends"},
    {"resume", ~OF(COORDINATOR), NULL,
     "begin with DIR/latest, from which the run resumes; without a checkpoint there, this command "
     "ends, since it never begins with fresh weights"},
    {"checkpoint", OF(COORDINATOR), NULL,
     "with --resume, which it requires: the folder whose newest checkpoint the run resumes from; "
     "at "
     "least one learner must load it, too"},
};

static bool takes_own(weft_cluster_kind kind, const char *option)
{
    for (size_t i = 0; i < WEFT_COUNT(own_kinds); i++)
        if (strcmp(own_kinds[i].option, option) == 0) return own_kinds[i].kinds >> kind & 1;
    return true;
}

static bool has(weft_cluster_kind kind, const char *option)
{
    for (const weft_option *o = own_rows; o->name; o++)
        if (strcmp(o->name, option) == 0) return takes_own(kind, option);
    return weft_cluster_takes(kind, option);
}

/* Adds an option to the table of a kind of process. If the option needs another one (`with`) that
 * this kind lacks, that condition is dropped. */
static void add_row(weft_option *table, int *count, const weft_option *row, weft_cluster_kind kind)
{
    weft_option *o = &table[(*count)++];
    *o = *row;
    if (o->with && !has(kind, o->with)) o->with = NULL;
    for (size_t i = 0; i < WEFT_COUNT(changes); i++) {
        if (strcmp(changes[i].option, o->name) != 0 || !(changes[i].kinds >> kind & 1)) continue;
        if (changes[i].initial) o->initial = changes[i].initial;
        o->help = changes[i].help;
    }
}

static weft_status make_table(weft_context *context, weft_cluster_kind kind, void **out)
{
    const weft_option *train = weft_train_table(context), *o;
    weft_option *table;
    int count = 0;
    for (o = train; o->name;) o++;
    WEFT_TRY(WEFT_NEW(&table, (size_t)(o - train) + WEFT_COUNT(own_rows)));
    const char *group = NULL;
    for (o = train; o->name; o++) {
        if (o->group) group = o->group;
        if (!weft_cluster_takes(kind, o->name)) continue;
        add_row(table, &count, o, kind);
        table[count - 1].group = group;
        group = NULL;
    }
    for (o = own_rows; o->name; o++)
        if (takes_own(kind, o->name)) add_row(table, &count, o, kind);
    for (int i = 0; i < count; i++) table[i].context = context;
    *out = table;
    return WEFT_OK;
}

static weft_status make_coordinator(weft_context *context, void **out)
{
    return make_table(context, WEFT_CLUSTER_COORDINATOR, out);
}

static weft_status make_server(weft_context *context, void **out)
{
    return make_table(context, WEFT_CLUSTER_SERVER, out);
}

static weft_status make_learner(weft_context *context, void **out)
{
    return make_table(context, WEFT_CLUSTER_LEARNER, out);
}

static weft_status make_guest(weft_context *context, void **out)
{
    return make_table(context, WEFT_CLUSTER_GUEST, out);
}

const weft_option *weft_cluster_table(weft_context *context, weft_cluster_kind kind)
{
    WEFT_NEED_ELSE(NULL, context);
    static const weft_singleton_kind kinds[] = {
        [WEFT_CLUSTER_COORDINATOR] = {make_coordinator, free},
        [WEFT_CLUSTER_SERVER] = {make_server, free},
        [WEFT_CLUSTER_LEARNER] = {make_learner, free},
        [WEFT_CLUSTER_GUEST] = {make_guest, free},
    };
    static const weft_option none[] = {{.name = NULL}};
    void *table;
    if ((unsigned)kind >= WEFT_COUNT(kinds)) {
        (void)!weft_check_index(__func__, "kind", (int)kind, WEFT_COUNT(kinds));
        return NULL;
    }
    return weft_context_singleton(context, &kinds[kind], &table) == WEFT_OK ? table : none;
}

weft_status weft_cluster_options_init(weft_context *context, weft_cluster_kind kind,
                                      weft_cluster_options *o)
{
    WEFT_NEED_AS("context, options", context, o);
    WEFT_TRY(weft_check_index(__func__, "kind", (int)kind, WEFT_CLUSTER_GUEST + 1));
    WEFT_TRY(weft_train_options_init(context, &o->train));
    o->struct_size = sizeof(*o);
    for (const weft_option *row = weft_cluster_table(context, kind); row->name; row++)
        if (row->initial)
            WEFT_TRY(
                weft_options_set(weft_cluster_table(context, kind), o, row->name, row->initial));
    return WEFT_OK;
}

weft_status weft_cluster_options_check(const weft_context *context, const weft_cluster_options *o)
{
    WEFT_TRY(weft_train_options_check(context, &o->train));
    if (o->struct_size != sizeof(*o))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the struct_size of weft_cluster_options is %zu, must be %zu; "
                         "weft_cluster_options_init sets it",
                         o->struct_size, sizeof(*o));
    WEFT_CHECK_ROOM("weft_cluster_options", o);
    const char *const texts[] = {o->listen, o->key, o->allow};
    for (size_t i = 0; i < WEFT_COUNT(texts); i++)
        if (texts[i] && !*texts[i])
            return weft_fail(WEFT_ERR_ARGUMENT, "listen, key or allow is empty; NULL: none");
    /* 0, of processes that are no coordinators: unused. */
    if (!(o->failure_timeout >= 0) || isinf(o->failure_timeout))
        return weft_fail(WEFT_ERR_ARGUMENT, "the failure timeout is %g s, must be 0 or more",
                         o->failure_timeout);
    return WEFT_OK;
}

void weft_cluster_options_free(weft_context *context, weft_cluster_options *o)
{
    WEFT_NEED_VOID_AS("context, options", context, o);
    weft_options_free(weft_train_table(context), &o->train);
    weft_options_free(own_rows, o);
}

weft_status weft_coordinator_check(const weft_train_options *o, const weft_exchange_ops *exchange)
{
    if (o->parallel.zero > 0 && exchange->owns_update)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "zero shards the update over the ranks of a learner, but exchange %s makes "
            "the update itself; give --zero 0",
            exchange->name);
    if (o->parallel.zero == 3)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "zero is 3, which shards the parameters over the data axis, but learners "
                         "that join exchange whole parameters; give --zero 2 or less");
    if (!o->output.checkpoint || o->output.resume || weft_job_slot() >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "checkpoint is '%s', but a coordinator writes no checkpoints and reads one "
                     "only with --resume; give that too, or leave --checkpoint out (weft join "
                     "--checkpoint FOLDER writes them)",
                     o->output.checkpoint);
}

const char *weft_coordinator_advice(const weft_train_options *o)
{
    if (weft_job_slot() < 0)
        return "begin the run again, with --resume and the newest checkpoint of a learner, where "
               "one has saved any (weft join --checkpoint FOLDER)";
    return o->output.checkpoint
               ? "what was saved of the run is in the newest checkpoint, if there is one (--resume)"
               : "nothing of the run was saved, since no --checkpoint was given";
}
