/* The batching policies whose setting never changes (none, fixed, greedy), and the table of all
 * policies. */
#include "base/registry.h"
#include "serve/batch/batch_internal.h"
#include "weft/serve.h"

weft_status weft_policy_parse(const char *kind, const char *arguments, const weft_spec_key *keys)
{
    return *arguments ? weft_spec_parse(kind, arguments, keys) : WEFT_OK;
}

static weft_status open_with(const weft_batch_setting *batching, weft_policy **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    (*out)->setting = *batching;
    return WEFT_OK;
}

static void close_plain(weft_policy *policy)
{
    free(policy);
}

static weft_status open_none(const char *arguments, const weft_policy_input *input,
                             weft_policy **out)
{
    WEFT_TRY(weft_policy_parse("none", arguments, (weft_spec_key[]){{.name = NULL}}));
    return open_with(
        &(weft_batch_setting){.min_rows = 1, .max_rows = input->limit, .one_request = true}, out);
}

static weft_status open_greedy(const char *arguments, const weft_policy_input *input,
                               weft_policy **out)
{
    WEFT_TRY(weft_policy_parse("greedy", arguments, (weft_spec_key[]){{.name = NULL}}));
    return open_with(&(weft_batch_setting){.min_rows = 1, .max_rows = input->limit}, out);
}

static weft_status open_fixed(const char *arguments, const weft_policy_input *input,
                              weft_policy **out)
{
    double wait = 0, most = (double)input->limit;
    weft_spec_key keys[] = {
        {.name = "wait", .number = &wait, .low = 0, .high = 1e9},
        {.name = "max", .number = &most, .low = 1, .high = 1e9, .integer = true},
        {.name = NULL}};
    WEFT_TRY(weft_policy_parse("fixed", arguments, keys));
    int64_t limit = WEFT_MIN((int64_t)most, input->limit);
    return open_with(
        &(weft_batch_setting){.min_rows = limit, .max_rows = limit, .max_delay = wait / 1e6}, out);
}

static const weft_policy_ops none = {.name = "none",
                                     .form = "none",
                                     .help = "no batching: one request per batch",
                                     .open = open_none,
                                     .close = close_plain};
static const weft_policy_ops fixed = {
    .name = "fixed",
    .form = "fixed[:wait=US][,max=ROWS]",
    .help = "starts a batch with `max` rows, or when its oldest request has waited "
            "`wait` microseconds",
    .open = open_fixed,
    .close = close_plain};
static const weft_policy_ops greedy = {
    .name = "greedy",
    .form = "greedy",
    .help = "starts a batch with all queued requests whenever an executor is free",
    .open = open_greedy,
    .close = close_plain};
static const weft_policy_ops *const policies[] = {&none, &fixed, &greedy, &weft_policy_adaptive};

weft_status weft_policies_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(policies)];
    weft_context_extend(context, &weft_policies_extension);
    for (size_t i = 0; i < WEFT_COUNT(policies); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_POLICY,
                                  .name = policies[i]->name,
                                  .form = policies[i]->form,
                                  .summary = policies[i]->help,
                                  .ops = policies[i]};
    return weft_registry_add(context, entries, (int)WEFT_COUNT(policies));
}

weft_status weft_policy_open(weft_context *context, const char *spec,
                             const weft_policy_input *input, weft_policy **out)
{
    const weft_entry *entry;
    size_t size = strcspn(spec, ":");
    WEFT_TRY(weft_serve_register(context));
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_POLICY, spec, size, &entry));
    weft_policy_input own = *input;
    own.ops = entry->ops;
    WEFT_TRY(own.ops->open(spec[size] ? spec + size + 1 : "", &own, out));
    (*out)->ops = own.ops;
    return WEFT_OK;
}

void weft_policy_close(weft_policy **policy)
{
    if (!policy || !*policy) return;
    (*policy)->ops->close(*policy);
    *policy = NULL;
}
