/* The engine processes: builds the command lines of a coordinator, of servers and of learners,
 * which run weft coordinator, weft server and weft join. */
#include "train/engine/engine.h"

#include <stdio.h>

#include "actor/net.h"
#include "exchange/exchange.h"
#include "train/elastic/elastic.h"
#include "train/trainer.h"
#include "weft/device.h"

/* The processes of a job. */
typedef struct process_plan {
    weft_context *context;
    const weft_train_options *options;
    int64_t mesh;               /* ranks of a learner */
    double failure_timeout;     /* after so many seconds without a heartbeat a member is removed */
    weft_socket_folder sockets; /* of all processes */
    char address[160];          /* of the coordinator */
    weft_job_part *parts;
    int count;
} process_plan;

/* --- invalid options --- */

static weft_status refuse(const char *option, const char *value, const char *why)
{
    return weft_fail(WEFT_ERR_ARGUMENT, "%s '%s' and engine processes contradict each other: %s",
                     option, value, why);
}

static weft_status fits(weft_context *context, const weft_train_options *o)
{
    WEFT_TRY(weft_train_check_devices(context, o, (int)o->job.ranks));
    if (o->job.hosts)
        return refuse("hosts", o->job.hosts, "several machines need --engine mpi, or weft join");
    if (o->parallel.place)
        return refuse("place", o->parallel.place,
                      "each learner has one place, its own rank; give --mesh pipeline=N to cut "
                      "learners into stages, or leave one of them out");
    if (o->parallel.profile)
        return refuse("profile", "true", "learners must be cut alike; leave one of them out");
    return weft_train_check_stages(context, &o->parallel);
}

/* --- command lines --- */

enum { OWN_WORDS = 8 };

typedef struct command_line {
    char **words;
    int count;
} command_line;

static weft_status add(command_line *s, const char *name, const char *value)
{
    WEFT_TRY(weft_format(&s->words[s->count], "--%s=%s", name, value));
    s->count++;
    return WEFT_OK;
}

static bool is_learner(const process_plan *p, const weft_job_part *part)
{
    (void)p;
    return part->role == WEFT_PART_LEARNER;
}

static bool is_silent(const process_plan *p, const weft_job_part *part)
{
    return !is_learner(p, part) || part->slot > 0;
}

static weft_status own_threads(const process_plan *p, const weft_job_part *part, char **value)
{
    (void)part;
    int64_t threads = p->options->where.threads;
    if (threads == 0) threads = weft_default_threads((int)p->options->job.ranks, NULL);
    return weft_format(value, "%lld", (long long)threads);
}

static weft_status own_ranks(const process_plan *p, const weft_job_part *part, char **value)
{
    (void)part;
    return weft_format(value, "%lld", (long long)p->mesh);
}

static weft_status set(const process_plan *p, const weft_job_part *part, char **value)
{
    (void)part;
    (void)p;
    return weft_strdup("true", value);
}

/* The devices of --device go to the ranks of all learners in turn. A coordinator has the list, by
 * which it chooses the layout of the parameters. */
static weft_status own_devices(const process_plan *p, const weft_job_part *part, char **value)
{
    int64_t ranks = is_learner(p, part) ? p->mesh : 1;
    weft_text text = {0};
    weft_status status = WEFT_OK;
    for (int64_t r = 0; r < ranks && status == WEFT_OK; r++) {
        char *device = NULL;
        status = weft_device_of_rank(p->context, p->options->where.device,
                                     (int)(part->slot * ranks + r), &device);
        if (status == WEFT_OK) weft_text_add(&text, "%s%s", r ? "," : "", device);
        free(device);
    }
    if (status == WEFT_OK) return weft_text_take(&text, value);
    free(text.data);
    return status;
}

static bool trains(const process_plan *p, const weft_job_part *part)
{
    (void)p;
    return part->role != WEFT_PART_COORDINATOR;
}

/* Options with a value of their own in some processes of a job: `of` says in which, NULL in all.
 * `value` NULL: these do not get the option. Processes that bind their ranks to cores would all
 * choose the same cores. */
static const struct {
    const char *option;
    bool (*of)(const process_plan *p, const weft_job_part *part);
    weft_status (*value)(const process_plan *p, const weft_job_part *part, char **value);
} own_values[] = {
    {"threads", NULL, own_threads},  {"ranks", is_learner, own_ranks}, {"quiet", is_silent, set},
    {"no-bind", NULL, set},          {"metrics", is_silent, NULL},     {"trace", is_silent, NULL},
    {"device", trains, own_devices},
};

/* Sets *value to the option's value in this process; NULL: the process does not get the option. */
static weft_status value_of(const process_plan *p, const weft_job_part *part, const weft_option *o,
                            char **value)
{
    *value = NULL;
    for (size_t i = 0; i < WEFT_COUNT(own_values); i++)
        if (strcmp(own_values[i].option, o->name) == 0 &&
            (!own_values[i].of || own_values[i].of(p, part)))
            return own_values[i].value ? own_values[i].value(p, part, value) : WEFT_OK;
    return weft_options_get(weft_train_rows, p->options, o->name, value);
}

static weft_cluster_kind kind_of(weft_part_role role)
{
    return role == WEFT_PART_COORDINATOR ? WEFT_CLUSTER_COORDINATOR
           : role == WEFT_PART_SERVER    ? WEFT_CLUSTER_SERVER
                                         : WEFT_CLUSTER_LEARNER;
}

static weft_status add_options(const process_plan *p, const weft_job_part *part, command_line *s)
{
    for (const weft_option *o = weft_train_rows; o->name; o++) {
        char *value;
        if (!weft_cluster_takes(kind_of(part->role), o->name)) continue;
        WEFT_TRY(value_of(p, part, o, &value));
        weft_status status = value ? add(s, o->name, value) : WEFT_OK;
        weft_free(value);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

static weft_status write_part(const process_plan *p, weft_job_part *part)
{
    static const char *const commands[] = {"coordinator", "server", "join"};
    command_line s = {0};
    char timeout[32];
    int rows = 0;
    while (weft_train_rows[rows].name) rows++;
    WEFT_TRY(WEFT_NEW(&part->words, rows + OWN_WORDS));
    s.words = part->words;
    WEFT_TRY(weft_strdup(commands[part->role], &s.words[s.count]));
    s.count++;
    if (part->role == WEFT_PART_COORDINATOR) {
        weft_real_text(p->failure_timeout, timeout, sizeof(timeout));
        WEFT_TRY(add(&s, "listen", p->address));
        WEFT_TRY(add(&s, "failure-timeout", timeout));
    } else {
        WEFT_TRY(weft_strdup(p->address, &s.words[s.count]));
        s.count++;
    }
    return add_options(p, part, &s);
}

/* The end of the sentence that reports the loss of a server: it held the only copy of its ranges.
 * NULL: the ranges have replicas. */
static const char *only_copy(const weft_train_options *o, int servers)
{
    if (o->parallel.replicas > 0 && servers > 1) return NULL;
    return o->output.checkpoint
               ? "the only copy of its parameters (--servers 2 --replicas 1 keeps another one)"
               : "the only copy of its parameters (--servers 2 --replicas 1 keeps another one); "
                 "nothing of the run was saved, since no --checkpoint was given";
}

/* --- the plan --- */

/* Bounds of the failure timeout, in seconds. Heartbeats are sent once a second, so a timeout below
 * the lower bound would remove members that are only slow. */
static const double LEAST_FAILURE_TIMEOUT = 3, MOST_FAILURE_TIMEOUT = 10;

static weft_status make(const weft_context *context, process_plan *p)
{
    const weft_train_options *o = p->options;
    const weft_exchange_ops *ops;
    int learners;
    WEFT_TRY(weft_train_learners(o, o->job.ranks, &p->mesh, &learners));
    WEFT_TRY(weft_exchange_is_elastic(context, o->parallel.exchange, &ops));
    WEFT_TRY(fits(p->context, o));
    p->failure_timeout =
        WEFT_MIN(WEFT_MAX(o->job.timeout / 3, LEAST_FAILURE_TIMEOUT), MOST_FAILURE_TIMEOUT);
    int servers = WEFT_EXCHANGE_HAS(ops, serve) ? (int)WEFT_MAX(o->parallel.servers, 1) : 0;
    WEFT_TRY(weft_socket_folder_make(&p->sockets));
    (void)snprintf(p->address, sizeof(p->address), "ipc://%s/coordinator", p->sockets.path);
    WEFT_TRY(WEFT_NEW(&p->parts, 1 + servers + learners));
    p->count = 1 + servers + learners;
    for (int i = 0; i < p->count; i++) {
        weft_job_part *part = &p->parts[i];
        part->role = i == 0         ? WEFT_PART_COORDINATOR
                     : i <= servers ? WEFT_PART_SERVER
                                    : WEFT_PART_LEARNER;
        if (part->role == WEFT_PART_SERVER) part->only_copy = only_copy(o, servers);
        part->slot = i == 0 ? 0 : i <= servers ? i - 1 : i - 1 - servers;
        WEFT_TRY(write_part(p, part));
    }
    return WEFT_OK;
}

static void done(void *plan)
{
    process_plan *p = plan;
    for (int i = 0; p && i < p->count; i++) {
        char **words = p->parts[i].words;
        for (int k = 0; words && words[k]; k++) weft_free(words[k]);
        free(words);
    }
    if (!p) return;
    free(p->parts);
    weft_socket_folder_remove(&p->sockets);
    free(p);
}

static weft_status plan(const weft_context *context, const weft_train_options *options,
                        weft_job_options *job, void **out)
{
    process_plan *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    *out = p;
    p->context = (weft_context *)(uintptr_t)context; /* devices are named, and none is opened */
    p->options = options;
    WEFT_TRY(make(context, p));
    job->parts = p->parts;
    job->part_count = p->count;
    job->failure_timeout = p->failure_timeout;
    return WEFT_OK;
}

static weft_status check(const weft_context *context, const weft_train_options *options)
{
    weft_job_options job;
    void *p = NULL;
    weft_status status = plan(context, options, &job, &p);
    done(p);
    return status;
}

const weft_train_engine weft_train_engine_processes = {.name = "processes",
                                                       .processes = "processes",
                                                       .members = true,
                                                       .check = check,
                                                       .plan = plan,
                                                       .done = done};
