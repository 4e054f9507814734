/* The supervisor of a server of several processes, which share one port: reserves the ports, builds
 * the command line of each process, and runs the processes as a job, which restarts those that
 * fail. */
#include <unistd.h>

#include "base/settings.h"
#include "job/job.h"
#include "serve/port.h"
#include "weft/server.h"

typedef struct reserved_port {
    int socket, port;
} reserved_port;

typedef struct plan {
    const weft_server_options *options;
    const weft_option *table;
    reserved_port port, *metrics; /* metrics: [count], or NULL if there are no metrics ports */
    weft_job_part *parts;
    int count;
    void *user;
    void (*ready)(void *user, int port, const int *metrics);
    weft_job_fn on_line;
    int *metrics_ports; /* [count]: port of each process, or NULL */
} plan;

static weft_status reserve_port(const char *host, int64_t port, reserved_port *out)
{
    return weft_port_open(host, port, WEFT_PORT_RESERVED, &out->socket, &out->port);
}

/* Reserves the common port and, if wanted, a metrics port for each process. Each process counts
 * only its own requests, so it has its own metrics port, and keeps it over a restart. */
static weft_status reserve_ports(plan *p)
{
    const weft_server_options *o = p->options;
    WEFT_TRY(reserve_port(o->host, o->port, &p->port));
    if (o->metrics_port < 0) return WEFT_OK;
    if (o->metrics_port > 0 && o->metrics_port + p->count - 1 > UINT16_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "metrics-port %lld leaves no port for the last of %d processes: that of "
                         "process i is metrics-port + i",
                         (long long)o->metrics_port, p->count);
    WEFT_TRY(WEFT_NEW(&p->metrics, p->count));
    WEFT_TRY(WEFT_NEW(&p->metrics_ports, p->count));
    for (int i = 0; i < p->count; i++) p->metrics[i].socket = -1;
    for (int i = 0; i < p->count; i++) {
        WEFT_TRY(reserve_port(o->host, o->metrics_port ? o->metrics_port + i : 0, &p->metrics[i]));
        p->metrics_ports[i] = p->metrics[i].port;
    }
    return WEFT_OK;
}

/* --- command lines --- */

static int64_t own_port(const plan *p, int slot)
{
    (void)slot;
    return p->port.port;
}

static int64_t own_metrics_port(const plan *p, int slot)
{
    return p->metrics ? p->metrics[slot].port : -1;
}

/* If there are more processes than cores, each instance gets its share of the cores as threads, at
 * least one. */
static int64_t own_threads(const plan *p, int slot)
{
    const weft_server_options *o = p->options;
    (void)slot;
    if (o->threads != 0 || p->count <= weft_cores()) return -1;
    return weft_default_threads((int)(o->instances * p->count), NULL);
}

/* All processes but the first are quiet, so that notes and warnings are logged once. */
static int64_t own_quiet(const plan *p, int slot)
{
    (void)p;
    return slot > 0 ? 1 : -1;
}

/* Options that the supervisor chooses for each process; below 0: the process gets the value that
 * the user gave. */
static const struct {
    const char *option;
    int64_t (*value)(const plan *p, int slot);
    bool flag;
} own_values[] = {{"port", own_port, false},
                  {"metrics-port", own_metrics_port, false},
                  {"threads", own_threads, false},
                  {"quiet", own_quiet, true}};

static weft_status value_of(const plan *p, int slot, const weft_option *o, char **value)
{
    for (size_t i = 0; i < WEFT_COUNT(own_values); i++) {
        if (strcmp(own_values[i].option, o->name) != 0) continue;
        int64_t own = own_values[i].value(p, slot);
        if (own < 0) break;
        return own_values[i].flag ? weft_strdup("true", value)
                                  : weft_format(value, "%lld", (long long)own);
    }
    return weft_options_get(p->table, p->options, o->name, value);
}

/* Adds an option with its parsed value to the command line of a process. An option with its initial
 * value is left out, since some options exclude each other. */
static weft_status add_option(const plan *p, weft_job_part *part, const weft_option *o, int *count)
{
    char *value = NULL;
    weft_status status = value_of(p, part->slot, o, &value);
    bool said = status == WEFT_OK && value && (!o->initial || strcmp(value, o->initial) != 0);
    if (said) status = weft_format(&part->words[*count], "--%s=%s", o->name, value);
    if (said && status == WEFT_OK) ++*count;
    weft_free(value);
    return status;
}

static weft_status write_part(const plan *p, weft_job_part *part, const char *const *models,
                              int model_count)
{
    int rows = 0, count = 0;
    while (p->table[rows].name) rows++;
    WEFT_TRY(WEFT_NEW(&part->words, rows + model_count + 3));
    WEFT_TRY(weft_strdup("serve", &part->words[count]));
    count++;
    for (int i = 0; i < rows; i++) WEFT_TRY(add_option(p, part, &p->table[i], &count));
    if (model_count == 0) return WEFT_OK;
    WEFT_TRY(weft_strdup("--", &part->words[count]));
    count++;
    for (int i = 0; i < model_count; i++) {
        WEFT_TRY(weft_strdup(models[i], &part->words[count]));
        count++;
    }
    return WEFT_OK;
}

static weft_status write_plan(plan *p, const char *const *models, int model_count)
{
    const weft_server_options *o = p->options;
    if (o->control)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "control and %d processes contradict each other: a client would load a "
                         "model in the one process that it is connected to; leave one of them out",
                         p->count);
    WEFT_TRY(reserve_ports(p));
    WEFT_TRY(WEFT_NEW(&p->parts, p->count));
    for (int i = 0; i < p->count; i++) {
        p->parts[i].role = WEFT_PART_WORKER;
        p->parts[i].slot = i;
        WEFT_TRY(write_part(p, &p->parts[i], models, model_count));
    }
    return WEFT_OK;
}

static void free_plan(plan *p)
{
    for (int i = 0; i < p->count && p->parts; i++) {
        char **words = p->parts[i].words;
        for (int k = 0; words && words[k]; k++) weft_free(words[k]);
        free(words);
    }
    for (int i = 0; i < p->count && p->metrics; i++)
        if (p->metrics[i].socket >= 0) close(p->metrics[i].socket);
    if (p->port.socket >= 0) close(p->port.socket);
    free(p->metrics);
    free(p->metrics_ports);
    free(p->parts);
}

/* --- running --- */

static void log_line(void *user, const char *line)
{
    const plan *p = user;
    if (p->on_line) p->on_line(p->user, line);
}

static void ready(void *user)
{
    const plan *p = user;
    if (p->ready) p->ready(p->user, p->port.port, p->metrics_ports);
}

bool weft_server_supervises(const weft_server_options *options)
{
    WEFT_NEED_ELSE(false, options);
    return options->processes > 1 && !weft_job_supervised();
}

weft_status weft_server_share_quota(weft_context *context, const weft_server_options *options)
{
    WEFT_NEED(context, options);
    WEFT_TRY(weft_options_valid(weft_server_table(context), options));
    int share = options->processes > 1 ? weft_cpu_quota_share("", (int)options->processes) : 0;
    if (share == 0 || share >= weft_context_threads(context)) return WEFT_OK;
    return weft_context_set_threads(context, share);
}

weft_status weft_server_supervise(weft_context *context, const weft_server_options *options,
                                  const char *const *models, int model_count, const char *program,
                                  void (*on_ready)(void *user, int port, const int *metrics),
                                  weft_job_fn on_line, void *user, int *code)
{
    WEFT_NEED(context, options, program, code);
    enum { FAILURE_TIMEOUT = 10 };
    weft_server_options own;
    if (model_count < 0 || (model_count > 0 && !models) || !*program)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%d models and their list is %s, and the program is '%s'; a count from 0, "
                         "a list of as many, and a path are right",
                         model_count, models ? "given" : "NULL", program);
    for (int i = 0; i < model_count; i++) WEFT_NEED(models[i]);
    WEFT_TRY(weft_options_take(weft_server_table(context), options, &own));
    options = &own;
    if (options->processes < 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "%lld processes, must be at least 1",
                         (long long)options->processes);
    plan p = {.options = options,
              .table = weft_server_table(context),
              .port.socket = -1,
              .count = (int)options->processes,
              .user = user,
              .ready = on_ready,
              .on_line = on_line};
    char *none[] = {NULL};
    *code = 1;
    if (p.count > weft_cores())
        weft_log(context, WEFT_LOG_WARNING,
                 "%d processes share %d core%s; as many as there are cores are usually faster",
                 p.count, weft_cores(), weft_plural(weft_cores()));
    weft_status status = write_plan(&p, models, model_count);
    weft_job_options job = {.workers = true,
                            .parts = p.parts,
                            .part_count = p.count,
                            .failure_timeout = FAILURE_TIMEOUT,
                            .drain = options->drain,
                            .ready = ready};
    if (status == WEFT_OK) status = weft_job_supervise(&job, program, none, log_line, &p, code);
    free_plan(&p);
    return status;
}
