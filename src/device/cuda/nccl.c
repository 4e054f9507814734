/* Collectives by NCCL, between ranks that have a card each. Its communicators do not block: a
 * function that would wait for other ranks returns, and `poll` says when its work is done. */
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "device/cuda/cuda.h"
#include "device/cuda/nccl_api.h"

typedef struct library {
    const cuda_card *card;
    nccl_functions f;
    char name[32];
} library;

struct weft_collective {
    const library *l;
    ncclComm_t comm; /* NULL: aborted */
    int ranks, rank;
};

/* --- the library --- */

static const char *const files[] = {"libnccl.so", "libnccl.so.2", NULL};
static const char *const packages[] = {"/nvidia/nccl/lib", "/nvidia/cu13/lib", NULL};

static const cuda_symbol symbols[] = {
#define SYMBOL(name, parameters) {#name, offsetof(nccl_functions, name)},
    NCCL_FUNCTIONS(SYMBOL) SYMBOL(ncclGetErrorString, ) SYMBOL(ncclGetLastError, )
#undef SYMBOL
        {NULL, 0}};

static bool fits(void *functions, int driver, const char *path)
{
    int version = 0;
    (void)driver;
    (void)path;
    return ((nccl_functions *)functions)->ncclGetVersion(&version) == NCCL_OK &&
           version >= NCCL_LEAST;
}

const cuda_library cuda_nccl_file = {{files, packages}, symbols, fits, "older than version 2.18"};

static void *open_library(gpu_card *card, char *text, size_t size)
{
    library *l;
    int version = 0;
    text[0] = 0;
    if (weft->allocate(sizeof(*l), &l) != WEFT_OK) return NULL;
    l->card = (const cuda_card *)card;
    if (!cuda_library_open(&cuda_nccl_file, l->card->driver, &l->f, text, size)) {
        free(l);
        return NULL;
    }
    (void)l->f.ncclGetVersion(&version);
    (void)cuda_library_starts(NCCL_OK, "", "", (size_t)version, text, size);
    (void)snprintf(l->name, sizeof(l->name), "nccl %.20s", text);
    return l;
}

const gpu_library cuda_nccl = {.name = "nccl",
                               .advice = CUDA_PLACES "; pip install nvidia-nccl-cu13",
                               .named = true,
                               .open = open_library,
                               .close = free};

static const library *library_of(const weft_device *device)
{
    return gpu_library_used((const gpu_device *)device, &cuda_nccl);
}

static const char *name_of(const weft_device *device)
{
    const library *l = library_of(device);
    return l ? l->name : NULL;
}

static weft_status identify(const weft_device *device, char *out, size_t size)
{
    const cuda_card *card = (const cuda_card *)((const gpu_device *)device)->card;
    unsigned char id[16] = {0};
    WEFT_TRY(CUDA_CHECK(card, cuDeviceGetUuid_v2, (struct CUuuid_st *)(void *)id, card->device));
    for (size_t i = 0, at = 0; i < sizeof(id) && at + 3 <= size; i++)
        at += (size_t)snprintf(out + at, size - at, "%02x", id[i]);
    return WEFT_OK;
}

/* --- failures --- */

/* Errors of other ranks and of the network are theirs; what NCCL has logged last says more. */
static weft_status failed(const library *l, ncclComm_t comm, unsigned status, const char *function)
{
    const char *more = l->f.ncclGetLastError(comm);
    bool peer = status == NCCL_SYSTEM_ERROR || status == NCCL_REMOTE_ERROR;
    return weft->fail(peer ? WEFT_ERR_PEER : WEFT_ERR_INTERNAL,
                      "device cuda %s: %s: %s failed with '%s' (%u)%s%s", l->card->head.name,
                      l->name, function, l->f.ncclGetErrorString(status), status,
                      more && *more ? ": " : "", more ? more : "");
}

/* A call that is in progress ends by itself. */
static bool goes_on(unsigned status)
{
    return status == NCCL_OK || status == NCCL_IN_PROGRESS;
}

static weft_status check(const library *l, ncclComm_t comm, unsigned status, const char *function)
{
    return goes_on(status) ? WEFT_OK : failed(l, comm, status, function);
}

/* Calls a function of NCCL within the context of the card. */
#define NCCL_CALL(library, comm, function, ...)                                                    \
    (cuda_enter((library)->card)                                                                   \
         ? check(library, comm, cuda_leave((library)->card, (library)->f.function(__VA_ARGS__)),   \
                 #function)                                                                        \
         : cuda_check((library)->card, cuda_not_entered(), #function))

/* --- communicators --- */

static weft_status invite(weft_device *device, char id[WEFT_COLLECTIVE_ID])
{
    const library *l = library_of(device);
    ncclUniqueId own;
    WEFT_TRY(NCCL_CALL(l, NULL, ncclGetUniqueId, &own));
    memcpy(id, own.internal, sizeof(own.internal));
    return WEFT_OK;
}

static weft_status open_collective(weft_device *device, const char *id, int ranks, int rank,
                                   weft_collective **out)
{
    const library *l = library_of(device);
    weft_collective *c;
    ncclUniqueId own;
    struct nccl_config config = {.size = sizeof(config),
                                 .magic = (unsigned)NCCL_CONFIG_MAGIC,
                                 .version = NCCL_LEAST,
                                 .cga_size = INT_MIN,
                                 .least_blocks = INT_MIN,
                                 .most_blocks = INT_MIN,
                                 .shares = INT_MIN,
                                 .traffic = INT_MIN};
    WEFT_TRY(weft->allocate(sizeof(*c), &c));
    *c = (weft_collective){.l = l, .ranks = ranks, .rank = rank};
    memcpy(own.internal, id, sizeof(own.internal));
    weft_status status =
        NCCL_CALL(l, NULL, ncclCommInitRankConfig, &c->comm, ranks, own, rank, &config);
    if (status == WEFT_OK)
        *out = c;
    else
        free(c);
    return status;
}

static weft_status poll(weft_collective *c, bool *done)
{
    unsigned state = NCCL_OK;
    if (!c->comm)
        return weft->fail(WEFT_ERR_PEER, "device cuda: %s has given up its operations", c->l->name);
    WEFT_TRY(NCCL_CALL(c->l, c->comm, ncclCommGetAsyncError, c->comm, &state));
    *done = state != NCCL_IN_PROGRESS;
    return check(c->l, c->comm, state, "an operation that runs on its own");
}

static void give_up(weft_collective *c)
{
    if (!c->comm) return;
    (void)NCCL_CALL(c->l, NULL, ncclCommAbort, c->comm);
    c->comm = NULL;
}

/* Other ranks have until then to end what they have begun together with this one. */
enum { MOST_SECONDS = 10 };

static void close_collective(weft_collective *c)
{
    bool done = false;
    weft_status status = c->comm ? NCCL_CALL(c->l, c->comm, ncclCommFinalize, c->comm) : WEFT_OK;
    for (int i = 0; c->comm && status == WEFT_OK && !done && i < 1000 * MOST_SECONDS; i++) {
        status = poll(c, &done);
        if (!done) (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (done && status == WEFT_OK)
        (void)NCCL_CALL(c->l, NULL, ncclCommDestroy, c->comm);
    else
        give_up(c);
    free(c);
}

/* --- operations --- */

/* A transfer while its calls are made, within a group of calls. */
typedef struct call {
    const weft_collective *c;
    const weft_transfer *t;
    const int64_t *counts; /* [2 ranks]: sent and received */
    const char *from;
    char *to;
    size_t size;
    unsigned type;
    cu_stream stream;
} call;

static const unsigned types[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = NCCL_FLOAT32, [WEFT_F64] = NCCL_FLOAT64,   [WEFT_I32] = NCCL_INT32,
    [WEFT_U8] = NCCL_UINT8,    [WEFT_BF16] = NCCL_BFLOAT16, [WEFT_I64] = NCCL_INT64,
    [WEFT_BOOL] = NCCL_UINT8};

static bool alike(const call *k)
{
    for (int r = 1; r < k->c->ranks; r++)
        if (k->counts[r] != k->counts[0]) return false;
    return true;
}

static unsigned all_reduce(const call *k)
{
    return k->c->l->f.ncclAllReduce(k->from, k->to, (size_t)k->t->count, k->type, NCCL_SUM,
                                    k->c->comm, k->stream);
}

/* Parts that are not all of one size are sums of their own, each on its rank. */
static unsigned reduce_scatter(const call *k)
{
    const nccl_functions *f = &k->c->l->f;
    unsigned status = NCCL_OK;
    size_t at = 0;
    if (alike(k))
        return f->ncclReduceScatter(k->from, k->to, (size_t)k->counts[0], k->type, NCCL_SUM,
                                    k->c->comm, k->stream);
    for (int r = 0; r < k->c->ranks && goes_on(status); r++) {
        if (k->counts[r] > 0)
            status = f->ncclReduce(k->from + at, k->to, (size_t)k->counts[r], k->type, NCCL_SUM, r,
                                   k->c->comm, k->stream);
        at += (size_t)k->counts[r] * k->size;
    }
    return status;
}

static unsigned all_gather(const call *k)
{
    const nccl_functions *f = &k->c->l->f;
    unsigned status = NCCL_OK;
    size_t at = 0;
    if (alike(k))
        return f->ncclAllGather(k->from, k->to, (size_t)k->counts[0], k->type, k->c->comm,
                                k->stream);
    for (int r = 0; r < k->c->ranks && goes_on(status); r++) {
        if (k->counts[r] > 0)
            status = f->ncclBroadcast(k->from, k->to + at, (size_t)k->counts[r], k->type, r,
                                      k->c->comm, k->stream);
        at += (size_t)k->counts[r] * k->size;
    }
    return status;
}

static unsigned all_to_all(const call *k)
{
    const nccl_functions *f = &k->c->l->f;
    const int64_t *received = k->counts + k->c->ranks;
    unsigned status = NCCL_OK;
    size_t from = 0, to = 0;
    for (int r = 0; r < k->c->ranks && goes_on(status); r++) {
        if (k->counts[r] > 0)
            status = f->ncclSend(k->from + from, (size_t)k->counts[r], k->type, r, k->c->comm,
                                 k->stream);
        if (received[r] > 0 && goes_on(status))
            status =
                f->ncclRecv(k->to + to, (size_t)received[r], k->type, r, k->c->comm, k->stream);
        from += (size_t)k->counts[r] * k->size;
        to += (size_t)received[r] * k->size;
    }
    return status;
}

static const struct kind {
    const char *function; /* for messages */
    unsigned (*run)(const call *k);
} kinds[] = {
    [WEFT_ALL_REDUCE] = {"ncclAllReduce", all_reduce},
    [WEFT_REDUCE_SCATTER] = {"ncclReduceScatter", reduce_scatter},
    [WEFT_ALL_GATHER] = {"ncclAllGather", all_gather},
    [WEFT_ALL_TO_ALL] = {"ncclSend", all_to_all},
};

/* The group's end says whether its calls are in progress. */
static weft_status run_group(const call *k, const struct kind *kind)
{
    const library *l = k->c->l;
    const char *function = "ncclGroupStart";
    unsigned ended, status = l->f.ncclGroupStart();
    if (status == NCCL_OK) {
        function = kind->function;
        status = kind->run(k);
        ended = l->f.ncclGroupEnd();
        if (goes_on(status)) {
            function = "ncclGroupEnd";
            status = ended;
        }
    }
    return check(l, k->c->comm, status, function);
}

static weft_status queue(weft_collective *c, const weft_transfer *t, const int64_t *counts,
                         weft_address send, weft_address receive, weft_queue *queue)
{
    const cuda_card *card = c->l->card;
    const call k = {.c = c,
                    .t = t,
                    .counts = counts,
                    .from = (const char *)(uintptr_t)cuda_pointer_of(send),
                    .to = (char *)(uintptr_t)cuda_pointer_of(receive),
                    .size = weft->type_bytes(&(weft_type){.dtype = t->dtype}),
                    .type = types[t->dtype],
                    .stream = cuda_stream_of(queue)};
    const struct kind *kind = (size_t)t->kind < WEFT_COUNT(kinds) ? &kinds[t->kind] : NULL;
    if (!kind || !kind->run)
        return weft->fail(WEFT_ERR_UNSUPPORTED, "%s does not pass on this kind of transfer",
                          c->l->name);
    if (!c->comm)
        return weft->fail(WEFT_ERR_PEER, "device cuda: %s has given up its operations", c->l->name);
    if (!cuda_enter(card)) return cuda_check(card, cuda_not_entered(), kind->function);
    weft_status status = run_group(&k, kind);
    (void)cuda_leave(card, CU_OK);
    return status;
}

const weft_collective_ops cuda_nccl_collectives = {.library = name_of,
                                                   .identify = identify,
                                                   .invite = invite,
                                                   .open = open_collective,
                                                   .poll = poll,
                                                   .queue = queue,
                                                   .give_up = give_up,
                                                   .close = close_collective};
