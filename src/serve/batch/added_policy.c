/* Batching policies that programs and plug-ins add (weft/batching_ops.h). */
#include "base/registry.h"
#include "serve/batch/batch_internal.h"
#include "weft/serve.h"

/* The policy of an entry, and the struct that it was made of. */
typedef struct added_kind {
    weft_policy_ops ops;
    const weft_batching_ops *given;
} added_kind;

typedef struct added_policy {
    weft_policy head;
    weft_batching_queue queue;
    const weft_batching_ops *given;
    const weft_curve *curve;
    void *state;
} added_policy;

static double seconds(const weft_batching_queue *queue, double rows)
{
    const char *at = (const char *)(const void *)queue - offsetof(added_policy, queue);
    return weft_curve_time(((const added_policy *)(const void *)at)->curve, rows);
}

/* Brings the setting into its range. */
static void bound(added_policy *p)
{
    weft_batch_setting *s = &p->head.setting;
    s->max_rows = WEFT_MAX(WEFT_MIN(s->max_rows, p->queue.limit), (int64_t)1);
    s->min_rows = WEFT_MAX(WEFT_MIN(s->min_rows, s->max_rows), (int64_t)1);
    s->max_in_system = WEFT_MAX(s->max_in_system, (int64_t)0);
    s->surge_rows = WEFT_MAX(s->surge_rows, (int64_t)0);
    if (!(s->max_delay >= 0)) s->max_delay = 0;
}

static void arrived(weft_policy *policy, double now, int64_t rows, int64_t in_system)
{
    added_policy *p = (added_policy *)policy;
    if (!p->given->arrived) return;
    p->given->arrived(p->state, now, rows, in_system, &policy->setting);
    bound(p);
}

static void answered(weft_policy *policy, double now, double latency, int64_t in_system)
{
    added_policy *p = (added_policy *)policy;
    if (!p->given->answered) return;
    p->given->answered(p->state, now, latency, in_system, &policy->setting);
    bound(p);
}

static void close_policy(weft_policy *policy)
{
    added_policy *p = (added_policy *)policy;
    p->given->close(p->state);
    free(p);
}

static weft_status open_policy(const char *arguments, const weft_policy_input *input,
                               weft_policy **out)
{
    const added_kind *kind = (const added_kind *)(const void *)input->ops;
    added_policy *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->given = kind->given;
    p->curve = input->curve;
    p->queue = (weft_batching_queue){.limit = input->limit, .seconds = seconds};
    p->head.setting = (weft_batch_setting){.min_rows = 1, .max_rows = input->limit};
    uint64_t before = weft_failures();
    weft_status status = p->given->open(arguments, &p->queue, &p->head.setting, &p->state);
    status = weft_ensure_message(status, before, "batching policy", kind->ops.name, "open");
    if (status != WEFT_OK) {
        free(p);
        return status;
    }
    bound(p);
    *out = &p->head;
    return WEFT_OK;
}

static weft_status accept(weft_context *context, const weft_entry *entry, const void *ops,
                          void **made)
{
    const weft_batching_ops *given = ops;
    added_kind *kind;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "open", given->open));
    WEFT_TRY(weft_entry_need(entry, "close", given->close));
    WEFT_TRY(WEFT_NEW(&kind, 1));
    *made = kind;
    kind->given = given;
    kind->ops = (weft_policy_ops){.name = entry->name,
                                  .form = entry->form,
                                  .help = entry->summary,
                                  .open = open_policy,
                                  .close = close_policy,
                                  .arrived = arrived,
                                  .answered = answered};
    return WEFT_OK;
}

const weft_extension weft_policies_extension = {.kind = WEFT_KIND_POLICY,
                                                .type = "weft_batching_ops",
                                                .size = sizeof(weft_batching_ops),
                                                .least = sizeof(weft_batching_ops),
                                                .accept = accept};
