/* Broadcasts shared parameters inside a learner: the lowest rank with a shard (the leader) sends it
 * to the other ranks with that shard. */
#include "exchange/shared_params.h"

#include "program/program.h"

/* Tags of transfers are below this number, which every MPI allows. */
enum { TAGS = 30000 };

/* The shard of a parameter that a rank has. */
typedef struct holding {
    uint64_t part; /* hash of the tensor's name and of the shard; equal on ranks that share it */
    uint64_t form; /* hash of its memory layout */
    int64_t begin, count; /* elements in WEFT_ALL_PARAMETERS of that rank */
} holding;

struct weft_shared_params {
    weft_comm *learner;
    weft_store *store;
    weft_dtype dtype;
    char *parameters;
    size_t bytes;
    bool apart; /* `parameters` is a buffer, since the host cannot write the store's memory */
    int ranks, me;
    int64_t *counts; /* [ranks]: number of holdings of each rank */
    holding **of;    /* [ranks]: the first holding of each rank, in `all` */
    holding *all;
    int64_t *at; /* [entries of the store]: index among this rank's holdings; -1: no parameter */
    size_t *started; /* [holdings of this rank + 1]: index of the first operation of each */
    weft_operation **operations;
    size_t operation_count, operation_capacity;
    bool leads; /* this rank is the leader of a shard */
};

void weft_shared_params_close(weft_shared_params **copies)
{
    if (!copies || !*copies) return;
    weft_shared_params *c = *copies;
    for (size_t i = 0; i < c->operation_count; i++) weft_operation_destroy(&c->operations[i]);
    free(c->operations);
    free(c->at);
    free(c->started);
    free(c->counts);
    free((void *)c->of);
    free(c->all);
    if (c->apart) free(c->parameters);
    free(c);
    *copies = NULL;
}

bool weft_shared_params_is_leader(const weft_shared_params *copies)
{
    return copies->leads;
}

void *weft_shared_params_parameters(const weft_shared_params *copies)
{
    return copies->parameters;
}

/* --- shards of ranks --- */

static weft_status describe(const weft_store *store, int entry, holding *out)
{
    weft_type type = weft_store_type(store, entry);
    weft_shape shape;
    int64_t start[WEFT_MAX_RANK];
    out->part = weft_hash_text(weft_store_name(store, entry));
    weft_store_part(store, entry, &shape, start);
    for (int d = 0; d < shape.rank; d++) {
        out->part = weft_mix(out->part, (uint64_t)start[d]);
        out->part = weft_mix(out->part, (uint64_t)type.shape.dim[d]);
    }
    if (weft_store_is_spread(store, entry))
        out->part = weft_mix(out->part, 1 + (uint64_t)store->schema->entries[entry].flat_begin);
    out->form = weft_store_form_of(store, entry);
    return weft_store_range(store, entry, &out->begin, &out->count);
}

static weft_status list_own(weft_shared_params *c, holding **out, int64_t *count)
{
    weft_status status = WEFT_OK;
    int n = weft_store_count(c->store);
    *count = 0;
    WEFT_TRY(WEFT_NEW(out, n + 1));
    WEFT_TRY(WEFT_NEW(&c->at, n + 1));
    WEFT_TRY(WEFT_NEW(&c->started, n + 1));
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        c->at[i] = -1;
        if (weft_store_kind(c->store, i) != WEFT_VALUE_PARAM) continue;
        c->at[i] = *count;
        status = describe(c->store, i, &(*out)[(*count)++]);
    }
    return status;
}

static weft_status gather_counts(weft_shared_params *c, const holding *mine, int64_t count)
{
    int64_t sum = 0, *bytes;
    WEFT_TRY(WEFT_NEW(&c->counts, c->ranks));
    WEFT_TRY(WEFT_NEW(&c->of, c->ranks));
    WEFT_TRY(weft_comm_run(c->learner,
                           WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                         .what = "parameter counts of the ranks", .send = &count,
                                         .receive = c->counts, .count = sizeof(count))));
    for (int r = 0; r < c->ranks; r++) sum += c->counts[r];
    WEFT_TRY(WEFT_NEW(&c->all, sum + 1));
    WEFT_TRY(WEFT_NEW(&bytes, c->ranks));
    sum = 0;
    for (int r = 0; r < c->ranks; r++) {
        c->of[r] = c->all + sum;
        sum += c->counts[r];
        bytes[r] = c->counts[r] * (int64_t)sizeof(holding);
    }
    weft_status status =
        weft_comm_run(c->learner, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                                .what = "parameter shards of the ranks",
                                                .send = mine, .receive = c->all, .counts = bytes));
    free(bytes);
    return status;
}

/* Index of the shard `part` among the holdings of rank r; -1: rank r does not have it. */
static int64_t find(const weft_shared_params *c, int r, uint64_t part)
{
    for (int64_t i = 0; i < c->counts[r]; i++)
        if (c->of[r][i].part == part) return i;
    return -1;
}

/* The leader of a shard: the lowest rank that has it. */
static int first_of(const weft_shared_params *c, uint64_t part)
{
    int r = 0;
    while (find(c, r, part) < 0) r++;
    return r;
}

/* --- transfers --- */

static weft_status add(weft_shared_params *c, weft_transfer_kind kind, const holding *h, int peer,
                       int64_t tag)
{
    WEFT_TRY(WEFT_GROW(&c->operations, &c->operation_capacity, c->operation_count));
    void *at = c->parameters + (size_t)h->begin * weft_dtype_size(c->dtype);
    WEFT_TRY(weft_comm_prepare(
        c->learner,
        WEFT_TRANSFER(.kind = kind, .dtype = c->dtype, .what = "parameters shared by ranks",
                      .send = kind == WEFT_SEND ? at : NULL,
                      .receive = kind == WEFT_RECEIVE ? at : NULL, .count = h->count, .peer = peer,
                      .tag = (int)(tag % TAGS), .unlimited = kind == WEFT_RECEIVE),
        &c->operations[c->operation_count]));
    c->operation_count++;
    return WEFT_OK;
}

static bool is_laid_alike(const holding *a, const holding *b)
{
    return a->count == b->count && a->form == b->form;
}

static weft_status prepare(weft_shared_params *c, int64_t i)
{
    const holding *mine = &c->of[c->me][i];
    int first = first_of(c, mine->part);
    c->leads = c->leads || first == c->me;
    for (int r = first; r < c->ranks; r++) {
        int64_t there = find(c, r, mine->part), tag = find(c, first, mine->part);
        if (there < 0 || r == first || (first != c->me && r != c->me)) continue;
        const holding *other = first == c->me ? &c->of[r][there] : &c->of[first][tag];
        if (!is_laid_alike(mine, other))
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "the devices of ranks %d and %d of a learner have different memory "
                             "layouts for the same parameter; give both the same --device",
                             first, r);
        WEFT_TRY(first == c->me ? add(c, WEFT_SEND, mine, r, tag)
                                : add(c, WEFT_RECEIVE, mine, first, tag));
    }
    return WEFT_OK;
}

bool weft_shared_params_is_leader_with(const weft_shared_params *c, int64_t parameter)
{
    return parameter < c->counts[c->me] && first_of(c, c->of[c->me][parameter].part) == c->me;
}

bool weft_shared_params_are_unsharded(const weft_shared_params *c)
{
    for (int r = 1; r < c->ranks; r++)
        for (int64_t i = 0; i < c->counts[r]; i++)
            if (first_of(c, c->of[r][i].part) != 0) return false;
    return true;
}

static weft_status find_parameters(weft_shared_params *c)
{
    void *data;
    WEFT_TRY(weft_store_map(c->store, WEFT_ALL_PARAMETERS, &c->dtype, &data, &c->bytes));
    weft_store_unmap_read(c->store, data);
    c->apart = !weft_device_shares(schema_store_device(c->store->schema));
    if (c->apart) return weft_new_aligned(c->bytes, &c->parameters);
    c->parameters = data;
    return WEFT_OK;
}

/* Lists the shards of all ranks. */
static weft_status list_all(weft_comm *learner, weft_store *store, weft_shared_params **out)
{
    weft_shared_params *c;
    holding *mine = NULL;
    int64_t count = 0;
    WEFT_TRY(WEFT_NEW(&c, 1));
    *c = (weft_shared_params){.learner = learner,
                              .store = store,
                              .ranks = weft_comm_size(learner),
                              .me = weft_comm_rank(learner)};
    *out = c;
    weft_status status = list_own(c, &mine, &count);
    if (status == WEFT_OK) status = gather_counts(c, mine, count);
    free(mine);
    return status;
}

weft_status weft_exchange_ranks_differ(weft_comm *learner, weft_store *store, bool *out)
{
    weft_shared_params *c = NULL;
    weft_status status = list_all(learner, store, &c);
    *out = false;
    for (int r = 0; status == WEFT_OK && r < c->ranks; r++)
        for (int64_t i = 0; i < c->counts[c->me]; i++) {
            const holding *mine = &c->of[c->me][i];
            int64_t there = find(c, r, mine->part);
            *out = *out || (there >= 0 && !is_laid_alike(mine, &c->of[r][there]));
        }
    weft_shared_params_close(&c);
    return status;
}

weft_status weft_shared_params_open(weft_comm *learner, weft_store *store, weft_shared_params **out)
{
    weft_shared_params *c = NULL;
    weft_status status = list_all(learner, store, &c);
    if (status == WEFT_OK) status = find_parameters(c);
    int64_t count = status == WEFT_OK ? c->counts[c->me] : 0;
    for (int64_t i = 0; i < count && status == WEFT_OK; i++) {
        c->started[i] = c->operation_count;
        status = prepare(c, i);
    }
    if (status == WEFT_OK) c->started[count] = c->operation_count;
    if (status == WEFT_OK)
        *out = c;
    else
        weft_shared_params_close(&c);
    return status;
}

static weft_status copy(const weft_shared_params *c, bool in)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(c->store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    if (c->apart) memcpy(in ? data : c->parameters, in ? c->parameters : data, bytes);
    if (in) return weft_store_unmap(c->store, WEFT_ALL_PARAMETERS, data);
    weft_store_unmap_read(c->store, data);
    return WEFT_OK;
}

weft_status weft_shared_params_read(const weft_shared_params *c)
{
    return copy(c, false);
}

static weft_status send_some(const weft_shared_params *c, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) WEFT_TRY(weft_operation_start(c->operations[i]));
    for (size_t i = from; i < to; i++) WEFT_TRY(weft_operation_wait(c->operations[i]));
    return WEFT_OK;
}

weft_status weft_shared_params_write(const weft_shared_params *c)
{
    WEFT_TRY(send_some(c, 0, c->operation_count));
    return copy(c, true);
}

/* --- parameter by parameter --- */

static bool shares_with(const weft_shared_params *c, int r)
{
    for (int64_t i = 0; i < c->counts[c->me]; i++)
        if (find(c, r, c->of[c->me][i].part) >= 0) return true;
    return false;
}

/* A rank takes part in the broadcast of a shared parameter when its program reads that parameter.
 * So ranks that share parameters must read them in the same order, or they would wait for each
 * other. */
weft_status weft_shared_params_follow(weft_shared_params *c, const weft_program *program, bool *can)
{
    uint64_t mine = 0, *all;
    double differ = 0;
    weft_reading r;
    for (int i = 0; weft_program_reading(program, i, &r); i++)
        mine = weft_mix(mine, weft_hash_text(r.name));
    WEFT_TRY(WEFT_NEW(&all, c->ranks));
    weft_status status = weft_comm_run(
        c->learner, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                  .what = "order of parameter reads", .send = &mine, .receive = all,
                                  .count = sizeof(mine), .unlimited = !c->leads));
    for (int i = 0; i < c->ranks && status == WEFT_OK; i++)
        if (all[i] != mine && shares_with(c, i)) differ = 1;
    free(all);
    if (status == WEFT_OK)
        status =
            weft_comm_run(c->learner, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64,
                                                    .what = "whether they differ", .send = &differ,
                                                    .receive = &differ, .count = 1));
    *can = differ == 0;
    return status;
}

/* If parameters arrive in the store's own memory, declares the store written now; otherwise
 * `_broadcast_one` copies each parameter into the store. */
weft_status weft_shared_params_begin(const weft_shared_params *c)
{
    return c->apart ? WEFT_OK : copy(c, true);
}

weft_status weft_shared_params_broadcast_one(const weft_shared_params *c, int entry)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    int64_t i = c->at[entry];
    WEFT_TRY(send_some(c, c->started[i], c->started[i + 1]));
    if (!c->apart) return WEFT_OK;
    WEFT_TRY(weft_store_map(c->store, entry, &dtype, &data, &bytes));
    memcpy(data, c->parameters + (size_t)c->of[c->me][i].begin * weft_dtype_size(dtype), bytes);
    return weft_store_unmap(c->store, entry, data);
}
