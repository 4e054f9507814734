#include "train/estimate/placed_learners.h"

#include <stdio.h>

/* --- opening --- */

/* The machines over which the ranks of a learner exchange their shards; copies of a shard do not.
 */
static int links_of(const weft_trainer *t, const weft_hosts *hosts, int learner)
{
    const int *machine = hosts->machine + (size_t)learner * (size_t)t->mesh;
    return machine[t->mesh - 1] - machine[0] + 1;
}

weft_status weft_placed_learners_open(const weft_trainer *t, const weft_cluster *cluster,
                                      const weft_times *times, const weft_hosts *hosts,
                                      weft_placed_learners *out)
{
    *out = (weft_placed_learners){.cluster = cluster,
                                  .times = times,
                                  .learners = t->learners,
                                  .mesh = t->mesh,
                                  .each = hosts->each,
                                  .processes = hosts->machines > 1 || t->engine->processes,
                                  .hosted = t->engine->hosted,
                                  .ipc = hosts->machines == 1};
    WEFT_TRY(WEFT_NEW(&out->seconds, t->learners));
    WEFT_TRY(WEFT_NEW(&out->machine, t->learners));
    WEFT_TRY(WEFT_NEW(&out->links, t->learners));
    WEFT_TRY(WEFT_NEW(&out->random, t->learners));
    WEFT_TRY(WEFT_NEW(&out->taken, t->learners));
    out->seed = (uint64_t)t->options.task.seed;
    WEFT_TRY(WEFT_NEW(&out->group, t->size));
    out->threads = (double)hosts->threads * WEFT_MIN(t->mesh, hosts->each);
    for (int r = 0; r < t->size; r++) out->group[r] = hosts->group[hosts->machine[r]];
    for (int l = 0; l < t->learners; l++) {
        weft_random_start(&out->random[l], (uint64_t)t->options.task.seed, 1000 + (uint64_t)l);
        out->machine[l] = hosts->machine[(size_t)l * (size_t)t->mesh];
        out->links[l] = links_of(t, hosts, l);
        double cores = (double)hosts->group[out->machine[l]]->cores;
        out->cores = l == 0 ? cores : WEFT_MIN(out->cores, cores);
    }
    return WEFT_OK;
}

void weft_placed_learners_close(weft_placed_learners *p)
{
    free(p->seconds);
    free(p->machine);
    free(p->links);
    free(p->random);
    free(p->taken);
    free((void *)p->group);
    *p = (weft_placed_learners){.learners = 0};
}

/* --- the time of steps and of handlers --- */

/* Stratified numbers: few steps have their share of slow ones (McKay, Beckman and Conover 1979). */
enum { STRATA = 40 }; /* steps of a learner */
static double draw_evenly(weft_placed_learners *p, int learner, uint64_t which)
{
    int64_t taken = p->taken[learner], cells = (int64_t)p->learners * STRATA;
    uint64_t key = weft_mix(p->seed, 2 * (uint64_t)p->mesh * (uint64_t)(taken / STRATA) + which);
    int64_t cell = weft_permute(key, cells, (int64_t)learner * STRATA + taken % STRATA);
    return ((double)cell + weft_random_unit(&p->random[learner])) / (double)cells;
}

double weft_placed_step(weft_placed_learners *p, int learner)
{
    double most = 0;
    for (int r = 0; r < p->mesh; r++) {
        double longer = draw_evenly(p, learner, 2 * (uint64_t)r);
        double lot = draw_evenly(p, learner, 2 * (uint64_t)r + 1);
        double takes = weft_cluster_slowness(p->group[learner * p->mesh + r], longer, lot);
        most = WEFT_MAX(most, takes);
    }
    p->taken[learner]++;
    p->factors += most;
    p->steps++;
    return p->seconds[learner] * most;
}

static double charge_of(weft_placed_learners *p, weft_work_kind kind, const char *codec,
                        double bytes)
{
    char text[WEFT_TRANSFER_KIND] = "pass";
    for (int i = 0; i < p->charge_count; i++) {
        const weft_charge *c = &p->charges[i];
        if (c->kind == kind && c->codec == codec && c->bytes == bytes) return c->seconds;
    }
    if (codec && (kind == WEFT_WORK_ENCODE || kind == WEFT_WORK_DECODE))
        weft_codec_timed(kind == WEFT_WORK_ENCODE, codec, text);
    bool beside = kind == WEFT_WORK_SEND_BESIDE || kind == WEFT_WORK_RECEIVE_BESIDE;
    if (beside || kind == WEFT_WORK_SEND || kind == WEFT_WORK_RECEIVE)
        (void)snprintf(text, sizeof(text), "%s",
                       beside && p->ipc ? WEFT_IPC_MESSAGE_TIMED : WEFT_MESSAGE_TIMED);
    const weft_timed what = {
        .kind = text, .group = "", .threads = 1, .ranks = p->each, .bytes = bytes};
    weft_charge *c = &p->charges[p->next];
    *c = (weft_charge){kind, codec, bytes, weft_times_estimate(p->times, &what).seconds};
    p->next = (p->next + 1) % WEFT_CHARGES;
    p->charge_count = WEFT_MIN(p->charge_count + 1, (int)WEFT_CHARGES);
    return c->seconds;
}

/* A handler takes a core. Where learners compute on all cores, its thread takes turns with theirs:
 * it takes longer, and they lose together what it takes. */
weft_sim_delay weft_placed_work(weft_placed_learners *p, int learner, weft_work_kind kind,
                                const char *codec, double bytes, int computing)
{
    const weft_machine_group *g = p->group[learner * p->mesh];
    double seconds = charge_of(p, kind, codec, bytes) / g->speed / g->awake,
           busy = computing * p->threads;
    double base = WEFT_MAX(p->cores, busy), over = WEFT_MAX(busy + 1 - base, 0.0) / base;
    return (weft_sim_delay){seconds * WEFT_MAX((busy + 1) / p->cores, 1.0), seconds * over};
}

/* --- the places of actors --- */

int weft_placed_learner(const weft_placed_actors *p, weft_actor_id id)
{
    int64_t i = (int64_t)id - (int64_t)p->exchange->first_learner;
    return i >= 0 && i < p->learners ? (int)i : -1;
}

int weft_placed_host(const weft_placed_actors *p, weft_actor_id id)
{
    const weft_sim_exchange *x = p->exchange;
    return x->ops->host ? x->ops->host(x, id) : (int)(id - x->first_learner);
}

weft_sim_link weft_placed_link(const weft_placed_actors *p, weft_actor_id from, weft_actor_id to)
{
    if (!p->machine)
        return weft_cluster_link(p->cluster, weft_placed_learner(p, from),
                                 weft_placed_learner(p, to));
    static const double UNEVEN = 0.05;
    int a = weft_placed_host(p, from), b = weft_placed_host(p, to);
    weft_sim_link link = weft_cluster_link(p->cluster, p->machine[a], p->machine[b]);
    link.bandwidth *= WEFT_MIN(p->links[a], p->links[b]) *
                      WEFT_MIN(weft_cluster_group_of(p->cluster, p->machine[a])->awake,
                               weft_cluster_group_of(p->cluster, p->machine[b])->awake);
    link.uneven = UNEVEN;
    return link;
}

bool weft_placed_crosses(const weft_placed_actors *p, weft_actor_id from, weft_actor_id to)
{
    if (!p->processes) return false;
    return !p->hosted || weft_placed_host(p, from) != weft_placed_host(p, to);
}

static weft_status place(const weft_placed_actors *p, weft_sim *sim, weft_actor_id id,
                         weft_actor_id *node)
{
    const int *machine = p->machine;
    int host = machine ? weft_placed_host(p, id) : weft_placed_learner(p, id), first = 0;
    *node = id;
    if (machine) {
        while (machine[first] != machine[host]) first++;
        *node = p->exchange->first_learner + (weft_actor_id)first;
        WEFT_TRY(weft_sim_share_node(sim, id, *node));
    }
    /* Pauses of any period are in the seconds of a placed learner, as their share of the time. */
    if (host < 0 || machine) return WEFT_OK;
    const weft_machine_group *g = weft_cluster_group_of(p->cluster, host);
    return g->awake < 1 ? weft_sim_doze(sim, id, g->period, g->awake * g->period) : WEFT_OK;
}

weft_status weft_placed_add(const weft_placed_actors *p, weft_sim *sim, weft_actor_id *node)
{
    weft_actor_id own;
    for (int i = 0; i < p->exchange->actors; i++) WEFT_TRY(weft_sim_add(sim, (weft_actor_id)i, 0));
    for (int i = 0; i < p->exchange->actors; i++)
        WEFT_TRY(place(p, sim, (weft_actor_id)i, node ? &node[i] : &own));
    return WEFT_OK;
}
