/* Loads parameters and optimizer state of a checkpoint into the store of a rank. The checkpoint has
 * whole tensors; a rank of a mesh copies its part of each, so a run may resume on another mesh. */
#include <math.h>
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "formats/formats.h"
#include "optim/optim.h"

/* Finds a tensor by its name (prefix NULL) or by "PREFIX/name"; returns NULL if there is none. */
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

/* Whether a tensor in the file can be loaded: weights and state in bf16 are those of a run that
 * keeps them so, of which f32 loads the numbers, and which rounds those in f32. */
static bool loads(weft_dtype file, weft_dtype want)
{
    return file == want || (file == WEFT_F32 && want == WEFT_BF16) ||
           (file == WEFT_BF16 && want == WEFT_F32);
}

/* Whether a tensor of the checkpoint (NULL: it has none) is what the model needs. */
static weft_status check_fit(const weft_checkpoint *c, const weft_tensor *t, const char *name,
                             bool param, weft_type type)
{
    weft_dtype dtype;
    char have[128], want[128];
    const char *optimizer = weft_settings_find(&c->settings, "optimizer"); /* exported: NULL */
    if (!t)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: has no %s '%s', which this model and optimizer need; it is a checkpoint of "
            "another model (%s%s%s)",
            c->path, param ? "parameter" : "state", name, weft_settings_find(&c->settings, "model"),
            optimizer ? ", " : "", optimizer ? optimizer : "");
    if (weft_safetensors_real(t->dtype, &dtype) && loads(dtype, type.dtype) &&
        weft_shape_equal(&t->shape, &type.shape))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: '%s' is %s%s, this model needs %s%s; it is a checkpoint of another model "
                     "(%s)",
                     c->path, name, t->dtype, weft_shape_text(&t->shape, have, sizeof(have)),
                     weft_safetensors_dtype(type.dtype),
                     weft_shape_text(&type.shape, want, sizeof(want)),
                     weft_settings_find(&c->settings, "model"));
}

/* Replaces numbers by the same ones in another type. */
static weft_status convert(const weft_type *from, weft_dtype to, void **data)
{
    void *made;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&(weft_type){to, from->shape}), &made));
    weft_numbers_cast(from->dtype, *data, to, made, weft_shape_elements(&from->shape));
    free(*data);
    *data = made;
    return WEFT_OK;
}

/* Copies the part that the store has of its tensor i to *out, which the caller frees. The arguments
 * are those of weft_checkpoint_load_one. */
static weft_status read_part(const weft_checkpoint *c, const weft_store *store, int i, int file,
                             const char *prefix, void **out)
{
    const char *name = weft_store_name(store, i);
    weft_type type = weft_store_type(store, i), whole = type;
    int64_t start[WEFT_MAX_RANK];
    weft_store_part(store, i, &whole.shape, start);
    bool param = weft_store_kind(store, i) == WEFT_VALUE_PARAM;
    if (!prefix) file = param || c->exported ? WEFT_PARAMETERS_FILE : WEFT_STATE_FILE;
    const weft_tensor *t = find(&c->tensors[file], prefix, name);
    /* Older checkpoints do not store how many updates the moments have had; the step of the run
     * takes its place. */
    if (!t && weft_store_role(store, i) == WEFT_ROLE_OPTIMIZER && type.dtype == WEFT_I32)
        t = find(&c->tensors[file], prefix, "step");
    /* An average that the run had not yet begins at the parameter. */
    if (!t && weft_store_role(store, i) == WEFT_ROLE_AVERAGE)
        t = find(&c->tensors[prefix ? file : WEFT_PARAMETERS_FILE], prefix,
                 name + strlen(WEFT_AVERAGE_PREFIX));
    WEFT_TRY(check_fit(c, t, name, param, whole));
    /* The part is copied first, since the file may not have it aligned as the device requires. */
    weft_dtype wanted = type.dtype;
    (void)weft_safetensors_real(t->dtype, &type.dtype);
    whole.dtype = type.dtype;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), out));
    weft_copy_part(&whole, start, &type.shape, (void *)(uintptr_t)t->data, *out, true);
    return wanted == type.dtype ? WEFT_OK : convert(&type, wanted, out);
}

weft_status weft_checkpoint_load_one(const weft_checkpoint *c, weft_store *store, int i, int file,
                                     const char *prefix)
{
    void *copy;
    weft_role role = weft_store_role(store, i);
    if (role == WEFT_ROLE_SUM) return WEFT_OK;
    /* A run whose schedule is another one begins with no measurement, and one whose states had not
     * carried over with zeros. */
    if ((role == WEFT_ROLE_SCHEDULE || role == WEFT_ROLE_CARRIED) && !prefix &&
        !weft_safetensors_find(&c->tensors[WEFT_STATE_FILE], weft_store_name(store, i)))
        return WEFT_OK;
    /* Averages that begin have no updates yet. */
    if (role == WEFT_ROLE_AVERAGE && !weft_dtype_is_float(weft_store_type(store, i).dtype) &&
        !find(&c->tensors[prefix ? file : WEFT_STATE_FILE], prefix, weft_store_name(store, i)))
        return WEFT_OK;
    WEFT_TRY(read_part(c, store, i, file, prefix, &copy));
    weft_status status = weft_store_write(store, i, copy);
    free(copy);
    return status;
}

/* A parameter that the checkpoint has and the model lacks shows that the models differ. */
static weft_status fail_surplus(const weft_checkpoint *c, const char *name)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: holds parameter '%s', which this model has not; it is a checkpoint of "
                     "another model (%s)",
                     c->path, name, weft_settings_find(&c->settings, "model"));
}

/* Loads all tensors of the store except those that have the role `skip`. */
static weft_status load_all(const weft_checkpoint *c, weft_store *store, const weft_graph *graph,
                            weft_role skip)
{
    for (size_t i = 0; i < c->tensors[0].count; i++) {
        const char *name = c->tensors[0].tensors[i].name;
        if (graph ? weft_graph_find(graph, name) == WEFT_NO_VALUE
                  : weft_store_find(store, name) < 0)
            return fail_surplus(c, name);
    }
    for (int i = 0; i < weft_store_count(store); i++)
        if (weft_store_role(store, i) != skip)
            WEFT_TRY(weft_checkpoint_load_one(c, store, i, 0, NULL));
    return WEFT_OK;
}

weft_status weft_checkpoint_load(const weft_checkpoint *c, weft_store *store,
                                 const weft_graph *graph)
{
    return load_all(c, store, graph, WEFT_ROLE_SUM);
}

/* Tensors of a file lie at any address. */
static bool is_finite(weft_dtype dtype, const weft_tensor *t)
{
    size_t size = weft_dtype_size(dtype);
    double number;
    for (int64_t i = 0; i < weft_shape_elements(&t->shape); i++) {
        memcpy(&number, (const char *)t->data + (size_t)i * size, size);
        if (!isfinite(weft_number_get(dtype, &number, 0))) return false;
    }
    return true;
}

weft_status weft_checkpoint_check_leaves(const weft_checkpoint *c, const weft_graph *graph)
{
    for (size_t i = 0; i < c->tensors[0].count; i++)
        if (weft_graph_find(graph, c->tensors[0].tensors[i].name) == WEFT_NO_VALUE)
            return fail_surplus(c, c->tensors[0].tensors[i].name);
    for (weft_value v = 0; v < weft_graph_value_count(graph); v++) {
        weft_value_kind kind = weft_graph_value_kind(graph, v);
        bool param = kind == WEFT_VALUE_PARAM;
        const char *name = weft_graph_value_name(graph, v);
        weft_type type = weft_graph_value_type(graph, v);
        if ((!param && kind != WEFT_VALUE_STATE) ||
            weft_graph_role(graph, v, NULL) == WEFT_ROLE_SUM)
            continue;
        int file = param || c->exported ? WEFT_PARAMETERS_FILE : WEFT_STATE_FILE;
        const weft_tensor *t = find(&c->tensors[file], NULL, name);
        WEFT_TRY(check_fit(c, t, name, param, type));
        (void)weft_safetensors_real(t->dtype, &type.dtype);
        if (!is_finite(type.dtype, t))
            return weft_fail(WEFT_ERR_NUMERIC,
                             "%s: '%s' holds a number that is not finite; nothing is written",
                             c->path, name);
    }
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

/* --- learners that differ --- */

/* The prefix of learner k, not the first, in the learners' file. */
static const char *prefix_of(int k, char room[16])
{
    (void)snprintf(room, 16, "%d", k);
    return room;
}

int weft_checkpoint_differing(const weft_checkpoint *c)
{
    const weft_safetensors *first = &c->tensors[WEFT_PARAMETERS_FILE];
    char prefix[16];
    bool differ = false;
    int k = 1;
    for (; weft_checkpoint_knows(c, WEFT_LEARNERS_FILE, prefix_of(k, prefix)); k++)
        for (size_t i = 0; i < first->count && !differ; i++) {
            const weft_tensor *a = &first->tensors[i];
            const weft_tensor *b = find(&c->tensors[WEFT_LEARNERS_FILE], prefix, a->name);
            differ = b && (a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0);
        }
    return differ ? k : 1;
}

/* Loads the mean of tensor i over all learners of the checkpoint. A running mean gives the same
 * bits where all numbers are equal. */
static weft_status load_mean(const weft_checkpoint *c, weft_store *store, int i, int learners)
{
    weft_type type = weft_store_type(store, i);
    void *mean, *own;
    char prefix[16];
    WEFT_TRY(read_part(c, store, i, 0, NULL, &mean));
    weft_status status = WEFT_OK;
    for (int k = 1; k < learners && status == WEFT_OK; k++) {
        status = read_part(c, store, i, WEFT_LEARNERS_FILE, prefix_of(k, prefix), &own);
        if (status != WEFT_OK) break;
        for (int64_t n = 0; n < weft_shape_elements(&type.shape); n++) {
            double m = weft_number_get(type.dtype, mean, n);
            weft_number_put(type.dtype, mean, n,
                            m + (weft_number_get(type.dtype, own, n) - m) / (k + 1));
        }
        free(own);
    }
    if (status == WEFT_OK) status = weft_store_write(store, i, mean);
    free(mean);
    return status;
}

/* --- optimizer state --- */

/* The name of the first optimizer state of a parameter (a moment) that the graph needs and the
 * checkpoint lacks; NULL: the checkpoint has all. The search goes through the graph of the whole
 * model, not through the store of a rank, so all ranks agree. */
static const char *find_missing(const weft_checkpoint *c, const weft_graph *graph)
{
    for (weft_value v = 0; v < weft_graph_value_count(graph); v++) {
        const char *name = weft_graph_value_name(graph, v);
        weft_value of = WEFT_NO_VALUE;
        bool moment = weft_graph_value_kind(graph, v) == WEFT_VALUE_STATE &&
                      weft_graph_role(graph, v, &of) == WEFT_ROLE_OPTIMIZER;
        if (moment && of != WEFT_NO_VALUE &&
            !weft_safetensors_find(&c->tensors[WEFT_STATE_FILE], name))
            return name;
    }
    return NULL;
}

/* Whether the name is that of the optimizer state of a parameter, such as fc1/weight/m. */
static bool is_of_parameter(const weft_checkpoint *c, const char *name)
{
    const char *slash = strrchr(name, '/');
    size_t size = slash ? (size_t)(slash - name) : 0;
    for (size_t i = 0; i < c->tensors[WEFT_PARAMETERS_FILE].count; i++) {
        const char *parameter = c->tensors[WEFT_PARAMETERS_FILE].tensors[i].name;
        if (strlen(parameter) == size && strncmp(parameter, name, size) == 0) return size > 0;
    }
    return false;
}

/* The options that the checkpoint's run had and this run has not; if the same options need other
 * state, as with another number of learners, those of optimizer and exchange. */
static weft_status options_then(const weft_checkpoint *c, char **out)
{
    const char *exchange = weft_settings_find(&c->settings, "exchange");
    if (c->changed) return weft_strdup(c->changed, out);
    return weft_format(out, "--optimizer %s%s%s", weft_settings_find(&c->settings, "optimizer"),
                       exchange ? ", --exchange " : "", exchange ? exchange : "");
}

static weft_status refuse_missing(const weft_checkpoint *c, const char *name)
{
    char *then;
    WEFT_TRY(options_then(c, &then));
    weft_status status = weft_fail(
        WEFT_ERR_ARGUMENT,
        "%s: has no state '%s' of the optimizer: its run had %s; go on with the same, %sor add "
        "--drop-state to begin with new optimizer state",
        c->path, name, then,
        weft_settings_find(&c->settings, "exchange") ? "and with two learners or more, " : "");
    free(then);
    return status;
}

static weft_status refuse_surplus(const weft_checkpoint *c, const char *name)
{
    char *then;
    WEFT_TRY(options_then(c, &then));
    weft_status status = weft_fail(WEFT_ERR_ARGUMENT,
                                   "%s: has the state '%s', for which this run has no place: its "
                                   "run had %s; go on with the same, or add --drop-state to go on "
                                   "without it",
                                   c->path, name, then);
    free(then);
    return status;
}

/* Whether the name is that of optimizer state of all parameters, such as the age of the moments
 * (weft_rule_shared). */
static bool is_of_all(const char *name)
{
    return strncmp(name, "moments/", strlen("moments/")) == 0;
}

/* Records state of a file that no leaf of the graph takes as dropped or, with dropped NULL (no
 * --drop-state), refuses it. In the learners' file, tensor names begin with the number of the
 * learner. all: none of the checkpoint's optimizer state was loaded, so all of it is left out. */
static weft_status leave_out(const weft_checkpoint *c, const weft_graph *graph, int file, bool all,
                             weft_dropped *dropped)
{
    for (size_t i = 0; i < c->tensors[file].count; i++) {
        const char *name = c->tensors[file].tensors[i].name;
        if (file == WEFT_LEARNERS_FILE) name += strcspn(name, "/") + (strchr(name, '/') != NULL);
        bool own = is_of_parameter(c, name) || is_of_all(name);
        char *what;
        if (!(all && own) && weft_graph_find(graph, name) != WEFT_NO_VALUE) continue;
        if (!dropped) return refuse_surplus(c, name);
        WEFT_TRY(own ? weft_format(&what, "the state of --optimizer %s",
                                   weft_settings_find(&c->settings, "optimizer"))
                     : weft_format(&what, "the state '%s'", name));
        weft_status status = weft_dropped_add(dropped, what, name);
        free(what);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

weft_status weft_checkpoint_load_learner(const weft_checkpoint *c, weft_store *store,
                                         const weft_graph *graph, int learner, bool merges,
                                         weft_dropped *dropped)
{
    char prefix[16];
    const char *missing = find_missing(c, graph);
    weft_role skip = missing ? WEFT_ROLE_OPTIMIZER : WEFT_ROLE_SUM;
    int learners = merges ? weft_checkpoint_differing(c) : 0;
    if (missing && !dropped) return refuse_missing(c, missing);
    WEFT_TRY(load_all(c, store, graph, skip));
    WEFT_TRY(leave_out(c, graph, WEFT_STATE_FILE, missing, dropped));
    WEFT_TRY(leave_out(c, graph, WEFT_LEARNERS_FILE, missing, dropped));
    (void)prefix_of(learner, prefix);
    if (!merges && (learner == 0 || !weft_checkpoint_knows(c, WEFT_LEARNERS_FILE, prefix)))
        return WEFT_OK;
    /* The counters that were loaded above, those of the first learner, stay, so that all learners
     * continue at its step. */
    for (int i = 0; i < weft_store_count(store); i++) {
        weft_role role = weft_store_role(store, i);
        if (role == WEFT_ROLE_COUNTER || role == WEFT_ROLE_SCHEDULE || role == WEFT_ROLE_SUM ||
            role == skip)
            continue;
        if (!merges)
            WEFT_TRY(weft_checkpoint_load_one(c, store, i, WEFT_LEARNERS_FILE, prefix));
        else if (weft_dtype_is_float(weft_store_type(store, i).dtype))
            WEFT_TRY(load_mean(c, store, i, learners));
    }
    return WEFT_OK;
}
