/* Lower bounds of the steps of learners that do not wait for all others, from the time of each
 * learner's own step, which all exchanges share.
 *
 * Handlers: a learner computes or handles, never both. The work of its exchange, which encodes,
 * decodes and reads memory in a step, comes on top of the computation. On a machine whose learner
 * computes on all cores, a server's handlers take a part of its computation, or time in which it
 * does not compute.
 *
 * Links: what learners send to servers on other machines, and what these send back, takes its bytes
 * divided by the bandwidth of the machine that sends, or receives, it. A codec that is not plain
 * may send nothing.
 *
 * The window of steps that an estimate measures may begin behind what belongs to its first step,
 * for which a twentieth is left. */
#include <math.h>

#include "train/strategies/bound.h"

static const double MEASURED = 19 / 20.0;

/* A candidate, and what its exchange does in a step. */
typedef struct least_step {
    const weft_site *site;
    strategy_place place;
    const char *codec, *back;
    bool plain, plain_back;
    int learners, mesh, servers;
    double bytes; /* of the parameters */
    double cores; /* of the smallest machine with a learner's first rank */
    weft_exchange_least does;
} least_step;

static int machine_of(const least_step *s, int learner)
{
    return learner * s->mesh / s->place.each;
}

static const weft_machine_group *group_of(const least_step *s, int learner)
{
    return weft_cluster_group_of(&s->site->cluster, machine_of(s, learner));
}

/* The bandwidth of a machine's link. Several machines of a learner carry its shards side by side.
 */
static double bandwidth_of(const least_step *s, int machine)
{
    double bandwidth = weft_cluster_group_of(&s->site->cluster, machine)->link.bandwidth;
    int most = (s->mesh - 2) / s->place.each + 2;
    return bandwidth > 0 ? bandwidth * (s->mesh > 1 ? most : 1) : INFINITY;
}

static bool is_on(const least_step *s, int server, int machine)
{
    return machine_of(s, s->does.host(server, s->learners)) == machine;
}

/* The share of the servers that are on a machine. */
static double share_on(const least_step *s, int machine)
{
    int count = 0;
    for (int k = 0; k < s->servers && s->does.host; k++) count += is_on(s, k, machine);
    return (double)count / s->servers;
}

/* --- work --- */

/* The seconds of a thread at speed 1 for `times` bytes for each one of the parameters, which come
 * in pieces. codec NULL: passes. */
static double work_of(const least_step *s, bool encodes, const char *codec, double times)
{
    double pieces = WEFT_MAX(s->does.pieces, 1);
    char kind[WEFT_TRANSFER_KIND] = "pass";
    if (times <= 0 || s->bytes <= 0) return 0;
    if (codec) weft_codec_timed(encodes, codec, kind);
    const weft_timed what = {.kind = kind,
                             .group = "",
                             .threads = 1,
                             .ranks = s->place.each,
                             .bytes = 2 * s->bytes / pieces};
    return MEASURED * times / 2 * pieces * weft_times_estimate(s->site->times, &what).seconds;
}

/* That of a server's share of the parameters is this times its share. */
static double handled_by(const least_step *s, const weft_handled *h)
{
    return work_of(s, true, s->codec, h->encoded) + work_of(s, false, s->codec, h->decoded) +
           work_of(s, false, NULL, h->passed);
}

/* A pull has the difference to what the learner has, or all parameters. */
static double pull_work(const least_step *s)
{
    double whole = work_of(s, false, NULL, s->does.learner.back);
    if (s->plain_back) return whole;
    return WEFT_MIN(whole, work_of(s, false, s->back, s->does.learner.back));
}

/* The seconds that a server which works so long takes of the computation of the only learner of its
 * machine, whose own handlers work so long, at least. */
static double taken(const least_step *s, double server, double learner)
{
    double busy = s->place.each_threads * WEFT_MIN(s->mesh, s->place.each);
    double base = WEFT_MAX(s->cores, busy), over = WEFT_MAX(busy + 1 - base, 0) / base;
    bool alone = s->mesh >= s->place.each;
    return alone ? over * WEFT_MAX(server - learner, 0) : 0;
}

/* A step of a learner that alone takes `own` seconds. */
static double learner_seconds(const least_step *s, int l, double own)
{
    const weft_exchange_least *does = &s->does;
    const weft_machine_group *g = group_of(s, l);
    double here = share_on(s, machine_of(s, l)), far = does->host ? 1 - here : 0;
    double sent = s->plain ? does->pushes * far : 0, got = s->plain_back ? does->pulls * far : 0;
    double speed = g->speed * g->awake;
    double handled =
        (pull_work(s) + handled_by(s, &does->learner) + work_of(s, false, NULL, 2 * (sent + got))) /
        speed;
    double server = here * handled_by(s, &does->servers) / speed;
    return own + handled + taken(s, server, handled);
}

/* --- links --- */

/* The seconds for which the link of a machine works in one direction while each learner takes a
 * step. */
static double link_seconds(const least_step *s, int machine)
{
    double there = s->plain ? s->does.pushes : 0, back = s->plain_back ? s->does.pulls : 0;
    double here = 0, on = share_on(s, machine);
    for (int l = 0; l < s->learners; l++) here += machine_of(s, l) == machine;
    double learners = here * (1 - on), servers = on * (s->learners - here);
    double times = WEFT_MAX(learners * there + servers * back, learners * back + servers * there);
    return MEASURED * times * s->bytes / bandwidth_of(s, machine);
}

/* --- the bound --- */

static weft_status ask(least_step *s, const strategy_space *space, const strategy_work *work,
                       const strategy_candidate *c)
{
    const weft_parallel_choice *given = &space->given->parallel;
    int exchange = c->at[STRATEGY_EXCHANGE], codec = c->at[STRATEGY_COMPRESS];
    int servers = c->at[STRATEGY_SERVERS];
    int64_t number = given->servers;
    const weft_codec_ops *ops;
    if (servers > 0) (void)weft_parse_int(space->values[STRATEGY_SERVERS].text[servers], &number);
    s->servers = (int)WEFT_MAX(number, (int64_t)1);
    s->codec = codec ? space->values[STRATEGY_COMPRESS].text[codec] : given->compress;
    s->codec = weft_codec_back(s->codec, NULL);
    s->back = weft_codec_back(s->codec, given->compress_downlink);
    s->plain = weft_codec_is_plain(space->context, s->codec);
    const weft_exchange_plan plan = {.context = space->context,
                                     .learners = c->learners,
                                     .servers = s->servers,
                                     .replicas = (int)given->replicas,
                                     .codec = s->codec,
                                     .back = s->back,
                                     .hosted = true};
    const weft_exchange_sizes sizes = {
        .struct_size = sizeof(sizes),
        .plan = &plan,
        .dtype = work->dtype,
        .count = (int64_t)(s->bytes / (double)weft_dtype_size(work->dtype))};
    WEFT_TRY(weft_exchange_least_of(exchange ? space->values[STRATEGY_EXCHANGE].text[exchange]
                                             : given->exchange,
                                    &sizes, &s->does));
    s->plain_back = weft_codec_is_plain(space->context, s->back);
    WEFT_TRY(weft_codec_find(space->context, s->codec, &ops));
    s->codec = ops->name; /* as handlers name it */
    WEFT_TRY(weft_codec_find(space->context, s->back, &ops));
    s->back = ops->name;
    return WEFT_OK;
}

weft_status strategy_least_seconds(const weft_site *site, const strategy_space *space,
                                   const strategy_work *work, const strategy_candidate *c,
                                   const double *own, double *seconds)
{
    int mesh = (int)space->mesh_ranks[c->at[STRATEGY_MESH]];
    least_step s = {.site = site,
                    .place = strategy_place_of(site, space, mesh * c->learners),
                    .learners = c->learners,
                    .mesh = mesh,
                    .bytes = work->gradient_bytes};
    double rates = 0;
    WEFT_TRY(ask(&s, space, work, c));
    s.cores = INFINITY;
    for (int l = 0; l < c->learners; l++)
        s.cores = WEFT_MIN(s.cores, (double)group_of(&s, l)->cores);
    for (int l = 0; l < c->learners; l++) rates += 1 / learner_seconds(&s, l, own[l]);
    *seconds = c->learners / rates;
    for (int m = 0; m < s.place.machines; m++) *seconds = WEFT_MAX(*seconds, link_seconds(&s, m));
    return WEFT_OK;
}
