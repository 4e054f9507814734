/* Shrinks a failing case: lowers one number or drops one feature at a time, and keeps the change if
 * the case still fails in the same way (same_fault). */
#include <ctype.h>
#include <string.h>
#include <time.h>

#include "hunt.h"

/* A number of the case that shrinking may lower to `least`: either `whole` or `real` is set. */
typedef struct knob {
    int *whole;
    double *real;
    double least;
} knob;

enum { MOST_KNOBS = 96 + 20 * MOST_LAYERS };
typedef struct knobs {
    int count;
    knob list[MOST_KNOBS];
} knobs;

static void add_whole(knobs *k, int *at, int least)
{
    if (*at > least) k->list[k->count++] = (knob){.whole = at, .least = least};
}

static void add_way(knobs *k, way *w)
{
    for (int i = 0; i < AXES; i++) add_whole(k, &w->mesh[i], 1);
    add_whole(k, &w->zero, 0);
    if (w->places) add_whole(k, &w->places, 2);
    for (int i = 1; w->places && i <= MOST_LAYERS; i++) add_whole(k, &w->place[i], 0);
    for (int i = 0; i < MOST_PINS; i++) add_whole(k, &w->pins[i].id, 0);
    add_whole(k, &w->columns, 0);
    add_whole(k, &w->elsewhere, 0);
    add_whole(k, &w->shares, 0);
    add_whole(k, &w->servers, 0);
    add_whole(k, &w->replicas, 0);
}

static void add_options(knobs *k, hunt_case *c)
{
    for (int i = 0; i < OPTIONS; i++)
        if (c->options[i] != neutral_options[i])
            k->list[k->count++] = (knob){.real = &c->options[i], .least = neutral_options[i]};
}

static void add_samples(knobs *k, samples *s)
{
    add_whole(k, &s->train, 1);
    add_whole(k, &s->test, 0);
    add_whole(k, &s->classes, 2);
    if (s->targets) add_whole(k, &s->targets, s->several ? 2 : 1);
    add_whole(k, &s->shape.channels, 1);
    for (int i = 0; i < s->shape.dims; i++) add_whole(k, &s->shape.side[i], 1);
}

static void add_layer(knobs *k, layer *l)
{
    bool window = l->kind == CONV || l->kind == MAXPOOL || l->kind == AVGPOOL;
    if (l->kind == CONV || (has_units(l->kind) && !l->outputs)) add_whole(k, &l->filters, 1);
    if (l->kind == ATTENTION) add_whole(k, &l->heads, 1);
    if (l->kind == ATTENTION) add_whole(k, &l->key_heads, 1);
    if (l->kind == LSTM || l->kind == GRU) add_whole(k, &l->stack, 1);
    if (l->kind == CONV) add_whole(k, &l->groups, 1);
    for (int i = 0; i < MOST_DIMS && window; i++) {
        if (l->kind == CONV) add_whole(k, &l->dilation[i], 1);
        add_whole(k, &l->kernel[i], 1);
        add_whole(k, &l->stride[i], 1);
        add_whole(k, &l->padding[i], 0);
    }
    if (l->kind == CONCAT) add_whole(k, &l->axis, 1);
    if (l->kind == CONCAT) add_whole(k, &l->inputs, 2);
}

static void find_knobs(hunt_case *c, knobs *k)
{
    k->count = 0;
    add_way(k, &c->way);
    add_whole(k, &c->stop, 0);
    add_whole(k, &c->tokens, 0);
    int *const judges[] = {&c->judging.patience, &c->judging.metric, &c->judging.best,
                           &c->judging.classes};
    for (size_t i = 0; i < sizeof(judges) / sizeof(judges[0]); i++) add_whole(k, judges[i], 0);
    if (!c->judging.patience && !c->judging.best) add_whole(k, &c->judging.held, 0);
    if (c->stop) add_way(k, &c->later);
    if (c->exchange.kind != NO_MEETING) {
        exchange *e = &c->exchange;
        add_whole(k, &e->learners, e->kind >= SERVER ? 1 : 2);
        int *const all[] = {&e->state, &e->policy, &e->scale, &e->topology, &e->mode,
                            &e->codec, &e->push,   &e->fetch, &e->back};
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) add_whole(k, all[i], 0);
        add_whole(k, &e->every, 1);
        if (e->policy == SOFTSYNC) add_whole(k, &e->count, 1);
        if (e->policy == SSP) add_whole(k, &e->bound, 0);
    }
    add_options(k, c);
    add_samples(k, &c->samples);
    for (int i = 0; i < c->layer_count; i++) add_layer(k, &c->layers[i]);
}

/* Changes a knob: how 0 sets it to its least value, 1 halves its distance to that, 2 subtracts 1.
 * false: the value stays the same, or would no longer be a whole number of at least `least`. */
static bool turn(knob *k, int how)
{
    double now = k->whole ? *k->whole : *k->real, to = k->least;
    if (how == 1) to = (double)(int64_t)((now + k->least) / 2);
    if (how == 2) to = now - 1;
    if (to == now || (how > 0 && (to < k->least || now != (double)(int64_t)now))) return false;
    if (k->whole)
        *k->whole = (int)to;
    else
        *k->real = to;
    return true;
}

/* --- changes of something other than a number --- */

static void drop_layer(hunt_case *c, int i)
{
    int id = c->layers[i].id, instead = c->layers[i].from[0];
    for (int j = i + 1; j < c->layer_count; j++)
        for (int k = 0; k < c->layers[j].inputs; k++)
            if (c->layers[j].from[k] == id) c->layers[j].from[k] = instead;
    c->layer_count--;
    memmove(&c->layers[i], &c->layers[i + 1], (size_t)(c->layer_count - i) * sizeof(layer));
}

static bool simpler(hunt_case *c, int how)
{
    hunt_case before = *c;
    switch (how) {
    case 0: c->later = c->way; break;
    case 1: c->exchange = (exchange){0}; break;
    case 2: c->exchange.outer = false; break;
    case 3: c->way.recompute = c->later.recompute = false; break;
    case 4: c->way.gpipe = c->later.gpipe = false; break;
    case 5: c->way.places = 0; break;
    case 6: c->later.places = 0; break;
    case 7: c->samples.absent = 0; break;
    case 8: c->samples.bytes = c->samples.last = false; break;
    case 9: c->samples.format = c->samples.shape.dims ? NPY : CSV; break;
    case 10: c->twice = c->loss = false; break;
    case 11: c->plan = false; break;
    case 12: c->evaluate = false; break;
    case 13: c->processes = false; break;
    case 14:
        c->samples.shape = (sample_shape){.channels = 3};
        c->samples.format = CSV;
        break;
    case 15:
        c->samples.targets = c->samples.categories = 0;
        c->samples.several = false;
        break;
    case 16: c->samples.scale = 1; break;
    case 17: c->samples.weights = 0; break;
    case 18: c->way.home = c->later.home = false; break;
    case 19: c->way.named = c->later.named = false; break;
    case 20:
    case 21:
    case 22:
    case 23:
    case 24:
    case 25:
    case 26: c->judging.augment &= ~(1U << (how - 20)); break;
    default: return false;
    }
    return memcmp(&before, c, sizeof(before)) != 0;
}

static bool plainer(layer *l, int how)
{
    layer before = *l;
    bool product = l->kind == CONV || l->kind == DENSE || l->kind == LINEAR;
    if (how == 0 && (product || l->kind == ATTENTION)) l->bias = false;
    if (how == 1 && product) l->he = false;
    if (how == 2 && l->inputs > 1) l->from[1] = l->from[0];
    if (how == 3) l->share = 0;
    if (how == 4) l->both = false;
    if (how == 5) l->last = false;
    if (how == 6) l->causal = false;
    if (how == 7) l->rotary = false;
    if (how == 8) l->lengths = false;
    return memcmp(&before, l, sizeof(before)) != 0;
}

/* --- the search --- */

typedef struct search {
    hunt_case *best;
    verdict *v;
    const char *folder;
    double until;
    int tries;
} search;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Writes the first 40 characters of a message's first line without digits and quoted names, so that
 * equal faults of different cases compare equal. */
static void gist(const char *text, char *out, size_t room)
{
    size_t used = 0;
    for (; *text && *text != '\n' && used + 1 < room && used < 40; text++) {
        if (*text == '\'')
            for (text++; *text && *text != '\'';) text++;
        else if (!isdigit((unsigned char)*text))
            out[used++] = *text;
        if (!*text) break;
    }
    out[used] = '\0';
}

bool same_fault(const verdict *a, const verdict *b)
{
    char x[64], y[64];
    if (a->fault != b->fault) return false;
    if (a->fault == VALUES || a->fault == BITS) return strcmp(a->stage, b->stage) == 0;
    gist(a->text, x, sizeof(x));
    gist(b->text, y, sizeof(y));
    return strcmp(x, y) == 0;
}

static bool keeps_failing(search *s, const hunt_case *c)
{
    if (now() > s->until) return false;
    verdict v = try_case(c, s->folder);
    s->tries++;
    if (!same_fault(&v, s->v)) return false;
    *s->best = *c;
    *s->v = v;
    return true;
}

static bool drop_layers(search *s)
{
    bool any = false;
    for (int i = s->best->layer_count - 1; i-- > 0;) {
        hunt_case c = *s->best;
        drop_layer(&c, i);
        any = keeps_failing(s, &c) || any;
    }
    return any;
}

static bool simplify(search *s)
{
    bool any = false;
    for (int how = 0; how < 20 + AUGMENTATIONS; how++) {
        hunt_case c = *s->best;
        if (simpler(&c, how)) any = keeps_failing(s, &c) || any;
    }
    for (int i = 0; i < s->best->layer_count; i++)
        for (int how = 0; how < 9; how++) {
            hunt_case c = *s->best;
            if (plainer(&c.layers[i], how)) any = keeps_failing(s, &c) || any;
        }
    return any;
}

static bool turn_knobs(search *s)
{
    bool any = false;
    knobs all;
    hunt_case c = *s->best;
    find_knobs(&c, &all);
    for (int i = 0; i < all.count; i++)
        for (int how = 0; how < 3; how++) {
            c = *s->best;
            find_knobs(&c, &all);
            if (i >= all.count || !turn(&all.list[i], how)) continue;
            any = keeps_failing(s, &c) || any;
        }
    return any;
}

void shrink(hunt_case *c, verdict *v, const char *folder, double seconds)
{
    search s = {.best = c, .v = v, .folder = folder, .until = now() + seconds};
    for (bool any = true; any && now() < s.until;) {
        any = drop_layers(&s);
        any = simplify(&s) || any;
        any = turn_knobs(&s) || any;
    }
}
