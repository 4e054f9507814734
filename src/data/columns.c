/* The columns of a data set, and what it tells of single samples beside their features: targets,
 * weights, rows and identifiers. */
#include "data/data.h"

int64_t weft_source_counted(const weft_source *s, weft_split split, int64_t i, int input)
{
    const weft_input *in = &s->input[input];
    int64_t size = weft_shape_elements(&in->shape);
    int32_t length;
    if (in->lengths == 0 || s->input[in->lengths - 1].shape.rank > 0) return size;
    s->ops->features(s, split, i, in->lengths - 1, &length);
    int64_t positions = WEFT_MIN(WEFT_MAX((int64_t)length, (int64_t)0), in->shape.dim[0]);
    return size / in->shape.dim[0] * positions;
}

int64_t weft_source_largest(const weft_source *s)
{
    int64_t largest = 0;
    for (int i = 0; i < s->inputs; i++)
        largest = WEFT_MAX(largest, weft_shape_elements(&s->input[i].shape));
    return largest;
}

bool weft_dataset_column(const weft_dataset *d, int i, weft_column *out)
{
    WEFT_NEED_ELSE_AS(false, "dataset, out", d, out);
    const weft_source *s = d->source;
    if (i < 0 || i >= s->inputs + !s->unlabelled) return false;
    if (i < s->inputs) {
        const weft_input *in = &s->input[i];
        *out = (weft_column){in->name, WEFT_PORT_FEATURES, in->dtype, in->shape};
    } else if (s->targets == 0) {
        *out = (weft_column){"labels", WEFT_PORT_TARGET, WEFT_I32, {.rank = s->positions > 0}};
        out->shape.dim[0] = s->positions;
    } else {
        *out = (weft_column){"target", WEFT_PORT_TARGET, WEFT_F32,
                             weft_shape_of(1, (int64_t[]){s->targets})};
    }
    return true;
}

double weft_source_weight_sum(const weft_source *s, weft_split split, int64_t i)
{
    double sum = 0;
    int64_t labels = weft_source_labels(s);
    if (!s->position_weights)
        return (s->weighted ? s->ops->weight(s, split, i, 0) : 1) * (double)labels;
    for (int64_t j = 0; j < labels; j++) sum += s->ops->weight(s, split, i, j);
    return sum;
}

/* Whether the data set has this sample: its split is prepared and has so many. */
static bool has(const weft_dataset *d, weft_split split, int64_t i)
{
    return (unsigned)split < WEFT_SPLITS && d->source->prepared[split] && i >= 0 &&
           i < d->source->count[split];
}

double weft_dataset_weight(const weft_dataset *d, weft_split split, int64_t i, int64_t position)
{
    WEFT_NEED_ELSE_AS(0, "dataset", d);
    d = weft_dataset_part(d, &split);
    if (!has(d, split, i) || position < 0 || position >= weft_source_labels(d->source)) return 0;
    return d->source->weighted ? d->source->ops->weight(d->source, split, i, position) : 1;
}

bool weft_dataset_weighted(const weft_dataset *d)
{
    WEFT_NEED_ELSE_AS(false, "dataset", d);
    return d->source->weighted;
}

void weft_dataset_targets(const weft_dataset *d, weft_split split, int64_t i, double *to)
{
    d = weft_dataset_part(d, &split);
    const weft_source *s = d->source;
    if (s->ops->targets) s->ops->targets(s, split, i, to);
    for (int j = 0; j < s->targets && !s->ops->targets; j++) to[j] = s->ops->target(s, split, i, j);
    for (int j = 0; j < s->targets && s->mirrored; j++) to[j] = weft_in_units(to[j], &d->units);
}

double weft_dataset_target(const weft_dataset *d, weft_split split, int64_t i, int j)
{
    WEFT_NEED_ELSE_AS(0, "dataset", d);
    d = weft_dataset_part(d, &split);
    if (!has(d, split, i) || j < 0 || j >= d->source->targets) return 0;
    return d->source->ops->target(d->source, split, i, j);
}

int64_t weft_dataset_row(const weft_dataset *d, weft_split split, int64_t i)
{
    d = weft_dataset_part(d, &split);
    return d->source->ops->row ? d->source->ops->row(d->source, split, i) : i;
}

const char *weft_dataset_file(const weft_dataset *d, weft_split split, int64_t i)
{
    d = weft_dataset_part(d, &split);
    return d->source->ops->file ? d->source->ops->file(d->source, split, i) : NULL;
}

const char *weft_dataset_id(const weft_dataset *d, weft_split split, int64_t i)
{
    d = weft_dataset_part(d, &split);
    return d->source->ops->id ? d->source->ops->id(d->source, split, i) : NULL;
}

weft_status weft_dataset_picture_size(const weft_dataset *d, weft_split split, int64_t i,
                                      int *width, int *height)
{
    d = weft_dataset_part(d, &split);
    *width = *height = 0;
    if (!d->source->ops->picture_size) return WEFT_OK;
    return d->source->ops->picture_size(d->source, split, i, width, height);
}

weft_status weft_dataset_summary(const weft_dataset *d, char **out)
{
    WEFT_NEED(d, out);
    weft_text text = {0};
    *out = NULL;
    if (!d->source->ops->summary) return WEFT_OK;
    weft_status status = d->source->ops->summary(d->source, &text);
    if (status == WEFT_OK && text.failed) status = weft_fail(WEFT_ERR_MEMORY, "out of memory");
    if (status == WEFT_OK)
        *out = text.data;
    else
        free(text.data);
    return status;
}

weft_status weft_dataset_fields(const weft_dataset *d, weft_split split, int64_t i,
                                weft_table_row *out)
{
    *out = (weft_table_row){0};
    return d->source->ops->fields ? d->source->ops->fields(d->source, split, i, out) : WEFT_OK;
}

bool weft_dataset_labelled(const weft_dataset *d)
{
    WEFT_NEED_ELSE_AS(false, "dataset", d);
    return !d->source->unlabelled;
}
