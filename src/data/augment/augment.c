/* The table of augmentations, and lists of them. */
#include "data/augment/augment.h"

#include <math.h>
#include <stdio.h>

#include "base/registry.h"

static const weft_augmentation *const all[] = {
    &weft_augment_crop,  &weft_augment_resizedcrop, &weft_augment_flip,
    &weft_augment_vflip, &weft_augment_color,       &weft_augment_rotate,
    &weft_augment_erase, &weft_augment_mixup,       &weft_augment_cutmix,
};

weft_status weft_augmentations_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(all)];
    for (size_t i = 0; i < WEFT_COUNT(all); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_AUGMENTATION,
                                  .name = all[i]->name,
                                  .form = all[i]->form,
                                  .summary = all[i]->help,
                                  .ops = all[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(all));
}

typedef struct list {
    const weft_context *context;
    weft_augment *out;
} list;

/* Takes the text behind a name: "", "=NUMBER" or ":KEY=NUMBER". */
static weft_status take_amount(const weft_augmentation *what, const char *text, double *out)
{
    char title[64], *keys;
    const weft_spec_key table[] = {{.name = what->key,
                                    .number = out,
                                    .low = what->low,
                                    .high = what->high,
                                    .integer = what->integer},
                                   {.name = NULL}};
    *out = what->usual;
    if (!*text) return WEFT_OK;
    (void)snprintf(title, sizeof(title), "augmentation %s", what->name);
    WEFT_TRY(weft_format(&keys, "%s%s%s", *text == '=' ? what->key : "", *text == '=' ? "=" : "",
                         text + 1));
    weft_status status = weft_spec_parse(title, keys, table);
    free(keys);
    return status;
}

static weft_status take_item(void *user, char *text)
{
    const list *l = user;
    weft_augment *a = l->out;
    const weft_entry *entry;
    double amount;
    size_t size = strcspn(text, ":=");
    WEFT_TRY(weft_registry_find(l->context, WEFT_KIND_AUGMENTATION, text, size, &entry));
    WEFT_TRY(take_amount(entry->ops, text + size, &amount));
    for (int i = 0; i < a->count; i++)
        if (a->item[i].what == entry->ops)
            return weft_fail(WEFT_ERR_ARGUMENT, "augmentation %s is given twice", entry->name);
    a->mixing += ((const weft_augmentation *)entry->ops)->mix != NULL;
    a->item[a->count].what = entry->ops;
    a->item[a->count++].amount = amount;
    return WEFT_OK;
}

weft_status weft_augment_parse(const weft_context *context, const char *text, weft_augment *out)
{
    list l = {context, out};
    _Static_assert(WEFT_COUNT(all) <= WEFT_MOST_AUGMENTATIONS, "a list may have each once");
    *out = (weft_augment){.count = 0};
    return weft_each_piece("augment", text, take_item, &l);
}

const char *weft_augment_mixing(const weft_augment *a)
{
    for (int i = 0; i < a->count; i++)
        if (a->item[i].what->mix) return a->item[i].what->name;
    return NULL;
}

/* The random numbers of an augmentation for a sample, which nothing else has. */
static weft_random numbers_of(const char *name, const weft_sample_key *key)
{
    const uint64_t own = 0x6175676d656e74;
    weft_random random;
    uint64_t epoch = weft_mix(weft_mix(own, key->seed), (uint64_t)key->epoch);
    weft_random_start(&random, weft_mix(epoch, weft_hash_text(name)), (uint64_t)key->sample);
    return random;
}

static weft_augmented picture_of(const weft_shape *shape, float *x)
{
    return (weft_augmented){.x = x,
                            .channels = (int)shape->dim[0],
                            .height = (int)shape->dim[1],
                            .width = (int)shape->dim[2]};
}

void weft_augment_apply(const weft_augment *a, const weft_sample_key *key, const weft_shape *shape,
                        double low, double high, float *x, float *spare)
{
    weft_augmented p = picture_of(shape, x);
    p.spare = spare;
    p.low = low;
    p.high = high;
    for (int i = 0; i < a->count; i++) {
        weft_random random = numbers_of(a->item[i].what->name, key);
        if (a->item[i].what->apply) a->item[i].what->apply(&p, a->item[i].amount, &random);
    }
}

void weft_augment_move(const weft_augment *a, const weft_sample_key *key, const weft_shape *shape,
                       double behind, float *classes, float *spare)
{
    weft_augmented p = picture_of(shape, classes);
    p.low = behind;
    p.spare = spare;
    p.channels = 1;
    p.nearest = true;
    for (int i = 0; i < a->count; i++) {
        weft_random random = numbers_of(a->item[i].what->name, key);
        if (a->item[i].what->moves) a->item[i].what->apply(&p, a->item[i].amount, &random);
    }
}

bool weft_augment_moves(const weft_augment *a)
{
    bool some = false;
    for (int i = 0; i < a->count; i++) some = some || a->item[i].what->moves;
    return some;
}

double weft_augment_mix(const weft_augment *a, const weft_sample_key *key, const weft_shape *shape,
                        float *x, const float *other)
{
    weft_augmented p = picture_of(shape, x);
    weft_random choice = numbers_of("choice", key);
    int chosen = (int)(weft_random_unit(&choice) * a->mixing);
    for (int i = 0; i < a->count; i++) {
        const weft_augmentation *what = a->item[i].what;
        if (!what->mix || chosen-- > 0) continue;
        weft_random random = numbers_of(what->name, key);
        return what->mix(&p, other, a->item[i].amount, &random);
    }
    return 1;
}

double weft_random_share(weft_random *random, double alpha)
{
    /* Johnk's method: powers of two uniform numbers, of which the sum is at most 1. */
    for (;;) {
        double u = weft_random_unit(random), v = weft_random_unit(random);
        double x = pow(u, 1 / alpha), y = pow(v, 1 / alpha);
        if (x + y > 1) continue;
        if (x + y > 0) return x / (x + y);
        return u > v ? 1 : 0; /* both powers are too small for a double */
    }
}
