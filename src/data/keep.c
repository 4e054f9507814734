/* Keeps data sets open for all users of a context, so that runs which are compared read their data
 * once. */
#include "data/data.h"

typedef struct kept {
    struct kept *next;
    char *spec, *normalize, *validation;
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

/* With the lock. A source uses its context until it is closed, so it gets the owner. */
static weft_status find_or_open(data_cache *k, const char *spec, const char *normalize,
                                const weft_source_request *request, weft_dataset **out)
{
    const char *held = request->validation;
    kept *x = k->first;
    while (x && !(is_same(x->spec, spec) && is_same(x->normalize, normalize) &&
                  is_same(x->validation, held) && (!held || x->seed == request->seed)))
        x = x->next;
    if (!x) {
        WEFT_TRY(WEFT_NEW(&x, 1));
        weft_status status = weft_strdup(spec, &x->spec);
        if (status == WEFT_OK && normalize) status = weft_strdup(normalize, &x->normalize);
        if (status == WEFT_OK && held) status = weft_strdup(held, &x->validation);
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
    WEFT_TRY(weft_context_singleton(request->context, &cache_kind, &thing));
    data_cache *k = thing;
    pthread_mutex_lock(&k->lock);
    weft_status status = k->keeps ? find_or_open(k, spec, normalize, request, out)
                                  : weft_dataset_open_for(spec, normalize, request, out);
    pthread_mutex_unlock(&k->lock);
    return status;
}
