/* A load test: checks the options, prepares the requests to the targets, and measures one stage (a
 * rate or a number of outstanding requests) after the other. */
#include "weft/load.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/settings.h"
#include "load/engine_internal.h"

struct weft_load {
    weft_context *context;
    weft_load_options own; /* the caller's options, with our struct_size */
    const weft_load_options *options;
    const weft_stop *stop;
    weft_request_set *request_sets;
    int targets, rates;
    weft_load_stage *stages; /* [rates + 1]: the last one is the warm-up, which is not reported */
    weft_arrivals *arrivals;
    char *token; /* bearer token; NULL: none */
    bool has_run;
};

/* --- checks --- */

static weft_status check_token(const char *token, const char *where)
{
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c == 0x7f || (*c & 0x80))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: has a space or another character that a token cannot have",
                             where);
    if (*token) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: has no token", where);
}

/* Takes the token from its option or file, of which spaces and line ends around it are left out. */
static weft_status read_token(weft_load *load)
{
    const weft_load_options *o = load->options;
    if (o->token && o->token_file)
        return weft_fail(WEFT_ERR_ARGUMENT, "--token and --token-file exclude each other");
    if (o->token) {
        WEFT_TRY(check_token(o->token, "--token"));
        return weft_strdup(o->token, &load->token);
    }
    if (!o->token_file) return WEFT_OK;
    char *text;
    WEFT_TRY(weft_secret_read(o->token_file, 077, "a file with a token", &text));
    char *token = text + strspn(text, " \t\r\n");
    size_t size = strlen(token);
    while (size > 0 && strchr(" \t\r\n", token[size - 1])) size--;
    token[size] = '\0';
    weft_status status = check_token(token, o->token_file);
    if (status == WEFT_OK) status = weft_strdup(token, &load->token);
    weft_secret_free(&text);
    return status;
}

/* Checks that --body comes without options of the inputs that are generated otherwise. */
static weft_status check_body(const weft_load_options *o)
{
    const char *other = o->json_tensors ? "json-tensors" : o->rows > 1 ? "rows" : NULL;
    if (!o->body || !other) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--%s is for random inputs, not for --body, whose file is sent as it is; "
                     "leave one of them out",
                     other);
}

/* Checks that the limit on open files allows so many connections. */
static weft_status check_files(int64_t connections)
{
    const int64_t others = 32;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        (int64_t)limit.rlim_cur >= connections + others)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%lld connections need more open files than this process may have (%lld); "
                     "raise that with ulimit -n %lld, or give fewer --connections",
                     (long long)connections, (long long)limit.rlim_cur,
                     (long long)(connections + others));
}

static weft_status check_trust(const weft_load_options *o, const char *const *targets, int count)
{
    bool https = false;
    for (int i = 0; i < count; i++) https = https || strncmp(targets[i], "https://", 8) == 0;
    if (o->ca && o->insecure)
        return weft_fail(WEFT_ERR_ARGUMENT, "--ca and --insecure exclude each other");
    if (https || (!o->ca && !o->insecure)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s has no effect, since no target is https://HOST",
                     o->ca ? "--ca" : "--insecure");
}

static weft_status plan(weft_load *load)
{
    weft_load_rate *rates;
    int count;
    WEFT_TRY(weft_load_rates_parse(load->context, load->options, &rates, &count));
    weft_status status = WEFT_NEW(&load->stages, count + 1);
    for (int i = 0; i <= count && status == WEFT_OK; i++) {
        weft_load_stage *stage = &load->stages[i];
        stage->plan = rates[i < count ? i : 0];
        stage->result.rate = stage->plan.rate;
        stage->result.closed = stage->plan.closed;
        if (stage->plan.closed > load->options->connections)
            status =
                weft_fail(WEFT_ERR_ARGUMENT,
                          "--closed: %lld requests under way need as many --connections, "
                          "which are %lld at the most",
                          (long long)stage->plan.closed, (long long)load->options->connections);
    }
    load->rates = count;
    if (status == WEFT_OK) {
        load->stages[count].plan.seconds = load->options->warmup;
        load->stages[count].warmup = true;
    }
    free(rates);
    return status;
}

static weft_status open_load(weft_load *load, const char *const *targets, int count)
{
    const weft_load_options *o = load->options;
    if (count < 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "no target is given; name a server, as in http://localhost:8000");
    WEFT_TRY(check_trust(o, targets, count));
    WEFT_TRY(read_token(load));
    WEFT_TRY(check_body(o));
    WEFT_TRY(check_files(o->connections));
    WEFT_TRY(plan(load));
    WEFT_TRY(weft_arrivals_open(load->context, o->arrivals ? o->arrivals : "poisson",
                                (uint64_t)o->seed, &load->arrivals));
    WEFT_TRY(WEFT_NEW(&load->request_sets, count));
    for (int i = 0; i < count; i++) {
        WEFT_TRY(
            weft_request_set_open(o, load->token, targets[i], load->stop, &load->request_sets[i]));
        load->targets++;
    }
    for (int i = 0; i <= load->rates; i++) load->stages[i].result.rows = load->request_sets[0].rows;
    return WEFT_OK;
}

enum { MOST_TARGETS = 1024 };

weft_status weft_load_open(weft_context *context, const weft_load_options *options,
                           const char *const *targets, int count, const weft_stop *stop,
                           weft_load **out)
{
    WEFT_NEED(context, options, targets, out);
    weft_load *load;
    *out = NULL;
    if (count < 1 || count > MOST_TARGETS)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d targets, must be from 1 to %d", count,
                         MOST_TARGETS);
    for (int i = 0; i < count; i++) WEFT_NEED(targets[i]);
    WEFT_TRY(WEFT_NEW(&load, 1));
    load->context = context;
    load->options = &load->own;
    load->stop = stop;
    weft_status status = weft_options_take(weft_load_table(context), options, &load->own);
    if (status == WEFT_OK) status = open_load(load, targets, count);
    if (status != WEFT_OK)
        weft_load_close(&load);
    else
        *out = load;
    return status;
}

void weft_load_close(weft_load **load)
{
    if (!load || !*load) return;
    for (int i = 0; i < (*load)->targets; i++) weft_request_set_close(&(*load)->request_sets[i]);
    weft_arrivals_close(&(*load)->arrivals);
    if ((*load)->token) explicit_bzero((*load)->token, strlen((*load)->token));
    free((*load)->token);
    free((*load)->request_sets);
    free((*load)->stages);
    free(*load);
    *load = NULL;
}

/* --- the load --- */

static bool stopped(const weft_load *load)
{
    return load->stop && load->stop->wanted;
}

static weft_status run_rows(weft_load *load, weft_engine *e)
{
    weft_load_stage *warm = &load->stages[load->rates];
    bool pause = !load->options->no_pause;
    double at = weft_seconds();
    if (warm->plan.seconds > 0)
        WEFT_TRY(weft_engine_run_stage(e, warm, -1, at, true, load->arrivals));
    e->begin = at = weft_seconds();
    for (int i = 0; i < load->rates && !stopped(load); i++) {
        bool wait = pause || i + 1 == load->rates;
        WEFT_TRY(weft_engine_run_stage(e, &load->stages[i], i, at, wait, load->arrivals));
        at = pause ? weft_seconds() : load->stages[i].end;
    }
    return stopped(load) ? weft_fail(WEFT_ERR_INTERRUPTED, "the load was stopped") : WEFT_OK;
}

static weft_status run_traced(weft_load *load, weft_engine *e)
{
    const char *path = load->options->trace_out;
    if (!path) return run_rows(load, e);
    WEFT_TRY(weft_output_open(path, WEFT_OUTPUT_REPLACE, &e->trace));
    weft_status status = weft_output_print(e->trace, "due,latency,status,failure,rate,closed\n");
    if (status == WEFT_OK) status = run_rows(load, e);
    weft_error first = {.status = WEFT_OK};
    weft_error_catch(&first, status);
    bool keep = status == WEFT_OK || status == WEFT_ERR_INTERRUPTED;
    weft_error_catch(&first, weft_output_close(&e->trace, keep));
    return weft_error_raise(&first);
}

weft_status weft_load_run(weft_load *load, weft_load_tick *tick, void *user)
{
    WEFT_NEED(load);
    weft_engine engine = {
        .options = load->options, .stop = load->stop, .tick = tick, .user = user, .epoll = -1};
    if (load->has_run) return weft_fail(WEFT_ERR_ARGUMENT, "this load has been made already");
    load->has_run = true;
    /* The thread's timer slack is lowered during the load; by default, timed waits end up to 50 us
     * late. */
    int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    weft_status status =
        weft_engine_open(&engine, load->request_sets, load->targets, load->options->connections);
    if (status == WEFT_OK) status = run_traced(load, &engine);
    weft_engine_close(&engine);
    if (slack > 0) (void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0);
    return status;
}

const weft_load_result *weft_load_at(const weft_load *load, int i, double *planned)
{
    WEFT_NEED_ELSE(NULL, load);
    if (i < 0 || i >= load->rates) return NULL;
    if (planned) *planned = load->stages[i].plan.seconds;
    return &load->stages[i].result;
}

const char *weft_load_model(const weft_load *load, int i, const char **where)
{
    WEFT_NEED_ELSE(NULL, load);
    if (i < 0 || i >= load->targets) return NULL;
    if (where) *where = load->request_sets[i].target.url;
    return load->request_sets[i].model;
}
