/* The table of augmentations, and lists of them. */
#include "data/augment/augment.h"

#include <stdio.h>

#include "base/registry.h"

static const weft_augmentation *const all[] = {
    &weft_augment_crop,   &weft_augment_flip,  &weft_augment_color,
    &weft_augment_rotate, &weft_augment_erase,
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

void weft_augment_apply(const weft_augment *a, const weft_sample_key *key, const weft_shape *shape,
                        double low, double high, float *x, float *spare)
{
    const uint64_t own = 0x6175676d656e74; /* random numbers of nothing else */
    weft_augmented p = {x,   spare, (int)shape->dim[0], (int)shape->dim[1], (int)shape->dim[2],
                        low, high};
    uint64_t epoch = weft_mix(weft_mix(own, key->seed), (uint64_t)key->epoch);
    for (int i = 0; i < a->count; i++) {
        weft_random random;
        weft_random_start(&random, weft_mix(epoch, weft_hash_text(a->item[i].what->name)),
                          (uint64_t)key->sample);
        a->item[i].what->apply(&p, a->item[i].amount, &random);
    }
}
