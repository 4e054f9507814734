#include "train/estimate/apart.h"

#include "base/sort.h"

static double next_step(void *user, int learner)
{
    return weft_placed_step(user, learner);
}

static weft_sim_delay work(void *user, int learner, weft_work_kind kind, const char *codec,
                           double bytes, int computing)
{
    return weft_placed_work(user, learner, kind, codec, bytes, computing);
}

/* The elements that may stand for the parameters. TOTAL: elements times learners times steps, so
 * that playing takes a part of a second. Fewer change the bytes of codecs that choose elements. */
static int64_t elements_for(int learners)
{
    enum { MOST = 65536, LEAST = 2048, STEPS = 52 };
    static const double TOTAL = 2e7;
    double elements = TOTAL / STEPS / learners;
    return (int64_t)WEFT_MIN(WEFT_MAX(elements, (double)LEAST), (double)MOST);
}

static weft_status play(const weft_apart *a, weft_played *out)
{
    const weft_play_options options = {.job = a->job,
                                       .cluster = a->at->cluster,
                                       .machine = a->at->machine,
                                       .links = a->at->links,
                                       .processes = a->at->processes,
                                       .elements = elements_for(a->job->learners),
                                       .step = next_step,
                                       .work = work,
                                       .user = a->at,
                                       .end = a->end,
                                       .sending = a->sending};
    return weft_play_actors(&options, out);
}

/* --- shared memory --- */

/* Learners that wait for nobody: each goes at its own pace. */
static weft_status free_pace(weft_placed_learners *p, weft_played *out)
{
    enum { DRAWS = 400 };
    double rounds[DRAWS], *sums, rates = 0;
    int learners = p->learners;
    WEFT_TRY(WEFT_NEW(&sums, learners));
    for (int d = 0; d < DRAWS; d++) {
        double rate = 0;
        for (int l = 0; l < learners; l++) {
            double takes = weft_placed_step(p, l);
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

/* Whether the messages of the exchange depend on when others arrive, or on their numbers. */
static weft_status find_chance(const weft_trainer *t, bool *by_chance)
{
    const weft_run_spec *k = &t->run_spec;
    const weft_exchange_plan plan = {
        .context = k->context, .learners = t->learners, .servers = WEFT_MAX(k->servers, 1)};
    const weft_exchange_sizes sizes = {.struct_size = sizeof(sizes), .plan = &plan};
    weft_exchange_least least;
    const char *codec = weft_codec_back(k->codec, NULL), *back = weft_codec_back(codec, k->back);
    WEFT_TRY(weft_exchange_least_of(k->exchange, &sizes, &least));
    *by_chance = least.pushes == 0 || !weft_codec_is_plain(k->context, codec) ||
                 !weft_codec_is_plain(k->context, back);
    return WEFT_OK;
}

weft_status weft_apart_estimate(const weft_apart *a, weft_played *out)
{
    if (!a->actors && a->machines > 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the learners of --exchange %s share memory, and would be on %d machines; "
                         "give a cluster of one, or another exchange",
                         a->job->run_spec.exchange, a->machines);
    WEFT_TRY(a->actors ? play(a, out) : free_pace(a->at, out));
    out->longer = a->at->factors / a->at->steps;
    return a->actors ? find_chance(a->job, &out->by_chance) : WEFT_OK;
}
