/* Phases of a run: a phase ends with the checkpoint of an epoch, and the next one resumes from it
 * with other options (--phases), or without frozen parameters (--unfreeze). The phase follows from
 * the epoch alone, so that a run that is resumed later is in the same one. */
#include <ctype.h>

#include "base/registry.h"
#include "train/trainer.h"

/* Reads the phase at `text`, "EPOCH: NAME=VALUE ...", which it cuts into parts. */
static weft_status read_phase(char *text, weft_run_phase *out)
{
    int64_t epoch = 0;
    while (isspace((unsigned char)*text)) text++;
    char *colon = strchr(text, ':');
    if (colon) *colon = '\0';
    if (!colon || !weft_parse_int(text, &epoch) || epoch < 2 || !colon[1 + strspn(colon + 1, " ")])
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "phases: '%s' is no phase; give the epoch with which it begins, 2 or "
                         "more, a colon and its options, as in '3: exchange=average:every=8'",
                         text);
    *out = (weft_run_phase){.option = "phases", .before = epoch - 1, .words = colon + 1};
    return WEFT_OK;
}

weft_status weft_run_phases_each(const char *list, weft_run_phase_fn fn, void *user)
{
    char *copy, *next;
    int64_t last = 0;
    if (!list) return WEFT_OK;
    WEFT_TRY(weft_strdup(list, &copy));
    weft_status status = WEFT_OK;
    for (char *at = copy; at && status == WEFT_OK; at = next) {
        weft_run_phase p = {0};
        next = strchr(at, ';');
        if (next) *next++ = '\0';
        status = read_phase(at, &p);
        if (status == WEFT_OK && p.before <= last)
            status =
                weft_fail(WEFT_ERR_ARGUMENT,
                          "phases: epoch %lld comes after epoch %lld; give them in their order",
                          (long long)p.before + 1, (long long)last + 1);
        last = p.before;
        if (status == WEFT_OK) status = fn(user, &p);
    }
    free(copy);
    return status;
}

static bool is_option(const char *name)
{
    bool state;
    return weft_resume_rule_of(name, &state) != WEFT_RESUME_UNKNOWN;
}

static weft_status check_name(const char *name)
{
    if (weft_resume_in_phase(name) || !is_option(name)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--%s is the same in all phases of a run; give it without a phase", name);
}

/* Gives an option its default. */
static weft_status leave_out(const weft_context *context, const char *name,
                             weft_train_options *options)
{
    const weft_option *table = weft_train_table(context);
    weft_train_options left = {0};
    WEFT_TRY(check_name(name));
    weft_status status = weft_train_options_init(context, &left);
    for (const weft_option *o = table; o->name && status == WEFT_OK; o++) {
        char *text = NULL;
        if (strcmp(o->name, name) == 0) continue;
        status = weft_options_get(table, options, o->name, &text);
        if (status == WEFT_OK && text) status = weft_options_set(table, &left, o->name, text);
        free(text);
    }
    weft_options_free(table, status == WEFT_OK ? options : &left);
    if (status == WEFT_OK) *options = left;
    return status;
}

/* Sets an option of a phase, "NAME=VALUE", or takes it back, "no-NAME". */
static weft_status take_word(const weft_context *context, char *word, weft_train_options *options)
{
    static const char no[] = "no-";
    const char *left = word + strlen(no);
    bool back = strncmp(word, no, strlen(no)) == 0 && is_option(left);
    char *equals = strchr(word, '=');
    if (equals) *equals = '\0';
    if (back && !equals) return leave_out(context, left, options);
    WEFT_TRY(check_name(word));
    return weft_options_set(weft_train_table(context), options, word, equals ? equals + 1 : "true");
}

/* Says where an error is. */
static weft_status within(weft_status status, const weft_run_phase *p)
{
    if (p->before == 0) return weft_fail_within(status, "%s, '%s'", p->option, p->words);
    return weft_fail_within(status, "%s, epoch %lld", p->option, (long long)p->before + 1);
}

weft_status weft_run_phase_take(const weft_context *context, const weft_run_phase *p,
                                weft_train_options *options)
{
    char *copy, *save = NULL;
    WEFT_TRY(weft_strdup(p->words, &copy));
    weft_status status = WEFT_OK;
    for (char *w = strtok_r(copy, " \t\n", &save); w && status == WEFT_OK;
         w = strtok_r(NULL, " \t\n", &save))
        status = take_word(context, w, options);
    free(copy);
    return status == WEFT_OK ? WEFT_OK : within(status, p);
}

weft_status weft_run_phase_check(const weft_trainer *t, const weft_run_phase *p, bool *lockstep)
{
    weft_train_options later = {0};
    const weft_exchange_ops *ops = NULL;
    const char *arguments;
    int64_t mesh = 0;
    int learners;
    WEFT_TRY(weft_train_options_copy(t->context, &t->options, &later));
    weft_status status = weft_run_phase_take(t->context, p, &later);
    const char *axes = later.parallel.mesh, *exchange = later.parallel.exchange;
    if (status != WEFT_OK) goto done;
    status = weft_options_check(weft_train_table(t->context), &later);
    if (status == WEFT_OK && axes) status = weft_mesh_ranks(axes, &mesh);
    if (status == WEFT_OK && exchange)
        status = weft_exchange_find(t->context, exchange, &ops, &arguments);
    *lockstep = !ops || ops->lockstep;
    if (status == WEFT_OK && exchange)
        status = weft_train_learners(&later, t->size, &mesh, &learners);
    else if (status == WEFT_OK && axes && mesh != t->size)
        status = weft_fail(WEFT_ERR_ARGUMENT, "mesh '%s' has %lld ranks, but the run has %d", axes,
                           (long long)mesh, t->size);
    if (status != WEFT_OK) status = within(status, p);
done:
    weft_options_free(weft_train_table(t->context), &later);
    return status;
}

typedef struct entry {
    weft_trainer *t;
    int64_t epochs; /* that have ended */
    bool apart;     /* learners of the last phase that was looked at are at different steps */
} entry;

static weft_status enter(void *user, const weft_run_phase *p)
{
    entry *e = user;
    weft_trainer *t = e->t;
    if (p->before <= e->epochs) return weft_run_phase_take(t->context, p, &t->options);
    if (t->phase_end == 0) t->phase_end = p->before;
    if (e->apart)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "phases, epoch %lld: all learners begin an epoch together, and those of "
                         "the phase before are at different steps; give an exchange in lock step "
                         "there, such as average",
                         (long long)p->before + 1);
    bool lockstep = true;
    WEFT_TRY(weft_run_phase_check(t, p, &lockstep));
    e->apart = !lockstep;
    return WEFT_OK;
}

/* Whether the checkpoint is that of the end of an epoch after so many. */
static bool is_at_end(const weft_position *at, int64_t epochs)
{
    return at->epoch == epochs && at->batch == 0 && at->samples <= 0;
}

static weft_status find_begin(void *user, const weft_run_phase *p)
{
    weft_trainer *t = user;
    t->begins_phase = t->begins_phase || is_at_end(&t->resumed.position, p->before);
    return WEFT_OK;
}

static weft_status check_length(const weft_trainer *t)
{
    const weft_length_choice *o = &t->options.length;
    if (o->steps > 0 || t->phase_end < o->epochs) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "phases: one begins with epoch %lld, and the run has %lld; give --epochs %lld "
                     "or more",
                     (long long)t->phase_end + 1, (long long)o->epochs,
                     (long long)t->phase_end + 1);
}

weft_status weft_trainer_enter_phase(weft_trainer *t)
{
    entry e = {.t = t, .epochs = t->resumed.path ? t->resumed.position.epoch : 0};
    char *phases = NULL;
    WEFT_TRY(weft_rechoice_begin(t));
    const char *list = t->options.length.phases;
    if (!list && !t->rechoice) return WEFT_OK;
    if (list) WEFT_TRY(weft_strdup(list, &phases)); /* the options change meanwhile */
    weft_status status = weft_run_phases_each(phases, enter, &e);
    if (status == WEFT_OK && t->resumed.path) status = weft_run_phases_each(phases, find_begin, t);
    free(phases);
    WEFT_TRY(status);
    if (t->phase_end > 0) WEFT_TRY(check_length(t));
    weft_settings_free(&t->settings);
    WEFT_TRY(weft_options_check(weft_train_table(t->context), &t->options));
    return weft_settings_take(weft_train_table(t->context), &t->options, &t->settings);
}

/* --- phases to come --- */

typedef struct coming {
    const weft_trainer *t;
    weft_train_options options; /* of the phase before */
} coming;

static weft_status prepare(void *user, const weft_run_phase *p)
{
    coming *c = user;
    const weft_trainer *t = c->t;
    weft_trainer *later = NULL;
    if (t->phase_end == 0 || p->before < t->phase_end) return WEFT_OK;
    WEFT_TRY(weft_run_phase_take(t->context, p, &c->options));
    weft_status status = weft_trainer_create_dry(t->context, &c->options, &later);
    weft_trainer_destroy(&later);
    return status == WEFT_OK ? status : within(status, p);
}

weft_status weft_trainer_prepare_phases(const weft_trainer *t)
{
    coming c = {.t = t};
    weft_train_options *o = &c.options;
    const char *list = t->options.length.phases;
    if (!list || t->linked || t->runs[0].rank.rank != 0) return WEFT_OK;
    WEFT_TRY(weft_train_options_copy(t->context, &t->options, o));
    char **left_out[] = {&o->length.phases, &o->parallel.rechoose, &o->where.tune,
                         &o->show.estimate};
    for (size_t i = 0; i < WEFT_COUNT(left_out); i++) {
        free(*left_out[i]);
        *left_out[i] = NULL;
    }
    o->job.ranks = t->size;
    weft_status status = weft_run_phases_each(list, prepare, &c);
    weft_options_free(weft_train_table(t->context), o);
    return status;
}

void weft_trainer_unfreeze(weft_trainer *t)
{
    weft_run_spec *k = &t->run_spec;
    int64_t frozen = t->options.weights.unfreeze - 1;
    const weft_position *at = t->resumed.path ? &t->resumed.position : &t->begun;
    if (frozen < 0) return;
    if (at->epoch < frozen) {
        t->phase_end = t->phase_end > 0 ? WEFT_MIN(t->phase_end, frozen) : frozen;
        k->optimizer.thaws = true;
        return;
    }
    k->optimizer.frozen = NULL;
    k->drops = k->drops || is_at_end(at, frozen);
}

weft_status weft_trainer_check_phases(const weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    const weft_exchange_ops *ops = NULL;
    const char *arguments, *exchange = o->parallel.exchange;
    const char *option = o->parallel.rechoose ? "rechoose"
                         : o->length.phases   ? "phases"
                                              : "unfreeze";
    if (o->weights.unfreeze == 0 && !o->length.phases && !o->parallel.rechoose) return WEFT_OK;
    if (o->weights.unfreeze == 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "unfreeze is 1, the first epoch, so that nothing would be frozen; give 2 "
                         "or more, or leave --freeze out");
    if (exchange) WEFT_TRY(weft_exchange_find(t->context, exchange, &ops, &arguments));
    if (ops && !ops->lockstep && (t->phase_end > 0 || o->weights.unfreeze > 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: all learners begin an epoch together, and learners of exchange %s "
                         "are at different steps; give an exchange in lock step before it, such as "
                         "average, or leave it out",
                         option, ops->name);
    if (o->output.checkpoint && !t->run_spec.simulated) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: a phase goes on from the checkpoint of the one before; give --checkpoint "
                     "DIR too, or leave it out",
                     option);
}
