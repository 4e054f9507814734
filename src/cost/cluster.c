#include "cost/cluster.h"

#include <stddef.h>

#include "formats/yaml.h"
#include "base/option_rows.h"
#include "weft/comm.h"

/* Reads the YAML description of a cluster, draws the durations of simulated steps from it, and
 * gives the link between two actors. */

#define SHARE 0, 0.999
#define SECONDS 0, 1e6
#define BYTES 0, 1e15
#define CORES 1, 4096

#define CLUSTER(field_) .offset = offsetof(weft_cluster, field_)
static const weft_option cluster_rows[] = {
    OPTION("rate", NULL, REAL("1e10", 1, 1e18), CLUSTER(rate)),
    OPTION("step", NULL, REAL(NULL, 1e-9, 1e6), CLUSTER(step)),
    OPTION("latency", NULL, REAL("0.0001", SECONDS), CLUSTER(link.latency)),
    OPTION("latency-jitter", NULL, REAL("0", SECONDS), CLUSTER(link.jitter)),
    OPTION("bandwidth", NULL, REAL("125e6", BYTES), CLUSTER(link.bandwidth)),
    OPTION("lost", NULL, REAL("0", SHARE), CLUSTER(link.lost)),
    OPTION("twice", NULL, REAL("0", SHARE), CLUSTER(link.twice)),
    OPTION("reordered", NULL, REAL("0", SHARE), CLUSTER(link.reordered)),
    OPTION("times", NULL, TEXT, CLUSTER(times)),
    {.name = NULL}};

#define GROUP(field_) .offset = offsetof(weft_machine_group, field_)
static const weft_option group_rows[] = {
    OPTION("count", NULL, WHOLE("1", 1, WEFT_MAX_RANKS), GROUP(count)),
    OPTION("cores", NULL, WHOLE("1", CORES), GROUP(cores)),
    OPTION("memory", NULL, REAL("0", BYTES), GROUP(memory)),
    OPTION("speed", NULL, REAL("1", 1e-6, 1e6), GROUP(speed)),
    OPTION("jitter", NULL, REAL("0", 0, 1e6), GROUP(jitter)),
    OPTION("slow", NULL, REAL("0", 0, 1), GROUP(slow)),
    OPTION("slowdown", NULL, REAL("10", 1, 1e6), GROUP(slowdown)),
    OPTION("awake", NULL, REAL("1", 1e-6, 1), GROUP(awake)),
    OPTION("period", NULL, REAL("1", 1e-6, 1e6), GROUP(period)),
    OPTION("latency", NULL, REAL(NULL, SECONDS), GROUP(link.latency)),
    OPTION("latency-jitter", NULL, REAL(NULL, SECONDS), GROUP(link.jitter)),
    OPTION("bandwidth", NULL, REAL(NULL, BYTES), GROUP(link.bandwidth)),
    OPTION("lost", NULL, REAL(NULL, SHARE), GROUP(link.lost)),
    OPTION("twice", NULL, REAL(NULL, SHARE), GROUP(link.twice)),
    OPTION("reordered", NULL, REAL(NULL, SHARE), GROUP(link.reordered)),
    {.name = NULL}};

static const char MACHINES[] = "machines";

/* Messages over much slower links take times that are no numbers any more. */
static const double LEAST_BANDWIDTH = 1e-6;

static weft_status check_bandwidth(const char *path, const weft_yaml *y, int item,
                                   const weft_sim_link *link)
{
    char is[32];
    if (link->bandwidth <= 0 || link->bandwidth >= LEAST_BANDWIDTH) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "%s:%d: bandwidth is %s bytes a second, must be 1e-06 or more, or 0 for unlimited", path,
        weft_yaml_line(y, item, "bandwidth"), weft_real_text(link->bandwidth, is, sizeof(is)));
}

/* Estimates are of links that the file gives: it decides what they are worth. Machines without
 * times are simulated over 1 Gbit, or over no limit at all. item: a group, or -1 for the file. */
static weft_status check_link(const char *path, const weft_yaml *y, int item, bool needed,
                              const weft_sim_link *link)
{
    static const char right[] = "give the bytes a second that a machine sends and receives, as "
                                "'bandwidth: 125e6' (1 Gbit/s)";
    bool given = weft_yaml_gives(y, item, "bandwidth");
    if (given && link->bandwidth <= 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s:%d: bandwidth is 0, so no byte arrives; %s", path,
                         weft_yaml_line(y, item, "bandwidth"), right);
    if (given || !needed) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s:%d: there are several machines, and no link between them; %s", path,
                     weft_yaml_line(y, -1, MACHINES), right);
}

static weft_status check_links(const char *path, const weft_yaml *y, const weft_cluster *c)
{
    int64_t all = 0;
    bool each = true;
    for (int g = 0; g < c->group_count; g++) {
        all += c->groups[g].count;
        each = each && weft_yaml_gives(y, g, "bandwidth");
    }
    if (!c->times || all < 2) return WEFT_OK;
    for (int g = 0; g < c->group_count; g++)
        WEFT_TRY(check_link(path, y, g, false, &c->groups[g].link));
    return check_link(path, y, -1, !each, &c->link);
}

static weft_status read_group(const char *path, const weft_yaml *y, int item, const weft_cluster *c,
                              weft_machine_group *out)
{
    *out = (weft_machine_group){.count = 0};
    WEFT_TRY(weft_options_init(group_rows, out));
    out->link = c->link;
    WEFT_TRY(weft_yaml_apply(y, item, out));
    if (out->memory <= 0 && weft_yaml_gives(y, item, "memory"))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s:%d: memory is 0 bytes, in which nothing fits; give the bytes of a "
                         "machine, or leave the key out where they are not to count",
                         path, weft_yaml_line(y, item, "memory"));
    return check_bandwidth(path, y, item, &out->link);
}

static weft_status read_groups(const char *path, const weft_yaml *y, weft_cluster *c)
{
    int count = weft_yaml_count(y), line = weft_yaml_line(y, -1, MACHINES);
    int64_t all = 0;
    c->line = line;
    if (weft_yaml_lists(y) && count == 0)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: there are no machines; give at least one, as '- count: 4', or "
                         "leave the key out and give -n",
                         path, line);
    WEFT_TRY(WEFT_NEW(&c->groups, count + 1));
    for (; c->group_count < count; c->group_count++) {
        WEFT_TRY(read_group(path, y, c->group_count, c, &c->groups[c->group_count]));
        all += c->groups[c->group_count].count;
    }
    if (all > WEFT_MAX_RANKS)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s:%d: %lld machines in all; there can be %d", path,
                         line, (long long)all, WEFT_MAX_RANKS);
    return WEFT_OK;
}

/* The time of a step comes from one key, and times are those of machines, each of which has cores.
 */
static weft_status check_step(const char *path, const weft_yaml *y)
{
    bool step = weft_yaml_gives(y, -1, "step"), rate = weft_yaml_gives(y, -1, "rate");
    bool times = weft_yaml_gives(y, -1, "times");
    if (step && rate)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: step is the time of a step, and rate gives that time by its "
                         "operations; give one of them",
                         path, weft_yaml_line(y, -1, "step"));
    if (times && (step || rate))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: %s gives the time of a step, and so do the times of its kernels; "
                         "give one of them",
                         path, weft_yaml_line(y, -1, step ? "step" : "rate"),
                         step ? "step" : "rate");
    if (times && weft_yaml_count(y) == 0)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: there are times of a machine, and no machines; give them, as "
                         "'machines: [{count: 4, cores: 8}]'",
                         path, weft_yaml_line(y, -1, "times"));
    return WEFT_OK;
}

static weft_status read_text(const char *path, const weft_bytes *text, weft_cluster *c)
{
    weft_yaml *y;
    WEFT_TRY(weft_yaml_parse(path, text->data, text->size, cluster_rows, MACHINES, group_rows, &y));
    weft_status status = weft_yaml_apply(y, -1, c);
    if (status == WEFT_OK) status = check_step(path, y);
    if (status == WEFT_OK) status = check_bandwidth(path, y, -1, &c->link);
    if (status == WEFT_OK) status = read_groups(path, y, c);
    if (status == WEFT_OK) status = check_links(path, y, c);
    weft_yaml_free(&y);
    return status;
}

/* If the file has no groups, makes one group of `learners` equal learners. */
static weft_status fill_up(weft_cluster *c, int64_t learners)
{
    if (!c->groups) WEFT_TRY(WEFT_NEW(&c->groups, 1));
    if (c->group_count > 0) return WEFT_OK;
    WEFT_TRY(weft_options_init(group_rows, &c->groups[0]));
    c->groups[0].link = c->link;
    c->groups[0].count = learners;
    c->group_count = 1;
    return WEFT_OK;
}

static weft_status agree(const char *path, weft_cluster *c, int64_t *learners)
{
    int64_t all = 0;
    for (int g = 0; g < c->group_count; g++) all += c->groups[g].count;
    if (c->times && *learners > 1) return WEFT_OK;
    if (*learners > 1 && *learners != all)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s:%d: there are %lld machine%s here, of one learner each, and -n gives %lld; "
            "leave -n out, or give the same number",
            path, c->line, (long long)all, weft_plural(all), (long long)*learners);
    *learners = all;
    return WEFT_OK;
}

/* Turns FORMAT and IO into ARGUMENT: users write the cluster file by hand, like options, so its
 * errors count as errors of an option. */
static weft_status as_argument(weft_status status)
{
    weft_error error = {0};
    if (status != WEFT_ERR_FORMAT && status != WEFT_ERR_IO) return status;
    weft_error_catch(&error, status);
    return weft_fail(WEFT_ERR_ARGUMENT, "%s", error.message);
}

static weft_status read_file(const char *path, weft_cluster *c)
{
    weft_bytes text = {0};
    weft_status status = weft_file_map(path, &text);
    if (status == WEFT_OK) status = read_text(path, &text, c);
    weft_file_unmap(&text);
    return as_argument(status);
}

weft_status weft_cluster_open(const char *path, int64_t *learners, weft_cluster *out)
{
    *out = (weft_cluster){.rate = 0};
    weft_status status = weft_options_init(cluster_rows, out);
    if (status == WEFT_OK && path) status = read_file(path, out);
    if (status == WEFT_OK) status = fill_up(out, *learners);
    if (status == WEFT_OK) status = agree(path, out, learners);
    if (status != WEFT_OK) weft_cluster_free(out);
    return status;
}

void weft_cluster_free(weft_cluster *cluster)
{
    weft_options_free(cluster_rows, cluster);
    free(cluster->groups);
    *cluster = (weft_cluster){.rate = 0};
}

/* --- times --- */

const weft_machine_group *weft_cluster_group_of(const weft_cluster *c, int learner)
{
    const weft_machine_group *g = c->groups;
    for (int64_t i = learner; i >= g->count; g++) i -= g->count;
    return g;
}

double weft_cluster_slowness(const weft_machine_group *g, double longer, double lot)
{
    return (1 + g->jitter * longer) * (lot < g->slow ? g->slowdown : 1);
}

double weft_cluster_draw(const weft_machine_group *g, weft_random *random)
{
    /* Both random numbers are always drawn, so that a change of `jitter` does not change which
     * steps are slow, and vice versa. */
    double longer = weft_random_unit(random), lot = weft_random_unit(random);
    return weft_cluster_slowness(g, longer, lot);
}

double weft_cluster_step(const weft_cluster *c, int learner, double flops, weft_random *random)
{
    const weft_machine_group *g = weft_cluster_group_of(c, learner);
    double seconds = (c->step > 0 ? c->step : flops / c->rate) / g->speed;
    return seconds * weft_cluster_draw(g, random);
}

static double worse_bandwidth(double a, double b)
{
    if (a <= 0 || b <= 0) return WEFT_MAX(a, b); /* 0 means unlimited */
    return WEFT_MIN(a, b);
}

static weft_sim_link worse(const weft_sim_link *a, const weft_sim_link *b)
{
    return (weft_sim_link){.latency = WEFT_MAX(a->latency, b->latency),
                           .jitter = WEFT_MAX(a->jitter, b->jitter),
                           .bandwidth = worse_bandwidth(a->bandwidth, b->bandwidth),
                           .lost = WEFT_MAX(a->lost, b->lost),
                           .twice = WEFT_MAX(a->twice, b->twice),
                           .reordered = WEFT_MAX(a->reordered, b->reordered)};
}

static const weft_sim_link *end_of(const weft_cluster *c, int learner)
{
    return learner < 0 ? &c->link : &weft_cluster_group_of(c, learner)->link;
}

weft_sim_link weft_cluster_link(const weft_cluster *c, int from, int to)
{
    return worse(end_of(c, from), end_of(c, to));
}
