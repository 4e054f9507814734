/* Selects the kernel of a group. Candidates are the kernels of the chosen device and of the devices
 * after it in the schema's list. The cheapest is taken; its cost includes the conversion of
 * operands to its layouts, and of results to the layouts of their leaves. All costs are estimates,
 * see weft_rates. */
#include <math.h>
#include <stdio.h>

#include "program/program.h"

/* Another device than the chosen one is used only if it saves more than this many seconds, since a
 * run should stay on the chosen device and have the results of that device. */
static const double elsewhere = 1e-3;

enum { MOST = WEFT_DEVICES * WEFT_CANDIDATES };

typedef struct option {
    weft_device *device;
    weft_candidate candidate;
    double least, moves; /* seconds of the kernel alone, and of moving
                           operands and results, known once the kernel is made */
    bool tried, refused; /* a kernel was asked for; none is possible */
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

/* Creates the kernel of option i, and keeps it if it is the best so far. */
static weft_status try_one(search *s, int i)
{
    option *o = &s->options[i];
    weft_kernel *kernel;
    const weft_layout *seen[WEFT_GROUP_VALUES];
    o->tried = true;
    seen_by(o->device, s->in, s->group->in_count, seen);
    weft_status status = weft_device_kernel(o->device, s->group, &o->candidate, seen, &kernel);
    if (status != WEFT_OK) {
        o->refused = status == WEFT_ERR_UNSUPPORTED;
        return o->refused ? WEFT_OK : status;
    }
    status = moves_of(s, kernel, &o->moves);
    const option *best = s->best < 0 ? NULL : &s->options[s->best];
    bool better = !best || total(o) < total(best) || (total(o) == total(best) && i < s->best);
    o->refused = isinf(o->moves);
    if (status != WEFT_OK || o->refused || !better) {
        kernel->ops->destroy(kernel);
        return status;
    }
    if (s->kernel) s->kernel->ops->destroy(s->kernel);
    s->kernel = kernel;
    s->best = i;
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

static void describe_option(const option *o, weft_text *text)
{
    weft_text_add(text, "%s ", o->candidate.name);
    if (o->refused)
        weft_text_add(text, "unsupported");
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
    *out = (choice){.kernel = s.kernel};
    if (status == WEFT_OK) {
        out->device = s.options[s.best].device;
        status = describe_choice(&s, &out->why);
    }
    if (status != WEFT_OK && s.kernel) s.kernel->ops->destroy(s.kernel);
    return status;
}
