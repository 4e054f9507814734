/* Predicts the time of a step from the programs of a run, measured times and a cluster file. */
#include <math.h>
#include <stdio.h>

#include "train/estimate/tracks.h"
#include "weft/estimate.h"

enum { DRAWS = 31, MOST_PATH = 4096 };

typedef struct forecast {
    weft_trainer *t;
    weft_cluster cluster;
    weft_times *times;
    weft_hosts hosts;
    weft_tracks tracks;
    int64_t period; /* steps from one meeting of the learners to the next; 0: none within the run */
} forecast;

/* --- the cluster --- */

/* The times are in a file beside that of the cluster, unless their path is absolute. */
static weft_status read_times(const char *path, const weft_cluster *c, weft_times **out)
{
    char *file;
    weft_bytes text = {0};
    const char *slash = strrchr(path, '/');
    int folder = slash && c->times && *c->times != '/' ? (int)(slash - path) + 1 : 0;
    if (!c->times)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: there is no key 'times', which names a file of measured times; weft "
                         "measure writes both files",
                         path);
    WEFT_TRY(weft_format(&file, "%.*s%s", folder, path, c->times));
    weft_status status = weft_file_read(file, &text);
    if (status == WEFT_OK) status = weft_times_read((const char *)text.data, text.size, file, out);
    free((void *)(uintptr_t)text.data);
    free(file);
    return status;
}

/* Ranks fill the machines in the order of the file, equally many on each. */
static weft_status place_ranks(forecast *f)
{
    weft_hosts *h = &f->hosts;
    const weft_cluster *c = &f->cluster;
    int ranks = f->t->size;
    int64_t machines = 0, cores = 0;
    for (int g = 0; g < c->group_count; g++) machines += c->groups[g].count;
    h->each = (int)((ranks + machines - 1) / machines);
    h->machines = (ranks + h->each - 1) / h->each;
    WEFT_TRY(WEFT_NEW(&h->machine, ranks));
    WEFT_TRY(WEFT_NEW(&h->speed, ranks));
    WEFT_TRY(WEFT_NEW(&h->bytes, h->machines));
    for (int r = 0; r < ranks; r++) {
        const weft_machine_group *g = weft_cluster_group_of(c, r / h->each);
        h->machine[r] = r / h->each;
        h->speed[r] = g->speed * g->awake;
        cores = cores == 0 ? g->cores : WEFT_MIN(cores, g->cores);
    }
    h->threads = (int)f->t->options.where.threads;
    if (h->threads == 0) h->threads = (int)WEFT_MAX(cores / h->each, (int64_t)1);
    if ((int64_t)h->threads * h->each <= cores) return WEFT_OK;
    /* Threads take turns on the cores. */
    double share = (double)cores / ((double)h->threads * h->each);
    for (int r = 0; r < ranks; r++) h->speed[r] *= share;
    return WEFT_OK;
}

static weft_status make_line(forecast *f)
{
    weft_wire *wires;
    const weft_hosts *h = &f->hosts;
    WEFT_TRY(WEFT_NEW(&wires, h->machines));
    for (int m = 0; m < h->machines; m++) {
        const weft_sim_link *link = &weft_cluster_group_of(&f->cluster, m)->link;
        wires[m] =
            (weft_wire){.latency = link->latency + link->jitter / 2, .bandwidth = link->bandwidth};
    }
    weft_status status =
        weft_timeline_new(f->t->size, h->machine, h->machines, wires, &f->tracks.line);
    free(wires);
    return status;
}

/* --- the step --- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double last_end(const forecast *f)
{
    double end = 0;
    for (int r = 0; r < f->t->size; r++)
        end = WEFT_MAX(end, weft_timeline_rank(f->tracks.line, r).end);
    return end;
}

/* The mean time of a step: one of each period ends with a meeting of the learners. */
static weft_status run_step(forecast *f, const double *factors, double *seconds)
{
    double share = f->period > 0 ? 1 / (double)f->period : 0;
    WEFT_TRY(weft_timeline_run(f->tracks.line, false, factors));
    *seconds = last_end(f) * (1 - share);
    if (share == 0) return WEFT_OK;
    WEFT_TRY(weft_timeline_run(f->tracks.line, true, factors));
    *seconds += last_end(f) * share;
    return WEFT_OK;
}

static bool varies(const weft_cluster *c)
{
    for (int g = 0; g < c->group_count; g++)
        if (c->groups[g].jitter > 0 || c->groups[g].slow > 0) return true;
    return false;
}

/* Steps of machines that take longer at random: the quartiles of some draws. */
static weft_status draw_steps(forecast *f, weft_step_estimate *out)
{
    weft_random random;
    double *factors, steps[DRAWS];
    WEFT_TRY(WEFT_NEW(&factors, f->t->size));
    weft_random_start(&random, (uint64_t)f->t->options.task.seed, 2000);
    weft_status status = WEFT_OK;
    for (int d = 0; d < DRAWS && status == WEFT_OK; d++) {
        for (int r = 0; r < f->t->size; r++) {
            const weft_machine_group *g = weft_cluster_group_of(&f->cluster, f->hosts.machine[r]);
            double longer = weft_random_unit(&random), slow = weft_random_unit(&random);
            factors[r] = (1 + g->jitter * longer) * (slow < g->slow ? g->slowdown : 1);
        }
        status = run_step(f, factors, &steps[d]);
    }
    free(factors);
    qsort(steps, DRAWS, sizeof(*steps), ascending);
    out->low = steps[DRAWS / 4];
    out->seconds = steps[DRAWS / 2];
    out->high = steps[DRAWS - 1 - DRAWS / 4];
    return status;
}

/* The relative error of the sum of all kernels: the errors of one way go together, those of
 * different ways do not. */
static double error_of(const weft_tracks *tracks)
{
    double all = 0, squares = 0;
    for (int i = 0; i < WEFT_ESTIMATES; i++) {
        all += tracks->by[i];
        squares += tracks->errors[i] * tracks->errors[i];
    }
    return all > 0 ? sqrt(squares) / all : 0;
}

static void sum_up(const forecast *f, weft_step_estimate *out)
{
    int ranks = f->t->size;
    double all = 0, bytes, busy;
    for (int r = 0; r < ranks; r++) {
        weft_rank_times times = weft_timeline_rank(f->tracks.line, r);
        out->computed += times.computed / ranks;
        out->transferred += times.transferred / ranks;
        out->waited += (times.waited + last_end(f) - times.end) / ranks;
    }
    out->rest = f->tracks.rest;
    out->computed -= out->rest;
    for (int m = 0; m < f->hosts.machines; m++) {
        weft_timeline_link(f->tracks.line, m, &bytes, &busy);
        out->wire_bytes += bytes;
        out->busiest_link = WEFT_MAX(out->busiest_link, busy / out->seconds);
    }
    for (int i = 0; i < WEFT_ESTIMATES; i++) all += f->tracks.by[i];
    const double *by = f->tracks.by;
    if (all <= 0) return;
    out->by_size = by[WEFT_BY_SIZE] / all;
    out->by_kind = by[WEFT_BY_KIND] / all;
    out->by_operator = by[WEFT_BY_OPERATOR] / all;
    out->by_rates = by[WEFT_BY_RATES] / all;
}

/* The machine whose programs take most of its memory, or where no memory is known, most bytes. */
static void find_fullest(const forecast *f, weft_step_estimate *out)
{
    double most = -1;
    for (int m = 0; m < f->hosts.machines; m++) {
        double limit = weft_cluster_group_of(&f->cluster, m)->memory, bytes = f->hosts.bytes[m];
        double full = limit > 0 ? bytes / limit : bytes * 1e-18;
        if (full <= most) continue;
        most = full;
        out->memory = bytes;
        out->memory_limit = limit;
    }
}

static weft_status play(forecast *f, weft_step_estimate *out)
{
    WEFT_TRY(weft_tracks_make(f->t, f->times, &f->hosts, &f->tracks));
    WEFT_TRY(run_step(f, NULL, &out->seconds));
    out->low = out->high = out->seconds;
    sum_up(f, out);
    find_fullest(f, out);
    if (varies(&f->cluster)) WEFT_TRY(draw_steps(f, out));
    double error = error_of(&f->tracks);
    out->low *= 1 - WEFT_MIN(error, 0.9);
    out->high *= 1 + error;
    out->samples_per_second = (double)(f->t->options.length.batch * f->t->learners) / out->seconds;
    return WEFT_OK;
}

/* How often learners add up their parameters, as their exchange says. */
static weft_status find_meetings(forecast *f)
{
    const weft_run_spec *k = &f->t->run_spec;
    if (!k->exchange) return WEFT_OK;
    WEFT_TRY(weft_exchange_meetings(k->context, k->exchange, &f->period, &f->tracks.with_state));
    f->tracks.meets = f->period > 0;
    if (f->period >= 0) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_UNSUPPORTED,
        "the time of a step with --exchange %s cannot be estimated, since its learners "
        "do not wait for each other; weft simulate runs it in virtual time",
        k->exchange);
}

static weft_status open_forecast(forecast *f, weft_context *context,
                                 const weft_train_options *options, const char *cluster)
{
    int64_t machines = 1;
    WEFT_TRY(weft_options_check(weft_train_table(context), options));
    WEFT_TRY(weft_cluster_open(cluster, &machines, &f->cluster));
    WEFT_TRY(read_times(cluster, &f->cluster, &f->times));
    WEFT_TRY(weft_trainer_prepare(context, options, NULL, &f->t));
    WEFT_TRY(find_meetings(f));
    WEFT_TRY(place_ranks(f));
    return make_line(f);
}

weft_status weft_estimate_step(weft_context *context, const weft_train_options *options,
                               const char *cluster, weft_step_estimate *out)
{
    WEFT_NEED(context, options, cluster, out);
    forecast f = {.t = NULL};
    *out = (weft_step_estimate){.struct_size = sizeof(*out)};
    weft_status status = open_forecast(&f, context, options, cluster);
    if (status == WEFT_OK) status = play(&f, out);
    weft_timeline_free(&f.tracks.line);
    weft_trainer_destroy(&f.t);
    weft_times_free(&f.times);
    weft_cluster_free(&f.cluster);
    free(f.hosts.machine);
    free(f.hosts.speed);
    free(f.hosts.bytes);
    return status;
}
