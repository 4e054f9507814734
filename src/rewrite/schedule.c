/* Makes pipeline schedules (gpipe, 1f1b), which list the passes of each stage in order, and checks
 * a schedule by a simulation of all stages together before anything runs. */
#include "base/registry.h"
#include "rewrite/rewrite.h"

typedef struct kind {
    const char *name, *summary;
    /* The number of forward passes of a stage before its first backward pass. */
    int (*ahead)(int stages, int stage, int microbatches);
} kind;

static int gpipe_ahead(int stages, int stage, int microbatches)
{
    (void)stages;
    (void)stage;
    return microbatches;
}

static int one_ahead(int stages, int stage, int microbatches)
{
    return WEFT_MIN(stages - stage, microbatches);
}

static const kind kinds[] = {
    {"gpipe", "all micro-batches forward, then all backward", gpipe_ahead},
    {"1f1b",
     "one forward, one backward: a stage keeps at most as many micro-batches as stages follow",
     one_ahead}};

weft_status weft_schedules_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(kinds)];
    for (size_t i = 0; i < WEFT_COUNT(kinds); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_SCHEDULE,
                                  .name = kinds[i].name,
                                  .summary = kinds[i].summary,
                                  .ops = &kinds[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(kinds));
}

/* Most stages, and most micro-batches, of a schedule. */
enum { MOST_STAGES = 1024, MOST_MICRO = 1 << 20 };

static weft_status check_counts(int stages, int microbatches)
{
    if (stages < 1 || stages > MOST_STAGES)
        return weft_fail(WEFT_ERR_ARGUMENT, "a schedule of %d stages, must be from 1 to %d", stages,
                         MOST_STAGES);
    if (microbatches < 1 || microbatches > MOST_MICRO)
        return weft_fail(WEFT_ERR_ARGUMENT, "a schedule of %d micro-batches, must be from 1 to %d",
                         microbatches, MOST_MICRO);
    return WEFT_OK;
}

weft_status weft_schedule_make(const weft_context *context, const char *name, int stages, int stage,
                               int microbatches, weft_schedule *out)
{
    WEFT_NEED_AS("context, kind, out", context, name, out);
    WEFT_TRY(check_counts(stages, microbatches));
    WEFT_CHECK_INDEX(stage, stages);
    const weft_entry *entry;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_SCHEDULE, name, strlen(name), &entry));
    const kind *k = entry->ops;
    int ahead = stages == 1 ? 1 : k->ahead(stages, stage, microbatches), forward = 0, backward = 0;
    weft_schedule s = {.count = 2 * microbatches, .slots = ahead};
    WEFT_TRY(WEFT_NEW(&s.actions, s.count));
    for (int i = 0; i < s.count; i++) {
        bool go = forward < microbatches && forward - backward < ahead;
        s.actions[i] = go ? (weft_action){WEFT_PHASE_FORWARD, forward++}
                          : (weft_action){WEFT_PHASE_BACKWARD, backward++};
    }
    *out = s;
    return WEFT_OK;
}

/* The schedule of a rank. Pipeline stages differ in how many forward passes they are ahead. With
 * the user's placement a rank may come both before and after another rank, so all ranks run the
 * schedule of stage 0: each then waits only for earlier passes of one common order. */
weft_status weft_plan_schedule(const weft_plan *plan, int rank, const char *name, int microbatches,
                               weft_schedule *out)
{
    WEFT_NEED_AS("plan, kind, out", plan, name, out);
    WEFT_CHECK_INDEX(rank, plan->options.ranks);
    int stage = plan->rule_count > 0 ? 0 : weft_plan_place(plan, rank);
    return weft_schedule_make(plan->context, name, plan->places, stage, microbatches, out);
}

void weft_schedule_free(weft_schedule *s)
{
    WEFT_NEED_VOID_AS("schedule", s);
    free(s->actions);
    *s = (weft_schedule){0};
}

/* The state of a simulated schedule. `ended`: the times at which the forward (0) and backward (1)
 * pass of each micro-batch ended at each stage; negative: not yet. */
typedef struct timetable {
    int stages, microbatches;
    double *ended[2];
    double *clock; /* of each stage */
    int *next;     /* next action of each stage */
} timetable;

static double *ended(const timetable *t, weft_phase phase, int stage, int m)
{
    return &t->ended[phase == WEFT_PHASE_BACKWARD]
                    [(size_t)stage * (size_t)t->microbatches + (size_t)m];
}

/* The time at which the passes that an action needs have ended; negative: not yet known. */
static double ready(const timetable *t, int stage, const weft_action *a)
{
    if (a->phase == WEFT_PHASE_FORWARD)
        return stage == 0 ? 0 : *ended(t, WEFT_PHASE_FORWARD, stage - 1, a->micro);
    return stage == t->stages - 1 ? *ended(t, WEFT_PHASE_FORWARD, stage, a->micro)
                                  : *ended(t, WEFT_PHASE_BACKWARD, stage + 1, a->micro);
}

static weft_status simulate(timetable *t, const weft_schedule *all, const double *forward,
                            const double *backward)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < t->stages; s++)
            while (t->next[s] < all[s].count) {
                const weft_action *a = &all[s].actions[t->next[s]];
                double from = ready(t, s, a);
                if (from < 0) break;
                t->clock[s] = WEFT_MAX(t->clock[s], from) +
                              (a->phase == WEFT_PHASE_FORWARD ? forward[s] : backward[s]);
                *ended(t, a->phase, s, a->micro) = t->clock[s];
                t->next[s]++;
                moved = true;
            }
    }
    for (int s = 0; s < t->stages; s++)
        if (t->next[s] < all[s].count)
            return weft_fail(
                WEFT_ERR_ARGUMENT,
                "this schedule has a deadlock: stage %d waits for ever to run %s of "
                "micro-batch %d",
                s, all[s].actions[t->next[s]].phase == WEFT_PHASE_FORWARD ? "forward" : "backward",
                all[s].actions[t->next[s]].micro);
    return WEFT_OK;
}

weft_status weft_schedule_check(const weft_context *context, const char *name, int stages,
                                int microbatches, const double *forward, const double *backward,
                                double *makespan, double *bubble)
{
    WEFT_NEED_AS("context, kind, forward, backward", context, name, forward, backward);
    WEFT_TRY(check_counts(stages, microbatches));
    double work = 0;
    for (int s = 0; s < stages; s++) {
        if (forward[s] + backward[s] <= 0)
            return weft_fail(WEFT_ERR_ARGUMENT, "stage %d of %d has nothing to do", s, stages);
        work += microbatches * (forward[s] + backward[s]);
    }
    timetable t = {.stages = stages, .microbatches = microbatches};
    weft_schedule *all = NULL;
    size_t cells = (size_t)stages * (size_t)microbatches;
    double longest = 0;
    weft_status status = WEFT_NEW(&all, stages);
    if (status == WEFT_OK) status = WEFT_NEW(&t.ended[0], 2 * cells);
    if (status == WEFT_OK) status = WEFT_NEW(&t.clock, stages);
    if (status == WEFT_OK) status = WEFT_NEW(&t.next, stages);
    for (int s = 0; s < stages && status == WEFT_OK; s++)
        status = weft_schedule_make(context, name, stages, s, microbatches, &all[s]);
    if (status == WEFT_OK) {
        t.ended[1] = t.ended[0] + cells;
        for (size_t i = 0; i < 2 * cells; i++) t.ended[0][i] = -1;
        status = simulate(&t, all, forward, backward);
    }
    for (int s = 0; s < stages && t.clock; s++) longest = WEFT_MAX(longest, t.clock[s]);
    if (status == WEFT_OK && makespan) *makespan = longest;
    if (status == WEFT_OK && bubble) *bubble = longest > 0 ? 1 - work / (longest * stages) : 0;
    for (int s = 0; all && s < stages; s++) weft_schedule_free(&all[s]);
    free(all);
    free(t.ended[0]);
    free(t.clock);
    free(t.next);
    return status;
}
