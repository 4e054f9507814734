/* The rule of each option in a run that resumes. Here no option is taken from the checkpoint, one
 * that is left out has its default: the command has taken them before (resume_options.c). */
#include "base/registry.h"
#include "data/data.h"
#include "train/trainer.h"

typedef struct rule {
    const char *names; /* with commas between them */
    weft_resume_rule rule;
    bool state;      /* it decides which state a run keeps, or what that means */
    bool phase;      /* phases of a run may differ in it */
    weft_kind forms; /* of values that are no numbers; NONE: as the table of options says */
} rule;

static const rule rules[] = {
    /* They determine the parameters, or which samples form a batch and how they are read. */
    {"model", WEFT_RESUME_NETWORK, .state = false},
    {"seed,data,normalize", WEFT_RESUME_KEEPS, .state = false},
    {"batch", WEFT_RESUME_KEEPS, .phase = true},
    {"validation", WEFT_RESUME_KEEPS, .forms = WEFT_KIND_DATA},
    {"dtype", WEFT_RESUME_STORED, .state = false},
    {"weights", WEFT_RESUME_NAMES, .state = false},
    {"optimizer", WEFT_RESUME_KEEPS, .state = true},
    {"lr,warmup,decay-every,gamma,lr-floor", WEFT_RESUME_RATE, .phase = true},
    {"lr-schedule", WEFT_RESUME_RATE, .state = true, .phase = true},
    {"epochs,steps", WEFT_RESUME_LENGTH, .state = false},
    {"freeze,unfreeze,carry-state", WEFT_RESUME_NAMES, .state = true},
    {"ema,lr-multiplier,momentum,nesterov,exchange,compress,compress-downlink", WEFT_RESUME_NAMES,
     .state = true, .phase = true},
    {"keep-best,patience,phases,rechoose,virtual-workers", WEFT_RESUME_NAMES, .state = false},
    {"augment,loss,class-weights,microbatches,sum-dtype,weight-decay,beta1,beta2,epsilon,clip-norm,"
     "label-smoothing",
     WEFT_RESUME_NAMES, .phase = true},
    /* They change no result, or only its rounding. */
    {"mesh,shares,zero,schedule,profile,recompute,shard,place,servers,replicas", WEFT_RESUME_FREE,
     .phase = true},
    {"device,home,tune,threads,ranks,engine,no-bind,hosts,max-restarts,timeout,check-collectives",
     WEFT_RESUME_FREE, .state = false},
    {"init,checkpoint,checkpoint-every,keep,evaluate-every,noise-scale,metric,resume,drop-state,"
     "without,"
     "metrics,trace,"
     "quiet,progress,estimate",
     WEFT_RESUME_FREE, .state = false},
};

/* The row of an option; NULL: the table lacks it. */
static const rule *find_rule(const char *option)
{
    for (size_t i = 0; i < WEFT_COUNT(rules); i++)
        if (weft_is_listed(rules[i].names, option)) return &rules[i];
    return NULL;
}

weft_resume_rule weft_resume_rule_of(const char *option, bool *state)
{
    const rule *r = find_rule(option);
    *state = r && r->state;
    return r ? r->rule : WEFT_RESUME_UNKNOWN;
}

bool weft_resume_in_phase(const char *option)
{
    const rule *r = find_rule(option);
    return r && r->phase;
}

weft_status weft_resume_same(const weft_trainer *t, const weft_option *o, bool *same)
{
    const char *now = weft_settings_find(&t->settings, o->name);
    const char *then = weft_settings_find(&t->resumed.settings, o->name);
    const rule *r = find_rule(o->name);
    weft_kind forms = r && r->forms != WEFT_KIND_NONE ? r->forms : o->forms;
    double x, y;
    *same = now == then || (now && then && strcmp(now, then) == 0);
    if (*same || !now || !then || forms == WEFT_KIND_NONE) return WEFT_OK;
    *same = weft_parse_real(now, &x) && weft_parse_real(then, &y) && x == y;
    if (*same) return WEFT_OK;
    const weft_entry *e = weft_registry_look(t->context, forms, now, strcspn(now, ":"));
    const weft_source_ops *source = e && forms == WEFT_KIND_DATA ? e->ops : NULL;
    return weft_spec_same(now, then, e ? e->form : NULL, source ? source->settled : NULL,
                          t->resumed.folder, same);
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
