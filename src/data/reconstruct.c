/* Data whose target is their own features, as an autoencoder learns: reconstruct:SPEC opens any
 * other data and gives its source other targets. */
#include "base/registry.h"
#include "data/data.h"

/* The functions of a source with those of this file in the place of some. */
typedef struct mirror {
    weft_source_ops ops;
    const weft_source_ops *of;
    int classes; /* that the source has found */
} mirror;

static mirror *mirror_of(const weft_source *source)
{
    return (mirror *)(uintptr_t)source->ops;
}

/* The source tells of no labels, even if it has found some; a table still names their column, which
 * is no feature. */
static void hide_labels(weft_source *s)
{
    if (s->classes > 0) mirror_of(s)->classes = s->classes;
    s->classes = 0;
    s->positions = 0;
    s->unlabelled = false;
    s->weighted = s->weighted && !s->position_weights;
    s->position_weights = s->ignores = false;
    s->found_in = s->as_target = NULL;
    s->mirrored = true;
    s->targets = (int)weft_shape_elements(&s->input[0].shape);
}

static weft_status prepare(weft_source *source, weft_split split)
{
    WEFT_TRY(mirror_of(source)->of->prepare(source, split));
    hide_labels(source);
    return WEFT_OK;
}

static weft_status divide(weft_source *source, double share)
{
    return mirror_of(source)->of->divide(source, share);
}

static void targets(const weft_source *source, weft_split split, int64_t i, double *to)
{
    const weft_source_ops *of = mirror_of(source)->of;
    float *single = (float *)(void *)to; /* in the first half of the room */
    if (!source->tabular) of->features(source, split, i, 0, single);
    for (int j = source->targets; j-- > 0;) {
        float x = 0;
        if (!source->tabular) memcpy(&x, single + j, sizeof(x));
        to[j] = source->tabular ? of->number(source, split, i, j) : (double)x;
    }
}

static double target(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    double *all, one = NAN;
    if (source->tabular) return mirror_of(source)->of->number(source, split, i, j);
    if (WEFT_NEW(&all, source->targets) != WEFT_OK) return one;
    targets(source, split, i, all);
    one = all[j];
    free(all);
    return one;
}

static void describe(const weft_source *source, weft_split split, int64_t i, int column, int64_t j,
                     char *out, size_t size)
{
    mirror_of(source)->of->describe(source, split, i, column == source->inputs ? 0 : column, j, out,
                                    size);
}

static void close_source(weft_source *source)
{
    mirror *m = mirror_of(source);
    if (m->classes > 0) source->classes = m->classes; /* it frees their names */
    source->ops = m->of;
    source->ops->close(source);
    free(m);
}

static weft_status check(const char *spec, const weft_source *s)
{
    enum { MOST = 65536 };
    int64_t size = weft_shape_elements(&s->input[0].shape);
    if (s->mirrored)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'reconstruct:%s': the features are the target already; write "
                         "reconstruct: once",
                         spec);
    if (s->inputs == 1 && s->input[0].dtype == WEFT_F32 && size <= MOST) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "data 'reconstruct:%s': samples must be one input of at most %d numbers, which "
        "are also what is to be predicted",
        spec, MOST);
}

/* Samples without labels would all be for prediction, unless a share is given. */
static weft_status divide_unlabelled(weft_source *s)
{
    if (!s->unlabelled || s->divided || !s->ops->divide) return WEFT_OK;
    return s->ops->divide(s, WEFT_USUAL_TEST);
}

static weft_status open_source(const char *arguments, const weft_source_request *request,
                               weft_source **out)
{
    weft_source *s;
    mirror *m = NULL;
    weft_source_request own = *request;
    own.unlabelled = own.mirrored = true;
    if (!*arguments)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'reconstruct' needs other data, as in reconstruct:glyphs");
    WEFT_TRY(weft_source_open(arguments, &own, &s));
    weft_status status = check(arguments, s);
    if (status == WEFT_OK) status = divide_unlabelled(s);
    if (status == WEFT_OK) status = WEFT_NEW(&m, 1);
    if (status != WEFT_OK) {
        s->ops->close(s);
        return status;
    }
    *m = (mirror){.ops = *s->ops, .of = s->ops};
    m->ops.close = close_source;
    m->ops.prepare = prepare;
    m->ops.target = target;
    m->ops.targets = targets;
    if (m->ops.divide) m->ops.divide = divide;
    if (m->ops.describe) m->ops.describe = describe;
    s->ops = &m->ops;
    hide_labels(s);
    *out = s;
    return WEFT_OK;
}

const weft_source_ops weft_source_reconstruct = {
    .kind = "reconstruct",
    .form = "reconstruct:DATA",
    .help = "other data, whose features are also the target, for autoencoders: labels are not read",
    .open = open_source,
};
