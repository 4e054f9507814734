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
#include "base/registry.h"
#include "models/models.h"
#include "optim/optim.h"
#include "train/trainer.h"

weft_learning_rate weft_schedule_rate(const weft_context *context, const weft_optimizer_options *o)
{
    return (weft_learning_rate){.schedule = weft_rate_schedule_at(context, o->schedule),
                                .of = {.lr = o->lr,
                                       .gamma = o->gamma,
                                       .floor = o->floor,
                                       .warmup = o->warmup,
                                       .total = o->total,
                                       .every = o->every,
                                       .keys = o->schedule_keys},
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

void weft_trainer_place_by(const weft_trainer *t, const weft_length_choice *length,
                           weft_schedule_place *out)
{
    *out = t->place;
    out->total = total_of(length, start_of(t), out->clock.at, out->epoch);
}

weft_position weft_trainer_position(const weft_trainer *t, weft_position p)
{
    const weft_learning_rate clock = {
        .step = t->place.clock.step, .at = t->place.clock.at, .pace = t->place.clock.pace};
    p.schedule = weft_learning_rate_step(&clock, p.step);
    p.schedule_epoch = t->place.epoch;
    return p;
}

/* Copies the state of a schedule by measurements, of so many numbers, from a checkpoint to `state`
 * and returns it; NULL: there is none. Its name ends with signs if a leaf of the model has it. */
static const double *measured_then(const weft_checkpoint *c, int measures, double *state)
{
    static const char name[] = "measured";
    const weft_safetensors *all = &c->tensors[WEFT_STATE_FILE];
    size_t bytes = (size_t)measures * sizeof(double), sums = WEFT_MEASURED * sizeof(double);
    for (size_t i = 0; i < all->count && measures > 0; i++) {
        const weft_tensor *t = &all->tensors[i];
        if (strncmp(t->name, name, sizeof(name) - 1) != 0 || t->bytes != bytes + sums ||
            t->name[sizeof(name) - 1 + strspn(t->name + sizeof(name) - 1, "_")])
            continue;
        memcpy(state, t->data, bytes);
        return state;
    }
    return NULL;
}

weft_status weft_schedule_text(const weft_context *context, const weft_checkpoint *c, char **out)
{
    const weft_position *at = &c->position;
    const weft_option *table = weft_train_table(context);
    weft_train_options run = {0};
    weft_optimizer_options optimizer;
    weft_text text = {0};
    WEFT_TRY(weft_settings_give(&c->settings, table, &run));
    const char *name = run.update.lr_schedule;
    if (!weft_registry_look(context, WEFT_KIND_RATE, name, strcspn(name, ":"))) {
        char hint[WEFT_PLUGIN_HINT];
        weft_text_add(&text, "learning rate: the schedule %s is not known here%s\n", name,
                      weft_plugin_hint(context, WEFT_KIND_RATE, name, strcspn(name, ":"), hint,
                                       sizeof(hint)));
        weft_options_free(table, &run);
        return weft_text_take(&text, out);
    }
    /* Older checkpoints have no place of their own, and went by steps. */
    bool known = at->schedule_epoch > 0;
    weft_schedule_place place = {.clock = {at->step, known ? at->schedule : (double)at->step, 1},
                                 .epoch = at->schedule_epoch};
    place.total = total_of(&run.length, at, place.clock.at, place.epoch);
    weft_status status = weft_optimizer_chosen(context, &run, &place, &optimizer);
    if (status == WEFT_OK && (known || run.length.steps > 0)) {
        weft_learning_rate rate = weft_schedule_rate(context, &optimizer);
        double state[WEFT_MOST_MEASURES];
        rate.of.measured = measured_then(c, rate.schedule->measures, state);
        weft_text_add(&text,
                      "learning rate %.6g in step %lld: at step %.6g of %lld of the schedule %s\n",
                      weft_learning_rate_at(&rate, at->step), (long long)at->step + 1,
                      place.clock.at, (long long)place.total, run.update.lr_schedule);
    }
    weft_options_free(table, &run);
    return status == WEFT_OK ? weft_text_take(&text, out) : status;
}
