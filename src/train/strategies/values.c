/* Lists the values of the options of a strategy. A further option is a row here. */
#include <stdio.h>

#include "base/registry.h"
#include "train/strategies/space.h"

enum { MOST_MICROBATCHES = 64, MOST_SERVERS = 64 };

static weft_status add(strategy_values *values, const char *text)
{
    WEFT_TRY(WEFT_GROW(&values->text, &values->capacity, values->count));
    char **to = &values->text[values->count++];
    return text ? weft_strdup(text, to) : WEFT_OK;
}

static weft_status add_number(strategy_values *values, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    return add(values, text);
}

const weft_option *strategy_row(const strategy_space *space, const char *name)
{
    const weft_option *o = space->table;
    while (strcmp(o->name, name) != 0) o++;
    return o;
}

/* Adds the meshes whose sizes on the axes from `axis` on have the product `left`. */
static weft_status add_meshes(strategy_values *values, int axis, int64_t left, const char *begun)
{
    if (!weft_axis_name(axis)) return left == 1 ? add(values, begun) : WEFT_OK;
    for (int64_t n = 1; n <= left; n++) {
        char *mesh;
        if (left % n) continue;
        WEFT_TRY(n == 1 ? weft_strdup(begun, &mesh)
                        : weft_format(&mesh, "%s%s%s=%lld", begun, *begun ? "," : "",
                                      weft_axis_name(axis), (long long)n));
        weft_status status = add_meshes(values, axis + 1, left / n, mesh);
        free(mesh);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

static weft_status list_meshes(const strategy_space *space, const char *option,
                               strategy_values *out)
{
    (void)option;
    for (int64_t n = 2; n <= space->ranks; n++) WEFT_TRY(add_meshes(out, 0, n, ""));
    return WEFT_OK;
}

/* Offer k of an exchange; NULL past the end. */
static const char *offer(const weft_exchange_ops *ops, int k)
{
    if (ops->life.offered) return ops->life.offered(k);
    return k == 0 ? "" : NULL;
}

static weft_status list_exchanges(const strategy_space *space, const char *option,
                                  strategy_values *out)
{
    const weft_entry *entry;
    const char *arguments;
    (void)option;
    for (int i = 0; (entry = weft_context_entry(space->context, WEFT_KIND_EXCHANGE, i)); i++)
        for (int k = 0; (arguments = offer(entry->ops, k)); k++) {
            char *spec;
            WEFT_TRY(weft_format(&spec, "%s%s%s", entry->name, *arguments ? ":" : "", arguments));
            weft_status status = weft_exchange_check(space->context, spec);
            if (status == WEFT_OK) status = add(out, spec);
            free(spec);
            /* One that offers nothing and cannot be without arguments is left to the user. */
            if (status != WEFT_ERR_ARGUMENT) WEFT_TRY(status);
        }
    return WEFT_OK;
}

static weft_status list_codecs(const strategy_space *space, const char *option,
                               strategy_values *out)
{
    const char *name;
    (void)option;
    for (int i = 0; (name = weft_context_name(space->context, WEFT_KIND_CODEC, i)); i++)
        if (!weft_codec_is_plain(space->context, name) &&
            weft_codec_check(space->context, name) == WEFT_OK)
            WEFT_TRY(add(out, name));
    return WEFT_OK;
}

static weft_status list_servers(const strategy_space *space, const char *option,
                                strategy_values *out)
{
    (void)option;
    for (int64_t n = 2; n <= WEFT_MIN(space->machines, MOST_SERVERS); n *= 2)
        WEFT_TRY(add_number(out, n));
    return WEFT_OK;
}

/* All names of the registry that the option takes but its default. */
static weft_status list_names(const strategy_space *space, const char *option, strategy_values *out)
{
    const char *name;
    const weft_option *row = strategy_row(space, option);
    for (int i = 0; (name = weft_context_name(space->context, row->names, i)); i++)
        if (strcmp(name, row->initial) != 0) WEFT_TRY(add(out, name));
    return WEFT_OK;
}

static weft_status list_divisors(const strategy_space *space, const char *option,
                                 strategy_values *out)
{
    int64_t batch = space->given->length.batch;
    (void)option;
    for (int64_t n = 2; n <= WEFT_MIN(batch, MOST_MICROBATCHES); n++)
        if (batch % n == 0) WEFT_TRY(add_number(out, n));
    return WEFT_OK;
}

/* All numbers of the option above its default. */
static weft_status list_numbers(const strategy_space *space, const char *option,
                                strategy_values *out)
{
    const weft_option *row = strategy_row(space, option);
    for (int64_t n = (int64_t)row->low + 1; n <= (int64_t)row->high; n++)
        WEFT_TRY(add_number(out, n));
    return WEFT_OK;
}

static weft_status list_flag(const strategy_space *space, const char *option, strategy_values *out)
{
    (void)space;
    (void)option;
    return add(out, "true");
}

static const struct {
    const char *option;
    weft_status (*list)(const strategy_space *space, const char *option, strategy_values *out);
    const char *axis; /* the option has an effect on meshes with this axis alone; NULL: on all */
} rows[STRATEGY_OPTIONS] = {
    [STRATEGY_MESH] = {"mesh", list_meshes, NULL},
    [STRATEGY_EXCHANGE] = {"exchange", list_exchanges, NULL},
    [STRATEGY_COMPRESS] = {"compress", list_codecs, NULL},
    [STRATEGY_SERVERS] = {"servers", list_servers, NULL},
    [STRATEGY_SCHEDULE] = {"schedule", list_names, "pipeline"},
    [STRATEGY_MICROBATCHES] = {"microbatches", list_divisors, NULL},
    [STRATEGY_ZERO] = {"zero", list_numbers, "data"},
    [STRATEGY_RECOMPUTE] = {"recompute", list_flag, NULL},
};

const char *strategy_option_name(int option)
{
    return rows[option].option;
}

const char *strategy_option_axis(int option)
{
    return rows[option].axis;
}

weft_status strategy_list_values(strategy_space *space, int option, bool given)
{
    strategy_values *values = &space->values[option];
    WEFT_TRY(add(values, NULL));
    return given ? WEFT_OK : rows[option].list(space, rows[option].option, values);
}
