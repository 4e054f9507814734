/* Draws exchanges, writes them as options, and checks runs with servers or gossip whose result is
 * known. Servers that wait for all learners equal data parallelism, one learner equals a run
 * without an exchange, and steps that change nothing leave the parameters at their start. */
#include <math.h>
#include <string.h>

#include "judge.h"

const char *const hunt_codecs[CODECS] = {
    "",
    "none",
    "bf16",
    "threshold:tau=0.001",
    "threshold:adaptive,warmup=1",
    "bitmap:tau=0.01",
    "onebit",
    "topk:ratio=0.1",
    "topk:ratio=0.3,values=bf16,warmup=2",
    "dgc:ratio=0.25,clip=1",
};
enum { LOSSLESS = 2 }; /* the codecs with smaller indices lose nothing */

/* --- drawing --- */

static void draw_average(dice *d, exchange *e)
{
    e->every = chance(d, 0.3) ? 1 : between(d, 1, 5);
    e->state = between(d, 0, 2);
    e->outer = chance(d, 0.3);
    e->lr = ONE_OF(d, 1, 0.7);
    e->momentum = ONE_OF(d, 0, 0.9);
}

static void draw_server(dice *d, exchange *e)
{
    e->policy = chance(d, 0.4) ? BSP : between(d, ASYNC, SSP);
    if (e->policy == SOFTSYNC) e->count = between(d, 1, e->learners);
    if (e->policy == SSP) e->bound = between(d, 0, 3);
    if (chance(d, 0.3)) e->scale = between(d, 1, 2);
    if (chance(d, 0.15)) e->back = between(d, 1, CODECS - 1);
    if (e->policy != ASYNC && e->policy != SOFTSYNC) return;
    if (chance(d, 0.3)) e->push = between(d, 1, 4);
    if (chance(d, 0.3)) e->fetch = between(d, 1, 4);
}

void draw_exchange(dice *d, hunt_case *c)
{
    static const meeting kinds[] = {AVERAGE, AVERAGE, AVERAGE, ONESHOT, SERVER, SERVER,  SERVER,
                                    SERVER,  EASGD,   EASGD,   GOSSIP,  GOSSIP, HOGWILD, HOGWILD};
    exchange *e = &c->exchange;
    if (!chance(d, 0.3)) return;
    *e = (exchange){.kind = kinds[between(d, 0, 13)], .learners = between(d, 2, 4)};
    if (e->kind == AVERAGE) draw_average(d, e);
    if (e->kind == SERVER) draw_server(d, e);
    if (e->kind == EASGD) e->every = between(d, 1, 4);
    if (e->kind == EASGD && chance(d, 0.5)) e->alpha = ONE_OF(d, 0.1, 1);
    if (e->kind == GOSSIP) {
        e->topology = between(d, 0, 3);
        e->mode = chance(d, 0.3) ? MEETINGS : UPDATES;
    }
    if (e->kind == AVERAGE || e->kind == ONESHOT) return;
    if (chance(d, 0.15)) e->learners = e->count = 1;
    if (e->kind == HOGWILD) e->sample = between(d, 1, 99);
    if (e->kind != HOGWILD && e->mode == UPDATES && chance(d, 0.4))
        e->codec = between(d, 1, CODECS - 1);
}

/* --- the command --- */

void exchange_words(const exchange *e, char *out, size_t room)
{
    static const char *const states[] = {"keep", "average", "reset"};
    static const char *const policies[] = {"bsp", "async", "softsync", "ssp"};
    static const char *const scales[] = {"none", "inverse", "exp"};
    static const char *const topologies[] = {"all", "ring", "torus", "random"};
    char more[64] = "";
    if (e->kind == ONESHOT) (void)snprintf(out, room, "oneshot");
    if (e->kind == HOGWILD) (void)snprintf(out, room, "hogwild:sample=%d", e->sample);
    if (e->outer)
        (void)snprintf(more, sizeof(more), ",outer=nesterov,lr=%g,momentum=%g", e->lr, e->momentum);
    if (e->kind == AVERAGE)
        (void)snprintf(out, room, "average:every=%d%s,state=%s", e->every, more, states[e->state]);
    if (e->kind == GOSSIP)
        (void)snprintf(out, room, "gossip:topology=%s,mode=%s", topologies[e->topology],
                       e->mode == MEETINGS ? "average" : "updates");
    if (e->policy == SOFTSYNC) (void)snprintf(more, sizeof(more), ",c=%d", e->count);
    if (e->policy == SSP) (void)snprintf(more, sizeof(more), ",bound=%d", e->bound);
    if (e->kind == EASGD && e->alpha > 0) (void)snprintf(more, sizeof(more), ",alpha=%g", e->alpha);
    if (e->kind == EASGD) (void)snprintf(out, room, "easgd:every=%d%s", e->every, more);
    if (e->kind != SERVER) return;
    int size = snprintf(out, room, "server:policy=%s%s,scale=%s", policies[e->policy], more,
                        scales[e->scale]);
    if (e->push) size += snprintf(out + size, room - (size_t)size, ",push=%d", e->push);
    if (e->fetch) (void)snprintf(out + size, room - (size_t)size, ",fetch=%d", e->fetch);
}

/* --- which runs must agree --- */

bool is_synchronous(const exchange *e)
{
    bool waits = e->policy == BSP || (e->policy == SSP && e->bound == 0);
    return e->kind == SERVER && (waits || e->learners == 1);
}

bool is_repeatable(const hunt_case *c)
{
    const exchange *e = &c->exchange;
    return e->kind < SERVER || e->learners == 1 || is_synchronous(e);
}

bool has_servers(const exchange *e)
{
    return e->kind == SERVER || e->kind == EASGD;
}

static bool is_lossless(const exchange *e)
{
    return e->codec < LOSSLESS && e->back < LOSSLESS;
}

bool is_comparable(const hunt_case *c)
{
    bool rounds = is_narrow(c) && c->options[VIRTUAL_WORKERS] == 0;
    return is_repeatable(c) && is_lossless(&c->exchange) && !rounds;
}

/* Whether a run that is stopped and resumed must equal one that is not. A resumed downlink codec
 * begins its warm-up and its adaptive threshold again. */
bool goes_on_alike(const hunt_case *c)
{
    const exchange *e = &c->exchange;
    const char *back = hunt_codecs[e->back ? e->back : e->codec];
    bool begins_anew = strstr(back, "warmup") || strstr(back, "adaptive");
    return is_repeatable(c) && (e->kind < SERVER || e->learners == 1 || !begins_anew);
}

void check_finite(trial *t, const result *r)
{
    for (int i = 0; i < r->tensors.count && t->v->fault == CLEAN; i++) {
        const tensor *x = &r->tensors.list[i];
        for (int64_t k = 0; x->dtype[0] == 'F' && k < x->count; k++) {
            if (isfinite(tensor_at(x, k))) continue;
            found(t, VALUES, "'%s'[%lld] is %g", x->name, (long long)k, tensor_at(x, k));
            return;
        }
    }
}

/* Compares the tensors that both runs have; the exchange's own tensors are only in one of them. */
static void compare_models(trial *t, const char *stage, const tensors *a, const result *b,
                           closeness how)
{
    set_text(t->v->stage, sizeof(t->v->stage), stage);
    set_text(t->v->command, sizeof(t->v->command), b->command);
    for (int i = 0; i < b->tensors.count; i++) {
        const tensor *like = tensors_find(a, b->tensors.list[i].name);
        if (like && !same_tensor(t, like, &b->tensors.list[i], how)) return;
    }
}

/* Compares a run with data parallelism or one rank. Servers that wait for all learners combine the
 * learners' batches into one; a single learner trains as without an exchange. Where the number of
 * learners is a power of two and each takes one micro-batch, no rounding is added, and the bits are
 * equal. */
static void check_simpler(trial *t)
{
    hunt_case c = *t->c;
    way one = plain_way();
    int learners = c.exchange.learners;
    result r;
    if (!is_comparable(t->c) || (learners > 1 && !is_one_batch(t->c))) return;
    bool exact = c.exchange.kind != GOSSIP && (learners & (learners - 1)) == 0 &&
                 (learners == 1 || c.options[MICROBATCHES] <= 1) &&
                 c.samples.train % ((int)c.options[BATCH] * learners) == 0;
    c.exchange = (exchange){0};
    c.options[BATCH] *= learners;
    one.mesh[0] = learners;
    if (!train(t, "without an exchange", &c, &one, &r)) return;
    compare_models(t, "an exchange that waits for all against data parallelism", &r.tensors,
                   &t->base, exact ? EXACT : CLOSE);
    result_free(&r);
}

static bool is_parameter(const char *name)
{
    static const char *const endings[] = {"/weight", "/bias", "/gamma", "/beta"};
    const char *slash = strrchr(name, '/');
    for (int i = 0; slash && i < 4; i++)
        if (strcmp(slash, endings[i]) == 0) return true;
    return false;
}

/* A run whose steps change nothing, at a learning rate of 1e-30, must end with its initial
 * parameters, whatever the learners exchange. */
static void check_still(trial *t)
{
    hunt_case c = *t->c;
    way one = plain_way();
    result start, r;
    c.options[LR] = 1e-30;
    c.options[LR_FLOOR] = 0;
    if (!find_start(t, &c, &start)) return;
    one.servers = t->c->way.servers;
    one.replicas = t->c->way.replicas;
    if (train(t, "steps that change nothing", &c, &one, &r)) {
        for (int i = 0; i < start.tensors.count && t->v->fault == CLEAN; i++) {
            const tensor *a = &start.tensors.list[i];
            const tensor *b = tensors_find(&r.tensors, a->name);
            if (b && is_parameter(a->name)) (void)same_tensor(t, a, b, CLOSE);
        }
        result_free(&r);
    }
    result_free(&start);
}

void check_exchange(trial *t)
{
    if (!is_f64(t->c) || t->v->fault != CLEAN) return;
    check_finite(t, &t->base);
    check_simpler(t);
    if (t->v->fault == CLEAN) check_still(t);
}
