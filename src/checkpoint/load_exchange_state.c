/* Loads the state of an exchange (residuals, server moments, clocks) from a checkpoint, by the
 * names that save.c gives. When the number of learners or the exchange's options have changed,
 * additive state, such as residuals, is redistributed over the learners. */
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

/* The name that a state of this learner has in the checkpoint: "LEARNER/STATE". The first learner's
 * states, and states that are equal in all learners (`alike`), have no number. */
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

/* Copies all parameters, in their layout, from the store to `aside` (out) or back. */
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

/* Loads a state that has the layout of the parameters: it is loaded into the parameters of the
 * store, tensor by tensor, and copied from there; then the parameters are restored. */
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

/* ARGUMENT: the tensor in the checkpoint has another type. */
static weft_status check_type(const weft_checkpoint *c, const weft_exchange_state *s, int learner)
{
    char place[96];
    const weft_tensor *t = weft_safetensors_find(&c->tensors[WEFT_EXCHANGE_FILE],
                                                 place_of(s, learner, place, sizeof(place)));
    const char *want = weft_safetensors_dtype(s->type.dtype);
    char have[128], shape[128];
    if (strcmp(t->dtype, want) != 0 || !weft_shape_equal(&t->shape, &s->type.shape))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the exchange's state '%s' is %s%s, this exchange needs %s%s", c->path,
                         place, t->dtype, weft_shape_text(&t->shape, have, sizeof(have)), want,
                         weft_shape_text(&s->type.shape, shape, sizeof(shape)));
    return WEFT_OK;
}

static weft_status load_state(const weft_checkpoint *c, weft_exchange *e,
                              const weft_exchange_state *s, int learner)
{
    char place[96];
    (void)place_of(s, learner, place, sizeof(place));
    if (s->like_parameters) return load_like_parameters(c, e->setup.store, s, place);
    WEFT_TRY(check_type(c, s, learner));
    memcpy(s->data, weft_safetensors_find(&c->tensors[WEFT_EXCHANGE_FILE], place)->data, s->bytes);
    return WEFT_OK;
}

/* The largest learner number that a tensor of the exchange file has in its name; 0: none has. */
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

/* Adds to state `s` of this learner the same state of learner `other`, which the checkpoint has and
 * the resumed run has not. */
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

/* Redistributes an additive state, such as a residual, when the number of learners or the options
 * of the exchange have changed, so that the sum that reaches the parameters is unchanged. Learner k
 * gets the states of the removed learners k + learners, k + 2 * learners, ... If the mean of
 * several updates is applied, before or now, the state is then scaled by the new over the old
 * number of these. A checkpoint that has neither the number of learners nor the state of more than
 * one may be of any number: the state is left as it is. */
static weft_status share_again(const weft_checkpoint *c, weft_exchange *e,
                               const weft_exchange_state *s, int learner)
{
    int learners = e->setup.endpoint->learners;
    int before = c->learners > 0 ? c->learners : most_learner(c) + 1;
    double now = e->ops->life.averages ? e->ops->life.averages(e, learners) : 1, then;
    weft_dtype dtype;
    size_t bytes;
    void *parameters;
    bool unknown = c->learners == 0 && before == 1;
    if (!s->adds || s->alike || unknown) return WEFT_OK;
    WEFT_TRY(weft_exchange_averages(e->setup.context, weft_settings_find(&c->settings, "exchange"),
                                    before, &then));
    WEFT_TRY(weft_store_map(e->setup.store, WEFT_ALL_PARAMETERS, &dtype, &parameters, &bytes));
    weft_store_unmap_read(e->setup.store, parameters);
    for (int k = learner + learners; k < before; k += learners)
        if (has(c, s, k)) WEFT_TRY(add_other(c, e, s, dtype, k));
    if (now == then) return WEFT_OK;
    for (size_t n = 0; n < s->bytes / weft_dtype_size(dtype); n++)
        weft_number_put(dtype, s->data, (int64_t)n,
                        now / then * weft_number_get(dtype, s->data, (int64_t)n));
    return WEFT_OK;
}

/* A group of the exchange's states: those that are equal in all learners (alike), or those that
 * each learner has for itself. Either all states of a group are loaded, or none. */
typedef struct group {
    bool alike;
    bool left_out;    /* not loaded: the states do not fit, or another exchange wrote them */
    int count, found; /* states that the exchange has; how many of them the checkpoint has */
} group;

/* Counts the states of a group that the exchange has and that the checkpoint has. ARGUMENT: the
 * checkpoint has only some of them, or one has another type. */
static weft_status look_at(const weft_checkpoint *c, weft_exchange *e, int learner, group *g)
{
    weft_exchange_state s;
    const char *there = NULL, *missing = NULL;
    for (int i = 0; weft_exchange_state_at(e, i, &s); i++) {
        if (s.alike != g->alike) continue;
        if (s.like_parameters && s.bytes == 0) continue; /* an empty state is not written */
        bool known = has(c, &s, learner);
        if (s.found) *s.found = known;
        if (s.found && !known) continue;
        *(known ? &there : &missing) = s.name;
        g->count++;
        g->found += known;
        if (known && !s.like_parameters) WEFT_TRY(check_type(c, &s, learner));
    }
    if (!there || !missing) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has the state '%s' of exchange %s but not '%s', which belongs to it; the "
                     "checkpoint is incomplete, or of another version or other options",
                     c->path, there, e->ops->name, missing);
}

/* Whether the run that wrote the checkpoint had this exchange. State of another exchange is not
 * loaded even under the same name, since it may mean something else: one exchange's residual is of
 * gradients, another's of parameters. */
static bool is_writer(const weft_checkpoint *c, const weft_exchange *e)
{
    const char *spec = weft_settings_find(&c->settings, "exchange");
    size_t size = spec ? strcspn(spec, ":") : 0;
    return size == strlen(e->ops->name) && strncmp(spec, e->ops->name, size) == 0;
}

static weft_status load_group(const weft_checkpoint *c, weft_exchange *e, int learner, group *g,
                              bool drops)
{
    weft_exchange_state s;
    weft_status status = look_at(c, e, learner, g);
    g->left_out = !is_writer(c, e) || (status == WEFT_ERR_ARGUMENT && drops);
    if (status == WEFT_ERR_ARGUMENT && !g->left_out)
        return weft_fail(status, "%s; add --drop-state to start without it", weft_last_message());
    if (!g->left_out) WEFT_TRY(status);
    for (int i = 0; weft_exchange_state_at(e, i, &s); i++) {
        if (s.alike != g->alike) continue;
        if (g->left_out && s.found) *s.found = false;
        if (g->left_out || (s.found && !*s.found)) continue;
        if (g->found > 0) WEFT_TRY(load_state(c, e, &s, learner));
        WEFT_TRY(share_again(c, e, &s, learner));
    }
    if (g->left_out) g->found = 0;
    return WEFT_OK;
}

/* The tensor name without the number of a learner. */
static const char *without_learner(const char *name)
{
    const char *from = name + strspn(name, "0123456789");
    return from > name && *from == '/' ? from + 1 : name;
}

static bool is_of(const char *name, const char *state)
{
    size_t size = strlen(state);
    return strncmp(name, state, size) == 0 && (name[size] == '/' || !name[size]);
}

/* Whether the tensor belongs to a state that was loaded. groups[0] has the states that are equal in
 * all learners, groups[1] the others. */
static bool is_taken(weft_exchange *e, const group groups[2], const char *name)
{
    weft_exchange_state s;
    for (int i = 0; e && weft_exchange_state_at(e, i, &s); i++)
        if (is_of(name, s.name)) return !groups[s.alike ? 0 : 1].left_out;
    return false;
}

static weft_status leave_out(const weft_checkpoint *c, const char *name, weft_dropped *dropped)
{
    char *what;
    const char *exchange = weft_settings_find(&c->settings, "exchange");
    for (size_t i = 0; i < c->word_count; i++)
        if (is_of(name, c->words[i].name)) return weft_dropped_add(dropped, c->words[i].what, name);
    WEFT_TRY(weft_format(&what, "'%.*s' of --exchange %s", (int)strcspn(name, "/"), name,
                         exchange ? exchange : "none"));
    weft_status status = weft_dropped_add(dropped, what, name);
    free(what);
    return status;
}

/* Handles tensors of the checkpoint's exchange file that this exchange has not loaded, such as
 * residuals of another codec: records them as dropped or, with dropped NULL, refuses to resume,
 * because they would be lost. */
static weft_status check_taken(const weft_checkpoint *c, weft_exchange *e, const group groups[2],
                               weft_dropped *dropped)
{
    const weft_safetensors *all = &c->tensors[WEFT_EXCHANGE_FILE];
    const char *codec = weft_settings_find(&c->settings, "compress");
    for (size_t i = 0; i < all->count; i++) {
        const char *name = without_learner(all->tensors[i].name);
        if (is_taken(e, groups, name)) continue;
        if (!dropped)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: has the state '%s' of --exchange %s%s%s, which this run would "
                             "lose; go on with these, or add --drop-state to go on without it",
                             c->path, all->tensors[i].name,
                             weft_settings_find(&c->settings, "exchange"),
                             codec ? " --compress " : "", codec ? codec : "");
        WEFT_TRY(leave_out(c, name, dropped));
    }
    return WEFT_OK;
}

/* Adds the description of state i to the text if the checkpoint lacks the state. A description that
 * several states share is added once. */
static void add_absent(weft_exchange *e, const group groups[2], int i, weft_text *text)
{
    weft_exchange_state s, before;
    (void)weft_exchange_state_at(e, i, &s);
    if (groups[s.alike ? 0 : 1].found > 0 || (s.found && !*s.found) ||
        (s.like_parameters && s.bytes == 0))
        return;
    for (int k = 0; s.what && k < i && weft_exchange_state_at(e, k, &before); k++)
        if (before.what && strcmp(before.what, s.what) == 0) return;
    const char *comma = text->size > 0 ? ", " : "";
    if (s.what)
        weft_text_add(text, "%s%s", comma, s.what);
    else
        weft_text_add(text, "%sthe state '%s'", comma, s.name);
}

/* Makes the text that names each state of the exchange that the checkpoint lacks. */
static weft_status list_absent(weft_exchange *e, const group groups[2], char **out)
{
    weft_exchange_state s;
    weft_text text = {0};
    for (int i = 0; weft_exchange_state_at(e, i, &s); i++) add_absent(e, groups, i, &text);
    weft_text_add(&text, ", without which exchange %s starts", e->ops->name);
    return weft_text_take(&text, out);
}

weft_status weft_checkpoint_load_exchange(const weft_checkpoint *c, weft_exchange *e, int learner,
                                          weft_dropped *dropped)
{
    group groups[] = {{.alike = true}, {.alike = false}}, *alike = &groups[0], *own = &groups[1];
    if (!e) return check_taken(c, e, groups, dropped);
    for (int i = 0; i < 2; i++) WEFT_TRY(load_group(c, e, learner, &groups[i], dropped));
    WEFT_TRY(check_taken(c, e, groups, dropped));
    e->restored = alike->count > 0 ? alike->found > 0 : own->found > 0;
    bool anew = alike->count + own->count > alike->found + own->found && learner == 0;
    return anew && dropped ? list_absent(e, groups, &dropped->absent) : WEFT_OK;
}

bool weft_checkpoint_lacks_learners(const weft_checkpoint *c, weft_exchange *e)
{
    weft_exchange_state s;
    for (int i = 0; c->learners > 1 && e && weft_exchange_state_at(e, i, &s); i++)
        if (!s.alike && s.bytes > 0 && has(c, &s, 0) && !has(c, &s, 1)) return true;
    return false;
}
