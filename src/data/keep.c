/* Keeps data sets open for all users of a context, so that runs which are compared read their data
 * once. */
#include "data/data.h"

typedef struct kept {
    struct kept *next;
    char *spec, *normalize, *validation, *augment, *class_weights;
    uint64_t seed;
    weft_dataset *data;
} kept;

typedef struct data_cache {
    weft_context *context; /* the owner, which outlives contexts with threads of their own */
    pthread_mutex_t lock;
    bool keeps; /* weft_dataset_keep was called */
    kept *first;
} data_cache;

static weft_status make_cache(weft_context *context, void **out)
{
    data_cache *k;
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->context = context;
    pthread_mutex_init(&k->lock, NULL);
    *out = k;
    return WEFT_OK;
}

static void free_kept(kept *x)
{
    if (x->data) x->data->kept = false;
    weft_dataset_close(&x->data);
    free(x->spec);
    free(x->normalize);
    free(x->validation);
    free(x->augment);
    free(x->class_weights);
    free(x);
}

static void destroy_cache(void *thing)
{
    data_cache *k = thing;
    for (kept *x = k->first, *next; x; x = next) {
        next = x->next;
        free_kept(x);
    }
    pthread_mutex_destroy(&k->lock);
    free(k);
}

static const weft_singleton_kind cache_kind = {make_cache, destroy_cache};

weft_status weft_dataset_keep(weft_context *context)
{
    void *thing;
    WEFT_NEED(context);
    WEFT_TRY(weft_context_singleton(context, &cache_kind, &thing));
    data_cache *k = thing;
    pthread_mutex_lock(&k->lock);
    k->keeps = true;
    pthread_mutex_unlock(&k->lock);
    return WEFT_OK;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Runs may be under way at the same time, so a data set has the settings of all its users. */
static bool serves(const kept *x, const char *spec, const char *normalize,
                   const weft_source_request *r)
{
    return is_same(x->spec, spec) && is_same(x->normalize, normalize) &&
           is_same(x->validation, r->validation) && (!r->validation || x->seed == r->seed) &&
           is_same(x->augment, r->augment) && is_same(x->class_weights, r->class_weights);
}

static weft_status copy_of(const char *text, char **out)
{
    return text ? weft_strdup(text, out) : WEFT_OK;
}

/* With the lock. A source uses its context until it is closed, so it gets the owner. */
static weft_status find_or_open(data_cache *k, const char *spec, const char *normalize,
                                const weft_source_request *request, weft_dataset **out)
{
    kept *x = k->first;
    while (x && !serves(x, spec, normalize, request)) x = x->next;
    if (!x) {
        WEFT_TRY(WEFT_NEW(&x, 1));
        weft_status status = weft_strdup(spec, &x->spec);
        if (status == WEFT_OK) status = copy_of(normalize, &x->normalize);
        if (status == WEFT_OK) status = copy_of(request->validation, &x->validation);
        if (status == WEFT_OK) status = copy_of(request->augment, &x->augment);
        if (status == WEFT_OK) status = copy_of(request->class_weights, &x->class_weights);
        weft_source_request own = *request;
        own.context = k->context;
        x->seed = request->seed;
        if (status == WEFT_OK) status = weft_dataset_open_for(spec, normalize, &own, &x->data);
        if (status != WEFT_OK) {
            free_kept(x);
            return status;
        }
        x->data->kept = true;
        x->next = k->first;
        k->first = x;
    }
    *out = x->data;
    return WEFT_OK;
}

weft_status weft_dataset_open_kept(const char *spec, const char *normalize,
                                   const weft_source_request *request, weft_dataset **out)
{
    void *thing;
    if (request->validation && !*request->validation)
        return weft_fail(WEFT_ERR_ARGUMENT, "validation is empty; give a share such as 0.1, or the "
                                            "specification of other data");
    if (request->stats) return weft_dataset_open_for(spec, normalize, request, out);
    WEFT_TRY(weft_context_singleton(request->context, &cache_kind, &thing));
    data_cache *k = thing;
    pthread_mutex_lock(&k->lock);
    weft_status status = k->keeps ? find_or_open(k, spec, normalize, request, out)
                                  : weft_dataset_open_for(spec, normalize, request, out);
    pthread_mutex_unlock(&k->lock);
    return status;
}
