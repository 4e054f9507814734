/* A source whose validation split is a share of the training split of another source. A permutation
 * by the seed alone chooses its samples, so all ranks and resumed runs hold out the same ones. */
#include <stdio.h>

#include "data/data.h"

typedef struct held_out {
    weft_source head;
    weft_source_ops ops; /* functions of this file for those that `of` has */
    weft_source *of;
    int64_t *rows; /* of the training split of `of`: first those that stay, then the others */
    double share;
    uint64_t seed;
} held_out;

/* A sample of the other source. */
typedef struct place {
    const weft_source *source;
    weft_split split;
    int64_t i;
} place;

static place place_of(const weft_source *source, weft_split split, int64_t i)
{
    const held_out *h = (const held_out *)source;
    if (split == WEFT_TEST) return (place){h->of, split, i};
    return (place){h->of, WEFT_TRAIN,
                   h->rows[split == WEFT_TRAIN ? i : h->head.count[WEFT_TRAIN] + i]};
}

static void features(const weft_source *source, weft_split split, int64_t i, int input, void *x)
{
    place p = place_of(source, split, i);
    p.source->ops->features(p.source, p.split, p.i, input, x);
}

static double number(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    place p = place_of(source, split, i);
    return p.source->ops->number(p.source, p.split, p.i, j);
}

static uint64_t hash(const weft_source *source, weft_split split, int64_t i)
{
    place p = place_of(source, split, i);
    return p.source->ops->hash(p.source, p.split, p.i);
}

static void label(const weft_source *source, weft_split split, int64_t i, int32_t *to)
{
    place p = place_of(source, split, i);
    p.source->ops->label(p.source, p.split, p.i, to);
}

static double target(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    place p = place_of(source, split, i);
    return p.source->ops->target(p.source, p.split, p.i, j);
}

static void targets(const weft_source *source, weft_split split, int64_t i, double *to)
{
    place p = place_of(source, split, i);
    p.source->ops->targets(p.source, p.split, p.i, to);
}

static double weight(const weft_source *source, weft_split split, int64_t i, int64_t position)
{
    place p = place_of(source, split, i);
    return p.source->ops->weight(p.source, p.split, p.i, position);
}

static int64_t row(const weft_source *source, weft_split split, int64_t i)
{
    place p = place_of(source, split, i);
    return p.source->ops->row ? p.source->ops->row(p.source, p.split, p.i) : p.i;
}

static const char *file(const weft_source *source, weft_split split, int64_t i)
{
    place p = place_of(source, split, i);
    return p.source->ops->file(p.source, p.split, p.i);
}

static const char *id(const weft_source *source, weft_split split, int64_t i)
{
    place p = place_of(source, split, i);
    return p.source->ops->id(p.source, p.split, p.i);
}

static weft_status picture_size(const weft_source *source, weft_split split, int64_t i, int *width,
                                int *height)
{
    place p = place_of(source, split, i);
    return p.source->ops->picture_size(p.source, p.split, p.i, width, height);
}

static weft_status fields(const weft_source *source, weft_split split, int64_t i,
                          weft_table_row *out)
{
    place p = place_of(source, split, i);
    return p.source->ops->fields(p.source, p.split, p.i, out);
}

static void describe(const weft_source *source, weft_split split, int64_t i, int column, int64_t j,
                     char *out, size_t size)
{
    place p = place_of(source, split, i);
    weft_source_describe(p.source, p.split, p.i, column, j, out, size);
}

static bool draw(const weft_source *source, const weft_sample_key *key, int input, void *x)
{
    place p = place_of(source, key->split, key->sample);
    const weft_sample_key own = {
        .seed = key->seed, .epoch = key->epoch, .split = p.split, .sample = p.i};
    return p.source->ops->draw(p.source, &own, input, x);
}

static weft_status status_of(const weft_source *source)
{
    const weft_source *of = ((const held_out *)source)->of;
    return of->ops->status(of);
}

static void close_source(weft_source *source)
{
    held_out *h = (held_out *)source;
    h->of->ops->close(h->of);
    free(h->rows);
    free(h);
}

/* Takes what the other source knows of its samples after it has read a split. */
static void take_head(held_out *h)
{
    weft_source before = h->head;
    h->head = *h->of;
    h->head.ops = &h->ops;
    h->head.validates = true;
    h->head.continues = false;
    memcpy(h->head.count, before.count, sizeof(before.count));
    memcpy(h->head.prepared, before.prepared, sizeof(before.prepared));
    for (int k = 0; k < before.inputs; k++) h->head.input[k].lengths = before.input[k].lengths;
    h->head.count[WEFT_TEST] = h->of->count[WEFT_TEST];
}

/* Chooses the samples that are held out. */
static weft_status draw_rows(held_out *h)
{
    int64_t total = h->of->count[WEFT_TRAIN];
    uint64_t key = weft_mix(h->seed, weft_hash_text("validation"));
    int64_t held = (int64_t)((double)total * h->share + 0.5), at[2] = {0, total - held};
    if (held == 0 || held == total)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "validation is %g of %lld samples of the training part, which is %s; give "
                         "another share",
                         h->share, (long long)total, held == 0 ? "none of them" : "all of them");
    free(h->rows);
    WEFT_TRY(WEFT_NEW(&h->rows, total));
    for (int64_t i = 0; i < total; i++) h->rows[at[weft_permute(key, total, i) < held]++] = i;
    h->head.count[WEFT_TRAIN] = total - held;
    h->head.count[WEFT_VALIDATION] = held;
    return WEFT_OK;
}

static weft_status prepare(weft_source *source, weft_split split)
{
    held_out *h = (held_out *)source;
    weft_split from = split == WEFT_VALIDATION ? WEFT_TRAIN : split;
    if (!h->of->prepared[from]) {
        WEFT_TRY(h->of->ops->prepare(h->of, from));
        if (from == WEFT_TRAIN) WEFT_TRY(draw_rows(h));
        h->of->prepared[from] = true;
    }
    take_head(h);
    return WEFT_OK;
}

weft_status weft_source_hold_out(weft_source **source, double share, uint64_t seed)
{
    weft_source *of = *source;
    held_out *h;
    if (!(share > 0 && share < 1))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "validation is %g, must be a share of the training part above 0 and below "
                         "1, or a specification of data",
                         share);
    if (of->validates)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "validation is %g, and the data have a validation part of their own; "
                         "leave it out",
                         share);
    if (of->overlaps)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "validation is %g, and the samples of the training overlap, so that those "
                         "held out would be known; leave out stride=, or give other data for "
                         "validation",
                         share);
    WEFT_TRY(WEFT_NEW(&h, 1));
    const weft_source_ops *ops = of->ops;
    *h = (held_out){.of = of,
                    .share = share,
                    .seed = seed,
                    .ops = {.kind = ops->kind,
                            .form = ops->form,
                            .help = ops->help,
                            .close = close_source,
                            .prepare = prepare,
                            .features = features,
                            .number = ops->number ? number : NULL,
                            .hash = ops->hash ? hash : NULL,
                            .label = label,
                            .target = target,
                            .targets = ops->targets ? targets : NULL,
                            .weight = ops->weight ? weight : NULL,
                            .row = row,
                            .file = ops->file ? file : NULL,
                            .id = ops->id ? id : NULL,
                            .picture_size = ops->picture_size ? picture_size : NULL,
                            .fields = ops->fields ? fields : NULL,
                            .describe = describe,
                            .draw = ops->draw ? draw : NULL,
                            .status = ops->status ? status_of : NULL}};
    h->head.inputs = of->inputs;
    memcpy(h->head.input, of->input, sizeof(of->input));
    take_head(h);
    *source = &h->head;
    return WEFT_OK;
}
