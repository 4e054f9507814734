#include "exchange/segments.h"

#include "exchange/ps/ps.h"
#include "optim/optim.h"
#include "program/program.h"

typedef struct tensor {
    int64_t begin;
    const char *name;
    bool idle;
} tensor;

static int by_begin(const void *a, const void *b)
{
    const tensor *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static weft_status list_tensors(const weft_store *store, bool whole, tensor *tensors, int *count)
{
    *count = 0;
    for (int i = 0; i < weft_store_count(store); i++) {
        if (weft_store_kind(store, i) != WEFT_VALUE_PARAM) continue;
        tensor *t = &tensors[(*count)++];
        int64_t elements, start[WEFT_MAX_RANK];
        weft_shape all;
        weft_type part = weft_store_type(store, i);
        t->name = weft_store_name(store, i);
        t->idle = store->schema->entries[i].idle;
        WEFT_TRY(weft_store_range(store, i, &t->begin, &elements));
        weft_store_part(store, i, &all, start);
        if (whole && !weft_shape_equal(&all, &part.shape))
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "the optimizer needs whole tensors, and a rank of this learner has "
                             "only a part of '%s', which the servers update; give a mesh of data "
                             "and domain only",
                             t->name);
    }
    qsort(tensors, (size_t)*count, sizeof(*tensors), by_begin);
    return WEFT_OK;
}

/* Makes a segment of each tensor, or of neighbours with one factor. */
static weft_status join(const tensor *tensors, const double *factors, int count,
                        weft_segment_list *out)
{
    WEFT_TRY(WEFT_NEW(&out->at, count));
    for (int i = 0; i < count; i++) {
        if (!out->whole && out->count && out->at[out->count - 1].factor == factors[i]) continue;
        out->at[out->count++] = (weft_segment){i == 0 ? 0 : tensors[i].begin, factors[i]};
    }
    return WEFT_OK;
}

static weft_status check_servers(const weft_segment_list *list, const char *optimizer, int servers)
{
    if (!list->whole || (int64_t)WEFT_MAX(list->count, (size_t)1) >= servers) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "servers is %d, and with the optimizer '%s', which needs whole tensors, the "
                     "model has only %zu to share out; give --servers %zu or fewer",
                     servers, optimizer, list->count, WEFT_MAX(list->count, (size_t)1));
}

/* Whether there is a parameter without a gradient, as of a layer that no layer reads. Such a one
 * stays as it is. */
static bool has_idle(const weft_store *store)
{
    for (int i = 0; i < weft_store_count(store); i++)
        if (weft_store_kind(store, i) == WEFT_VALUE_PARAM && store->schema->entries[i].idle)
            return true;
    return false;
}

weft_status weft_segments_of(const weft_store *store, const weft_optimizer_options *o, int servers,
                             weft_segment_list *out)
{
    weft_tensor_need need;
    tensor *tensors;
    const char **names = NULL;
    double *factors = NULL;
    int count, most = weft_store_count(store);
    *out = (weft_segment_list){0};
    WEFT_TRY(weft_optimizer_check(store->schema->context, o->name, &need));
    if (need == WEFT_NEEDS_MATRIX)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "the optimizer '%s' needs the rows and columns of whole matrices, and "
                         "this exchange updates flat ranges of the parameters; take an exchange "
                         "whose learners make the update, such as average, or another optimizer",
                         o->name);
    out->whole = need == WEFT_NEEDS_NORM;
    if (!out->whole && !o->multipliers && !o->frozen && !has_idle(store)) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&tensors, most));
    weft_status status = list_tensors(store, out->whole, tensors, &count);
    if (status == WEFT_OK) status = weft_new_bytes((void *)&names, (size_t)most, sizeof(*names));
    if (status == WEFT_OK) status = WEFT_NEW(&factors, most);
    for (int i = 0; i < count && status == WEFT_OK; i++) names[i] = tensors[i].name;
    if (status == WEFT_OK) status = weft_multipliers(o, names, count, false, factors);
    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (tensors[i].idle) factors[i] = 0;
    if (status == WEFT_OK) status = join(tensors, factors, count, out);
    if (status == WEFT_OK) status = check_servers(out, o->name, servers);
    if (status != WEFT_OK) {
        free(out->at);
        *out = (weft_segment_list){0};
    }
    free(tensors);
    free((void *)names);
    free(factors);
    return status;
}

int weft_segments_ranges(weft_segment_list list, int64_t count, weft_dtype dtype, int servers)
{
    int ranges = weft_server_ranges(count, dtype, servers);
    if (!list.whole || list.count >= (size_t)ranges) return ranges;
    return servers * WEFT_MAX((int)list.count / servers, 1);
}

bool weft_segments_frozen(weft_segment_list list, int64_t begin, int64_t end)
{
    for (size_t i = 0; i < list.count; i++) {
        int64_t last = i + 1 < list.count ? list.at[i + 1].begin : INT64_MAX;
        if (list.at[i].factor != 0 && list.at[i].begin < end && last > begin) return false;
    }
    return list.count > 0;
}

/* With rules by tensor, a range begins with the tensor that is nearest to parts of equal size. */
int64_t weft_segments_cut(weft_segment_list list, int64_t count, int range, int ranges)
{
    size_t at = 0;
    if (!list.whole || list.count == 0 || range == 0 || range == ranges)
        return weft_part_start(count, range, ranges);
    for (int k = 1; k <= range; k++) {
        int64_t ideal = weft_part_start(count, k, ranges);
        size_t last = list.count - (size_t)(ranges - k);
        at++;
        while (at < last && llabs(list.at[at + 1].begin - ideal) < llabs(list.at[at].begin - ideal))
            at++;
    }
    return list.at[at].begin;
}
