/* Draws the data, options, and ways to run of a case. Small sizes come more often than large ones,
 * and each optional part is often left out. */
#include <stdio.h>
#include <string.h>

#include "hunt.h"

uint64_t roll(dice *d)
{
    uint64_t z = d->state += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

int between(dice *d, int low, int high)
{
    return low + (int)(roll(d) % (uint64_t)(high - low + 1));
}

bool chance(dice *d, double p)
{
    return (double)(roll(d) >> 11) * 0x1p-53 < p;
}

double one_of(dice *d, const double *list, int n)
{
    return list[between(d, 0, n - 1)];
}

const double neutral_options[OPTIONS] = {
    [LR] = 0.05,      [DECAY_EVERY] = 1000, [GAMMA] = 0.1,      [BETA1] = 0.9, [BETA2] = 0.999,
    [EPSILON] = 1e-2, [BATCH] = 1,          [MICROBATCHES] = 1, [STEPS] = 1,   [SEED] = 1,
    [THREADS] = 1,    [DEVICE] = REFERENCE, [DTYPE] = F64};

static void draw_samples(dice *d, samples *s)
{
    *s = (samples){.format = (format)between(d, 0, FORMATS - 1)};
    bool table = s->format == CSV || (s->format == NPY && chance(d, 0.2));
    s->shape.channels = between(d, 1, table ? 9 : 4);
    bool sequence = !table && s->format == NPY && chance(d, 0.5);
    s->shape.dims = table ? 0 : sequence ? 1 : chance(d, 0.7) ? 2 : between(d, 1, MOST_DIMS);
    /* The IDX reader takes a file with one spatial dimension for images with two. */
    if (s->format == IDX && s->shape.dims == 1) s->shape.dims = 2;
    if (sequence) s->shape.channels = between(d, 1, 9); /* positions */
    int most = sequence ? 12 : s->shape.dims == 1 ? 40 : s->shape.dims == 2 ? 9 : 6;
    for (int i = 0; i < s->shape.dims; i++)
        s->shape.side[i] = between(d, chance(d, 0.2) ? 1 : 3, most);
    if (s->format == TOKENS) s->shape = (sample_shape){.channels = between(d, 1, 9)};
    s->bytes = chance(d, 0.2);
    s->last = s->format == NPY && !table && chance(d, 0.3);
    s->train = between(d, 1, 40);
    s->test = between(d, 1, 14);
    if (s->format != IDX && chance(d, 0.1)) s->test = 0;
    s->classes = between(d, 2, 7);
    bool real = s->format == NPY || s->format == CSV;
    if (real && chance(d, 0.3)) s->targets = between(d, 1, 4);
    s->several = s->format == CSV && s->targets > 1 && chance(d, 0.5);
    if (s->format == CSV && chance(d, 0.4)) {
        s->categories = between(d, 2, 6);
        s->embedded = chance(d, 0.5);
    }
    s->scale = chance(d, 0.5) ? 1 : 3000;
    if (chance(d, 0.3)) s->absent = (unsigned)roll(d) & ((1U << (s->classes - 1)) - 1);
    if (real && chance(d, 0.2)) s->weights = between(d, 1, 2);
    s->seed = roll(d) >> 40;
}

static void draw_schedule(dice *d, double *o)
{
    o[LR_SCHEDULE] = chance(d, 0.5) ? 0 : between(d, 1, 2);
    if (chance(d, 0.25)) o[WARMUP] = between(d, 1, 4);
    if (o[LR_SCHEDULE] == 1) {
        o[DECAY_EVERY] = between(d, 1, 4);
        o[GAMMA] = ONE_OF(d, 0.1, 0.5, 0.9, 1);
    }
    if (o[LR_SCHEDULE] == 2 && chance(d, 0.5)) o[LR_FLOOR] = o[LR] / between(d, 2, 9);
}

/* Adam divides a gradient by its size, so a gradient that is rounding error alone makes an update
 * of noise. An epsilon well above rounding prevents that. */
static void draw_optimizer(dice *d, double *o)
{
    o[OPTIMIZER] = between(d, SGD, ADAMW);
    o[LR] = o[OPTIMIZER] == SGD ? ONE_OF(d, 0.003, 0.05, 0.2) : ONE_OF(d, 0.0005, 0.003, 0.02);
    o[EPSILON] = ONE_OF(d, 1e-2, 1e-1);
    if (o[OPTIMIZER] == SGD && chance(d, 0.5)) {
        o[MOMENTUM] = ONE_OF(d, 0.5, 0.9);
        o[NESTEROV] = chance(d, 0.4);
    }
    if (o[OPTIMIZER] != SGD && chance(d, 0.3)) o[BETA1] = ONE_OF(d, 0, 0.5, 0.99);
    if (o[OPTIMIZER] != SGD && chance(d, 0.3)) o[BETA2] = ONE_OF(d, 0.5, 0.9);
    if (chance(d, 0.3)) o[WEIGHT_DECAY] = ONE_OF(d, 1e-4, 0.01, 0.1);
    if (chance(d, 0.35)) o[CLIP_NORM] = ONE_OF(d, 0.001, 0.01, 0.3, 1, 100);
    draw_schedule(d, o);
}

static int divisor(dice *d, int n, int most)
{
    int found[64], count = 0;
    for (int i = 1; i <= n && i <= most && count < 64; i++)
        if (n % i == 0) found[count++] = i;
    return found[between(d, 0, count - 1)];
}

/* A mesh of at most `most` ranks. */
static void draw_mesh(dice *d, int most, int *mesh)
{
    for (int i = 0; i < AXES; i++) mesh[i] = 1;
    for (int tries = between(d, 1, 3); tries-- > 0;) {
        int axis = between(d, 0, AXES - 1), all = 1;
        for (int i = 0; i < AXES; i++) all *= i == axis ? 1 : mesh[i];
        if (most / all > 1) mesh[axis] = between(d, 2, most / all);
        if (chance(d, 0.4)) mesh[axis] = 2 * all <= most ? 2 : 1;
    }
}

/* Places layers on 2 to 4 ranks by name; each rank has a layer, if there are enough layers. */
static void draw_places(dice *d, const hunt_case *c, int most, way *w)
{
    for (int i = 0; i < AXES; i++) w->mesh[i] = 1;
    w->places = between(d, 2, most < 4 ? most : 4);
    for (int i = 0; i < c->layer_count; i++)
        if (i < w->places || chance(d, 0.7))
            w->place[c->layers[i].id] = 1 + (i < w->places ? i : between(d, 0, w->places - 1));
}

static void draw_pins(dice *d, const hunt_case *c, way *w)
{
    for (int a = c->options[VIRTUAL_WORKERS] > 0; a < 3; a++)
        if (c->samples.shape.dims > 1 && w->mesh[a] > 1 && chance(d, 0.5)) w->columns = a + 1;
    for (int k = 0; k < MOST_PINS; k++) {
        int i = between(d, 0, c->layer_count - 1);
        const layer *l = &c->layers[i];
        int axis = between(d, 0, 9) < 8 ? 2 : between(d, 0, 1);
        /* A pin to the data axis is refused together with virtual workers. */
        if (axis == 0 && c->options[VIRTUAL_WORKERS] > 0) continue;
        if (!has_weight(l->kind) && !has_gamma(l->kind)) continue;
        if (w->mesh[axis] == 1 || shared_layer(c, i) >= 0) continue;
        w->pins[k] = (pin){l->id, has_weight(l->kind) ? between(d, 0, PIN_DIMS - 1) : 0, axis};
    }
}

double far_share = 0.35;

/* Virtual workers are computed by devices that compute alike. Sanitizers report what PoCL does. */
static int draw_devices(dice *d, const hunt_case *c)
{
    int i = between(d, 1, FAR_DEVICES - 1);
    bool watched = SANITIZED || THREADS_WATCHED;
    while ((c->options[VIRTUAL_WORKERS] > 0 && !far_devices[i].alike) ||
           (watched && strstr(far_devices[i].list, "opencl")))
        i = between(d, 1, FAR_DEVICES - 1);
    return i;
}

static void draw_way(dice *d, const hunt_case *c, int most, way *w)
{
    memset(w, 0, sizeof(*w)); /* ways are compared by memcmp */
    if (c->exchange.kind != NO_MEETING && c->exchange.learners == 1) most = 1;
    w->recompute = chance(d, 0.25);
    w->gpipe = chance(d, 0.4);
    draw_mesh(d, most, w->mesh);
    int rows = (int)(c->options[BATCH] / c->options[MICROBATCHES]);
    if (w->mesh[0] > rows && chance(d, 0.9)) w->mesh[0] = rows < 1 ? 1 : rows;
    if (c->options[VIRTUAL_WORKERS] > 0) { /* only the data axis shares out virtual workers */
        w->mesh[0] = divisor(d, (int)c->options[VIRTUAL_WORKERS], most);
        for (int i = 1; i < AXES; i++)
            if (chance(d, 0.8) || way_ranks(w) > most) w->mesh[i] = 1;
    } else if (c->exchange.kind == NO_MEETING &&
               chance(d, 0.12)) { /* places of layers, instead of a mesh */
        draw_places(d, c, most, w);
    }
    bool own = c->exchange.kind != SERVER; /* each rank makes its own update, as ZeRO needs */
    if (w->mesh[0] > 1 && own && chance(d, 0.5)) w->zero = between(d, 1, 3);
    if (chance(d, 0.2)) draw_pins(d, c, w);
    if (chance(d, far_share)) w->elsewhere = draw_devices(d, c);
    w->home = chance(d, w->elsewhere ? 0.4 : 0.05);
    w->named = w->places && w->elsewhere && chance(d, 0.7);
    if (w->mesh[0] > 1 && c->options[VIRTUAL_WORKERS] == 0 && chance(d, 0.2))
        w->shares = between(d, 1, 40);
    if (!has_servers(&c->exchange)) return;
    if (chance(d, 0.7)) w->servers = chance(d, 0.05) ? 40 : between(d, 1, 9);
    w->replicas = w->servers > 1 && chance(d, 0.3);
}

static void draw_batch(dice *d, hunt_case *c)
{
    double *o = c->options;
    int learners = learners_of(c), train = c->samples.train;
    int batch = between(d, 1, train);
    if (chance(d, 0.3)) batch = train;
    if (chance(d, 0.3) && train >= 8) batch = 8;
    o[BATCH] = batch;
    o[STEPS] = between(d, 1, 6);
    if (chance(d, 0.3)) o[MICROBATCHES] = divisor(d, batch, 8);
    if (o[MICROBATCHES] <= 1 && learners == 1 && chance(d, 0.2))
        o[VIRTUAL_WORKERS] = between(d, 1, batch < 12 ? batch : 12);
}

/* Limits the steps of a regression. A squared error has no bound: with too long a step, a value
 * that is zero but for rounding grows with every step, and no two orders of addition agree on
 * it. */
static void tame(hunt_case *c)
{
    double *o = c->options;
    if (c->samples.bytes) o[NORMALIZE] = AUTO;
    if (o[NORMALIZE] == NONE) c->samples.scale = 1; /* nothing makes them small */
    if (o[OPTIMIZER] == SGD && o[LR] > 0.003) o[LR] = 0.003;
    if (o[LR_FLOOR] > o[LR]) o[LR_FLOOR] = 0;
}

/* Generation goes on beyond the positions of a window. */
static void draw_generation(dice *d, hunt_case *c)
{
    if (c->samples.format != TOKENS || chance(d, 0.2)) return;
    c->tokens = between(d, 1, 2 * c->samples.shape.channels + 3);
    c->temperature = chance(d, 0.5) ? 0 : ONE_OF(d, 0.3, 1, 2);
}

/* Servers make updates in f32, and virtual workers promise bits that sums in bf16 do not keep. */
static void draw_types(dice *d, hunt_case *c)
{
    double *o = c->options;
    bool servers = learners_of(c) > 1 && c->exchange.kind == SERVER;
    if (chance(d, 0.1)) o[DTYPE] = BF16;
    if (o[DTYPE] == BF16 && !servers && chance(d, 0.5)) o[WEIGHTS] = NARROW;
    if (o[VIRTUAL_WORKERS] == 0 && chance(d, 0.1)) o[SUM_DTYPE] = NARROW;
}

/* The slopes of l1 and quantile jump, and rounding decides them where a prediction is next to its
 * target, which in double precision is next to never. */
static void draw_loss(dice *d, hunt_case *c)
{
    double *o = c->options;
    bool wide = o[DTYPE] == F64 && o[SUM_DTYPE] == WIDE && o[WEIGHTS] == WIDE;
    if (o[LABEL_SMOOTHING] != 0 || c->samples.several || !chance(d, 0.2)) return;
    o[LOSS] = c->samples.targets == 0  ? FOCAL
              : wide && chance(d, 0.6) ? ONE_OF(d, L1, QUANTILE)
                                       : HUBER;
}

void draw_case(dice *d, hunt_case *c)
{
    memset(c, 0, sizeof(*c));
    memcpy(c->options, neutral_options, sizeof(neutral_options));
    draw_samples(d, &c->samples);
    draw_exchange(d, c);
    draw_batch(d, c);
    draw_optimizer(d, c->options);
    if (!c->samples.targets && chance(d, 0.15)) c->options[LABEL_SMOOTHING] = ONE_OF(d, 0.05, 0.3);
    c->options[SEED] = between(d, 0, 99);
    if (c->samples.format != TOKENS && chance(d, 0.2)) c->options[NORMALIZE] = between(d, 1, 3);
    if (c->samples.targets > 0) tame(c);
    c->loss = chance(d, 0.4);
    c->options[NO_BIND] = chance(d, 0.1);
    c->options[CHECK_COLLECTIVES] = chance(d, 0.1);
    /* The configuration that users run: the device cpu, which fuses kernels and chooses layouts.
     * The thread sanitizer does not understand the threads of this device, so its builds leave the
     * device out. */
    if (chance(d, 0.3) && !THREADS_WATCHED) {
        c->options[DEVICE] = CPU;
        c->options[DTYPE] = F32;
        c->options[THREADS] = between(d, 1, 2);
    }
    draw_types(d, c);
    draw_network(d, c);
    smooth_over(c);
    /* A batch norm counts only samples with a weight, so cases with one have no zero weights. */
    for (int i = 0; i < c->layer_count && c->samples.weights > 1; i++)
        if (c->layers[i].kind == BATCH_NORM) c->samples.weights = 1;
    int most = 8 / learners_of(c);
    c->twice = chance(d, 0.1);
    c->plan = chance(d, 0.2);
    c->evaluate = c->samples.test > 0 && chance(d, 0.2);
    c->processes = chance(d, 0.02);
    draw_way(d, c, most, &c->way);
    if (c->options[STEPS] > 1 && chance(d, 0.25)) {
        c->stop = between(d, 1, (int)c->options[STEPS] - 1);
        c->later = c->way;
        if (chance(d, 0.5)) draw_way(d, c, most, &c->later);
    }
    draw_generation(d, c);
    draw_loss(d, c);
    if (chance(d, 0.15)) c->options[EVALUATE_EVERY] = between(d, 1, 3);
    draw_judging(d, c);
}

int way_ranks(const way *w)
{
    int n = 1;
    for (int i = 0; i < AXES; i++) n *= w->mesh[i];
    return w->places ? w->places : n;
}

int learners_of(const hunt_case *c)
{
    return c->exchange.kind == NO_MEETING ? 1 : c->exchange.learners;
}

int least_samples(const hunt_case *c)
{
    int batch = (int)c->options[BATCH], all = batch * learners_of(c), least = batch;
    int parts = (int)c->options[MICROBATCHES];
    if (c->options[VIRTUAL_WORKERS] > 0) parts = (int)c->options[VIRTUAL_WORKERS];
    int size = (batch + parts - 1) / parts, rest = c->samples.train % all;
    const int filled[] = {batch, rest / learners_of(c),
                          (rest + learners_of(c) - 1) / learners_of(c)};
    for (int f = 0; f < 3; f++)
        for (int i = 0; i < parts; i++) {
            int n = filled[f] - i * size < size ? filled[f] - i * size : size;
            if (n > 0 && n < least) least = n;
        }
    return least;
}
