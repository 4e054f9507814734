/* The rule of each option in a run that resumes. No option is taken from the checkpoint: one that
 * is left out has its default. */
#include "base/registry.h"
#include "data/data.h"
#include "train/trainer.h"

static const struct {
    const char *names; /* with commas between them */
    weft_resume_rule rule;
    bool state; /* it decides which state a run keeps, or what that means */
} rules[] = {
    /* They determine the parameters, or which samples form a batch and how they are read. */
    {"model", WEFT_RESUME_NETWORK, false},
    {"batch,seed,data,validation,normalize", WEFT_RESUME_KEEPS, false},
    {"dtype", WEFT_RESUME_STORED, false},
    {"weights", WEFT_RESUME_NAMES, false},
    {"optimizer", WEFT_RESUME_KEEPS, true},
    {"lr,warmup,decay-every,gamma,lr-floor", WEFT_RESUME_RATE, false},
    {"lr-schedule", WEFT_RESUME_RATE, true},
    {"epochs,steps", WEFT_RESUME_LENGTH, false},
    {"lr-multiplier,momentum,nesterov,carry-state,exchange,compress,compress-downlink",
     WEFT_RESUME_NAMES, true},
    {"augment,loss,class-weights,keep-best,patience,microbatches,sum-dtype,virtual-workers,weight-"
     "decay,"
     "beta1,beta2,"
     "epsilon,clip-norm,"
     "label-"
     "smoothing",
     WEFT_RESUME_NAMES, false},
    /* They change no result, or only its rounding. */
    {"device,home,tune,threads,ranks,engine,mesh,shares,zero,schedule,profile,no-bind,recompute,"
     "shard,"
     "place,"
     "servers,"
     "replicas,hosts,max-restarts,timeout,check-collectives",
     WEFT_RESUME_FREE, false},
    {"init,checkpoint,checkpoint-every,keep,evaluate-every,metric,resume,drop-state,metrics,trace,"
     "quiet,progress",
     WEFT_RESUME_FREE, false},
};

weft_resume_rule weft_resume_rule_of(const char *option, bool *state)
{
    for (size_t i = 0; i < WEFT_COUNT(rules); i++) {
        *state = rules[i].state;
        if (weft_is_listed(rules[i].names, option)) return rules[i].rule;
    }
    return WEFT_RESUME_UNKNOWN;
}

weft_status weft_resume_same(const weft_trainer *t, const weft_option *o, bool *same)
{
    const char *now = weft_settings_find(&t->settings, o->name);
    const char *then = weft_settings_find(&t->resumed.settings, o->name);
    *same = now == then || (now && then && strcmp(now, then) == 0);
    if (*same || !now || !then || o->forms == WEFT_KIND_NONE) return WEFT_OK;
    const weft_entry *e = weft_registry_look(t->context, o->forms, now, strcspn(now, ":"));
    return weft_spec_same(now, then, e ? e->form : NULL, t->resumed.folder, same);
}

weft_status weft_resume_find_changes(weft_trainer *t)
{
    weft_text text = {0};
    weft_status status = WEFT_OK;
    for (const weft_option *o = weft_train_table(t->context); o->name; o++) {
        const char *then = weft_settings_find(&t->resumed.settings, o->name);
        bool same, state;
        (void)weft_resume_rule_of(o->name, &state);
        if (!state) continue;
        WEFT_TRY_GOTO(weft_resume_same(t, o, &same), failed);
        if (!same)
            weft_text_add(&text, "%s%s--%s%s%s", text.size ? ", " : "", then ? "" : "no ", o->name,
                          then ? " " : "", then ? then : "");
    }
    return text.size > 0 ? weft_text_take(&text, &t->resumed.changed) : WEFT_OK;
failed:
    free(text.data);
    return status;
}
