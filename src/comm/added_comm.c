/* Engines that programs and plug-ins add as transports (weft/transport_ops.h): makes messages,
 * collectives and splits of the frames of comm/lines.h.
; an
 * operation is done when its own frames are sent and those of others have come. */
#include <stdio.h>

#include "base/registry.h"
#include "base/tree_sum.h"
#include "comm/added.h"

static const weft_comm_ops ops;

static void forget(weft_operation *o)
{
    pending *p = o->state;
    free((void *)p->source);
    free(p->room);
    free(p);
}

static weft_status added_prepare(weft_operation *o)
{
    pending *p;
    weft_status status = WEFT_OK;
    WEFT_TRY(WEFT_NEW(&p, 1));
    o->state = p;
    if (weft_is_sum(o->t.kind)) {
        status = WEFT_NEW(&p->source, o->comm->size);
        if (status == WEFT_OK)
            status = weft_new_aligned(weft_tree_room(o->t.leaves ? o->t.leaves : o->comm->size, 0),
                                      &p->room);
    }
    if (status != WEFT_OK) forget(o);
    return status;
}

/* A rank that destroys a collective before its end ends the job. */
static void added_destroy(weft_operation *o)
{
    const pending *p = o->state;
    char why[768];
    weft_lines_forget(weft_added_of(o)->lines, &p->unsent);
    if (weft_is_collective(o->t.kind) && p->started && !o->done) {
        (void)snprintf(why, sizeof(why), "rank %d gave up %s of %.100s: %s",
                       weft_added_of(o)->world[o->comm->rank], weft_transfer_name(o->t.kind),
                       o->what, weft_last_message());
        weft_transport_end_job(weft_added_of(o)->lines->job, why);
    }
    forget(o);
}

static weft_status added_advance(weft_operation *o)
{
    pending *p = o->state;
    if (o->done) return WEFT_OK;
    WEFT_TRY(weft_lines_advance(weft_added_of(o)->lines));
    if (!p->received && o->t.kind != WEFT_SEND)
        WEFT_TRY(o->t.kind == WEFT_RECEIVE ? weft_added_receive_one(o) : weft_added_receive_all(o));
    o->done = p->unsent == 0 && (p->received || o->t.kind == WEFT_SEND);
    return WEFT_OK;
}

static weft_status added_start(weft_operation *o)
{
    pending *p = o->state;
    transport_job *job = weft_added_of(o)->lines->job;
    if (atomic_load(&job->aborted)) return weft_operation_ended(o, "before", job->why);
    p->received = p->summed = false;
    p->started = true;
    if (o->t.kind == WEFT_SEND) WEFT_TRY(weft_added_send(o, o->t.peer));
    for (int r = 0; weft_is_collective(o->t.kind) && r < o->comm->size; r++)
        WEFT_TRY(weft_added_send(o, r));
    return weft_lines_advance(weft_added_of(o)->lines);
}

static bool has_arrived(const weft_operation *o, int rank)
{
    return weft_added_arrived(o, rank) != NULL;
}

static void added_describe(weft_operation *o, weft_text *text)
{
    weft_describe_ranks(o, weft_added_of(o)->world, has_arrived, text);
}

static void added_abort(weft_comm *comm)
{
    weft_transport_end_job(((added *)comm)->lines->job, weft_last_message());
}

static const char *added_aborted(weft_comm *comm)
{
    transport_job *job = ((added *)comm)->lines->job;
    return atomic_load(&job->aborted) ? job->why : NULL;
}

static void added_close(weft_comm *comm)
{
    added *a = (added *)comm;
    weft_lines_release(a->lines);
    free(a->world);
    free(a);
}

static weft_status make(const weft_comm *like, lines *l, int size, added **out)
{
    added *a;
    WEFT_TRY(WEFT_NEW(&a, 1));
    a->head = *like;
    a->head.ops = &ops;
    a->head.size = size;
    a->head.local_size = l->job->ranks;
    a->head.sequence = 0;
    a->lines = l;
    weft_status status = WEFT_NEW(&a->world, size);
    if (status == WEFT_OK)
        *out = a;
    else
        free(a);
    return status;
}

static weft_status added_split(weft_comm *comm, int color, int key, weft_comm **out)
{
    added *parent = (added *)comm, *a;
    int32_t own[2] = {color, key}, *splits;
    int n = comm->size, size, first;
    WEFT_TRY(WEFT_NEW(&splits, (size_t)2 * n));
    weft_status status =
        weft_comm_run(comm, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_I32,
                                          .what = "the split of a communicator", .send = own,
                                          .receive = splits, .count = 2));
    uint64_t number = (uint64_t)++parent->splits << 32 | (uint32_t)color;
    int rank = weft_split_place(splits, n, comm->rank, &size, &first);
    if (status == WEFT_OK && color >= 0) status = make(comm, parent->lines, size, &a);
    if (status == WEFT_OK && color >= 0) {
        parent->lines->references++;
        a->head.rank = rank;
        a->id = weft_mix(parent->id, number);
        for (int r = 0; r < n; r++)
            if (splits[(size_t)2 * r] == color)
                a->world[weft_split_place(splits, n, r, &size, &first)] = parent->world[r];
        *out = &a->head;
    }
    free(splits);
    return status;
}

static const weft_comm_ops ops = {
    .name = "added",
    .close = added_close,
    .split = added_split,
    .prepare = added_prepare,
    .destroy = added_destroy,
    .start = added_start,
    .advance = added_advance,
    .describe = added_describe,
    .abort = added_abort,
    .aborted = added_aborted,
};

static weft_status open_rank(weft_context *context, transport_job *job, int rank, weft_comm **out)
{
    weft_progress *member;
    lines *l = NULL;
    added *a = NULL;
    WEFT_TRY(weft_progress_new(&member));
    weft_status status = weft_lines_new(job, rank, &l);
    member->local_rank = rank;
    const weft_comm like = {.context = context, .member = member, .rank = rank};
    if (status == WEFT_OK) status = make(&like, l, job->ranks, &a);
    if (status != WEFT_OK) {
        if (l) weft_lines_release(l);
        weft_progress_release(member);
        return status;
    }
    for (int r = 0; r < job->ranks; r++) a->world[r] = r;
    *out = &a->head;
    return WEFT_OK;
}

static weft_status added_open(const weft_engine *engine, weft_context *context, int ranks,
                              weft_comm **out, int *local)
{
    const added_engine *e = (const added_engine *)engine;
    transport_job *job;
    int made = 0;
    if (ranks < 1) ranks = 1;
    WEFT_TRY(WEFT_NEW(&job, 1));
    job->engine = e;
    job->ranks = ranks;
    uint64_t before = weft_failures();
    weft_status status = weft_ensure_message(e->ops->open(ranks, &job->state), before, "engine",
                                             engine->name, "open");
    if (status != WEFT_OK) {
        free(job);
        return status;
    }
    pthread_mutex_init(&job->lock, NULL);
    atomic_store(&job->references, 1);
    while (made < ranks && status == WEFT_OK) {
        status = open_rank(context, job, made, &out[made]);
        made += status == WEFT_OK;
    }
    for (int i = 0; i < made && status != WEFT_OK; i++) weft_comm_close(&out[i]);
    weft_transport_job_release(job);
    *local = ranks;
    return status;
}

static weft_status accept(weft_context *context, const weft_entry *entry, const void *given,
                          void **made)
{
    const weft_transport_ops *transport = given;
    added_engine *e;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "open", transport->open));
    WEFT_TRY(weft_entry_need(entry, "close", transport->close));
    WEFT_TRY(weft_entry_need(entry, "send", transport->send));
    WEFT_TRY(weft_entry_need(entry, "receive", transport->receive));
    WEFT_TRY(WEFT_NEW(&e, 1));
    *made = e;
    e->ops = transport;
    e->engine = (weft_engine){.name = entry->name, .summary = entry->summary, .open = added_open};
    return WEFT_OK;
}

const weft_extension weft_engines_extension = {.kind = WEFT_KIND_ENGINE,
                                               .type = "weft_transport_ops",
                                               .size = sizeof(weft_transport_ops),
                                               .least = sizeof(weft_transport_ops),
                                               .accept = accept};
