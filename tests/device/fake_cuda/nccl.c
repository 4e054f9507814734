/* The double of libnccl.so: collectives between ranks that are threads or processes of one host,
 * over files in a folder that the unique id names, in the order of the double's streams. An
 * operation that is first in its stream says so to the other ranks, and runs when all have said it.
 * Sums are added as a ring does, from another rank for each part. Communicators must be asked not
 * to block; an opened one, and a group of calls, are in progress until the state has been asked
 * for. FAKE_CUDA_FAIL names its functions, too.
 *
 *   FAKE_NCCL_VERSION  22703
 *   FAKE_NCCL_ERROR    STATUS@N@RANK: from group N of calls on (1: the first), the state on a rank
 *   FAKE_NCCL_POLLS    1: so often the state of a queued group is in progress
 *   FAKE_NCCL_ABORT_MS 0: so long operations stay in their streams after ncclCommAbort
 *   FAKE_NCCL_CALLS    a file, to which each rank appends the names of its calls
 */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/cuda/nccl_api.h"
#include "library.h"

const char library_name[] = "nccl";

#define DECLARE(name, parameters) __attribute__((visibility("default"))) unsigned name parameters;
NCCL_FUNCTIONS(DECLARE)
__attribute__((visibility("default"))) const char *ncclGetErrorString(unsigned status);
__attribute__((visibility("default"))) const char *ncclGetLastError(ncclComm_t comm);

enum { INVALID_USAGE = 5, MOST_CALLS = MOST_USES / 2, FOLDER = NCCL_ID_BYTES };

struct ncclComm {
    object head;
    int ranks, rank, groups, outstanding;
    int64_t queued, ran;
    char folder[FOLDER];
    cu_stream stream;
    bool open, aborted, finalized;
    double aborted_at;
    struct job *pending; /* queued when the state is asked for */
    int in_progress;     /* so often the state is in progress */
};

typedef enum kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECV } kind;
static const char *const names[] = {"all-reduce", "reduce", "reduce-scatter", "all-gather",
                                    "broadcast",  "send",   "receive"};

/* A call, as each rank writes it; what it sends follows in the file. */
typedef struct call {
    kind kind;
    unsigned type;
    int peer;
    size_t count, bytes; /* bytes that are sent */
    const char *from;
    char *to;
} call;

typedef struct job {
    ncclComm_t comm;
    int64_t sequence;
    bool arrived;
    int count;
    call list[MOST_CALLS];
} job;

static _Thread_local struct {
    bool open;
    ncclComm_t comm;
    cu_stream stream;
    job *job;
} group;

static int number_of(const char *variable, int other)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : other;
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

unsigned ncclGetVersion(int *version)
{
    *version = number_of("FAKE_NCCL_VERSION", 22703);
    return NCCL_OK;
}

const char *ncclGetErrorString(unsigned status)
{
    return status == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error"
                                       : "the text of a status";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm ? "a planned error" : "";
}

static size_t size_of(unsigned type)
{
    switch (type) {
    case NCCL_FLOAT64:
    case NCCL_INT64: return 8;
    case NCCL_FLOAT32:
    case NCCL_INT32: return 4;
    case NCCL_BFLOAT16: return 2;
    case NCCL_UINT8: return 1;
    default: library_misuse("type %u", type);
    }
}

/* --- files --- */

static FILE *open_file(const struct ncclComm *c, const char *mode, const char *name, long number,
                       int rank)
{
    char path[FOLDER + 60];
    (void)snprintf(path, sizeof(path), "%s/%s%ld.%d", c->folder, name, number, rank);
    return fopen(path, mode);
}

static bool is_there(const struct ncclComm *c, const char *name, long number, int rank)
{
    FILE *file = open_file(c, "r", name, number, rank);
    if (file) (void)fclose(file);
    return file != NULL;
}

/* Whether all ranks have written a file of this name and number. */
static bool all_there(const struct ncclComm *c, const char *name, long number)
{
    for (int r = 0; r < c->ranks; r++)
        if (!is_there(c, name, number, r)) return false;
    return true;
}

static void remove_file(const struct ncclComm *c, const char *name, long number, int rank)
{
    char path[FOLDER + 60];
    (void)snprintf(path, sizeof(path), "%s/%s%ld.%d", c->folder, name, number, rank);
    (void)unlink(path);
}

/* A file is there at once with all its bytes. */
static void publish(const struct ncclComm *c, const char *name, long number, const void *head,
                    size_t bytes, const job *j)
{
    char from[FOLDER + 60], to[FOLDER + 60];
    (void)snprintf(from, sizeof(from), "%s/new-%s.%d", c->folder, name, c->rank);
    (void)snprintf(to, sizeof(to), "%s/%s%ld.%d", c->folder, name, number, c->rank);
    FILE *file = fopen(from, "w");
    if (!file) library_misuse("the folder %s is gone", c->folder);
    (void)fwrite(head, 1, bytes, file);
    for (int i = 0; j && i < j->count; i++)
        if (j->list[i].bytes) (void)fwrite(j->list[i].from, 1, j->list[i].bytes, file);
    if (fclose(file) != 0 || rename(from, to) != 0) library_misuse("cannot write %s", to);
}

/* The last rank that leaves removes the folder. */
static void leave(struct ncclComm *c)
{
    publish(c, "gone", 0, "", 0, NULL);
    if (!all_there(c, "gone", 0)) return;
    for (int r = 0; r < c->ranks; r++) {
        remove_file(c, "card", 0, r);
        remove_file(c, "gone", 0, r);
        for (int64_t s = 0; s <= c->queued; s++) remove_file(c, "job", (long)s, r);
    }
    (void)rmdir(c->folder);
}

/* --- communicators --- */

unsigned ncclGetUniqueId(ncclUniqueId *id)
{
    unsigned status = library_planned("ncclGetUniqueId");
    const char *where = getenv("TMPDIR");
    if (status) return status;
    memset(id, 0, sizeof(*id));
    (void)snprintf(id->internal, sizeof(id->internal), "%s/fake-nccl-XXXXXX",
                   where ? where : "/tmp");
    return mkdtemp(id->internal) ? NCCL_OK : NCCL_SYSTEM_ERROR;
}

unsigned ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                ncclConfig_t *config)
{
    int (*card)(void);
    unsigned status = library_planned("ncclCommInitRankConfig");
    struct ncclComm none = {.ranks = ranks, .rank = rank};
    (void)snprintf(none.folder, sizeof(none.folder), "%s", id.internal);
    *out = NULL;
    if (status) leave(&none);
    if (status) return status;
    if (config->size != 48 || config->magic != 0xcafebeef || config->version < NCCL_LEAST)
        library_misuse("ncclCommInitRankConfig: no initialized options");
    if (config->blocking != 0) library_misuse("ncclCommInitRankConfig: the communicator blocks");
    if (rank < 0 || rank >= ranks) library_misuse("rank %d of %d", rank, ranks);
    struct ncclComm *c = library_new(sizeof(*c), "communicator");
    c->ranks = ranks;
    c->rank = rank;
    c->ran = -1;
    (void)snprintf(c->folder, sizeof(c->folder), "%s", id.internal);
    *(void **)&card = library_of_driver("fake_current_card");
    const int own = card();
    publish(c, "card", 0, &own, sizeof(own), NULL);
    *out = c;
    return NCCL_IN_PROGRESS;
}

/* All ranks have come, with a card each. */
static unsigned open_state(struct ncclComm *c)
{
    int cards[MOST_CARDS + 1] = {0}, card;
    if (!all_there(c, "card", 0)) return NCCL_IN_PROGRESS;
    for (int r = 0; r < c->ranks; r++) {
        FILE *file = open_file(c, "r", "card", 0, r);
        bool read = file && fread(&card, sizeof(card), 1, file) == 1;
        if (file) (void)fclose(file);
        if (!read) return NCCL_SYSTEM_ERROR;
        if (cards[card]++) return INVALID_USAGE;
    }
    c->open = true;
    return NCCL_OK;
}

static bool ready(void *user);
static void run(void *user);

static unsigned queue_pending(struct ncclComm *c)
{
    fake_use use[MOST_USES];
    int uses = 0;
    job *j = c->pending;
    c->pending = NULL;
    for (int i = 0; i < j->count; i++) {
        const call *k = &j->list[i];
        size_t in = k->bytes, out = k->count * size_of(k->type);
        if (k->kind == ALL_GATHER) out *= (size_t)c->ranks;
        bool receives = k->kind != SEND && (k->kind != REDUCE || k->peer == c->rank);
        if (in) use[uses++] = (fake_use){k->from, in};
        if (receives) use[uses++] = (fake_use){k->to, out};
    }
    (void)__atomic_fetch_add(&c->outstanding, 1, __ATOMIC_SEQ_CST);
    return library_queue_when(c->stream, "ncclGroupEnd", ready, run, j, use, uses);
}

static unsigned planned_error(const struct ncclComm *c)
{
    unsigned status = 0;
    int from = 0, rank = 0;
    const char *plan = getenv("FAKE_NCCL_ERROR");
    if (!plan || sscanf(plan, "%u@%d@%d", &status, &from, &rank) != 3) return NCCL_OK;
    return rank == c->rank && c->groups >= from ? status : NCCL_OK;
}

unsigned ncclCommGetAsyncError(ncclComm_t c, unsigned *state)
{
    unsigned status = library_planned("ncclCommGetAsyncError");
    library_need("ncclCommGetAsyncError", c, "communicator");
    if (status) return status;
    *state = c->open ? planned_error(c) : open_state(c);
    if (*state != NCCL_OK) return NCCL_OK;
    if (c->pending) status = queue_pending(c);
    if (c->in_progress > 0) {
        c->in_progress--;
        *state = NCCL_IN_PROGRESS;
    }
    if (c->finalized && __atomic_load_n(&c->outstanding, __ATOMIC_SEQ_CST) > 0)
        *state = NCCL_IN_PROGRESS;
    return status;
}

unsigned ncclCommFinalize(ncclComm_t c)
{
    unsigned status = library_planned("ncclCommFinalize");
    library_need("ncclCommFinalize", c, "communicator");
    c->finalized = status == NCCL_OK;
    return status ? status : NCCL_IN_PROGRESS;
}

unsigned ncclCommDestroy(ncclComm_t c)
{
    unsigned status = library_planned("ncclCommDestroy");
    (void)library_end("ncclCommDestroy", c, "communicator");
    if (!c->finalized || c->outstanding > 0) library_misuse("ncclCommDestroy: operations are left");
    leave(c);
    return status;
}

unsigned ncclCommAbort(ncclComm_t c)
{
    unsigned status = library_planned("ncclCommAbort");
    (void)library_end("ncclCommAbort", c, "communicator");
    free(c->pending);
    c->pending = NULL;
    c->aborted_at = now();
    __atomic_store_n(&c->aborted, true, __ATOMIC_SEQ_CST);
    leave(c);
    return status;
}

/* --- calls --- */

unsigned ncclGroupStart(void)
{
    unsigned status = library_planned("ncclGroupStart");
    if (group.open) library_misuse("ncclGroupStart: within a group");
    if (status == NCCL_OK) group.open = true;
    return status;
}

unsigned ncclGroupEnd(void)
{
    unsigned status = library_planned("ncclGroupEnd");
    if (!group.open) library_misuse("ncclGroupEnd: without ncclGroupStart");
    group.open = false;
    job *j = group.job;
    struct ncclComm *c = group.comm;
    group.job = NULL;
    group.comm = NULL;
    if (!j) return status;
    if (status) {
        free(j);
        return status;
    }
    j->sequence = c->queued++;
    c->groups++;
    c->pending = j;
    c->in_progress = number_of("FAKE_NCCL_POLLS", 1);
    c->stream = group.stream;
    return NCCL_IN_PROGRESS;
}

static void note(const struct ncclComm *c, const char *function, size_t count, unsigned type)
{
    const char *path = getenv("FAKE_NCCL_CALLS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    (void)fprintf(file, "%d of %d: %s %zu of type %u\n", c->rank, c->ranks, function, count, type);
    (void)fclose(file);
}

static unsigned add(const char *function, struct ncclComm *c, cu_stream stream, call k)
{
    unsigned status = library_planned(function);
    library_need(function, c, "communicator");
    if (status) return status;
    if (!group.open) library_misuse("%s: outside of a group", function);
    if (!c->open || c->finalized) library_misuse("%s: the communicator is not open", function);
    if (c->pending) library_misuse("%s: the group before is in progress", function);
    if (group.comm && (group.comm != c || group.stream != stream))
        library_misuse("%s: of another communicator or stream than the group", function);
    if (c->stream && c->stream != stream)
        library_misuse("%s: in another stream than before", function);
    if (k.count == 0) library_misuse("%s: of nothing", function);
    if (k.peer < 0 || k.peer >= c->ranks) library_misuse("%s: rank %d", function, k.peer);
    if (!group.job) group.job = calloc(1, sizeof(*group.job));
    job *j = group.job;
    if (!j || j->count == MOST_CALLS) library_misuse("%s: too many calls", function);
    size_t whole = k.count * size_of(k.type);
    k.bytes = whole;
    if (k.kind == REDUCE_SCATTER) k.bytes *= (size_t)c->ranks;
    if (k.kind == RECV || (k.kind == BROADCAST && k.peer != c->rank)) k.bytes = 0;
    group.comm = j->comm = c;
    group.stream = stream;
    j->list[j->count++] = k;
    note(c, function, k.count, k.type);
    return NCCL_OK;
}

static void need_sum(unsigned how)
{
    if (how != NCCL_SUM) library_misuse("operation %u", how);
}

unsigned ncclAllReduce(const void *from, void *to, size_t count, unsigned type, unsigned how,
                       ncclComm_t c, cu_stream s)
{
    need_sum(how);
    return add("ncclAllReduce", c, s, (call){ALL_REDUCE, type, 0, count, 0, from, to});
}

unsigned ncclReduce(const void *from, void *to, size_t count, unsigned type, unsigned how, int root,
                    ncclComm_t c, cu_stream s)
{
    need_sum(how);
    return add("ncclReduce", c, s, (call){REDUCE, type, root, count, 0, from, to});
}

unsigned ncclReduceScatter(const void *from, void *to, size_t count, unsigned type, unsigned how,
                           ncclComm_t c, cu_stream s)
{
    need_sum(how);
    return add("ncclReduceScatter", c, s, (call){REDUCE_SCATTER, type, 0, count, 0, from, to});
}

unsigned ncclAllGather(const void *from, void *to, size_t count, unsigned type, ncclComm_t c,
                       cu_stream s)
{
    return add("ncclAllGather", c, s, (call){ALL_GATHER, type, 0, count, 0, from, to});
}

unsigned ncclBroadcast(const void *from, void *to, size_t count, unsigned type, int root,
                       ncclComm_t c, cu_stream s)
{
    return add("ncclBroadcast", c, s, (call){BROADCAST, type, root, count, 0, from, to});
}

unsigned ncclSend(const void *from, size_t count, unsigned type, int peer, ncclComm_t c,
                  cu_stream s)
{
    return add("ncclSend", c, s, (call){SEND, type, peer, count, 0, from, NULL});
}

unsigned ncclRecv(void *to, size_t count, unsigned type, int peer, ncclComm_t c, cu_stream s)
{
    return add("ncclRecv", c, s, (call){RECV, type, peer, count, 0, NULL, to});
}

/* --- in the stream --- */

static bool is_aborted(const job *j)
{
    return __atomic_load_n(&j->comm->aborted, __ATOMIC_SEQ_CST);
}

static bool ready(void *user)
{
    job *j = user;
    if (is_aborted(j))
        return now() >= j->comm->aborted_at + 1e-3 * number_of("FAKE_NCCL_ABORT_MS", 0);
    if (!j->arrived) publish(j->comm, "job", (long)j->sequence, j, sizeof(*j), j);
    j->arrived = true;
    return all_there(j->comm, "job", (long)j->sequence);
}

/* The calls of a rank, as its file has them, and the elements that each of them sends. */
typedef struct told {
    job job;
    char *sent[MOST_CALLS];
} told;

static void read_rank(const job *j, int rank, told *t)
{
    FILE *file = open_file(j->comm, "r", "job", (long)j->sequence, rank);
    if (!file || fread(&t->job, sizeof(t->job), 1, file) != 1)
        library_misuse("the file of rank %d is gone", rank);
    for (int i = 0; i < t->job.count; i++) {
        size_t bytes = t->job.list[i].bytes;
        t->sent[i] = malloc(bytes + 1);
        if (!t->sent[i] || fread(t->sent[i], 1, bytes, file) != bytes)
            library_misuse("the file of rank %d is short", rank);
    }
    (void)fclose(file);
}

static void check_alike(const job *j, const told *t, int rank)
{
    bool messages = j->list[0].kind >= SEND;
    if (!messages && j->count != t->job.count)
        library_misuse("rank %d makes %d calls, rank %d %d", j->comm->rank, j->count, rank,
                       t->job.count);
    for (int i = 0; i < j->count && !messages; i++) {
        const call *a = &j->list[i], *b = &t->job.list[i];
        if (a->kind != b->kind || a->count != b->count || a->type != b->type || a->peer != b->peer)
            library_misuse("rank %d: %s of %zu (type %u), rank %d: %s of %zu (type %u)",
                           j->comm->rank, names[a->kind], a->count, a->type, rank, names[b->kind],
                           b->count, b->type);
    }
}

static float of_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* to[i] += from[j] */
static void add_one(unsigned type, char *to, size_t i, const char *from, size_t j)
{
    switch (type) {
    case NCCL_FLOAT32: ((float *)(void *)to)[i] += ((const float *)(const void *)from)[j]; break;
    case NCCL_FLOAT64: ((double *)(void *)to)[i] += ((const double *)(const void *)from)[j]; break;
    case NCCL_INT32: ((int32_t *)(void *)to)[i] += ((const int32_t *)(const void *)from)[j]; break;
    case NCCL_INT64: ((int64_t *)(void *)to)[i] += ((const int64_t *)(const void *)from)[j]; break;
    case NCCL_UINT8: to[i] = (char)(to[i] + from[j]); break;
    default: {
        uint16_t *x = (uint16_t *)(void *)to;
        x[i] = to_bf16(of_bf16(x[i]) + of_bf16(((const uint16_t *)(const void *)from)[j]));
    }
    }
}

/* Adds elements [begin, begin + count) of what the ranks have sent for call i. The elements are in
 * as many parts as ranks, and the sum of a part begins with the rank after it. */
static void sum(const job *j, const told *all, int i, size_t begin, size_t count, char *to)
{
    size_t size = size_of(j->list[i].type), ranks = (size_t)j->comm->ranks;
    size_t part = (count + ranks - 1) / ranks;
    for (size_t e = 0; e < count; e++)
        for (size_t s = 0; s < ranks; s++) {
            const char *from = all[(e / part + 1 + s) % ranks].sent[i];
            if (s == 0)
                memcpy(to + e * size, from + (begin + e) * size, size);
            else
                add_one(j->list[i].type, to, e, from, begin + e);
        }
}

/* The message number `which` (from 0) of a rank to another one. */
static void receive(const job *j, const told *from, int which, const call *k)
{
    for (int i = 0; i < from->job.count; i++) {
        const call *s = &from->job.list[i];
        if (s->kind != SEND || s->peer != j->comm->rank || which-- > 0) continue;
        if (s->count != k->count || s->type != k->type)
            library_misuse("rank %d sends %zu of type %u, and %zu of type %u are received", k->peer,
                           s->count, s->type, k->count, k->type);
        memcpy(k->to, from->sent[i], s->bytes);
        return;
    }
    library_misuse("rank %d sends nothing that rank %d receives", k->peer, j->comm->rank);
}

static void run_call(const job *j, const told *all, int i)
{
    const call *k = &j->list[i];
    size_t bytes = k->count * size_of(k->type), me = (size_t)j->comm->rank;
    int which = 0;
    switch (k->kind) {
    case ALL_REDUCE: sum(j, all, i, 0, k->count, k->to); break;
    case REDUCE:
        if (k->peer == j->comm->rank) sum(j, all, i, 0, k->count, k->to);
        break;
    case REDUCE_SCATTER: sum(j, all, i, me * k->count, k->count, k->to); break;
    case ALL_GATHER:
        for (int r = 0; r < j->comm->ranks; r++)
            memcpy(k->to + (size_t)r * bytes, all[r].sent[i], bytes);
        break;
    case BROADCAST: memcpy(k->to, all[k->peer].sent[i], bytes); break;
    case SEND: break;
    case RECV:
        for (int before = 0; before < i; before++)
            which += j->list[before].kind == RECV && j->list[before].peer == k->peer;
        receive(j, &all[k->peer], which, k);
    }
}

static void run(void *user)
{
    job *j = user;
    struct ncclComm *c = j->comm;
    if (!is_aborted(j)) {
        told *all = calloc((size_t)c->ranks, sizeof(*all));
        if (!all) library_misuse("out of memory");
        for (int r = 0; r < c->ranks; r++) read_rank(j, r, &all[r]);
        for (int r = 0; r < c->ranks; r++) check_alike(j, &all[r], r);
        for (int i = 0; i < j->count; i++) run_call(j, all, i);
        for (int r = 0; r < c->ranks; r++)
            for (int i = 0; i < all[r].job.count; i++) free(all[r].sent[i]);
        free(all);
        if (j->sequence > 0) remove_file(c, "job", (long)j->sequence - 1, c->rank);
    }
    (void)__atomic_fetch_sub(&c->outstanding, 1, __ATOMIC_SEQ_CST);
}
