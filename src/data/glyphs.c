/* glyphs: synthetic handwritten digits. Each is a set of strokes; a sample distorts them by a
 * random affine map and a smooth random field, draws them with a pen of random width, and adds
 * stray marks and noise.
 *
 * Only additions, multiplications, divisions and square roots are used, and this file is compiled
 * without contraction of them, so every platform draws the same bytes. */
#include <math.h>
#include <stdatomic.h>

#include "data/data.h"

enum { POINTS = 10, STROKES = 3, GRID = 4, PIECES = 6 };

typedef struct point {
    float x, y;
} point;

typedef struct stroke {
    int count;
    bool curved; /* a spline through the points, else straight lines */
    point at[POINTS];
} stroke;

/* The strokes of each digit, in the unit square: x goes to the right, y down. */
static const stroke digits[10][STROKES] = {
    {{9,
      true,
      {{.50f, .10f},
       {.27f, .27f},
       {.22f, .50f},
       {.27f, .73f},
       {.50f, .90f},
       {.73f, .73f},
       {.78f, .50f},
       {.73f, .27f},
       {.50f, .10f}}}},
    {{3, false, {{.34f, .28f}, {.52f, .12f}, {.52f, .90f}}}},
    {{6,
      true,
      {{.25f, .30f}, {.36f, .13f}, {.60f, .12f}, {.73f, .29f}, {.60f, .52f}, {.25f, .87f}}},
     {2, false, {{.25f, .87f}, {.78f, .87f}}}},
    {{5, true, {{.25f, .18f}, {.50f, .10f}, {.72f, .25f}, {.61f, .43f}, {.43f, .47f}}},
     {5, true, {{.43f, .47f}, {.68f, .55f}, {.75f, .72f}, {.55f, .90f}, {.24f, .82f}}}},
    {{4, false, {{.62f, .90f}, {.62f, .10f}, {.22f, .65f}, {.80f, .65f}}}},
    {{3, false, {{.72f, .12f}, {.33f, .12f}, {.29f, .45f}}},
     {6,
      true,
      {{.29f, .45f}, {.55f, .40f}, {.74f, .58f}, {.67f, .82f}, {.42f, .90f}, {.23f, .80f}}}},
    {{9,
      true,
      {{.68f, .12f},
       {.43f, .28f},
       {.28f, .55f},
       {.31f, .80f},
       {.52f, .90f},
       {.71f, .75f},
       {.65f, .55f},
       {.45f, .51f},
       {.29f, .66f}}}},
    {{3, false, {{.22f, .13f}, {.78f, .13f}, {.45f, .90f}}}},
    {{9,
      true,
      {{.50f, .48f},
       {.28f, .30f},
       {.50f, .10f},
       {.72f, .30f},
       {.50f, .48f},
       {.25f, .70f},
       {.50f, .90f},
       {.75f, .70f},
       {.50f, .48f}}}},
    {{8,
      true,
      {{.72f, .35f},
       {.50f, .50f},
       {.30f, .35f},
       {.40f, .14f},
       {.62f, .12f},
       {.73f, .30f},
       {.70f, .60f},
       {.55f, .90f}}}},
};

typedef struct glyphs_source {
    weft_source head;
    weft_context *context;
    int64_t size, wanted[2];
    uint64_t seed;
    unsigned char *pixels[2], *labels[2];
} glyphs_source;

/* The drawing of one sample: its random numbers, its distortion, and the canvas. */
typedef struct pen {
    weft_random random;
    float a[2][2], shift[2];    /* affine map about the centre */
    float field[GRID][GRID][2]; /* displacements, bilinearly interpolated */
    float width, *canvas;
    int64_t size;
} pen;

static float between(pen *p, double low, double high)
{
    return (float)weft_random_between(&p->random, low, high);
}

static void hold_pen(pen *p)
{
    /* The rotation is given by the tangent t of its angle, so that no sine is needed. */
    float t = between(p, -.33, .33), c = 1 / sqrtf(1 + t * t), s = t * c;
    float wide = between(p, .66, 1.0), tall = between(p, .70, 1.0), slant = between(p, -.25, .25);
    p->a[0][0] = c * wide;
    p->a[0][1] = c * slant - s * tall;
    p->a[1][0] = s * wide;
    p->a[1][1] = s * slant + c * tall;
    p->shift[0] = .5f + between(p, -.11, .11);
    p->shift[1] = .5f + between(p, -.11, .11);
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++)
            for (int d = 0; d < 2; d++) p->field[i][j][d] = between(p, -.062, .062);
    p->width = between(p, .028, .062);
}

static point bend(const pen *p, point q)
{
    float u = q.y * (GRID - 1), v = q.x * (GRID - 1);
    int i = WEFT_MAX(0, WEFT_MIN(GRID - 2, (int)u)), j = WEFT_MAX(0, WEFT_MIN(GRID - 2, (int)v));
    float fu = u - (float)i, fv = v - (float)j, moved[2];
    for (int d = 0; d < 2; d++) {
        float top = p->field[i][j][d] * (1 - fv) + p->field[i][j + 1][d] * fv;
        float low = p->field[i + 1][j][d] * (1 - fv) + p->field[i + 1][j + 1][d] * fv;
        moved[d] = top * (1 - fu) + low * fu;
    }
    float x = q.x + moved[0] - .5f, y = q.y + moved[1] - .5f;
    return (point){p->a[0][0] * x + p->a[0][1] * y + p->shift[0],
                   p->a[1][0] * x + p->a[1][1] * y + p->shift[1]};
}

/* Darkens the pixels near a segment, with a soft edge of one pixel. */
static void draw_line(pen *p, point a, point b, float ink)
{
    float n = (float)p->size, ax = a.x * n, ay = a.y * n, bx = b.x * n, by = b.y * n;
    float w = p->width * n, reach = w + 1;
    int64_t x0 = (int64_t)floorf(fminf(ax, bx) - reach), x1 = (int64_t)ceilf(fmaxf(ax, bx) + reach);
    int64_t y0 = (int64_t)floorf(fminf(ay, by) - reach), y1 = (int64_t)ceilf(fmaxf(ay, by) + reach);
    float dx = bx - ax, dy = by - ay, square = dx * dx + dy * dy;
    for (int64_t y = WEFT_MAX(y0, 0); y < WEFT_MIN(y1, p->size); y++)
        for (int64_t x = WEFT_MAX(x0, 0); x < WEFT_MIN(x1, p->size); x++) {
            float px = (float)x + .5f - ax, py = (float)y + .5f - ay;
            float t = square > 0 ? (px * dx + py * dy) / square : 0;
            t = fminf(fmaxf(t, 0), 1);
            float ex = px - t * dx, ey = py - t * dy;
            float dark = ink * fminf(fmaxf(w - sqrtf(ex * ex + ey * ey) + .5f, 0), 1);
            float *pixel = &p->canvas[y * p->size + x];
            *pixel = fmaxf(*pixel, dark);
        }
}

/* A point of the Catmull-Rom spline between q[1] (t = 0) and q[2] (t = 1). */
static point spline(const point *q[4], float t)
{
    float t2 = t * t, t3 = t2 * t;
    float w[4] = {-.5f * t3 + t2 - .5f * t, 1.5f * t3 - 2.5f * t2 + 1,
                  -1.5f * t3 + 2 * t2 + .5f * t, .5f * t3 - .5f * t2};
    point r = {0, 0};
    for (int i = 0; i < 4; i++) {
        r.x += w[i] * q[i]->x;
        r.y += w[i] * q[i]->y;
    }
    return r;
}

static void draw_stroke(pen *p, const stroke *s, float ink)
{
    for (int i = 0; i + 1 < s->count; i++) {
        const point *q[4] = {&s->at[WEFT_MAX(i - 1, 0)], &s->at[i], &s->at[i + 1],
                             &s->at[WEFT_MIN(i + 2, s->count - 1)]};
        point from = bend(p, s->at[i]);
        for (int k = 1; k <= PIECES; k++) {
            float t = (float)k / PIECES;
            point next = {q[1]->x + t * (q[2]->x - q[1]->x), q[1]->y + t * (q[2]->y - q[1]->y)};
            if (s->curved) next = spline(q, t);
            point to = bend(p, next);
            draw_line(p, from, to, ink);
            from = to;
        }
    }
}

/* Draws a short stray mark, fainter than the digit. */
static void draw_mark(pen *p)
{
    point a = {between(p, 0, 1), between(p, 0, 1)};
    point b = {a.x + between(p, -.15, .15), a.y + between(p, -.15, .15)};
    draw_line(p, a, b, between(p, .25, .6));
}

static void draw(const glyphs_source *s, weft_split split, int64_t i, float *canvas)
{
    pen p = {.canvas = canvas, .size = s->size};
    int64_t pixels = s->size * s->size;
    weft_random_start(&p.random, weft_mix(s->seed, (uint64_t)split), (uint64_t)i);
    int digit = (int)(weft_random_u32(&p.random) % 10);
    memset(canvas, 0, (size_t)pixels * sizeof(*canvas));
    hold_pen(&p);
    float ink = between(&p, .75, 1);
    for (int k = 0; k < STROKES; k++) draw_stroke(&p, &digits[digit][k], ink);
    for (int k = 0; k < 2; k++) draw_mark(&p);
    float noise = between(&p, .03, .13);
    for (int64_t j = 0; j < pixels; j++) {
        /* The sum of two uniform numbers has a triangular distribution. */
        float sum = between(&p, -1, 1) + between(&p, -1, 1);
        float value = fminf(fmaxf(canvas[j] + noise * sum, 0), 1);
        s->pixels[split][i * pixels + j] = (unsigned char)(value * 255 + .5f);
    }
    s->labels[split][i] = (unsigned char)digit;
}

typedef struct draw_job {
    const glyphs_source *source;
    weft_split split;
    atomic_bool failed;
} draw_job;

static void draw_range(void *user, int64_t begin, int64_t end)
{
    draw_job *job = user;
    const glyphs_source *s = job->source;
    float *canvas = malloc((size_t)(s->size * s->size) * sizeof(float));
    for (int64_t i = begin; canvas && i < end; i++) draw(s, job->split, i, canvas);
    if (!canvas) atomic_store(&job->failed, true);
    free(canvas);
}

static weft_status glyphs_prepare(weft_source *source, weft_split split)
{
    glyphs_source *s = (glyphs_source *)source;
    int64_t count = s->wanted[split];
    WEFT_TRY(WEFT_NEW(&s->pixels[split], count * s->size * s->size));
    WEFT_TRY(WEFT_NEW(&s->labels[split], count));
    draw_job job = {.source = s, .split = split};
    weft_parallel(weft_context_threads(s->context), count, 64, draw_range, &job);
    if (atomic_load(&job.failed)) return weft_fail_memory((size_t)(s->size * s->size) * 4);
    s->head.count[split] = count;
    return WEFT_OK;
}

static void glyphs_features(const weft_source *source, weft_split split, int64_t i, int input,
                            void *to)
{
    float *x = to;
    (void)input;
    const glyphs_source *s = (const glyphs_source *)source;
    const unsigned char *from = s->pixels[split] + i * s->size * s->size;
    for (int64_t j = 0; j < s->size * s->size; j++) x[j] = from[j];
}

static void glyphs_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    *label = ((const glyphs_source *)source)->labels[split][i];
}

static void glyphs_close(weft_source *source)
{
    glyphs_source *s = (glyphs_source *)source;
    for (int split = 0; split < 2; split++) {
        free(s->pixels[split]);
        free(s->labels[split]);
    }
    free(s);
}

static weft_status glyphs_open(const char *arguments, const weft_source_request *request,
                               weft_source **out)
{
    const weft_shape *trained = request->stats ? &request->stats->input[0].shape : NULL;
    double size = trained && trained->rank == 3 ? (double)trained->dim[2] : 28;
    double train = 20000, test = 5000, seed = 1;
    weft_spec_key keys[] = {
        {.name = "size", .number = &size, .low = 8, .high = 1024, .integer = true},
        {.name = "train", .number = &train, .low = 1, .high = 1e8, .integer = true},
        {.name = "test", .number = &test, .low = 1, .high = 1e8, .integer = true},
        {.name = "seed", .number = &seed, .low = 0, .high = 1e15, .integer = true},
        {.name = NULL}};
    if (*arguments) WEFT_TRY(weft_spec_parse("data 'glyphs'", arguments, keys));
    glyphs_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head = (weft_source){.ops = &weft_source_glyphs, .bytes = true, .classes = 10};
    s->context = request->context;
    s->size = (int64_t)size;
    s->wanted[WEFT_TRAIN] = (int64_t)train;
    s->wanted[WEFT_TEST] = (int64_t)test;
    s->seed = (uint64_t)seed;
    weft_source_set_shape(&s->head, weft_shape_of(3, (int64_t[]){1, s->size, s->size}));
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_glyphs = {
    .kind = "glyphs",
    .form = "glyphs[:size=28,train=20000,test=5000,seed=1]",
    .help = "synthetic images of the ten digits, generated without files",
    .open = glyphs_open,
    .close = glyphs_close,
    .prepare = glyphs_prepare,
    .features = glyphs_features,
    .label = glyphs_label,
};
