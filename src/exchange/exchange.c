/* Opens and checks exchanges, calls their hooks, and sums numbers over the learners. */
#include <sys/resource.h>

#include <ctype.h>

#include "exchange/collect_state.h"

static bool is_word(const char *name)
{
    if (!name || !isalpha((unsigned char)*name)) return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') return false;
    return true;
}

/* Checks a state that the exchange declares for checkpoints: its name must be valid and unique, and
 * its size that of its type. */
static weft_status check_state(weft_exchange *e, int i, const weft_exchange_state *s)
{
    weft_exchange_state other;
    weft_dtype dtype;
    int64_t count;
    size_t bytes = weft_type_bytes(&s->type);
    if (!is_word(s->name))
        return weft_fail(WEFT_ERR_INTERNAL,
                         "exchange %s: a state is named '%s'; it must be letters, digits and _, "
                         "beginning with a letter",
                         e->ops->name, s->name ? s->name : "");
    for (int k = 0; k < i && weft_exchange_state_at(e, k, &other); k++)
        if (strcmp(other.name, s->name) == 0)
            return weft_fail(WEFT_ERR_INTERNAL, "exchange %s: two of its states are named '%s'",
                             e->ops->name, s->name);
    if (s->like_parameters) {
        WEFT_TRY(weft_exchange_parameters(e->setup.store, &dtype, &count, &bytes));
    }
    if (s->bytes != bytes || !s->data)
        return weft_fail(WEFT_ERR_INTERNAL, "exchange %s: its state '%s' has %zu bytes, not %zu",
                         e->ops->name, s->name, s->data ? s->bytes : 0, bytes);
    return WEFT_OK;
}

static weft_status check_states(weft_exchange *e)
{
    weft_exchange_state s;
    for (int i = 0; weft_exchange_state_at(e, i, &s); i++) WEFT_TRY(check_state(e, i, &s));
    return WEFT_OK;
}

static weft_status open_at(weft_context *context, const char *spec,
                           const weft_exchange_setup *setup, weft_exchange **out)
{
    const weft_exchange_ops *ops = NULL;
    const char *arguments = "";
    weft_exchange *e;
    *out = NULL;
    WEFT_TRY(weft_exchange_find(context, spec, &ops, &arguments));
    WEFT_TRY(weft_new_bytes(&e, 1, ops->size));
    e->ops = ops;
    if (setup) e->setup = *setup;
    e->setup.context = context;
    uint64_t before = weft_failures();
    weft_status status = ops->open(e, arguments, setup ? &e->setup : NULL);
    status = weft_ensure_message(status, before, "exchange", ops->name, "open");
    *out = e;
    if (status != WEFT_OK) weft_exchange_close(out);
    return status;
}

/* Checks that the sockets of one process fit its limit of open files (ulimit -n): each socket takes
 * a file descriptor, and the process needs OTHER_FILES more. */
static weft_status check_sockets(const weft_exchange *e, const weft_exchange_plan *plan)
{
    enum { OTHER_FILES = 64 };
    struct rlimit files;
    int64_t all = 0;
    if (!WEFT_EXCHANGE_HAS(e->ops, sockets) || plan->here == 0 ||
        getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return WEFT_OK;
    WEFT_TRY(e->ops->actors->sockets(e, plan, &all));
    int64_t need = all * plan->here / plan->learners + OTHER_FILES;
    if (need <= (int64_t)files.rlim_cur) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "exchange %s: %d learner%s of one process would need %lld open files, and it "
                     "may have %llu; give fewer learners or servers or a topology with fewer "
                     "neighbours, or raise the limit with ulimit -n",
                     e->ops->name, plan->here, weft_plural(plan->here), (long long)need,
                     (unsigned long long)files.rlim_cur);
}

weft_status weft_exchange_fits(weft_context *context, const char *spec,
                               const weft_exchange_plan *plan)
{
    weft_exchange *e;
    weft_exchange_plan own = *plan;
    own.context = context;
    WEFT_TRY(open_at(context, spec, NULL, &e));
    uint64_t before = weft_failures();
    weft_status status = e->ops->fits ? weft_ensure_message(e->ops->fits(e, &own), before,
                                                            "exchange", e->ops->name, "fits")
                                      : WEFT_OK;
    if (status == WEFT_OK) status = check_sockets(e, &own);
    weft_exchange_close(&e);
    return status;
}

weft_status weft_exchange_check(weft_context *context, const char *spec)
{
    weft_exchange *exchange;
    WEFT_TRY(open_at(context, spec, NULL, &exchange));
    weft_exchange_close(&exchange);
    return WEFT_OK;
}

weft_status weft_exchange_averages(weft_context *context, const char *spec, int learners,
                                   double *out)
{
    weft_exchange *e;
    WEFT_TRY(open_at(context, spec, NULL, &e));
    *out = e->ops->life.averages ? e->ops->life.averages(e, learners) : 1;
    weft_exchange_close(&e);
    return WEFT_OK;
}

weft_status weft_exchange_meetings(weft_context *context, const char *spec, weft_meetings *out)
{
    weft_exchange *e;
    *out = (weft_meetings){.period = -1};
    WEFT_TRY(open_at(context, spec, NULL, &e));
    const weft_exchange_life *life = &e->ops->life;
    if (life->meetings) out->period = life->meetings(e, &out->state);
    out->works = life->passes;
    if (life->passes) life->passes(e, &out->parameters, &out->passed);
    out->actors = WEFT_EXCHANGE_HAS(e->ops, simulate);
    weft_exchange_close(&e);
    return WEFT_OK;
}

weft_status weft_exchange_memory_of(const char *spec, const weft_exchange_sizes *sizes,
                                    weft_exchange_memory *out)
{
    weft_exchange *e;
    *out = (weft_exchange_memory){.struct_size = sizeof(*out)};
    WEFT_TRY(open_at(sizes->plan->context, spec, NULL, &e));
    weft_status status = e->ops->life.memory ? e->ops->life.memory(e, sizes, out) : WEFT_OK;
    weft_exchange_close(&e);
    return status;
}

weft_status weft_exchange_least_of(const char *spec, const weft_exchange_sizes *sizes,
                                   weft_exchange_least *out)
{
    weft_exchange *e;
    *out = (weft_exchange_least){.pieces = 0};
    WEFT_TRY(open_at(sizes->plan->context, spec, NULL, &e));
    if (WEFT_EXCHANGE_HAS(e->ops, least)) e->ops->actors->least(e, sizes, out);
    weft_exchange_close(&e);
    return WEFT_OK;
}

weft_status weft_exchange_open(const char *spec, const weft_exchange_setup *setup,
                               weft_exchange **out)
{
    if (setup->struct_size != sizeof(*setup))
        return weft_fail(WEFT_ERR_ARGUMENT, "weft_exchange_setup has %zu bytes, this library's %zu",
                         setup->struct_size, sizeof(*setup));
    *out = NULL;
    WEFT_TRY(weft_exchange_fits(setup->context, spec,
                                &(weft_exchange_plan){.learners = setup->endpoint->learners,
                                                      .servers = setup->servers,
                                                      .replicas = setup->replicas,
                                                      .codec = setup->codec,
                                                      .back = setup->back,
                                                      .resumed_run = setup->resumed_run,
                                                      .hosted = !setup->cluster}));
    WEFT_TRY(open_at(setup->context, spec, setup, out));
    weft_status status = check_states(*out);
    if (status != WEFT_OK) weft_exchange_close(out);
    return status;
}

void weft_exchange_close(weft_exchange **exchange)
{
    if (!exchange || !*exchange) return;
    weft_collect_close(&(*exchange)->others);
    if ((*exchange)->ops->close) (*exchange)->ops->close(*exchange);
    weft_exchange_free_kept(*exchange);
    free(*exchange);
    *exchange = NULL;
}

/* Adds an error message that names exchange and hook to a failure of a hook that has set none. */
static weft_status ensure_message(const weft_exchange *e, weft_status status, uint64_t before,
                                  const char *function)
{
    return weft_ensure_message(status, before, "exchange", e->ops->name, function);
}

weft_status weft_exchange_begin(weft_exchange *e)
{
    uint64_t failures = weft_failures();
    return e->ops->life.begin ? ensure_message(e, e->ops->life.begin(e), failures, "begin")
                              : WEFT_OK;
}

weft_status weft_exchange_before(weft_exchange *e, int64_t step)
{
    uint64_t failures = weft_failures();
    return e->ops->step.before ? ensure_message(e, e->ops->step.before(e, step), failures, "before")
                               : WEFT_OK;
}

weft_status weft_exchange_update(weft_exchange *e, int64_t step)
{
    uint64_t failures = weft_failures();
    return e->ops->step.update ? ensure_message(e, e->ops->step.update(e, step), failures, "update")
                               : WEFT_OK;
}

weft_status weft_exchange_wait(weft_exchange *e)
{
    uint64_t failures = weft_failures();
    return e->ops->step.wait ? ensure_message(e, e->ops->step.wait(e), failures, "wait") : WEFT_OK;
}

static weft_status needed(void *user, const weft_reading *parameter)
{
    weft_exchange *e = user;
    uint64_t failures = weft_failures();
    return ensure_message(e, e->ops->step.needed(e, parameter), failures, "needed");
}

weft_status weft_exchange_ready(weft_exchange *e, const weft_gradient *gradient)
{
    uint64_t failures = weft_failures();
    return e->ops->step.ready
               ? ensure_message(e, e->ops->step.ready(e, gradient), failures, "ready")
               : WEFT_OK;
}

weft_status weft_exchange_poll(weft_exchange *e)
{
    uint64_t failures = weft_failures();
    return e->ops->step.poll ? ensure_message(e, e->ops->step.poll(e), failures, "poll") : WEFT_OK;
}

static weft_status ready(void *user, const weft_gradient *gradient)
{
    return weft_exchange_ready(user, gradient);
}

static weft_status poll(void *user)
{
    return weft_exchange_poll(user);
}

void weft_exchange_listen(weft_exchange *e)
{
    const weft_listener listener = {.ready = e->ops->step.ready ? ready : NULL,
                                    .needed = e->ops->step.needed ? needed : NULL,
                                    .poll = e->ops->step.poll ? poll : NULL,
                                    .user = e};
    weft_instance_listen(e->setup.instance, &listener);
}

void weft_exchange_progress(weft_exchange *e, weft_instance *instance)
{
    const weft_listener listener = {.poll = e->ops->step.poll ? poll : NULL, .user = e};
    weft_instance_listen(instance, &listener);
}

weft_update weft_exchange_updates(const weft_exchange_ops *ops)
{
    if (ops->owns_update) return WEFT_UPDATE_ELSEWHERE;
    return ops->step.ready ? WEFT_UPDATE_TOLD : WEFT_UPDATE_HERE;
}

weft_status weft_exchange_after(weft_exchange *e, weft_step_result *result)
{
    uint64_t failures = weft_failures();
    e->finished = result->last;
    if (e->ops->step.after)
        WEFT_TRY(ensure_message(e, e->ops->step.after(e, result), failures, "after"));
    if (result->leave && e->ops->lockstep)
        return weft_fail(WEFT_ERR_INTERNAL,
                         "exchange %s: a learner in lock step with others cannot leave alone",
                         e->ops->name);
    return WEFT_OK;
}

weft_status weft_exchange_preview(weft_exchange *e, int64_t step)
{
    uint64_t failures = weft_failures();
    if (!e->ops->step.preview) return WEFT_OK;
    return ensure_message(e, e->ops->step.preview(e, step), failures, "preview");
}

weft_status weft_exchange_save(weft_exchange *e)
{
    return e->ops->life.save ? e->ops->life.save(e) : WEFT_OK;
}

weft_status weft_exchange_end(weft_exchange *e)
{
    if (e->others) WEFT_TRY(weft_collect_end(e->others, true));
    uint64_t failures = weft_failures();
    if (e->ops->life.end) WEFT_TRY(ensure_message(e, e->ops->life.end(e), failures, "end"));
    return e->others ? weft_collect_end(e->others, false) : WEFT_OK;
}

weft_status weft_exchange_begin_state_collection(weft_exchange *e)
{
    return weft_collect_open(e, &e->others);
}

weft_status weft_exchange_transfer_state(weft_exchange *e, int64_t step)
{
    if (!e->others) return WEFT_OK;
    return e->setup.endpoint->learner == 0 ? weft_collect_receive(e->others, step)
                                           : weft_collect_send(e->others, step);
}

bool weft_exchange_state_of(weft_exchange *e, int learner, int i, weft_exchange_state *out)
{
    if (!weft_exchange_state_at(e, i, out)) return false;
    out->data = weft_collect_data(e->others, learner, i);
    return out->data != NULL;
}

bool weft_exchange_state_at(weft_exchange *e, int i, weft_exchange_state *out)
{
    *out = (weft_exchange_state){.name = NULL};
    return weft_exchange_kept_at(e, &i, out) ||
           (e->ops->life.state && e->ops->life.state(e, i, out));
}

bool weft_exchange_is_together(const weft_exchange *e)
{
    return e->ops->lockstep || (e->ops->life.together && e->ops->life.together(e));
}

bool weft_exchange_ends_together(const weft_exchange *e)
{
    const weft_learner_link *link = e->setup.cluster;
    return !e->ops->lockstep && weft_exchange_is_together(e) && e->setup.endpoint->learners > 1 &&
           (!link || link->job);
}

bool weft_exchange_is_asked(const weft_exchange *e)
{
    return !e->setup.cluster && e->setup.asked && e->setup.asked(e->setup.user);
}

bool weft_exchange_figure_at(weft_exchange *e, int i, weft_series *out)
{
    static const char *const names[] = {"learners_at_start", "learners_at_end"};
    int own = 0;
    *out = (weft_series){.name = NULL};
    while (own <= i && e->ops->life.figure && e->ops->life.figure(e, own, out)) own++;
    if (own > i) return true;
    if (!e->setup.cluster || i - own >= (int)WEFT_COUNT(names)) return false;
    *out = (weft_series){names[i - own], &e->learners_at[i - own], 1, false};
    return true;
}

weft_status weft_exchange_sum(weft_exchange *e, const char *what, double *number)
{
    return weft_learner_group_run(
        e->setup.endpoint, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64, .what = what,
                                         .send = number, .receive = number, .count = 1));
}
