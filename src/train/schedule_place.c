/* Finds the place of a run in the schedule of its learning rate.
 *
 * A schedule has steps of its own: those of the run as it began. A run of so many epochs that goes
 * on with another number of learners has other steps in an epoch, and follows the schedule by the
 * share of the epochs that is done. A run of so many steps follows it by steps. The rate therefore
 * has no jump, unless the options of the schedule or the length of the run are others; then a line
 * says so. Members that join or leave an elastic run change neither its number of steps nor its
 * place. */
#include <math.h>

#include "base/learning_rate.h"
#include "models/models.h"
#include "train/trainer.h"

static weft_learning_rate rate_of(const weft_optimizer_options *o)
{
    return (weft_learning_rate){.kind = (int)o->schedule,
                                .base = o->lr,
                                .gamma = o->gamma,
                                .floor = o->floor,
                                .warmup = o->warmup,
                                .total = o->total,
                                .every = o->every,
                                .step = o->clock.step,
                                .at = o->clock.at,
                                .pace = o->clock.pace};
}

/* The last step of the schedule in a run of this length. */
static int64_t total_of(const weft_length_choice *o, const weft_position *from, double at,
                        int64_t epoch)
{
    if (o->steps > 0) return WEFT_MAX(llround(at) + o->steps - from->step, (int64_t)1);
    return WEFT_MAX(o->epochs * epoch, (int64_t)1);
}

/* The position from which the run goes on. */
static const weft_position *start_of(const weft_trainer *t)
{
    return t->begun.step > 0 ? &t->begun : &t->resumed.position;
}

void weft_trainer_find_place(weft_trainer *t)
{
    const weft_length_choice *o = &t->options.length;
    const weft_position *from = start_of(t);
    int64_t all = o->batch * t->learners, then = o->batch * WEFT_MAX(t->resumed.learners, 1);
    weft_schedule_place *p = &t->place;
    if (t->run_steps > 0) return; /* the run configuration has told it */
    *p = (weft_schedule_place){.clock = {from->step, from->schedule, 1},
                               .epoch = from->schedule_epoch};
    if (p->epoch == 0) { /* a run that begins, or an older checkpoint */
        p->clock.at = (double)from->step;
        if (from->step == 0 || t->resumed.learners == 0) then = all;
        p->epoch = (t->samples + then - 1) / then;
    }
    p->total = total_of(o, from, p->clock.at, p->epoch);
    double left = (double)(t->total_steps - from->step), rest = (double)p->total - p->clock.at;
    if (o->steps == 0 && left > 0 && rest > 0) p->clock.pace = rest / left;
}

weft_position weft_trainer_position(const weft_trainer *t, weft_position p)
{
    const weft_learning_rate clock = {
        .step = t->place.clock.step, .at = t->place.clock.at, .pace = t->place.clock.pace};
    p.schedule = weft_learning_rate_step(&clock, p.step);
    p.schedule_epoch = t->place.epoch;
    return p;
}

/* --- what has changed --- */

/* Appends the options of the learning rate that differ from those of the checkpoint. The length of
 * the run counts if the schedule depends on it. */
static void add_changes(const weft_trainer *t, bool length, weft_text *text)
{
    static const char *const all[] = {"lr",    "lr-schedule", "warmup", "decay-every",
                                      "gamma", "lr-floor",    "epochs", "steps"};
    for (size_t i = 0; i < WEFT_COUNT(all); i++) {
        const char *now = weft_settings_find(&t->settings, all[i]);
        const char *then = weft_settings_find(&t->resumed.settings, all[i]);
        if (strcmp(now, then) == 0 || (i >= 6 && !length)) continue;
        weft_text_add(text, "%s--%s %s instead of %s", text->size ? ", " : "", all[i], now, then);
    }
}

static weft_status log_changes(const weft_trainer *t, const weft_optimizer_options *was)
{
    const weft_optimizer_options *is = &t->run_spec.optimizer;
    weft_learning_rate now = rate_of(is), before = rate_of(was);
    char *changes;
    weft_text text = {0};
    int64_t step = is->clock.step;
    add_changes(t, now.kind == 2 || before.kind == 2, &text);
    if (text.size > 0) {
        WEFT_TRY(weft_text_take(&text, &changes));
        weft_log(t->context, WEFT_LOG_NOTE,
                 "the learning rate goes on by %s: step %lld has %.6g, and would have had %.6g",
                 changes, (long long)step + 1, weft_learning_rate_at(&now, step),
                 weft_learning_rate_at(&before, step));
        free(changes);
    }
    bool moves = now.kind != 0 || now.at < (double)now.warmup;
    if (moves && now.pace != 1)
        weft_log(t->context, WEFT_LOG_NOTE,
                 "an epoch has another number of steps than when the run began: the learning rate "
                 "follows the share of the epochs that is done, so that each step counts as %.4g "
                 "of its schedule",
                 now.pace);
    return WEFT_OK;
}

weft_status weft_trainer_note_schedule(const weft_trainer *t)
{
    const weft_schedule_place *p = &t->place;
    weft_train_options was = {0};
    weft_optimizer_options optimizer;
    const weft_option *table = weft_train_table(t->context);
    if (!t->resumed.path || t->runs[0].rank.rank != 0 || t->run_steps > 0 ||
        t->total_steps <= p->clock.step)
        return WEFT_OK;
    WEFT_TRY(weft_settings_give(&t->resumed.settings, table, &was));
    weft_schedule_place then = *p;
    then.total = total_of(&was.length, start_of(t), p->clock.at, p->epoch);
    weft_status status = weft_optimizer_chosen(t->context, &was.update, &then, &optimizer);
    if (status == WEFT_OK) status = log_changes(t, &optimizer);
    weft_options_free(table, &was);
    return status;
}
