/* Plays the actors of an exchange: makes the short vector, the exchange and its simulation. */
#include "train/estimate/play_internal.h"

#include <math.h>

#include "base/tree_sum.h"
#include "program/program.h"
#include "train/sim/overlap.h"

enum { MEASURED = 40, LEAST_ELEMENTS = 2048 };

/* --- callbacks of the simulator --- */

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    play *p = user;
    (void)life;
    return p->exchange->ops->make(p->exchange, id, out);
}

static weft_sim_link link_of(void *user, weft_actor_id from, weft_actor_id to)
{
    return weft_placed_link(&((const play *)user)->at, from, to);
}

static bool crosses(void *user, weft_actor_id from, weft_actor_id to)
{
    return weft_placed_crosses(&((const play *)user)->at, from, to);
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    play *p = user;
    (void)ticket;
    work->seconds = p->o->step(p->o->user, weft_placed_learner(&p->at, actor->id));
    work->parts = p->makes;
    work->part_count = p->parts;
    return WEFT_OK;
}

static weft_sim_delay work(void *user, const weft_actor *actor, weft_work_kind kind,
                           const char *codec, double bytes, int computing)
{
    const play *p = user;
    return p->o->work(p->o->user, weft_placed_host(&p->at, actor->id), kind, codec, bytes,
                      computing);
}

/* Where the learner makes the update, its parameters change, so that there is an update to send. */
static weft_status computed(void *user, weft_actor *actor, int64_t ticket)
{
    play *p = user;
    void *mine = p->parameters[weft_placed_learner(&p->at, actor->id)];
    (void)ticket;
    if (!p->gradients) weft_tree_add(p->dtype, mine, p->change, mine, p->count);
    return WEFT_OK;
}

static weft_status ended(void *user, weft_actor *actor, int64_t ticket)
{
    play *p = user;
    (void)ticket;
    return weft_play_count(p, weft_placed_learner(&p->at, actor->id), weft_actor_now(actor));
}

/* Ends the run before the next event if enough has been played, or if messages that are sent again
 * keep links so busy that learners hardly go on. */
static weft_status check_over(void *user)
{
    play *p = user;
    enum { EVERY = 1024 };
    if (p->over) return weft_fail(WEFT_ERR_INTERRUPTED, "enough has been played");
    if ((uint64_t)p->events % EVERY == 0) WEFT_TRY(weft_estimate_go_on(p->o->end));
    if (p->events++ < p->most_events) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER,
                     "the links of --cluster carry too little for --exchange %s: requests are sent "
                     "again before they are answered, and after %.0f s learners have taken %lld "
                     "steps together; give more servers, rarer exchanges or faster links",
                     p->o->job->run_spec.exchange, weft_sim_stats(p->sim).now, (long long)p->done);
}

/* --- the short vector --- */

static weft_status shrink(play *p)
{
    weft_run_spec *k = &p->o->job->run_spec;
    void *data;
    size_t bytes;
    p->rank = (weft_rank){.run_spec = k};
    WEFT_TRY(weft_rank_rewrite(&p->rank));
    WEFT_TRY(weft_rank_dry_program(&p->rank, &p->program));
    WEFT_TRY(weft_program_place(p->program));
    int64_t own = weft_program_elements(p->program, false);
    double all = (double)own, plain = (double)weft_program_elements(p->program, true);
    /* The shards of a learner are exchanged side by side: together they are its parameters, with as
     * much padding. */
    if (p->o->job->mesh > 1 && plain > 0)
        all *= WEFT_MAX((double)weft_rank_parameters(&p->rank) / plain, 1.0);
    if (own == 0)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "the first rank of a learner has no parameters, and "
                                               "the exchange is estimated by those that it has");
    double elements = WEFT_MAX((double)p->o->elements / p->longer, (double)LEAST_ELEMENTS);
    double longer = WEFT_MAX((double)own / elements, 1.0);
    WEFT_TRY(weft_store_shrink(p->program, longer, &p->store));
    WEFT_TRY(weft_store_map(p->store, WEFT_ALL_PARAMETERS, &p->dtype, &data, &bytes));
    weft_store_unmap_read(p->store, data);
    p->count = (int64_t)(bytes / weft_dtype_size(p->dtype));
    p->scale = all / (double)p->count;
    return WEFT_OK;
}

/* All learners have the same small change, at random, so that codecs find numbers. */
static weft_status make_vectors(play *p)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    weft_random random;
    size_t bytes = (size_t)p->count * weft_dtype_size(p->dtype);
    WEFT_TRY(
        weft_exchange_find(p->o->job->context, p->o->job->run_spec.exchange, &ops, &arguments));
    WEFT_TRY(weft_new_aligned(bytes, &p->change));
    WEFT_TRY(WEFT_NEW(&p->parameters, p->learners));
    WEFT_TRY(WEFT_NEW(&p->weights, p->learners));
    WEFT_TRY(WEFT_NEW(&p->empty, p->learners));
    if (ops->owns_update) WEFT_TRY(WEFT_NEW(&p->gradients, p->learners));
    weft_random_start(&random, 1, 3000);
    for (int64_t i = 0; i < p->count; i++)
        weft_number_put(p->dtype, p->change, i, weft_random_between(&random, -1e-3, 1e-3));
    for (int l = 0; l < p->learners; l++) {
        WEFT_TRY(weft_new_aligned(bytes, &p->parameters[l]));
        memset(p->parameters[l], 0, bytes);
        p->weights[l] = 1;
        if (p->gradients) p->gradients[l] = p->change;
    }
    return WEFT_OK;
}

/* --- the exchange --- */

/* The worst share of messages that links lose. */
static double most_lost(const weft_cluster *c)
{
    double most = c->link.lost;
    for (int g = 0; g < c->group_count; g++) most = WEFT_MAX(most, c->groups[g].link.lost);
    return most;
}

/* A lost message is sent again after a time as long as many steps: LOST of EACH that a learner
 * sends in a step give a mean; at most MOST times as many steps. */
static double longer_for_losses(const play *p)
{
    enum { LOST = 400, EACH = 2, MOST = 100 };
    double lost = most_lost(p->o->cluster) * EACH * MEASURED * p->learners;
    return lost > 0 && p->o->steps == 0 ? WEFT_MIN(WEFT_MAX(LOST / lost, 1.0), (double)MOST) : 1;
}

/* Slow steps may be rare: so many times as many steps have SLOW of them; at most MOST times as
 * many. */
static double longer_for_slow(const play *p)
{
    enum { SLOW = 8, MOST = 10 };
    double share = 0;
    for (int g = 0; g < p->o->cluster->group_count; g++)
        if (p->o->cluster->groups[g].slowdown > 1)
            share = WEFT_MAX(share, p->o->cluster->groups[g].slow);
    double slow = share * MEASURED * p->learners;
    return slow > 0 && p->o->steps == 0 ? WEFT_MIN(WEFT_MAX(SLOW / slow, 1.0), (double)MOST) : 1;
}

/* WARM, MEASURED: steps of each learner before the steady state, and in it; a multiple of those
 * after which the exchange repeats itself. The first meeting may answer nothing yet, so the steady
 * state begins after a second one. */
static void choose_steps(play *p)
{
    enum { WARM = 12 };
    int64_t period = WEFT_MAX(p->exchange->period, (int64_t)1);
    p->period = period;
    p->warm = WEFT_MAX((WARM + period - 1) / period, (int64_t)2) * period;
    p->steps = p->warm + ((int64_t)(p->longer * MEASURED) + period - 1) / period * period;
    if (p->o->steps == 0) return;
    p->steps = WEFT_MAX(p->o->steps, (int64_t)2);
    p->warm = WEFT_MAX(p->steps / 3, (int64_t)1);
}

static weft_status open_exchange(play *p)
{
    const weft_run_spec *k = &p->o->job->run_spec;
    p->optimizer = k->optimizer;
    p->optimizer.clip_norm = 0;
    p->optimizer.accumulate = 1;
    weft_sim_exchange_options options = {.struct_size = sizeof(options),
                                         .context = k->context,
                                         .store = p->store,
                                         .optimizer = &p->optimizer,
                                         .learners = p->learners,
                                         .servers = k->servers,
                                         .codec = k->codec,
                                         .back = k->back,
                                         .replicas = k->replicas,
                                         .scale = p->scale,
                                         .dtype = p->dtype,
                                         .count = p->count,
                                         .parameters = p->parameters,
                                         .gradients = p->gradients,
                                         .weights = p->weights,
                                         .empty = p->empty};
    WEFT_TRY(weft_sim_exchange_open(k->exchange, &options, &p->exchange));
    p->at = (weft_placed_actors){.cluster = p->o->cluster,
                                 .exchange = p->exchange,
                                 .machine = p->o->machine,
                                 .links = p->o->links,
                                 .learners = p->learners,
                                 .processes = p->o->processes,
                                 .hosted = p->o->job->engine->hosted};
    choose_steps(p);
    p->exchange->sim_options.steps = p->steps;
    weft_overlapped step;
    weft_overlapped_init(p->program, k->microbatches, &step);
    step.scale = (double)weft_program_elements(p->program, false) / (double)p->count;
    WEFT_TRY(weft_overlap_find(&step, p->exchange, &p->needs, &p->makes, &p->parts));
    WEFT_TRY(WEFT_NEW(&p->courses, p->learners));
    for (int l = 0; l < p->learners; l++) {
        p->courses[l].of = p->steps;
        WEFT_TRY(WEFT_NEW(&p->courses[l].ends, p->steps));
    }
    for (int m = 0; m < PLAY_MARKS; m++) WEFT_TRY(WEFT_NEW(&p->marks[m].uses, p->exchange->actors));
    WEFT_TRY(WEFT_NEW(&p->node, p->exchange->actors));
    WEFT_TRY(WEFT_NEW(&p->kind, p->learners));
    return WEFT_NEW(&p->windows, p->steps);
}

/* --- the run --- */

static bool are_equal(const weft_machine_group *a, const weft_machine_group *b)
{
    const weft_sim_link *x = &a->link, *y = &b->link;
    return a->cores == b->cores && a->speed == b->speed && a->jitter == b->jitter &&
           a->slow == b->slow && a->slowdown == b->slowdown && a->awake == b->awake &&
           a->period == b->period && x->latency == y->latency && x->jitter == y->jitter &&
           x->bandwidth == y->bandwidth && x->lost == y->lost && x->twice == y->twice &&
           x->reordered == y->reordered;
}

/* The first of the groups of machines that are equal to that of a learner. */
static int group_of(const play *p, int learner)
{
    const weft_cluster *c = p->o->cluster;
    int at = p->o->machine ? p->o->machine[learner] : learner, group = 0;
    while (!are_equal(&c->groups[group], weft_cluster_group_of(c, at))) group++;
    return group;
}

static void find_kinds(const play *p)
{
    const int *machine = p->o->machine;
    for (int l = 0; l < p->learners; l++) p->kind[l] = PLAY_KINDS * group_of(p, l);
    for (int i = 0; machine && i < p->exchange->actors; i++) {
        weft_actor_id id = (weft_actor_id)i, of = p->exchange->first_learner;
        int at = machine[weft_placed_host(&p->at, id)];
        if (weft_placed_learner(&p->at, id) >= 0) continue;
        for (int l = 0; l < p->learners; l++, of++) {
            int of_group = p->kind[l] / PLAY_KINDS * PLAY_KINDS;
            int kind = of_group + (weft_placed_crosses(&p->at, id, of) ? 1 : 2);
            if (machine[l] == at) p->kind[l] = WEFT_MAX(p->kind[l], kind);
        }
    }
}

static weft_status check_ends(const play *p)
{
    weft_sim_report r = weft_sim_stats(p->sim);
    if (p->done == p->steps * p->learners) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER,
                     "no learner goes on after %lld of %lld steps: the links of --cluster deliver "
                     "too little, and %llu of %llu messages were lost",
                     (long long)p->done, (long long)(p->steps * p->learners),
                     (unsigned long long)r.lost, (unsigned long long)r.messages);
}

static weft_status run(play *p)
{
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = (uint64_t)p->o->job->options.task.seed,
                                .link_of = link_of,
                                .scale = p->scale,
                                .work = p->o->work ? work : NULL,
                                .crosses = crosses,
                                .make = make,
                                .compute = compute,
                                .needs = p->needs,
                                .need_count = p->parts,
                                .computed = computed,
                                .ended = ended,
                                .check = check_over,
                                .user = p};
    /* EVENTS: of any run; ROUNDS: in which each learner has some events for each part, or peer. */
    enum { EVENTS = 2000000, ROUNDS = 16, EACH = 12 };
    double each = p->o->steps ? 1e12 : (double)WEFT_MAX(p->parts, p->learners);
    p->most_events = WEFT_MAX((double)EVENTS, (double)ROUNDS * EACH * p->learners * each);
    WEFT_TRY(weft_sim_create(&options, &p->sim));
    WEFT_TRY(weft_placed_add(&p->at, p->sim, p->node));
    find_kinds(p);
    weft_status status = weft_sim_run(p->sim, INFINITY);
    if (p->over && !p->slower) return WEFT_OK;
    return status == WEFT_OK ? check_ends(p) : status;
}

static void close_play(play *p)
{
    weft_sim_destroy(&p->sim);
    weft_sim_exchange_close(&p->exchange);
    weft_store_destroy(&p->store);
    weft_program_destroy(&p->program);
    weft_rank_free(&p->rank);
    for (int l = 0; l < p->learners; l++) {
        if (p->parameters) free(p->parameters[l]);
        if (p->courses) free(p->courses[l].ends);
    }
    for (int m = 0; m < PLAY_MARKS; m++) free(p->marks[m].uses);
    free((void *)p->parameters);
    free((void *)p->gradients);
    free(p->change);
    free(p->weights);
    free(p->empty);
    free(p->needs);
    free(p->makes);
    free(p->node);
    free(p->kind);
    free(p->courses);
    free(p->windows);
}

weft_status weft_play_actors(const weft_play_options *options, weft_played *out)
{
    play p = {.o = options, .learners = options->job->learners};
    *out = (weft_played){.seconds = 0};
    p.longer = WEFT_MAX(longer_for_losses(&p), longer_for_slow(&p));
    weft_status status = shrink(&p);
    if (status == WEFT_OK) status = make_vectors(&p);
    if (status == WEFT_OK) status = open_exchange(&p);
    if (status == WEFT_OK) status = run(&p);
    if (status == WEFT_OK) weft_play_sum_up(&p, out);
    close_play(&p);
    return status;
}
