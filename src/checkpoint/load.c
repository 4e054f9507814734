/* Tensors of a checkpoint into a store: all of them, or the parts that a rank has. */
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "formats/formats.h"

/* A tensor by its name, or under "PREFIX/name"; NULL: there is none. */
static const weft_tensor *find(const weft_safetensors *file, const char *prefix, const char *name)
{
    size_t size = prefix ? strlen(prefix) : 0;
    if (!prefix) return weft_safetensors_find(file, name);
    for (size_t i = 0; i < file->count; i++) {
        const char *have = file->tensors[i].name;
        if (strncmp(have, prefix, size) == 0 && have[size] == '/' &&
            strcmp(have + size + 1, name) == 0)
            return &file->tensors[i];
    }
    return NULL;
}

weft_status weft_checkpoint_load_one(const weft_checkpoint *c, weft_store *store, int i, int file,
                                     const char *prefix)
{
    const char *name = weft_store_name(store, i);
    weft_type type = weft_store_type(store, i), whole = type;
    int64_t start[WEFT_MAX_RANK];
    weft_store_part(store, i, &whole.shape, start);
    if (weft_store_role(store, i) == WEFT_ROLE_SUM) return WEFT_OK;
    bool param = weft_store_kind(store, i) == WEFT_VALUE_PARAM;
    if (!prefix) file = param || c->exported ? WEFT_PARAMETERS_FILE : WEFT_STATE_FILE;
    const weft_tensor *t = find(&c->tensors[file], prefix, name);
    weft_dtype dtype;
    char have[128], want[128];
    /* Moments used to be as old as the run, and had no count of their own. */
    if (!t && weft_store_role(store, i) == WEFT_ROLE_OPTIMIZER && type.dtype == WEFT_I32)
        t = find(&c->tensors[file], prefix, "step");
    const char *exchange = weft_settings_find(&c->settings, "exchange");
    if (!t && weft_store_role(store, i) == WEFT_ROLE_OPTIMIZER && exchange && *exchange)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: has no state '%s' of the optimizer: its run had --exchange %s, which "
            "keeps that itself; go on with the same exchange, and with two learners or more",
            c->path, name, exchange);
    if (!t)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: has no %s '%s', which this model and optimizer need; it is a checkpoint of "
            "another model (%s, %s)",
            c->path, param ? "parameter" : "state", name, weft_settings_find(&c->settings, "model"),
            weft_settings_find(&c->settings, "optimizer"));
    if (!weft_safetensors_real(t->dtype, &dtype) || dtype != type.dtype ||
        !weft_shape_equal(&t->shape, &whole.shape))
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: '%s' is %s%s, this model needs %s%s; it is a checkpoint of another model "
            "(%s)",
            c->path, name, t->dtype, weft_shape_text(&t->shape, have, sizeof(have)),
            weft_safetensors_dtype(type.dtype), weft_shape_text(&whole.shape, want, sizeof(want)),
            weft_settings_find(&c->settings, "model"));
    /* The data of a file need not be aligned for the device. */
    void *copy;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &copy));
    weft_copy_part(&whole, start, &type.shape, (void *)(uintptr_t)t->data, copy, true);
    weft_status status = weft_store_write(store, i, copy);
    free(copy);
    return status;
}

weft_status weft_checkpoint_load(const weft_checkpoint *c, weft_store *store,
                                 const weft_graph *graph)
{
    /* All parameters of the checkpoint must have a place, or the models differ. */
    for (size_t i = 0; i < c->tensors[0].count; i++)
        if (graph ? weft_graph_find(graph, c->tensors[0].tensors[i].name) == WEFT_NO_VALUE
                  : weft_store_find(store, c->tensors[0].tensors[i].name) < 0)
            return weft_fail(
                WEFT_ERR_ARGUMENT,
                "%s: holds parameter '%s', which this model has not; it is a checkpoint of "
                "another model (%s)",
                c->path, c->tensors[0].tensors[i].name, weft_settings_find(&c->settings, "model"));
    for (int i = 0; i < weft_store_count(store); i++)
        WEFT_TRY(weft_checkpoint_load_one(c, store, i, 0, NULL));
    return WEFT_OK;
}

bool weft_checkpoint_knows(const weft_checkpoint *c, int file, const char *prefix)
{
    size_t size = strlen(prefix);
    for (size_t i = 0; i < c->tensors[file].count; i++) {
        const char *name = c->tensors[file].tensors[i].name;
        if (strncmp(name, prefix, size) == 0 && name[size] == '/') return true;
    }
    return false;
}

weft_status weft_checkpoint_load_learner(const weft_checkpoint *c, weft_store *store,
                                         const weft_graph *graph, int learner)
{
    char prefix[16];
    (void)snprintf(prefix, sizeof(prefix), "%d", learner);
    WEFT_TRY(weft_checkpoint_load(c, store, graph));
    if (learner == 0 || !weft_checkpoint_knows(c, WEFT_LEARNERS_FILE, prefix)) return WEFT_OK;
    /* All go on at the first one's step, though others may have begun the next one. */
    for (int i = 0; i < weft_store_count(store); i++)
        if (weft_store_role(store, i) != WEFT_ROLE_COUNTER)
            WEFT_TRY(weft_checkpoint_load_one(c, store, i, WEFT_LEARNERS_FILE, prefix));
    return WEFT_OK;
}
