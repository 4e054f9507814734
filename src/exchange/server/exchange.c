/* Training with parameter servers. Each learner pushes the gradients of a range as soon as the last
 * of them is there, and begins the next step with what the servers have by then, as their policy
 * allows (Dean et al. 2012; Li et al. 2014; Ho et al. 2013; Gupta, Zhang and Wang 2016). */
#include <math.h>

#include "base/spec.h"
#include "exchange/server/remote.h"

/* How long a learner sleeps between two looks at whether the job goes on. */
static const double NAP = 0.05;

/* --- opening --- */

/* Where a learner waits for others, they wait for each of its steps. */
static weft_status set_pace(weft_remote *x, double push, double fetch)
{
    if (x->policy.bound != WEFT_NO_BOUND && (push > 1 || fetch > 1))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange server: %s is for learners that wait for nobody; give "
                         "policy=async or softsync, or leave it out",
                         push > 1 ? "push" : "fetch");
    x->push = push < 1 ? 1 : (int64_t)push;
    x->fetch = fetch < 1 ? 1 : (int64_t)fetch;
    return WEFT_OK;
}

static weft_status parse(weft_remote *x, const char *arguments)
{
    char *policy = NULL, *scale = NULL;
    double count = -1, bound = -1, beta = -1, push = -1, fetch = -1;
    weft_spec_key keys[] = {
        {.name = "policy", .text = &policy},
        {.name = "c", .number = &count, .low = 1, .high = 1e6, .whole = true},
        {.name = "bound", .number = &bound, .low = 0, .high = INFINITY, .whole = true},
        {.name = "scale", .text = &scale},
        {.name = "beta", .number = &beta, .low = 0, .high = 100},
        {.name = "push", .number = &push, .low = 1, .high = 1e6, .whole = true},
        {.name = "fetch", .number = &fetch, .low = 1, .high = 1e6, .whole = true},
        {.name = NULL}};
    weft_status status = *arguments ? weft_spec_parse("exchange server", arguments, keys) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_policy_make(policy ? policy : "bsp", count, bound, scale, beta, &x->policy);
    if (status == WEFT_OK) status = set_pace(x, push, fetch);
    free(policy);
    free(scale);
    return status;
}

/* Each is a thread that hears of all others whenever somebody comes or goes, so that what it takes
 * to begin grows with the square of their number: 128 begin in two seconds on two cores, 256 in a
 * minute and a half. */
enum { MOST_HOSTED = 128 };

weft_status weft_remote_fits(const weft_exchange *exchange, const weft_exchange_plan *plan)
{
    const weft_policy *policy = &((const weft_remote *)exchange)->policy;
    const char *name = exchange->ops->name;
    if (policy->count > plan->learners)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s: a version of c=%d updates, but there %s %d learner%s; "
                         "give c=%d%s",
                         name, policy->count, plan->learners == 1 ? "is" : "are", plan->learners,
                         weft_plural(plan->learners), plan->learners,
                         plan->learners == 1 ? ", or more learners" : " or less");
    if (plan->replicas > 0 && plan->servers < 2)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s: a replica is kept by another server, so --replicas 1 "
                         "needs --servers 2 or more",
                         name);
    if (plan->hosted && plan->servers > MOST_HOSTED)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "exchange %s: %d servers would be threads of this job, each of which hears "
            "of all others, and more than %d take minutes to begin; give --servers %d "
            "or fewer",
            name, plan->servers, MOST_HOSTED, MOST_HOSTED);
    return WEFT_OK;
}

const char *weft_remote_back(bool adds, const char *codec, const char *back)
{
    return adds ? "none" : weft_codec_back(codec, back);
}

weft_status weft_remote_make_room(weft_remote *x, const weft_exchange_site *site)
{
    void *data;
    size_t bytes;
    WEFT_TRY(weft_store_map(site->store, WEFT_ALL_PARAMETERS, &x->dtype, &data, &bytes));
    weft_store_unmap_read(site->store, data);
    x->count = (int64_t)(bytes / weft_dtype_size(x->dtype));
    /* A rank that has less than that has a server for each of its numbers. */
    x->servers = (int)WEFT_MIN(site->servers ? site->servers : 1, WEFT_MAX(x->count, 1));
    x->range_count = weft_server_ranges(x->count, x->dtype, x->servers);
    WEFT_TRY(weft_strdup(site->codec && *site->codec ? site->codec : "none", &x->codec));
    WEFT_TRY(weft_strdup(weft_remote_back(x->adds, site->codec, site->back), &x->back));
    if (!x->adds) WEFT_TRY(weft_remote_list_states(x, site));
    WEFT_TRY(weft_kept_open(site->context, x->codec, x->back, site->store, &x->kept));
    WEFT_TRY(weft_copies_open(site->learner, site->store, &x->copies));
    if (site->cluster && !weft_copies_are_whole(x->copies))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the ranks of a learner that comes and goes must all have all parameters, "
                         "and with this mesh they share them out; split the batch or the pictures "
                         "(data, domain)");
    x->parameters = weft_copies_parameters(x->copies);
    x->leads = weft_copies_leads(x->copies);
    if (!x->leads) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(bytes, &x->gradients));
    if (x->fetch > 1 && !x->adds)
        WEFT_TRY(weft_descent_open(site->context, site->store, site->optimizer, x->dtype, x->count,
                                   &x->descent));
    WEFT_TRY(WEFT_NEW(&x->own, x->servers));
    WEFT_TRY(WEFT_NEW(&x->ranges, x->range_count));
    WEFT_TRY(WEFT_NEW(&x->missing, x->range_count));
    return WEFT_NEW(&x->whole, x->range_count);
}

/* The coordinator hears of it, if there is one; nobody waits for long. */
static weft_status say_goodbye(const weft_remote *x)
{
    static const double LONG_ENOUGH = 15;
    double began = weft_seconds();
    while (!weft_net_actor(x->net)->done &&
           weft_seconds() - began < weft_exchange_limit(&x->head, LONG_ENOUGH))
        WEFT_TRY(weft_net_pump(x->net, NAP));
    return WEFT_OK;
}

static weft_status go(const weft_remote *x)
{
    if (!x->stays || !x->net) return WEFT_OK;
    WEFT_TRY(weft_server_learner_go(weft_net_actor(x->net)));
    return say_goodbye(x);
}

void weft_remote_close(weft_exchange *exchange)
{
    weft_remote *x = (weft_remote *)exchange;
    weft_status ended = go(x);
    if (x->ranges) ended = weft_remote_unplace(x);
    (void)ended; /* whoever waited for a server that fails was told */
    weft_copies_close(&x->copies);
    weft_descent_close(&x->descent);
    for (int i = 0; i < x->state_count; i++) free(x->states[i].data);
    free(x->states);
    weft_kept_close(&x->kept);
    free(x->codec);
    free(x->back);
    for (int k = 0; x->own && k < x->servers; k++) free(x->own[k].ranges);
    free(x->own);
    free(x->ranges);
    free(x->missing);
    free(x->whole);
    free(x->late);
    free(x->gradients);
    free(x);
}

static weft_status server_open(const char *arguments, const weft_exchange_site *site,
                               weft_exchange **out)
{
    weft_remote *x;
    WEFT_TRY(WEFT_NEW(&x, 1));
    weft_status status = parse(x, arguments);
    if (status == WEFT_OK && site) status = weft_remote_make_room(x, site);
    if (status == WEFT_OK)
        *out = &x->head;
    else
        weft_remote_close(&x->head);
    return status;
}

/* --- waiting --- */

static weft_status check_servers(const weft_remote *x)
{
    if (x->coordinator) WEFT_TRY(weft_hosted_check(x->coordinator));
    for (int k = 0; k < x->servers; k++)
        if (x->own[k].hosted) WEFT_TRY(weft_hosted_check(x->own[k].hosted));
    return weft_endpoint_check(x->head.site.endpoint);
}

/* Nobody says anything to a learner that is to end: it goes without an answer. */
static weft_status give_up(const weft_remote *x)
{
    long long clock = (long long)weft_server_learner_clock(weft_net_actor(x->net));
    WEFT_TRY(weft_server_learner_quit(weft_net_actor(x->net)));
    WEFT_TRY(say_goodbye(x));
    return weft_fail(WEFT_ERR_INTERRUPTED,
                     "stopped after step %lld of this learner, while it waited for an answer",
                     clock);
}

static bool lacks(const weft_remote *x, int range)
{
    const weft_actor *learner = weft_net_actor(x->net);
    return range == WEFT_ANY_PART ? weft_server_learner_waits(learner)
                                  : weft_server_learner_lacks(learner, range);
}

weft_status weft_remote_wait_for(weft_remote *x, int range)
{
    double limit = x->head.site.endpoint->timeout, began = weft_seconds();
    weft_patience patience = {0};
    while (lacks(x, range)) {
        uint64_t heard = weft_server_learner_heard(weft_net_actor(x->net));
        WEFT_TRY(weft_net_pump(x->net, NAP));
        WEFT_TRY(check_servers(x));
        if (weft_server_learner_heard(weft_net_actor(x->net)) != heard)
            patience = (weft_patience){0};
        double waited = weft_patience_look(&patience, 1);
        if (waited > weft_exchange_limit(&x->head, limit) && weft_exchange_is_stopped(&x->head))
            return give_up(x);
        if (waited > limit) return weft_server_learner_explain(weft_net_actor(x->net), limit);
    }
    x->head.waited += weft_seconds() - began;
    return WEFT_OK;
}

weft_status weft_remote_wait(weft_remote *x)
{
    return weft_remote_wait_for(x, WEFT_ANY_PART);
}

/* --- the moments --- */

static weft_status count_gradients(weft_remote *x)
{
    weft_gradient g;
    const weft_program *program = weft_instance_program(x->head.site.instance);
    for (int i = 0; weft_program_gradient(program, i, &g); i++)
        for (int k = 0; k < x->range_count; k++) {
            const weft_server_range *r = &x->ranges[k];
            int64_t common =
                WEFT_MIN(g.begin + g.count, r->begin + r->count) - WEFT_MAX(g.begin, r->begin);
            x->whole[k] += WEFT_MAX(common, (int64_t)0);
        }
    return WEFT_OK;
}

/* Somebody else may have come while this one made itself ready. */
static weft_status check_slot(const weft_remote *x)
{
    const weft_learner_link *link = x->head.site.cluster;
    int slot = weft_member_slot(weft_server_learner_member(weft_net_actor(x->net)));
    if (!link || slot == link->slot) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER,
                     "another learner has taken slot %d of the run meanwhile; join again",
                     link->slot);
}

weft_status weft_remote_begin(weft_remote *x)
{
    WEFT_TRY(weft_remote_place(x));
    WEFT_TRY(weft_remote_wait(x));
    x->turn = weft_server_learner_clock(weft_net_actor(x->net));
    return check_slot(x);
}

static weft_status server_begin(weft_exchange *exchange)
{
    weft_remote *x = (weft_remote *)exchange;
    WEFT_TRY(weft_copies_read(x->copies));
    if (x->leads) {
        WEFT_TRY(weft_remote_begin(x));
        WEFT_TRY(count_gradients(x));
    }
    WEFT_TRY(weft_remote_open_late(x));
    return weft_copies_write(x->copies); /* other learners may have begun before */
}

static weft_status server_before(weft_exchange *exchange, int64_t step)
{
    weft_remote *x = (weft_remote *)exchange;
    x->turn++;
    x->step = step;
    if (x->fetched) {
        x->fetched = false;
        if (x->leads) weft_remote_know(x);
        WEFT_TRY(weft_copies_write(x->copies));
    }
    if (x->leads) memcpy(x->missing, x->whole, (size_t)x->range_count * sizeof(*x->whole));
    return WEFT_OK;
}

/* A range whose last gradient is there goes at once. */
static weft_status server_ready(weft_exchange *exchange, const weft_gradient *g)
{
    weft_remote *x = (weft_remote *)exchange;
    size_t size = weft_dtype_size(x->dtype);
    const void *data;
    if (!x->leads) return WEFT_OK;
    WEFT_TRY(weft_gradient_map(exchange->site.instance, g->index, &data));
    memcpy((char *)x->gradients + (size_t)g->begin * size, data, (size_t)g->count * size);
    weft_gradient_unmap(exchange->site.instance, g->index, data);
    for (int k = 0; k < x->range_count; k++) {
        const weft_server_range *r = &x->ranges[k];
        int64_t common =
            WEFT_MIN(g->begin + g->count, r->begin + r->count) - WEFT_MAX(g->begin, r->begin);
        if (common <= 0) continue;
        x->missing[k] -= common;
        if (x->missing[k] == 0) WEFT_TRY(weft_net_part(x->net, x->turn, k));
    }
    return WEFT_OK;
}

weft_status weft_remote_poll(weft_exchange *exchange)
{
    weft_remote *x = (weft_remote *)exchange;
    weft_status status = x->net ? weft_net_pump(x->net, 0) : WEFT_OK;
    return x->ended ? WEFT_OK : status; /* it has all that it needs */
}

static weft_status server_update(weft_exchange *exchange, int64_t step)
{
    weft_remote *x = (weft_remote *)exchange;
    (void)step;
    if (x->leads) {
        for (int k = 0; k < x->range_count; k++) /* nothing has read it, and it goes, too */
            if (x->whole[k] == 0) WEFT_TRY(weft_remote_wait_for(x, k));
        WEFT_TRY(weft_net_computed(x->net, x->turn));
    }
    return weft_remote_await(x);
}

void weft_remote_turn(weft_remote *x, weft_exchange_turn *turn)
{
    x->last = turn->last;
    if (!x->leads) return;
    weft_server_learner_tell(weft_net_actor(x->net), turn->loss, turn->rate);
    turn->leave = weft_server_learner_halted(weft_net_actor(x->net)) ||
                  weft_server_learner_dismissed(weft_net_actor(x->net));
}

static weft_status server_after(weft_exchange *exchange, weft_exchange_turn *turn)
{
    weft_remote_turn((weft_remote *)exchange, turn);
    return WEFT_OK;
}

static void take_kept(const weft_remote *x)
{
    for (int k = 0; k < x->range_count; k++)
        weft_kept_take(x->kept, x->ranges[k].codec, x->ranges[k].begin);
}

weft_status weft_remote_fetch(weft_remote *x)
{
    weft_remote_forgo(x);
    if (!x->leads) return WEFT_OK;
    take_kept(x);
    WEFT_TRY(weft_server_learner_fetch(weft_net_actor(x->net)));
    return weft_remote_wait(x);
}

weft_status weft_remote_keep(weft_exchange *exchange)
{
    const weft_remote *x = (const weft_remote *)exchange;
    if (x->leads) take_kept(x);
    return WEFT_OK;
}

static bool server_together(const weft_exchange *exchange)
{
    return ((const weft_remote *)exchange)->policy.bound == 0;
}

static weft_status server_save(weft_exchange *exchange)
{
    weft_remote *x = (weft_remote *)exchange;
    if (x->ended) return WEFT_OK; /* the end has brought it */
    x->fetched = strcmp(x->back, "none") != 0;
    WEFT_TRY(weft_remote_fetch(x));
    return weft_copies_write(x->copies);
}

/* The servers end when nobody needs them: when all learners have what they have come to. */
weft_status weft_remote_end(weft_remote *x)
{
    double all = 0;
    x->ended = true;
    weft_remote_forgo(x);
    if (x->leads) {
        bool halted = weft_server_learner_halted(weft_net_actor(x->net));
        const weft_learner_link *link = x->head.site.cluster;
        bool alone = link && !link->job && !x->last && !halted; /* the others go on */
        if (alone) WEFT_TRY(weft_server_learner_quit(weft_net_actor(x->net)));
        /* Who comes in its place must find what it has not told yet. */
        x->stays = link && link->job && link->slot == 0;
        if (x->stays) weft_server_learner_stay(weft_net_actor(x->net));
        WEFT_TRY(weft_server_learner_leave(weft_net_actor(x->net), !x->last || halted,
                                           x->head.site.endpoint->learner == 0));
        WEFT_TRY(weft_remote_wait(x));
        if (link && !x->stays) WEFT_TRY(say_goodbye(x));
        WEFT_TRY(weft_exchange_sum(&x->head, "that all have left", &all));
    }
    WEFT_TRY(weft_remote_count(x));
    if (x->leads) {
        take_kept(x);
        if (!x->stays) WEFT_TRY(weft_remote_unplace(x));
    }
    return WEFT_OK;
}

static weft_status server_end(weft_exchange *exchange)
{
    weft_remote *x = (weft_remote *)exchange;
    WEFT_TRY(weft_remote_end(x));
    return weft_copies_write(x->copies);
}

static int64_t server_began(weft_exchange *exchange)
{
    const weft_remote *x = (const weft_remote *)exchange;
    return x->leads ? x->turn : -1;
}

static weft_status server_cast(const char *arguments, const weft_scene *scene, weft_cast **out)
{
    return weft_remote_cast(&weft_exchange_server, arguments, scene, out);
}

static weft_status server_serve(const char *arguments, weft_serving *serving, weft_actor **out)
{
    return weft_remote_serve(&weft_exchange_server, arguments, serving, out);
}

const weft_exchange_ops weft_exchange_server = {
    .struct_size = sizeof(weft_exchange_ops),
    .name = "server",
    .form = "server:policy=bsp|async|softsync|ssp[,c=N][,bound=N][,scale=none|inverse|exp]"
            "[,beta=X][,push=N][,fetch=N]",
    .help =
        "servers update the parameters, when all gradients of a step are there (bsp), with each "
        "one that comes (async), with every c of them (softsync), or while nobody is more than "
        "`bound` steps ahead (ssp); gradients of `push` steps go together, and parameters come "
        "every `fetch` steps",
    .owns_update = true,
    .reads = "servers,replicas,compress,compress-back",
    .open = server_open,
    .close = weft_remote_close,
    .fits = weft_remote_fits,
    .begin = server_begin,
    .before = server_before,
    .ready = server_ready,
    .needed = weft_remote_needed,
    .poll = weft_remote_poll,
    .update = server_update,
    .settle = weft_remote_settle,
    .after = server_after,
    .state = weft_remote_state_at,
    .save = server_save,
    .keep = weft_remote_keep,
    .together = server_together,
    .end = server_end,
    .figure = weft_remote_figure,
    .cast = server_cast,
    .serve = server_serve,
    .began = server_began,
};
