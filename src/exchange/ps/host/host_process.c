/* A server as a process of its own: opens its ranges by the run's options. */
#include "exchange/ps/ps_exchange.h"

/* Seconds between two heartbeats. */
static const double BEAT = 1;

typedef struct served_range {
    weft_updater updater;
    struct iovec *states;
    int state_count;
} served_range;

typedef struct serving {
    const weft_serving *site;
    weft_policy policy;
    bool adds;
    int range_count;
    served_range ranges[];
} serving;

/* The optimizer's state of a range, in the order in which learners have it. */
static weft_status list_states(served_range *r, weft_served *out, size_t bytes)
{
    weft_exchange_state s;
    weft_flat_optimizer *optimizer = r->updater.optimizer;
    while (optimizer && weft_flat_optimizer_state(optimizer, r->state_count, &s)) r->state_count++;
    WEFT_TRY(WEFT_NEW(&r->states, r->state_count + 1));
    out->states = r->states;
    out->state_count = r->state_count;
    for (int i = 0; i < r->state_count; i++)
        if (weft_flat_optimizer_state(optimizer, i, &s))
            r->states[i] = (struct iovec){s.data, s.bytes};
    if (out->published)
        r->states[out->state_count++] =
            (struct iovec){weft_downlink_reference(out->published), bytes};
    return WEFT_OK;
}

static weft_status open_range(void *user, int number, weft_served *out)
{
    serving *s = user;
    const weft_serving *site = s->site;
    if (number >= s->range_count) return weft_fail(WEFT_ERR_FORMAT, "there is no range %d", number);
    served_range *r = &s->ranges[number];
    int64_t begin = weft_part_start(site->count, number, s->range_count);
    weft_range_options options = {
        .struct_size = sizeof(options),
        .policy = s->policy,
        .dtype = site->dtype,
        .count = weft_part_start(site->count, number + 1, s->range_count) - begin};
    WEFT_TRY(weft_updater_open(&r->updater, s->adds, site->context, site->store, site->optimizer,
                               &options));
    WEFT_TRY(weft_ps_exchange_publish(
        site->context, weft_ps_exchange_back(s->adds, site->codec, site->back), site->dtype,
        options.count, begin, site->gaps, &out->published));
    weft_status status = list_states(r, out, (size_t)options.count * weft_dtype_size(site->dtype));
    if (status == WEFT_OK) status = weft_range_create(&options, &out->range);
    if (status != WEFT_OK) weft_downlink_close(&out->published);
    return status;
}

static void close_range(void *user, int number)
{
    served_range *r = &((serving *)user)->ranges[number];
    weft_updater_close(&r->updater);
    free(r->states);
    *r = (served_range){0};
}

/* The policy of the exchange, opened without a site. */
static weft_status take_policy(serving *s, const weft_exchange_ops *ops, const char *arguments)
{
    weft_exchange *parsed;
    WEFT_TRY(ops->open(arguments, NULL, &parsed));
    s->policy = ((const weft_ps_exchange *)parsed)->policy;
    s->adds = ((const weft_ps_exchange *)parsed)->adds;
    ops->close(parsed);
    return WEFT_OK;
}

weft_status weft_ps_exchange_serve(const weft_exchange_ops *ops, const char *arguments,
                                   weft_serving *site, weft_actor **out)
{
    serving *s;
    int servers = (int)WEFT_MIN(WEFT_MAX(site->servers, 1), WEFT_MAX(site->count, 1));
    int ranges = weft_server_ranges(site->count, site->dtype, servers);
    WEFT_TRY(weft_new_bytes(&s, 1, sizeof(*s) + (size_t)ranges * sizeof(*s->ranges)));
    s->site = site;
    s->range_count = ranges;
    weft_server_options options = {.struct_size = sizeof(options),
                                   .member = {.struct_size = sizeof(weft_member_options),
                                              .key = weft_draw(),
                                              .wish = site->place - 1,
                                              .fingerprint = {.version = WEFT_VERSION},
                                              .beat = BEAT},
                                   .patience = 1,
                                   .open = open_range,
                                   .close = close_range,
                                   .user = s};
    weft_status status = take_policy(s, ops, arguments);
    if (status == WEFT_OK) status = weft_server_create(&options, out);
    if (status == WEFT_OK)
        site->own = s;
    else
        free(s);
    return status;
}
