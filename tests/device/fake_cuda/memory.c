/* Memory of cards and of the host, copies, streams and events of the double. New and freed memory
 * is filled with ones, which are NaN. */
#include <unistd.h>

#include "fake.h"

range *fake_range_of(const void *at, size_t bytes)
{
    for (range *r = fake.ranges; r; r = r->next)
        if ((const char *)at >= r->base && (const char *)at + bytes <= r->base + r->bytes) return r;
    return NULL;
}

static cu_result allocate(void **out, size_t bytes, bool host)
{
    cu_context context = fake_current();
    size_t *taken = &fake.taken[context->card];
    if (bytes == 0) return 1;
    if (!host && *taken + bytes > fake.memory) return CU_OUT_OF_MEMORY;
    range *r = calloc(1, sizeof(*r));
    size_t room = bytes + 256; /* CUDA aligns to 256 bytes, and PoCL to 128 at most */
    char *raw = host ? aligned_alloc(64, (bytes + 63) / 64 * 64)
                     : fake.clSVMAlloc(fake.cl_context, CL_MEM_READ_WRITE, room, 128);
    if (!r || !raw) fake_misuse("out of memory");
    char *base = host ? raw : raw + (256 - (uintptr_t)raw % 256) % 256;
    memset(base, 0xff, bytes);
    *r = (range){.base = base, .raw = raw, .bytes = bytes, .host = host, .context = context};
    r->next = fake.ranges;
    fake.ranges = r;
    fake.left[3]++;
    if (!host) *taken += bytes;
    *out = base;
    return CU_OK;
}

static bool overlaps(const range *r, const void *at, size_t bytes)
{
    return (const char *)at < r->base + r->bytes && (const char *)at + bytes > r->base;
}

static bool op_uses(const op *o, const range *r)
{
    if (o->kind == OP_COPY || o->kind == OP_SET)
        return overlaps(r, o->to, o->bytes) ||
               (o->kind == OP_COPY && overlaps(r, o->from, o->bytes));
    for (int i = 0; o->kind == OP_LIBRARY && i < o->uses; i++)
        if (overlaps(r, o->use[i].at, o->use[i].bytes)) return true;
    for (int i = 0; o->kind == OP_LAUNCH && i < o->function->count; i++) {
        const parameter *p = &o->function->parameter[i];
        char *pointer;
        memcpy(&pointer, o->parameters + p->at, sizeof(pointer));
        if (p->pointer && overlaps(r, pointer, 1)) return true;
    }
    return false;
}

static void release(const char *function, void *base, bool host)
{
    range **at = &fake.ranges;
    while (*at && (*at)->base != base) at = &(*at)->next;
    range *r = *at;
    if (!r || r->host != host) fake_misuse("%s: %p is not allocated", function, base);
    if (r->context != fake_current()) fake_misuse("%s: of another context", function);
    for (cu_stream s = fake.streams; s && !fake.lost; s = s->next)
        for (const op *o = s->queued.first; o; o = o->next)
            if (op_uses(o, r)) fake_misuse("%s: a queued operation uses %p", function, base);
    for (cu_graph_exec g = fake.graphs; g && !fake.lost; g = g->next)
        for (const op *o = g->head.state == ALIVE ? g->ops.first : NULL; o; o = o->next)
            if (op_uses(o, r)) fake_misuse("%s: a graph uses %p", function, base);
    *at = r->next;
    memset(r->base, 0xff, r->bytes);
    fake.left[3]--;
    if (host)
        free(r->base);
    else
        fake.clSVMFree(fake.cl_context, r->raw);
    if (!host) fake.taken[r->context->card] -= r->bytes;
    free(r);
}

cu_result cuMemAlloc_v2(cu_pointer *out, size_t bytes)
{
    cu_result result = fake_begin_in("cuMemAlloc_v2", NULL, NULL);
    void *base = NULL;
    if (!result) result = allocate(&base, bytes, false);
    *out = (cu_pointer)(uintptr_t)base;
    return fake_end(result);
}

cu_result cuMemFree_v2(cu_pointer base)
{
    cu_result result = fake_begin_in("cuMemFree_v2", NULL, NULL);
    if (result != CU_NOT_INITIALIZED) release("cuMemFree", (void *)(uintptr_t)base, false);
    return fake_end(result);
}

cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    cu_result result = fake_begin_in("cuMemHostAlloc", NULL, NULL);
    if (flags & ~7u) fake_misuse("cuMemHostAlloc: flags %u", flags);
    if (!result) result = allocate(out, bytes, true);
    return fake_end(result);
}

cu_result cuMemFreeHost(void *base)
{
    cu_result result = fake_begin_in("cuMemFreeHost", NULL, NULL);
    if (result != CU_NOT_INITIALIZED) release("cuMemFreeHost", base, true);
    return fake_end(result);
}

cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    cu_result result = fake_begin_in("cuMemGetInfo_v2", NULL, NULL);
    if (result) return fake_end(result);
    *total = fake.memory;
    *free_bytes = fake.memory - fake.taken[fake_current()->card];
    return fake_end(result);
}

static void append(oplist *list, op *o)
{
    o->next = NULL;
    if (list->last)
        list->last->next = o;
    else
        list->first = o;
    list->last = o;
}

op *fake_queue(cu_stream stream, op_kind kind)
{
    op *o = calloc(1, sizeof(*o));
    if (!o) fake_misuse("out of memory");
    o->kind = kind;
    append(stream->capturing ? &stream->captured : &stream->queued, o);
    return o;
}

static void append_copies(oplist *to, const oplist *from)
{
    for (const op *o = from->first; o; o = o->next) {
        op *copy = malloc(sizeof(*copy));
        if (!copy) fake_misuse("out of memory");
        *copy = *o;
        if (copy->users) ++*copy->users;
        append(to, copy);
    }
}

static void free_op(op *o)
{
    if (o->users && --*o->users == 0) {
        free(o->user);
        free(o->users);
    }
    free(o);
}

static void drop(oplist *list)
{
    for (op *next, *o = list->first; o; o = next) {
        next = o->next;
        free_op(o);
    }
    *list = (oplist){NULL, NULL};
}

void fake_check_device(const char *function, const void *at, size_t bytes)
{
    const range *r = fake_range_of(at, bytes);
    if (!r || r->host)
        fake_misuse("%s: %zu bytes at %p are no memory of a card", function, bytes, at);
    if (r->context != fake_current() && !fake_current()->peer[r->context->card])
        fake_misuse("%s: %p is memory of card %d, to which card %d has no access", function, at,
                    r->context->card, fake_current()->card);
}

static cu_result copy(const char *function, void *to, const void *from, size_t bytes,
                      cu_stream stream, int kind)
{
    cu_result result = fake_begin_in(function, stream, "stream");
    if (result) return fake_end(result);
    if (kind != 'o') fake_check_device(function, to, bytes);
    if (kind != 'i') fake_check_device(function, from, bytes);
    op *o = fake_queue(stream, OP_COPY);
    o->to = to;
    o->from = from;
    o->bytes = bytes;
    return fake_end(CU_OK);
}

/* Runs, from time to time, the streams in which operations wait for what comes from elsewhere. */
static void *work_alone(void *unused)
{
    for (;;) {
        (void)usleep(1000);
        pthread_mutex_lock(&fake.lock);
        for (cu_stream s = fake.streams; s && !fake.lost; s = s->next)
            if (s->head.state == ALIVE && s->awaits && !s->running && !s->capturing)
                s->awaits = !fake_run(s, NULL);
        pthread_mutex_unlock(&fake.lock);
    }
    return unused;
}

static void start_working(void)
{
    static bool started;
    pthread_t thread;
    if (started) return;
    started = pthread_create(&thread, NULL, work_alone, NULL) == 0;
    if (started) (void)pthread_detach(thread);
}

int fake_current_card(void)
{
    return fake_current()->card;
}

cu_result fake_queue_library(cu_stream stream, const char *function, bool (*ready)(void *user),
                             void (*run)(void *user), void *user, const fake_use *use, int uses)
{
    cu_result result = fake_begin_in(function, stream, "stream");
    if (result) {
        free(user);
        return fake_end(result);
    }
    if (uses > MOST_USES) fake_misuse("%s: uses %d pieces of memory", function, uses);
    for (int i = 0; i < uses; i++) fake_check_device(function, use[i].at, use[i].bytes);
    op *o = fake_queue(stream, OP_LIBRARY);
    if (ready) {
        stream->awaits = true;
        start_working();
    }
    o->ready = ready;
    o->run = run;
    o->user = user;
    o->users = calloc(1, sizeof(*o->users));
    if (!o->users) fake_misuse("out of memory");
    *o->users = 1;
    o->uses = uses;
    memcpy(o->use, use, sizeof(*use) * (size_t)uses);
    return fake_end(CU_OK);
}

cu_result fake_planned_library(const char *function, bool in_context)
{
    return fake_end(in_context ? fake_begin_in(function, NULL, NULL) : fake_begin(function));
}

cu_result cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream)
{
    return copy("cuMemcpyHtoDAsync_v2", (void *)(uintptr_t)to, from, bytes, stream, 'i');
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream)
{
    return copy("cuMemcpyDtoHAsync_v2", to, (const void *)(uintptr_t)from, bytes, stream, 'o');
}

cu_result cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream)
{
    return copy("cuMemcpyDtoDAsync_v2", (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes,
                stream, 'd');
}

cu_result cuMemsetD8Async(cu_pointer to, unsigned char value, size_t bytes, cu_stream stream)
{
    cu_result result = fake_begin_in("cuMemsetD8Async", stream, "stream");
    if (result) return fake_end(result);
    fake_check_device("cuMemsetD8Async", (void *)(uintptr_t)to, bytes);
    op *o = fake_queue(stream, OP_SET);
    o->to = (void *)(uintptr_t)to;
    o->value = value;
    o->bytes = bytes;
    return fake_end(CU_OK);
}

cu_result cuStreamCreate(cu_stream *out, unsigned flags)
{
    cu_result result = fake_begin_in("cuStreamCreate", NULL, NULL);
    if (flags != CU_NON_BLOCKING) fake_misuse("cuStreamCreate: flags %u", flags);
    if (result) return fake_end(result);
    cu_stream s = fake_new(sizeof(*s), "stream");
    s->next = fake.streams;
    fake.streams = s;
    fake.left[0]++;
    *out = s;
    return fake_end(CU_OK);
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
    cu_result result = fake_begin_in("cuStreamDestroy_v2", stream, "stream");
    if (result == CU_NOT_INITIALIZED) return fake_end(result);
    if (stream->queued.first && !fake.lost) fake_misuse("cuStreamDestroy: operations are queued");
    stream->head.state = DEAD;
    fake.left[0]--;
    return fake_end(result);
}

cu_result cuStreamSynchronize(cu_stream stream)
{
    cu_result result = fake_begin_in("cuStreamSynchronize", stream, "stream");
    if (stream->capturing)
        fake_misuse("cuStreamSynchronize: the stream captures");  /* of another thread */
    if (result != CU_NOT_INITIALIZED) fake_run_all(stream, NULL); /* also if it shall fail */
    return fake_end(result ? result : fake.lost);
}

cu_result cuEventCreate(cu_event *out, unsigned flags)
{
    cu_result result = fake_begin_in("cuEventCreate", NULL, NULL);
    if (flags != CU_DISABLE_TIMING && flags != CU_WITH_TIMING)
        fake_misuse("cuEventCreate: flags %u", flags);
    if (result) return fake_end(result);
    *out = fake_new(sizeof(**out), "event");
    (*out)->timed = flags == CU_WITH_TIMING;
    fake.left[1]++;
    return fake_end(CU_OK);
}

static void forget(mark *m)
{
    if (m && --m->users == 0) free(m);
}

cu_result cuEventDestroy_v2(cu_event event)
{
    cu_result result = fake_begin_in("cuEventDestroy_v2", event, "event");
    if (result == CU_NOT_INITIALIZED) return fake_end(result);
    event->head.state = DEAD;
    forget(event->mark);
    fake.left[1]--;
    return fake_end(result);
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
    cu_result result = fake_begin_in("cuEventRecord", event, "event");
    (void)fake_end(result);
    if (!result) result = fake_begin_in("cuEventRecord.", stream, "stream");
    if (result) return fake_end(result);
    forget(event->mark);
    event->mark = calloc(1, sizeof(*event->mark));
    if (!event->mark) fake_misuse("out of memory");
    *event->mark = (mark){.users = 2, .stream = stream};
    fake_queue(stream, OP_RECORD)->mark = event->mark;
    return fake_end(CU_OK);
}

cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags)
{
    cu_result result = fake_begin_in("cuStreamWaitEvent", stream, "stream");
    if (event->head.state != ALIVE)
        fake_misuse("cuStreamWaitEvent: the event was destroyed before");
    if (flags) fake_misuse("cuStreamWaitEvent: flags %u", flags);
    if (result || !event->mark) return fake_end(result);
    event->mark->users++;
    fake_queue(stream, OP_WAIT)->mark = event->mark;
    return fake_end(CU_OK);
}

cu_result cuEventSynchronize(cu_event event)
{
    cu_result result = fake_begin_in("cuEventSynchronize", event, "event");
    if (result != CU_NOT_INITIALIZED && event->mark && !event->mark->done)
        fake_run_all(event->mark->stream, event->mark);
    return fake_end(result ? result : fake.lost);
}

/* A query runs the stream, and the next one says that it is ready. */
cu_result cuEventQuery(cu_event event)
{
    cu_result result = fake_begin_in("cuEventQuery", event, "event");
    if (result || !event->mark || event->mark->done) return fake_end(result);
    (void)fake_run(event->mark->stream, event->mark);
    return fake_end(fake.lost ? fake.lost : CU_NOT_READY);
}

cu_result cuEventElapsedTime(float *out, cu_event from, cu_event to)
{
    cu_result result = fake_begin_in("cuEventElapsedTime", from, "event");
    if (to->head.state != ALIVE) fake_misuse("cuEventElapsedTime: the event was destroyed before");
    if (!from->timed || !to->timed) fake_misuse("cuEventElapsedTime: an event without times");
    if (!from->mark || !to->mark) fake_misuse("cuEventElapsedTime: an event was not recorded");
    if (!result && (!from->mark->done || !to->mark->done)) result = CU_NOT_READY;
    if (!result) *out = (float)(to->mark->at - from->mark->at);
    return fake_end(result);
}

static double milliseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static bool run_op(op *o);

/* Runs the operations of a stream until a mark, or all of them; those of other streams that they
 * wait for, too. */
bool fake_run(cu_stream stream, const mark *until)
{
    bool runs = true;
    if (stream->running) fake_misuse("streams wait for each other");
    stream->running = true;
    while (runs && stream->queued.first && !fake.lost && !(until && until->done)) {
        op *o = stream->queued.first;
        runs = run_op(o);
        if (!runs) break;
        stream->queued.first = o->next;
        if (!stream->queued.first) stream->queued.last = NULL;
        if (o->mark) forget(o->mark);
        free_op(o);
    }
    stream->running = false;
    return runs;
}

void fake_run_all(cu_stream stream, const mark *until)
{
    while (!fake_run(stream, until)) {
        pthread_mutex_unlock(&fake.lock);
        (void)usleep(500);
        pthread_mutex_lock(&fake.lock);
    }
}

/* Whether the operation could run. */
static bool run_op(op *o)
{
    switch (o->kind) {
    case OP_LAUNCH: fake_launch(o); break;
    case OP_COPY: memmove(o->to, o->from, o->bytes); break;
    case OP_SET: memset(o->to, o->value, o->bytes); break;
    case OP_RECORD:
        o->mark->at = milliseconds();
        o->mark->done = true;
        break;
    case OP_LIBRARY:
        if (o->ready && !o->ready(o->user)) return false;
        o->run(o->user);
        break;
    case OP_WAIT: return o->mark->done || fake_run(o->mark->stream, o->mark);
    }
    return true;
}

cu_result cuStreamBeginCapture_v2(cu_stream stream, unsigned mode)
{
    cu_result result = fake_begin_in("cuStreamBeginCapture_v2", stream, "stream");
    if (mode != CU_CAPTURE_OF_THREAD) fake_misuse("cuStreamBeginCapture: mode %u", mode);
    if (result) return fake_end(result);
    stream->capturing = true;
    fake_capturing = stream;
    return fake_end(CU_OK);
}

cu_result cuStreamEndCapture(cu_stream stream, cu_graph *out)
{
    cu_result result = fake_begin_in("cuStreamEndCapture", stream, "stream");
    *out = NULL;
    if (result == CU_NOT_INITIALIZED) return fake_end(result);
    if (!stream->capturing) fake_misuse("cuStreamEndCapture: the stream does not capture");
    if (fake_capturing != stream)
        fake_misuse("cuStreamEndCapture: another thread has begun the capture");
    stream->capturing = false;
    fake_capturing = NULL;
    oplist ops = stream->captured;
    stream->captured = (oplist){NULL, NULL};
    if (result) drop(&ops);
    if (result) return fake_end(result);
    *out = fake_new(sizeof(**out), "graph");
    (*out)->ops = ops;
    fake.left[4]++;
    return fake_end(CU_OK);
}

cu_result cuGraphDestroy(cu_graph graph)
{
    cu_result result = fake_begin_in("cuGraphDestroy", graph, "graph");
    if (result == CU_NOT_INITIALIZED) return fake_end(result);
    graph->head.state = DEAD;
    drop(&graph->ops);
    fake.left[4]--;
    return fake_end(result);
}

cu_result cuGraphInstantiateWithFlags(cu_graph_exec *out, cu_graph graph, unsigned long long flags)
{
    cu_result result = fake_begin_in("cuGraphInstantiateWithFlags", graph, "graph");
    if (flags) fake_misuse("cuGraphInstantiateWithFlags: flags %llu", flags);
    if (result) return fake_end(result);
    cu_graph_exec g = fake_new(sizeof(*g), "executable graph");
    append_copies(&g->ops, &graph->ops);
    g->next = fake.graphs;
    fake.graphs = g;
    fake.left[4]++;
    *out = g;
    return fake_end(CU_OK);
}

cu_result cuGraphLaunch(cu_graph_exec graph, cu_stream stream)
{
    cu_result result = fake_begin_in("cuGraphLaunch", graph, "executable graph");
    (void)fake_end(result);
    if (!result) result = fake_begin_in("cuGraphLaunch.", stream, "stream");
    if (result) return fake_end(result);
    append_copies(&stream->queued, &graph->ops);
    return fake_end(CU_OK);
}

/* A launch that has not ended goes on. */
cu_result cuGraphExecDestroy(cu_graph_exec graph)
{
    cu_result result = fake_begin_in("cuGraphExecDestroy", graph, "executable graph");
    if (result == CU_NOT_INITIALIZED) return fake_end(result);
    graph->head.state = DEAD;
    drop(&graph->ops);
    fake.left[4]--;
    return fake_end(result);
}
