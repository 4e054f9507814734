/* Lets a run choose its own phases (--rechoose FILE: A; B): at the end of an epoch the way of the
 * list that gets furthest in a second is taken. By McCandlish et al. 2018 a step with batch B gets
 * 1 / (1 + noise / B) as far as one without noise, so a way costs T (1 + noise / B): T is the
 * estimated time of its step on the cluster of the file, and the noise scale is measured by the
 * run. Nothing depends on a clock. Rank 0 decides and tells the others; the choice becomes a phase
 * of the checkpoint (phases.c), so that a run that resumes does not choose anew. */
#include <ctype.h>
#include <math.h>

#include "train/estimate/first_steps.h"
#include "train/trainer.h"
#include "weft/estimate.h"

enum { MOST_WAYS = 16, MOST_CHARACTERS = 4000 };

/* Another way must cost less than this share of the present one: a change of phase restarts states
 * of the exchange. */
static const double GAIN = 0.95;

struct weft_rechoice {
    char *text; /* the option, cut into the file and the words */
    const char *cluster;
    weft_way ways[MOST_WAYS];
    int count, now; /* now: the way of this phase; -1: it is none of the list */
};

/* --- the list --- */

static weft_status wrong_list(const char *list)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "rechoose: '%s' is no list; give a cluster file, a colon, and from 1 to %d "
                     "ways with semicolons between them, as in 'cluster.yaml: exchange=average; "
                     "exchange=average:every=8'",
                     list, MOST_WAYS);
}

/* Cuts blanks off both ends. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

static weft_status cut_list(weft_rechoice *c, const char *list)
{
    char *next, *ways = strstr(c->text, ": ");
    if (!ways || strlen(list) > MOST_CHARACTERS) return wrong_list(list);
    *ways = '\0';
    c->cluster = trim(c->text);
    for (char *at = ways + 1; at; at = next) {
        next = strchr(at, ';');
        if (next) *next++ = '\0';
        char *words = trim(at);
        if (c->count == MOST_WAYS || !*words) return wrong_list(list);
        c->ways[c->count++].words = words;
    }
    return *c->cluster ? WEFT_OK : wrong_list(list);
}

/* The length of the name that a word sets or takes back; *name is its begin. */
static size_t name_of(const char *word, const char **name)
{
    bool state, back = strncmp(word, "no-", 3) == 0;
    size_t size = strcspn(word, "= \t\n");
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*s", (int)WEFT_MIN(size, sizeof(text) - 1), word);
    back = back && weft_resume_rule_of(text, &state) == WEFT_RESUME_UNKNOWN;
    *name = back ? word + 3 : word;
    return back ? size - 3 : size;
}

static bool sets(const char *words, const char *name, size_t size)
{
    for (const char *w = words; *w; w += strcspn(w, " \t\n"), w += strspn(w, " \t\n")) {
        const char *other;
        if (name_of(w, &other) == size && strncmp(other, name, size) == 0) return true;
    }
    return false;
}

/* Each way sets all options that another one sets, so that none depends on those before it. */
static weft_status check_names(const weft_rechoice *c)
{
    for (int i = 0; i < c->count; i++)
        for (const char *w = c->ways[i].words; *w;
             w += strcspn(w, " \t\n"), w += strspn(w, " \t\n")) {
            const char *name;
            size_t size = name_of(w, &name);
            for (int k = 0; k < c->count; k++)
                if (!sets(c->ways[k].words, name, size))
                    return weft_fail(WEFT_ERR_ARGUMENT,
                                     "rechoose: '%s' says nothing of %.*s, which '%s' sets; give "
                                     "%.*s or no-%.*s in each way",
                                     c->ways[k].words, (int)size, name, c->ways[i].words, (int)size,
                                     name, (int)size, name);
        }
    return WEFT_OK;
}

/* --- the begin of a phase --- */

static weft_status note_phase(void *user, const weft_run_phase *p)
{
    weft_trainer *t = user;
    weft_rechoice *c = t->rechoice;
    int64_t ended = t->resumed.path ? t->resumed.position.epoch : 0;
    const char *words = p->words + strspn(p->words, " \t\n");
    if (p->before > ended) return WEFT_OK;
    c->now = -1;
    for (int i = 0; i < c->count; i++)
        if (strcmp(words, c->ways[i].words) == 0) c->now = i;
    return WEFT_OK;
}

/* Takes the phases that the run has chosen so far from its checkpoint. */
static weft_status take_phases(weft_trainer *t)
{
    char **phases = &t->options.length.phases;
    bool chose = t->resumed.path && weft_settings_find(&t->resumed.settings, "rechoose");
    const char *then = chose ? weft_settings_find(&t->resumed.settings, "phases") : NULL;
    if (*phases && (!then || strncmp(*phases, then, strlen(*phases)) != 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "rechoose: the run chooses its phases, and --phases gives them; leave one "
                         "of the two out");
    if (!then) return WEFT_OK;
    free(*phases);
    return weft_strdup(then, phases);
}

weft_status weft_rechoice_begin(weft_trainer *t)
{
    const char *list = t->options.parallel.rechoose;
    if (!list) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&t->rechoice, 1));
    weft_rechoice *c = t->rechoice;
    WEFT_TRY(weft_strdup(list, &c->text));
    WEFT_TRY(cut_list(c, list));
    WEFT_TRY(check_names(c));
    for (int i = 0; i < c->count; i++) {
        bool lockstep = true;
        const weft_run_phase p = {.option = "rechoose", .words = c->ways[i].words};
        WEFT_TRY(weft_run_phase_check(t, &p, &lockstep));
        if (i == 0 && !lockstep)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "rechoose: the run begins with '%s', whose learners are at different "
                             "steps and end no epoch together; give one in lock step first",
                             p.words);
    }
    if (t->options.show.noise_scale == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "rechoose compares ways by the noise scale of "
                                            "gradients; give --noise-scale STEPS too");
    WEFT_TRY(take_phases(t));
    WEFT_TRY(weft_run_phases_each(t->options.length.phases, note_phase, t));
    return weft_run_phase_take(t->context,
                               &(weft_run_phase){.option = "rechoose", .words = c->ways[0].words},
                               &t->options);
}

void weft_rechoice_free(weft_rechoice **rechoice)
{
    if (*rechoice) free((*rechoice)->text);
    free(*rechoice);
    *rechoice = NULL;
}

/* --- what a way costs --- */

/* The batch that a step of the way counts as: the samples of all learners, whether they add up
 * gradients, average parameters or send updates, unless they meet in no epoch: then their own. */
static weft_status find_batch(const weft_trainer *t, const weft_train_options *o, double *out)
{
    int64_t mesh = t->size;
    int learners = 1;
    weft_meetings m = {.period = -1};
    if (o->parallel.exchange) {
        WEFT_TRY(weft_train_learners(o, t->size, &mesh, &learners));
        WEFT_TRY(weft_exchange_meetings(t->context, o->parallel.exchange, &m));
    }
    double own = (double)o->length.batch, all = own * learners;
    double steps = ceil((double)t->samples / all);
    bool apart = m.period == 0 || (double)m.period > steps;
    *out = apart ? own : all;
    return WEFT_OK;
}

/* A run stays with an exchange under which the noise scale is not measured; any other way must let
 * it be measured, which the estimate checks. */
static weft_status drop_noise(const weft_trainer *t, weft_train_options *o)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    if (!o->parallel.exchange) return WEFT_OK;
    WEFT_TRY(weft_exchange_find(t->context, o->parallel.exchange, &ops, &arguments));
    if (ops->owns_update || !ops->lockstep) o->show.noise_scale = 0;
    return WEFT_OK;
}

static weft_status estimate_way(const weft_trainer *t, const weft_rechoice *c, weft_way *way)
{
    weft_train_options o = {0};
    weft_step_estimate e = {.struct_size = sizeof(e)};
    const weft_option *table = weft_train_table(t->context);
    const weft_run_phase p = {.option = "rechoose", .words = way->words};
    weft_status status = weft_train_options_copy(t->context, &t->options, &o);
    if (status == WEFT_OK) status = weft_run_phase_take(t->context, &p, &o);
    if (status == WEFT_OK) {
        free(o.length.phases);
        free(o.parallel.rechoose);
        o.length.phases = o.parallel.rechoose = NULL;
        o.job.ranks = t->size;
        status = drop_noise(t, &o);
    }
    if (status == WEFT_OK) status = find_batch(t, &o, &way->batch);
    if (status == WEFT_OK) status = weft_estimate_step(t->context, &o, c->cluster, &e);
    if (status == WEFT_OK) way->step_seconds = e.seconds;
    weft_options_free(table, &o);
    return status == WEFT_OK ? status : weft_fail_within(status, "rechoose, '%s'", way->words);
}

weft_status weft_rechoice_estimate(weft_trainer *t)
{
    weft_rechoice *c = t->rechoice;
    if (!c || t->runs[0].rank.rank != 0) return WEFT_OK;
    for (int i = 0; i < c->count; i++) WEFT_TRY(estimate_way(t, c, &c->ways[i]));
    (void)weft_warn_elsewhere(t->context, "rechoose", c->cluster);
    return WEFT_OK;
}

/* --- the choice --- */

/* The way that costs least; the present one, unless another gains enough. */
static int cheapest(const weft_rechoice *c)
{
    int best = c->now;
    double least = best < 0 ? INFINITY : GAIN * c->ways[best].cost;
    for (int i = 0; i < c->count; i++) {
        if (c->ways[i].cost >= least) continue;
        least = c->ways[i].cost;
        best = i;
    }
    return best;
}

/* Says which way the next epoch takes, and why; noise 0: not known. */
static void tell(const weft_trainer *t, const weft_rechoice *c, int64_t epochs, double noise,
                 int best)
{
    weft_text text = {0};
    char *reason;
    for (int i = 0; i < c->count && noise > 0; i++)
        weft_text_add(&text, "%s%s in %.4g ms (%.4g ms a step, which counts as a batch of %.4g)",
                      i ? ", " : "", c->ways[i].words, 1e3 * c->ways[i].cost,
                      1e3 * c->ways[i].step_seconds, c->ways[i].batch);
    if (noise > 0)
        weft_text_add(&text, ", with a noise scale of %.4g samples", noise);
    else
        weft_text_add(&text, "the noise scale is not known yet");
    if (weft_text_take(&text, &reason) != WEFT_OK) return;
    weft_log(t->context, WEFT_LOG_NOTE, "epoch %lld %s %s: %s%s", (long long)epochs + 1,
             best == c->now ? "goes on with" : "begins with",
             best < 0 ? "the options of the run" : c->ways[best].words,
             noise > 0 ? "a step without noise is made up by " : "", reason);
    free(reason);
}

/* Adds the phase to the options, of which the checkpoint has a copy. */
static weft_status add_phase(weft_trainer *t, int64_t epochs, const char *words)
{
    char *phases, *before = t->options.length.phases;
    WEFT_TRY(weft_format(&phases, "%s%s%lld: %s", before ? before : "", before ? "; " : "",
                         (long long)epochs + 1, words));
    free(before);
    t->options.length.phases = phases;
    weft_settings_free(&t->settings);
    return weft_settings_take(weft_train_table(t->context), &t->options, &t->settings);
}

static weft_status choose(weft_run *run, double *changes)
{
    weft_trainer *t = run->job;
    weft_rechoice *c = t->rechoice;
    double noise = weft_noise_scale(&run->watch.noise);
    if (noise <= 0) tell(t, c, run->rank.position.epoch, 0, c->now);
    if (noise <= 0) return WEFT_OK;
    for (int i = 0; i < c->count; i++)
        c->ways[i].cost = c->ways[i].step_seconds * (1 + noise / c->ways[i].batch);
    int best = cheapest(c);
    tell(t, c, run->rank.position.epoch, noise, best);
    weft_event e = {.kind = WEFT_EVENT_CHOICE,
                    .noise_scale = noise,
                    .ways = c->ways,
                    .way_count = c->count,
                    .chosen = best};
    WEFT_TRY(weft_run_report(run, &e));
    if (best == c->now) return WEFT_OK;
    *changes = 1;
    return add_phase(t, run->rank.position.epoch, c->ways[best].words);
}

weft_status weft_run_rechoose(weft_run *run)
{
    const weft_trainer *t = run->job;
    const weft_rank *r = &run->rank;
    double changes = 0;
    bool apart = r->exchange && !r->exchange->ops->lockstep;
    bool over = r->position.step >= t->total_steps || weft_watch_ends(run);
    if (!t->rechoice || apart || over) return WEFT_OK;
    if (r->rank == 0) WEFT_TRY(choose(run, &changes));
    WEFT_TRY(weft_sum_over(r->world, "the choice of a phase", &changes, 1));
    run->changes = changes > 0;
    return WEFT_OK;
}
