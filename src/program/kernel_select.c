/* Selects the kernel of a group. Candidates are the kernels of the chosen device and of the devices
 * after it in the schema's list. The cheapest is taken; its cost includes the conversion of
 * operands to its layouts, and of results to the layouts of their leaves. Costs are estimates, see
 * weft_rates; if there is a table of measurements (tuning.h) that has all candidates of the chosen
 * device, their seconds replace the estimates of these. */
#include <math.h>
#include <stdio.h>

#include "program/kernel_memo.h"
#include "program/tuning.h"

/* Another device than the chosen one is used only if it saves more than this many seconds, since a
 * run should stay on the chosen device and have the results of that device. */
static const double elsewhere = 1e-3;

/* The choice by estimates stays unless another candidate takes less than this share of its measured
 * time: smaller differences are noise of the measurement. */
static const double clearly = 0.95;

enum { MOST = WEFT_DEVICES * WEFT_CANDIDATES };

typedef struct option {
    weft_device *device;
    weft_candidate candidate;
    double least, moves; /* seconds of the kernel alone, and of moving
                           operands and results, known once the kernel is made */
    bool tried, refused; /* a kernel was asked for; none is possible */
    double measured;     /* seconds of the kernel alone; 0: not measured */
} option;

typedef struct search {
    weft_program *p;
    const weft_group *group;
    const weft_layout *in[WEFT_GROUP_VALUES];
    option options[MOST];
    int count, own; /* the first `own` options are of the chosen device */
    int best;       /* option of `kernel`; -1: none yet */
    weft_kernel *kernel;
} search;

/* A device is told the layouts of operands in the memory that its kernels read. */
static void seen_by(const weft_device *device, const weft_layout *const *in, int count,
                    const weft_layout **out)
{
    const weft_device *memory = weft_device_shares(device) ? NULL : device;
    for (int i = 0; i < count; i++) out[i] = in[i] && in[i]->memory == memory ? in[i] : NULL;
}

static void list(const schema *s, const weft_group *group, const weft_layout *const *in,
                 option *out, int *own, int *count)
{
    weft_candidate found[WEFT_CANDIDATES];
    const weft_layout *seen[WEFT_GROUP_VALUES];
    *count = 0;
    int first = schema_update_device(s, group->node[0]->phase);
    for (int d = first; d < s->device_count; d++) {
        seen_by(s->devices[d], in, group->in_count, seen);
        int more = s->devices[d]->ops->candidates(s->devices[d], group, seen, found);
        for (int i = 0; i < more; i++)
            out[(*count)++] = (option){.device = s->devices[d],
                                       .candidate = found[i],
                                       .least = found[i].seconds + (d > first ? elsewhere : 0)};
        if (d == first) *own = more;
    }
}

void weft_kernel_drop(const weft_program *p, weft_kernel *kernel)
{
    if (!p->memo) kernel->ops->destroy(kernel);
}

double weft_group_estimate(const schema *s, const weft_group *group)
{
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    option options[MOST];
    int count, own;
    double least = INFINITY;
    list(s, group, in, options, &own, &count);
    for (int i = 0; i < count; i++) least = WEFT_MIN(least, options[i].least);
    return least;
}

/* The seconds of converting operands to the kernel's layouts, and results to those of their leaves;
 * INFINITY: impossible. */
static weft_status moves_of(const search *s, const weft_kernel *kernel, double *out)
{
    const weft_group *group = s->group;
    double seconds;
    *out = 0;
    for (int i = 0; i < group->in_count; i++) {
        WEFT_TRY(weft_version_seconds(s->p, group->in[i], kernel->in[i], &seconds));
        *out += seconds;
    }
    for (int o = 0; o < group->out_count; o++) {
        WEFT_TRY(weft_version_back_seconds(s->p, group->out[o], kernel->out[o], &seconds));
        *out += seconds;
    }
    return WEFT_OK;
}

static double total(const option *o)
{
    return o->least + o->moves;
}

/* Sets *kernel to that of an option; NULL: it is impossible. */
static weft_status make(const search *s, option *o, weft_kernel **kernel)
{
    const weft_layout *seen[WEFT_GROUP_VALUES];
    o->tried = true;
    *kernel = NULL;
    seen_by(o->device, s->in, s->group->in_count, seen);
    weft_status status = s->p->memo
                             ? weft_kernel_memo_get(s->p->memo, o->device, (int)(o - s->options),
                                                    s->group, &o->candidate, seen, kernel)
                             : weft_device_kernel(o->device, s->group, &o->candidate, seen, kernel);
    o->refused = status == WEFT_ERR_UNSUPPORTED;
    if (status != WEFT_OK) *kernel = NULL; /* a device may leave one that it has freed */
    if (o->refused) return WEFT_OK;
    if (status == WEFT_OK) status = moves_of(s, *kernel, &o->moves);
    o->refused = isinf(o->moves);
    if (*kernel && (status != WEFT_OK || o->refused)) {
        weft_kernel_drop(s->p, *kernel);
        *kernel = NULL;
    }
    return status;
}

static void keep(search *s, int i, weft_kernel *kernel)
{
    if (s->kernel) weft_kernel_drop(s->p, s->kernel);
    s->kernel = kernel;
    s->best = i;
}

/* Creates the kernel of option i, and keeps it if it is the best so far. */
static weft_status try_one(search *s, int i)
{
    option *o = &s->options[i];
    weft_kernel *kernel;
    WEFT_TRY(make(s, o, &kernel));
    const option *best = s->best < 0 ? NULL : &s->options[s->best];
    bool better = !best || total(o) < total(best) || (total(o) == total(best) && i < s->best);
    if (kernel && better)
        keep(s, i, kernel);
    else if (kernel)
        weft_kernel_drop(s->p, kernel);
    return WEFT_OK;
}

/* The untried option with the cheapest kernel; -1: no untried option can be better than the best
 * one. */
static int next(const search *s)
{
    int found = -1;
    for (int i = 0; i < s->count; i++)
        if (!s->options[i].tried && (found < 0 || s->options[i].least < s->options[found].least))
            found = i;
    bool late = found >= 0 && s->best >= 0 && s->options[found].least > total(&s->options[s->best]);
    return late ? -1 : found;
}

/* --- measurements --- */

/* Seconds between two lines that tell the user of measuring. */
static const double between_lines = 10;

static void tell(const search *s, tuning *t)
{
    double now = weft_seconds();
    if (t->told == 0) t->told = now;
    if (now < t->told + between_lines) return;
    t->told = now;
    weft_log(s->p->schema->context, WEFT_LOG_NOTE,
             "tuning: %zu measurements so far; it goes on for at most %.0f seconds", t->count,
             WEFT_MAX(t->until - now, 0));
}

/* Measures the options of the chosen device, and adds them to the table. An option whose kernel
 * cannot be compiled after all is impossible. */
static weft_status measure(const search *s, const char *group, char names[][TUNING_NAME])
{
    tuning *table = s->p->schema->tuning;
    double best = INFINITY;
    for (int i = 0; i < s->own; i++) {
        option o = s->options[i];
        weft_kernel *kernel;
        double seconds = INFINITY;
        if (table->stopped && table->stopped(table->user))
            return weft_fail(WEFT_ERR_INTERRUPTED, "stopped while kernels were measured");
        WEFT_TRY(make(s, &o, &kernel));
        weft_status status =
            kernel ? tuning_measure(o.device, s->group, kernel, best, &seconds) : WEFT_OK;
        if (kernel) weft_kernel_drop(s->p, kernel);
        if (status != WEFT_OK && status != WEFT_ERR_UNSUPPORTED) return status;
        best = WEFT_MIN(best, seconds);
        WEFT_TRY(tuning_add(table, o.device, group, names[i], seconds));
        tell(s, table);
    }
    return WEFT_OK;
}

/* Sets `measured` of all options of the chosen device; *found: the table has them, or there is time
 * to measure them. */
static weft_status read_table(search *s, bool *found)
{
    tuning *table = s->p->schema->tuning;
    char names[WEFT_CANDIDATES][TUNING_NAME], *group;
    weft_candidate own[WEFT_CANDIDATES];
    double seconds[WEFT_CANDIDATES];
    const weft_device *device = s->options[0].device;
    for (int i = 0; i < s->own; i++) own[i] = s->options[i].candidate;
    tuning_names(own, s->own, names);
    WEFT_TRY(tuning_group(s->group, s->in, true, &group));
    weft_status status = tuning_find(table, device, group, names, s->own, seconds, found);
    if (status == WEFT_OK && !*found && weft_seconds() < table->until) {
        status = measure(s, group, names);
        if (status == WEFT_OK)
            status = tuning_find(table, device, group, names, s->own, seconds, found);
    }
    free(group);
    for (int i = 0; i < s->own && *found; i++) s->options[i].measured = seconds[i];
    table->lacking += status == WEFT_OK && !*found;
    return status;
}

static double measured_total(const option *o)
{
    return o->refused ? INFINITY : o->measured + o->moves;
}

/* Replaces the choice by estimates with the option of the chosen device that is fastest by the
 * table. */
static weft_status choose_measured(search *s)
{
    bool found;
    int fastest = s->best;
    weft_kernel *kernel;
    if (!s->p->schema->tuning || s->own < 2 || s->best >= s->own || !tuning_is_measurable(s->group))
        return WEFT_OK;
    WEFT_TRY(read_table(s, &found));
    for (int i = 0; i < s->own && found; i++) {
        option *o = &s->options[i];
        if (!o->tried) {
            WEFT_TRY(make(s, o, &kernel));
            if (kernel) weft_kernel_drop(s->p, kernel);
        }
        if (measured_total(o) < measured_total(&s->options[fastest])) fastest = i;
    }
    option *o = &s->options[fastest];
    if (!found || measured_total(o) >= clearly * measured_total(&s->options[s->best]))
        return WEFT_OK;
    WEFT_TRY(make(s, o, &kernel));
    if (kernel) keep(s, fastest, kernel);
    return WEFT_OK;
}

static void describe_option(const option *o, weft_text *text)
{
    weft_text_add(text, "%s ", o->candidate.name);
    if (o->refused || isinf(o->measured))
        weft_text_add(text, "unsupported");
    else if (o->measured > 0)
        weft_text_add(text, "%.3g us measured", o->measured * 1e6);
    else
        weft_text_add(text, "%.3g us", o->candidate.seconds * 1e6);
    if (!o->refused && o->moves > 0) weft_text_add(text, " + %.3g us to move", o->moves * 1e6);
}

/* Describes the choice as text if the chosen device had several options, or was not used. */
static weft_status describe_choice(const search *s, char **out)
{
    weft_text text = {0};
    *out = NULL;
    if (s->own < 2 && (s->own == 0 || s->best < s->own)) return WEFT_OK;
    describe_option(&s->options[s->best], &text);
    weft_text_add(&text, " of: ");
    const char *between = "";
    for (int i = 0; i < s->own; i++) {
        if (i == s->best) continue;
        weft_text_add(&text, "%s", between);
        describe_option(&s->options[i], &text);
        between = ", ";
    }
    return weft_text_take(&text, out);
}

weft_status weft_kernel_choose(weft_program *p, const weft_group *group, choice *out)
{
    search s = {.p = p, .group = group, .best = -1};
    weft_status status = WEFT_OK;
    for (int i = 0; i < group->in_count; i++)
        WEFT_TRY(weft_program_layout_of(p, group->in[i], &s.in[i]));
    list(p->schema, group, s.in, s.options, &s.own, &s.count);
    for (int i; status == WEFT_OK && (i = next(&s)) >= 0;) status = try_one(&s, i);
    if (status == WEFT_OK && s.best < 0)
        status = s.count > 0 ? WEFT_ERR_UNSUPPORTED /* the message is that of the last option */
                             : weft_fail(WEFT_ERR_UNSUPPORTED, "'%s' (%s): no device has a kernel",
                                         group->node[0]->name, group->node[0]->op->name);
    if (status == WEFT_OK) status = choose_measured(&s);
    *out = (choice){.kernel = s.kernel};
    if (status == WEFT_OK) {
        out->device = s.options[s.best].device;
        status = describe_choice(&s, &out->why);
    }
    if (status != WEFT_OK && s.kernel) weft_kernel_drop(p, s.kernel);
    return status;
}
