#include <stdio.h>

#include "base/sort.h"
#include "train/estimate/apart.h"

/* The seconds of work of one kind and size, which comes again in each step. */
typedef struct charge {
    weft_work_kind kind;
    const char *codec;
    double bytes, seconds;
} charge;
enum { CHARGES = 32 };

typedef struct apart {
    const weft_apart *a;
    weft_random *random;   /* [learners] for how long steps take */
    double factors, steps; /* sum of what was drawn, and their number */
    int *machine, *links;
    double cores, threads; /* of a machine; of the ranks of a learner there */
    charge charges[CHARGES];
    int charge_count, next;
} apart;

/* --- work --- */

static double charge_of(apart *p, weft_work_kind kind, const char *codec, double bytes)
{
    char text[WEFT_TRANSFER_KIND] = "pass";
    for (int i = 0; i < p->charge_count; i++) {
        const charge *c = &p->charges[i];
        if (c->kind == kind && c->codec == codec && c->bytes == bytes) return c->seconds;
    }
    if (codec && (kind == WEFT_WORK_ENCODE || kind == WEFT_WORK_DECODE))
        weft_codec_timed(kind == WEFT_WORK_ENCODE, codec, text);
    bool beside = kind == WEFT_WORK_SEND_BESIDE || kind == WEFT_WORK_RECEIVE_BESIDE;
    if (beside || kind == WEFT_WORK_SEND || kind == WEFT_WORK_RECEIVE)
        (void)snprintf(text, sizeof(text), "%s",
                       beside && p->a->job->engine->ipc ? WEFT_IPC_MESSAGE_TIMED
                                                        : WEFT_MESSAGE_TIMED);
    const weft_timed what = {
        .kind = text, .group = "", .threads = 1, .ranks = p->a->hosts->each, .bytes = bytes};
    charge *c = &p->charges[p->next];
    *c = (charge){kind, codec, bytes, weft_times_estimate(p->a->times, &what).seconds};
    p->next = (p->next + 1) % CHARGES;
    p->charge_count = WEFT_MIN(p->charge_count + 1, (int)CHARGES);
    return c->seconds;
}

/* A handler takes a core. Where learners compute on all cores, its thread takes turns with theirs:
 * it takes longer, and they lose together what it takes. */
static weft_sim_delay work(void *user, int learner, weft_work_kind kind, const char *codec,
                           double bytes, int computing)
{
    apart *p = user;
    const weft_machine_group *g = weft_cluster_group_of(p->a->cluster, p->machine[learner]);
    double seconds = charge_of(p, kind, codec, bytes) / g->speed / g->awake,
           busy = computing * p->threads;
    double base = WEFT_MAX(p->cores, busy), over = WEFT_MAX(busy + 1 - base, 0.0) / base;
    return (weft_sim_delay){seconds * WEFT_MAX((busy + 1) / p->cores, 1.0), seconds * over};
}

/* --- steps --- */

/* Draws how many times as long a step of a learner takes: its ranks wait for the slowest. */
static double draw(apart *p, int learner)
{
    const weft_trainer *t = p->a->job;
    double most = 0;
    for (int r = 0; r < t->mesh; r++) {
        int machine = p->a->hosts->machine[learner * t->mesh + r];
        const weft_machine_group *g = weft_cluster_group_of(p->a->cluster, machine);
        double longer = weft_random_unit(&p->random[learner]);
        double lot = weft_random_unit(&p->random[learner]);
        most = WEFT_MAX(most, (1 + g->jitter * longer) * (lot < g->slow ? g->slowdown : 1));
    }
    p->factors += most;
    p->steps++;
    return most;
}

static double next_step(void *user, int learner)
{
    apart *p = user;
    return p->a->seconds[learner] * draw(p, learner);
}

/* The machines over which the ranks of a learner exchange their shards; copies of a shard do not.
 */
static int links_of(const apart *p, int learner)
{
    const weft_trainer *t = p->a->job;
    const int *machine = p->a->hosts->machine + (size_t)learner * (size_t)t->mesh;
    return machine[t->mesh - 1] - machine[0] + 1;
}

static weft_status place(apart *p)
{
    const weft_trainer *t = p->a->job;
    const weft_hosts *h = p->a->hosts;
    WEFT_TRY(WEFT_NEW(&p->machine, t->learners));
    WEFT_TRY(WEFT_NEW(&p->links, t->learners));
    p->threads = (double)h->threads * WEFT_MIN(t->mesh, h->each);
    for (int l = 0; l < t->learners; l++) {
        p->machine[l] = h->machine[(size_t)l * (size_t)t->mesh];
        p->links[l] = links_of(p, l);
        double cores = (double)weft_cluster_group_of(p->a->cluster, p->machine[l])->cores;
        p->cores = l == 0 ? cores : WEFT_MIN(p->cores, cores);
    }
    return WEFT_OK;
}

/* ELEMENTS: that may stand for the parameters; TOTAL: elements times learners times steps, so that
 * playing takes a part of a second. */
static int64_t elements_for(int learners)
{
    enum { MOST = 65536, LEAST = 2048, STEPS = 52 };
    static const double TOTAL = 2e7;
    double elements = TOTAL / STEPS / learners;
    return (int64_t)WEFT_MIN(WEFT_MAX(elements, (double)LEAST), (double)MOST);
}

static weft_status play(apart *p, weft_played *out)
{
    const weft_hosts *h = p->a->hosts;
    WEFT_TRY(place(p));
    const weft_play_options options = {.job = p->a->job,
                                       .cluster = p->a->cluster,
                                       .machine = p->machine,
                                       .links = p->links,
                                       .elements = elements_for(p->a->job->learners),
                                       .step = next_step,
                                       .processes = h->machines > 1 || p->a->job->engine->processes,
                                       .work = work,
                                       .user = p,
                                       .end = p->a->end,
                                       .sending = p->a->sending};
    return weft_play_actors(&options, out);
}

/* --- shared memory --- */

/* Learners that wait for nobody: each goes at its own pace. */
static weft_status free_pace(apart *p, weft_played *out)
{
    enum { DRAWS = 400 };
    double rounds[DRAWS], *sums, rates = 0;
    int learners = p->a->job->learners;
    WEFT_TRY(WEFT_NEW(&sums, learners));
    for (int d = 0; d < DRAWS; d++) {
        double rate = 0;
        for (int l = 0; l < learners; l++) {
            double takes = next_step(p, l);
            sums[l] += takes / DRAWS;
            rate += 1 / takes;
        }
        rounds[d] = learners / rate;
    }
    for (int l = 0; l < learners; l++) rates += 1 / sums[l];
    free(sums);
    weft_sort_doubles(rounds, DRAWS);
    *out = (weft_played){.seconds = learners / rates,
                         .low = rounds[DRAWS / 20],
                         .high = rounds[DRAWS - 1 - DRAWS / 20],
                         .staleness = -1};
    return WEFT_OK;
}

weft_status weft_apart_estimate(const weft_apart *a, weft_played *out)
{
    apart p = {.a = a};
    if (!a->actors && a->hosts->machines > 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the learners of --exchange %s share memory, and would be on %d machines; "
                         "give a cluster of one, or another exchange",
                         a->job->run_spec.exchange, a->hosts->machines);
    int learners = a->job->learners;
    WEFT_TRY(WEFT_NEW(&p.random, learners));
    for (int l = 0; l < learners; l++)
        weft_random_start(&p.random[l], (uint64_t)a->job->options.task.seed, 1000 + (uint64_t)l);
    weft_status status = a->actors ? play(&p, out) : free_pace(&p, out);
    if (status == WEFT_OK) out->longer = p.factors / p.steps;
    free(p.random);
    free(p.machine);
    free(p.links);
    return status;
}
