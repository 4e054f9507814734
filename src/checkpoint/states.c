/* The state of an exchange out of a checkpoint, by name. */
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

/* Under which name a state of this learner stands; what is alike, under that of the first. */
static const char *place_of(const weft_exchange_state *s, int learner, char *room, size_t size)
{
    char prefix[16] = "";
    if (!s->alike && learner > 0) (void)snprintf(prefix, sizeof(prefix), "%d/", learner);
    (void)snprintf(room, size, "%s%s", prefix, s->name);
    return room;
}

static bool has(const weft_checkpoint *c, const weft_exchange_state *s, int learner)
{
    char place[96];
    (void)place_of(s, learner, place, sizeof(place));
    return s->like_parameters
               ? weft_checkpoint_knows(c, WEFT_EXCHANGE_FILE, place)
               : weft_safetensors_find(&c->tensors[WEFT_EXCHANGE_FILE], place) != NULL;
}

/* Copies all parameters as they lie, out of the store or into it. */
static weft_status all_parameters(weft_store *store, void *aside, bool out)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    memcpy(out ? aside : data, out ? data : aside, bytes);
    if (!out) return weft_store_unmap(store, WEFT_ALL_PARAMETERS, data);
    weft_store_unmap_read(store, data);
    return WEFT_OK;
}

/* By way of the place where the parameters lie, which are put back. */
static weft_status load_like_parameters(const weft_checkpoint *c, weft_store *store,
                                        const weft_exchange_state *s, const char *place)
{
    void *aside;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_new_aligned(s->bytes, &aside));
    WEFT_TRY_GOTO(all_parameters(store, aside, true), done);
    for (int i = 0; i < weft_store_count(store) && status == WEFT_OK; i++)
        if (weft_store_kind(store, i) == WEFT_VALUE_PARAM)
            status = weft_checkpoint_load_one(c, store, i, WEFT_EXCHANGE_FILE, place);
    if (status == WEFT_OK) status = all_parameters(store, s->data, true);
    weft_status back = all_parameters(store, aside, false);
    if (status == WEFT_OK) status = back;
done:
    free(aside);
    return status;
}

static weft_status load_tensor(const weft_checkpoint *c, const weft_exchange_state *s,
                               const char *place)
{
    const weft_tensor *t = weft_safetensors_find(&c->tensors[WEFT_EXCHANGE_FILE], place);
    const char *want = weft_safetensors_dtype(s->type.dtype);
    char have[128], shape[128];
    if (strcmp(t->dtype, want) != 0 || !weft_shape_equal(&t->shape, &s->type.shape))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the exchange's state '%s' is %s%s, this exchange needs %s%s", c->path,
                         place, t->dtype, weft_shape_text(&t->shape, have, sizeof(have)), want,
                         weft_shape_text(&s->type.shape, shape, sizeof(shape)));
    memcpy(s->data, t->data, s->bytes);
    return WEFT_OK;
}

static weft_status load_state(const weft_checkpoint *c, weft_exchange *e,
                              const weft_exchange_state *s, int learner)
{
    char place[96];
    (void)place_of(s, learner, place, sizeof(place));
    return s->like_parameters ? load_like_parameters(c, e->site.store, s, place)
                              : load_tensor(c, s, place);
}

/* The largest number of a learner of which the checkpoint has anything. */
static int most_learner(const weft_checkpoint *c)
{
    const weft_safetensors *all = &c->tensors[WEFT_EXCHANGE_FILE];
    int64_t most = 0;
    for (size_t i = 0; i < all->count; i++) {
        const char *name = all->tensors[i].name;
        size_t digits = strspn(name, "0123456789");
        if (digits > 0 && digits < 7 && name[digits] == '/')
            most = WEFT_MAX(most, (int64_t)strtol(name, NULL, 10));
    }
    return (int)most;
}

/* What a learner had who is none of this run, added to what this one has. */
static weft_status add_other(const weft_checkpoint *c, weft_exchange *e,
                             const weft_exchange_state *s, weft_dtype dtype, int other)
{
    weft_exchange_state of_other = *s;
    WEFT_TRY(weft_new_aligned(s->bytes, &of_other.data));
    weft_status status = load_state(c, e, &of_other, other);
    for (size_t n = 0; n < s->bytes / weft_dtype_size(dtype) && status == WEFT_OK; n++)
        weft_number_put(dtype, s->data, (int64_t)n,
                        weft_number_get(dtype, s->data, (int64_t)n) +
                            weft_number_get(dtype, of_other.data, (int64_t)n));
    free(of_other.data);
    return status;
}

/* What all learners keep together must come to the same when it is sent, however many they are now:
 * nothing is lost, and where updates count as a mean of all of them each counts accordingly. */
static weft_status share_again(const weft_checkpoint *c, weft_exchange *e,
                               const weft_exchange_state *s, int learner)
{
    int learners = e->site.endpoint->learners, before = most_learner(c) + 1;
    double factor = (double)learners / before;
    weft_dtype dtype;
    size_t bytes;
    void *parameters;
    if (!s->adds || s->alike || learners == before) return WEFT_OK;
    WEFT_TRY(weft_store_map(e->site.store, WEFT_ALL_PARAMETERS, &dtype, &parameters, &bytes));
    weft_store_unmap_read(e->site.store, parameters);
    for (int k = learner + learners; k < before; k += learners)
        if (has(c, s, k)) WEFT_TRY(add_other(c, e, s, dtype, k));
    if (!weft_exchange_is_together(e)) return WEFT_OK;
    for (size_t n = 0; n < s->bytes / weft_dtype_size(dtype); n++)
        weft_number_put(dtype, s->data, (int64_t)n,
                        factor * weft_number_get(dtype, s->data, (int64_t)n));
    return WEFT_OK;
}

/* States that are alike in all learners, or those that are not: all of them, or none. */
static weft_status load_those(const weft_checkpoint *c, weft_exchange *e, int learner, bool alike,
                              int *count, int *found)
{
    weft_exchange_state s;
    const char *there = NULL, *missing = NULL;
    *count = *found = 0;
    for (int i = 0; weft_exchange_state_at(e, i, &s); i++) {
        if (s.alike != alike) continue;
        if (s.like_parameters && s.bytes == 0) continue; /* of no parameters nothing is written */
        bool known = has(c, &s, learner);
        if (s.found) *s.found = known;
        if (s.found && !known) continue;
        *(known ? &there : &missing) = s.name;
        ++*count;
        *found += known;
    }
    if (there && missing)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has the state '%s' of exchange %s but not '%s', which goes with it; "
                         "it is not whole, of another version, or of other options",
                         c->path, there, e->ops->name, missing);
    for (int i = 0; weft_exchange_state_at(e, i, &s); i++) {
        if (s.alike != alike || (s.found && !*s.found)) continue;
        if (there) WEFT_TRY(load_state(c, e, &s, learner));
        WEFT_TRY(share_again(c, e, &s, learner));
    }
    return WEFT_OK;
}

/* Whether the name of a tensor, after its learner's number if it has one, begins with that of a
 * state. */
static bool is_known(weft_exchange *e, const char *name)
{
    weft_exchange_state s;
    const char *from = name + strspn(name, "0123456789");
    if (from > name && *from == '/') name = from + 1;
    for (int i = 0; weft_exchange_state_at(e, i, &s); i++) {
        size_t size = strlen(s.name);
        if (strncmp(name, s.name, size) == 0 && (name[size] == '/' || !name[size])) return true;
    }
    return false;
}

/* What others have left in it would be lost, such as what codecs owe. */
static weft_status check_known(const weft_checkpoint *c, weft_exchange *e)
{
    const weft_safetensors *all = &c->tensors[WEFT_EXCHANGE_FILE];
    const char *codec = weft_settings_find(&c->settings, "compress");
    for (size_t i = 0; i < all->count; i++)
        if (!e || !is_known(e, all->tensors[i].name))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: has the state '%s' of --exchange %s%s%s, which this run would "
                             "lose; go on with these, or begin anew without --resume",
                             c->path, all->tensors[i].name,
                             weft_settings_find(&c->settings, "exchange"),
                             codec ? " --compress " : "", codec ? codec : "");
    return WEFT_OK;
}

weft_status weft_checkpoint_load_exchange(const weft_checkpoint *c, weft_context *context,
                                          weft_exchange *e, int learner)
{
    int alike, own, found_alike, found_own;
    if (!e) return check_known(c, e);
    WEFT_TRY(load_those(c, e, learner, true, &alike, &found_alike));
    WEFT_TRY(load_those(c, e, learner, false, &own, &found_own));
    WEFT_TRY(check_known(c, e));
    e->restored = alike > 0 ? found_alike > 0 : found_own > 0;
    if (alike + own > found_alike + found_own && learner == 0)
        weft_log(context, WEFT_LOG_NOTE, "%s: has no state of exchange %s, which begins anew",
                 c->path, e->ops->name);
    return WEFT_OK;
}
