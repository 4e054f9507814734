/* Logs the options in which a resumed run differs from its checkpoint, where they change training.
 * resume_rules.c says which they are. Options of the learning rate have a line of their own, with
 * the rate. */
#include <stdio.h>

#include "base/learning_rate.h"
#include "train/trainer.h"

/* The text for an option that a run leaves out: a model has a loss of its own. */
static const char *left_out(const weft_option *o)
{
    return o->names == WEFT_KIND_LOSS ? "the model's own" : "none";
}

/* Appends the options with a rule that differ from those of the checkpoint. */
static weft_status add_changes(const weft_trainer *t, weft_resume_rule rule, weft_text *text)
{
    for (const weft_option *o = weft_train_table(t->context); o->name; o++) {
        const char *now = weft_settings_find(&t->settings, o->name);
        const char *then = weft_settings_find(&t->resumed.settings, o->name);
        const char *comma = text->size ? ", " : "";
        bool state, same;
        weft_resume_rule has = weft_resume_rule_of(o->name, &state);
        if (has != rule && !(rule == WEFT_RESUME_NAMES && has == WEFT_RESUME_STORED)) continue;
        WEFT_TRY(weft_resume_same(t, o, &same));
        if (same) continue;
        if (now)
            weft_text_add(text, "%s--%s %s instead of %s", comma, o->name, now,
                          then ? then : left_out(o));
        else
            weft_text_add(text, "%sno --%s instead of %s", comma, o->name, then);
    }
    return WEFT_OK;
}

/* The learners of the run that wrote the checkpoint; 0: unknown. */
static int learners_then(const weft_checkpoint *c)
{
    if (c->learners > 0) return c->learners;
    return weft_settings_find(&c->settings, "exchange") ? 0 : 1;
}

static weft_status log_options(const weft_trainer *t)
{
    char *changes;
    weft_text text = {0};
    int then = learners_then(&t->resumed);
    WEFT_TRY(add_changes(t, WEFT_RESUME_NAMES, &text));
    if (then > 0 && then != t->learners)
        weft_text_add(&text, "%s%d learner%s instead of %d", text.size ? ", " : "", t->learners,
                      weft_plural(t->learners), then);
    if (text.size == 0) return WEFT_OK;
    WEFT_TRY(weft_text_take(&text, &changes));
    weft_log(t->context, WEFT_LOG_NOTE, "the run goes on after step %lld with %s",
             (long long)t->resumed.position.step, changes);
    free(changes);
    return WEFT_OK;
}

/* --- the learning rate --- */

/* `changes` in the options of the learning rate, and its values at the next step. */
static void log_rate(const weft_trainer *t, const char *changes, int64_t step, double now,
                     double before)
{
    char rate[32], other[32];
    (void)snprintf(rate, sizeof(rate), "%.6g", now);
    (void)snprintf(other, sizeof(other), "%.6g", before);
    if (strcmp(rate, other) == 0)
        weft_log(t->context, WEFT_LOG_NOTE,
                 "the learning rate goes on by %s: step %lld has %s either way", changes,
                 (long long)step, rate);
    else
        weft_log(t->context, WEFT_LOG_NOTE,
                 "the learning rate goes on by %s: step %lld has %s, and would have had %s",
                 changes, (long long)step, rate, other);
}

static weft_status log_schedule(const weft_trainer *t, const weft_optimizer_options *was)
{
    const weft_optimizer_options *is = &t->run_spec.optimizer;
    weft_learning_rate now = weft_schedule_rate(t->context, is),
                       before = weft_schedule_rate(t->context, was);
    bool length = now.schedule->ends || before.schedule->ends;
    char *changes;
    weft_text text = {0};
    int64_t step = is->clock.step;
    WEFT_TRY(add_changes(t, WEFT_RESUME_RATE, &text));
    if (length) WEFT_TRY(add_changes(t, WEFT_RESUME_LENGTH, &text));
    if (text.size > 0) {
        WEFT_TRY(weft_text_take(&text, &changes));
        if (now.schedule->measure || before.schedule->measure)
            weft_log(t->context, WEFT_LOG_NOTE, "the learning rate goes on by %s", changes);
        else
            log_rate(t, changes, step + 1, weft_learning_rate_at(&now, step),
                     weft_learning_rate_at(&before, step));
        free(changes);
    }
    /* The first schedule is the constant one. */
    bool moves = (is->schedule > 0 && !now.schedule->measure) || now.at < (double)now.of.warmup;
    if (moves && now.pace != 1)
        weft_log(t->context, WEFT_LOG_NOTE,
                 "an epoch has another number of steps than when the run began: the learning rate "
                 "follows the share of the epochs that is done, so that each step counts as %.4g "
                 "of its schedule",
                 now.pace);
    return WEFT_OK;
}

weft_status weft_trainer_note_changes(const weft_trainer *t)
{
    weft_train_options was = {0};
    weft_optimizer_options optimizer;
    weft_schedule_place then;
    const weft_option *table = weft_train_table(t->context);
    if (!t->resumed.path || t->runs[0].rank.rank != 0 || t->run_steps > 0 ||
        t->total_steps <= t->place.clock.step)
        return WEFT_OK;
    WEFT_TRY(log_options(t));
    WEFT_TRY(weft_settings_give(&t->resumed.settings, table, &was));
    weft_trainer_place_by(t, &was.length, &then);
    weft_status status = weft_optimizer_chosen(t->context, &was, &then, &optimizer);
    if (status == WEFT_OK) status = log_schedule(t, &optimizer);
    weft_options_free(table, &was);
    return status;
}
