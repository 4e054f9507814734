/* Sources of samples that programs and plug-ins add (weft/data_ops.h), as sources of the library. A
 * failure of `read` is kept with the source, since samples are read in places that cannot fail;
 * whoever uses what was read asks for it (weft_source_status). */
#include <pthread.h>
#include <stdio.h>

#include "base/registry.h"
#include "data/data.h"

enum { MOST_TARGETS = 64, MOST_THREADS = 64 };

/* The kind of data of an entry, and the struct that it was made of. */
typedef struct added_kind {
    weft_source_ops ops;
    const weft_data_ops *given;
} added_kind;

typedef struct added_source {
    weft_source head;
    const added_kind *kind;
    void *state; /* of `open` */
    weft_data_form form;
    bool bytes[WEFT_MAX_INPUTS]; /* the input is read as bytes, and given as numbers */
    pthread_mutex_t lock;
    weft_error failure; /* the first one */
} added_source;

static added_source *own(const weft_source *source)
{
    return (added_source *)(uintptr_t)source;
}

/* Keeps the first failure, with the sample. */
static void keep(added_source *s, const weft_sample_key *key, weft_status status)
{
    status =
        weft_fail_within(status, "data source %s, sample %lld of the %s part", s->kind->ops.kind,
                         (long long)key->sample, weft_split_name(key->split));
    pthread_mutex_lock(&s->lock);
    weft_error_catch(&s->failure, status);
    pthread_mutex_unlock(&s->lock);
}

static weft_status status_of(const weft_source *source)
{
    added_source *s = own(source);
    pthread_mutex_lock(&s->lock);
    weft_status status = weft_error_raise(&s->failure);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Reads the wanted parts of a sample. Returns whether it has succeeded. */
static bool read_parts(added_source *s, const weft_sample_key *key, weft_sample *sample)
{
    uint64_t before = weft_failures();
    weft_status status = s->kind->given->read(s->state, key, sample);
    status = weft_ensure_message(status, before, "data source", s->kind->ops.kind, "read");
    for (int k = 0; k < s->head.inputs && status == WEFT_OK; k++)
        if (sample->input[k] && sample->written[k] != sample->bytes[k])
            status = weft_fail(
                WEFT_ERR_FORMAT, "it has written %lld bytes of the input '%s', which has %lld",
                (long long)sample->written[k], s->head.input[k].name, (long long)sample->bytes[k]);
    if (status != WEFT_OK) keep(s, key, status);
    return status == WEFT_OK;
}

static bool draw(const weft_source *source, const weft_sample_key *key, int input, void *x)
{
    added_source *s = own(source);
    int64_t count = weft_shape_elements(&source->input[input].shape);
    size_t size = s->bytes[input] ? 1 : sizeof(float);
    /* Bytes are read into the end of the room for the numbers, and then widened from the front. */
    uint8_t *at = (uint8_t *)x + (size_t)count * (sizeof(float) - size);
    weft_sample sample = {.label = NULL};
    sample.input[input] = at;
    sample.bytes[input] = count * (int64_t)size;
    bool fine = read_parts(s, key, &sample);
    if (!fine) memset(x, 0, (size_t)count * sizeof(float));
    for (int64_t i = 0; i < count && fine && s->bytes[input]; i++) {
        float number = at[i];
        memcpy((char *)x + (size_t)i * sizeof(float), &number, sizeof(float));
    }
    return fine;
}

static weft_sample_key as_it_is(weft_split split, int64_t i)
{
    return (weft_sample_key){.epoch = -1, .split = split, .sample = i};
}

static void features(const weft_source *source, weft_split split, int64_t i, int input, void *x)
{
    const weft_sample_key key = as_it_is(split, i);
    (void)draw(source, &key, input, x);
}

static void label(const weft_source *source, weft_split split, int64_t i, int32_t *out)
{
    const weft_sample_key key = as_it_is(split, i);
    weft_sample sample = {.label = out};
    memset(out, 0, (size_t)weft_source_labels(source) * sizeof(*out));
    (void)read_parts(own(source), &key, &sample);
}

static double target(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const weft_sample_key key = as_it_is(split, i);
    double targets[MOST_TARGETS] = {0};
    weft_sample sample = {.targets = targets};
    (void)read_parts(own(source), &key, &sample);
    return targets[j];
}

static double weight(const weft_source *source, weft_split split, int64_t i, int64_t position)
{
    const weft_sample_key key = as_it_is(split, i);
    double given = 0;
    weft_sample sample = {.weight = &given};
    (void)position;
    (void)read_parts(own(source), &key, &sample);
    return given;
}

static weft_status prepare(weft_source *source, weft_split split)
{
    const weft_data_form *form = &own(source)->form;
    source->count[split] = split == WEFT_VALIDATION ? form->validation : form->count[split];
    return WEFT_OK;
}

static void close_source(weft_source *source)
{
    added_source *s = own(source);
    s->kind->given->close(s->state);
    pthread_mutex_destroy(&s->lock);
    free(source->class_names);
    free(s);
}

/* --- opening --- */

static weft_status check_input(const weft_input *in, int index)
{
    char text[128];
    bool named = memchr(in->name, '\0', sizeof(in->name)) && in->name[0];
    if (!named) return weft_fail(WEFT_ERR_ARGUMENT, "its input %d has no name", index);
    bool sized = in->shape.rank >= 0 && in->shape.rank <= WEFT_MAX_RANK - 1;
    for (int d = 0; sized && d < in->shape.rank; d++)
        sized = in->shape.dim[d] > 0 && in->shape.dim[d] <= INT32_MAX;
    if (!sized || weft_shape_elements(&in->shape) > INT32_MAX)
        return weft_fail(
            WEFT_ERR_ARGUMENT, "its input '%s' has shape %s, must have up to %d dimensions above 0",
            in->name, weft_shape_text(&in->shape, text, sizeof(text)), WEFT_MAX_RANK - 1);
    bool tokens = in->dtype == WEFT_I32;
    if ((tokens || in->dtype == WEFT_F32 || in->dtype == WEFT_U8) && tokens == (in->values > 0))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "its input '%s' is %s with %d values, must be u8 or f32 with 0, or i32 with a "
                     "number of tokens",
                     in->name,
                     weft_dtype_name(in->dtype) ? weft_dtype_name(in->dtype) : "of no type",
                     in->values);
}

static weft_status check_form(const weft_data_form *f, bool unlabelled)
{
    if (f->inputs < 1 || f->inputs > WEFT_MAX_INPUTS)
        return weft_fail(WEFT_ERR_ARGUMENT, "it has %d inputs, must have 1 to %d", f->inputs,
                         WEFT_MAX_INPUTS);
    for (int k = 0; k < f->inputs; k++) WEFT_TRY(check_input(&f->input[k], k));
    for (int s = 0; s < 2; s++)
        if (f->count[s] < (s == WEFT_TRAIN && !unlabelled) || f->count[s] > INT64_MAX / 4)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "its %s part has %lld samples, must have at least %d",
                             weft_split_name((weft_split)s), (long long)f->count[s],
                             s == WEFT_TRAIN && !unlabelled);
    if (f->validation < 0 || f->validation > INT64_MAX / 4)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "its validation part has %lld samples, must have at least 0",
                         (long long)f->validation);
    if (f->unlabelled && !unlabelled)
        return weft_fail(WEFT_ERR_ARGUMENT, "it has no target, which training needs");
    if (!f->unlabelled && (f->classes > 0) == (f->targets > 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "it has %d classes and %d numbers as targets; one of them must be 0",
                         f->classes, f->targets);
    if (f->classes < 0 || f->classes == 1 || f->targets < 0 || f->targets > MOST_TARGETS ||
        f->positions < 0 || f->positions > INT32_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "it has %d classes, %d targets and %lld positions; classes are at least "
                         "2, targets at most %d",
                         f->classes, f->targets, (long long)f->positions, MOST_TARGETS);
    if (f->threads >= 0 && f->threads <= MOST_THREADS) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "it is read by %d threads, must be 0 to %d", f->threads,
                     MOST_THREADS);
}

static weft_status copy_names(added_source *s)
{
    weft_source *head = &s->head;
    if (!s->form.class_names) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&head->class_names, head->classes));
    for (int c = 0; c < head->classes; c++) {
        if (!s->form.class_names[c])
            return weft_fail(WEFT_ERR_ARGUMENT, "its class %d has no name", c);
        head->class_names[c] = (char *)(uintptr_t)s->form.class_names[c];
    }
    return WEFT_OK;
}

static weft_status take_form(added_source *s, const weft_source_request *request)
{
    const weft_data_form *f = &s->form;
    weft_source *head = &s->head;
    WEFT_TRY(check_form(f, request->unlabelled));
    int bytes = 0, real = 0;
    head->inputs = f->inputs;
    for (int k = 0; k < f->inputs; k++) {
        head->input[k] = f->input[k];
        s->bytes[k] = f->input[k].dtype == WEFT_U8;
        bytes += s->bytes[k];
        real += f->input[k].dtype == WEFT_F32;
        if (s->bytes[k]) head->input[k].dtype = WEFT_F32;
    }
    head->bytes = bytes > 0 && real == 0;
    head->mixed = bytes > 0 && real > 0;
    head->validates = f->validation > 0;
    head->large = true; /* samples are checked as they are read */
    head->classes = f->classes;
    head->targets = f->targets;
    head->positions = f->positions;
    head->unlabelled = f->unlabelled;
    head->weighted = f->weighted && !f->unlabelled;
    head->found_in = s->kind->ops.kind;
    head->all = f->count[WEFT_TRAIN] + f->count[WEFT_TEST];
    head->threads = WEFT_MIN(f->threads, weft_context_threads(request->context));
    return copy_names(s);
}

static weft_status open_source(const char *arguments, const weft_source_request *request,
                               weft_source **out)
{
    const weft_source_ops *ops = request->ops;
    const added_kind *kind = (const added_kind *)(const void *)ops;
    added_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->kind = kind;
    s->head.ops = ops;
    uint64_t before = weft_failures();
    weft_status status =
        kind->given->open(request->context, arguments, request->stats, &s->state, &s->form);
    status = weft_ensure_message(status, before, "data source", ops->kind, "open");
    if (status != WEFT_OK) {
        free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    status = take_form(s, request);
    if (status == WEFT_OK) {
        *out = &s->head;
        return WEFT_OK;
    }
    close_source(&s->head);
    return weft_fail_within(status, "data source %s", ops->kind);
}

static weft_status accept(weft_context *context, const weft_entry *entry, const void *ops,
                          void **made)
{
    const weft_data_ops *given = ops;
    added_kind *kind;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "open", given->open));
    WEFT_TRY(weft_entry_need(entry, "close", given->close));
    WEFT_TRY(weft_entry_need(entry, "read", given->read));
    WEFT_TRY(WEFT_NEW(&kind, 1));
    *made = kind;
    kind->given = given;
    kind->ops = (weft_source_ops){.kind = entry->name,
                                  .form = entry->form,
                                  .help = entry->summary,
                                  .open = open_source,
                                  .close = close_source,
                                  .prepare = prepare,
                                  .features = features,
                                  .draw = draw,
                                  .status = status_of,
                                  .label = label,
                                  .target = target,
                                  .weight = weight};
    return WEFT_OK;
}

const weft_extension weft_sources_extension = {.kind = WEFT_KIND_DATA,
                                               .type = "weft_data_ops",
                                               .size = sizeof(weft_data_ops),
                                               .least = sizeof(weft_data_ops),
                                               .accept = accept};
