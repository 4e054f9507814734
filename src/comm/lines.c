/* Sends and receives frames over a transport that a program or plug-in has added. */
#include "comm/lines.h"

#include <stdio.h>

void weft_transport_job_release(transport_job *job)
{
    if (atomic_fetch_sub(&job->references, 1) != 1) return;
    job->engine->ops->close(job->state);
    pthread_mutex_destroy(&job->lock);
    free(job);
}

weft_status weft_lines_new(transport_job *job, int rank, lines **out)
{
    WEFT_TRY(weft_new_bytes(out, 1, sizeof(lines) + (size_t)job->ranks * sizeof(line)));
    (*out)->job = job;
    (*out)->rank = rank;
    (*out)->references = 1;
    atomic_fetch_add(&job->references, 1);
    return WEFT_OK;
}

static void free_all(frame *f)
{
    for (frame *next; f; f = next) {
        next = f->next;
        free(f);
    }
}

void weft_lines_release(lines *l)
{
    if (--l->references > 0) return;
    for (int r = 0; r < l->job->ranks; r++) {
        free_all(l->of[r].outbox);
        free_all(l->of[r].inbox);
        free(l->of[r].arriving);
    }
    weft_transport_job_release(l->job);
    free(l);
}

void weft_transport_end_job(transport_job *job, const char *why)
{
    pthread_mutex_lock(&job->lock);
    if (!atomic_load(&job->aborted)) {
        (void)snprintf(job->why, sizeof(job->why), "%s", why);
        atomic_store(&job->aborted, 1);
    }
    pthread_mutex_unlock(&job->lock);
}

weft_status weft_frame_new(const frame_head *head, frame **out)
{
    WEFT_TRY(weft_new_bytes(out, 1, sizeof(frame) + head->bytes));
    (*out)->head = *head;
    return WEFT_OK;
}

static void append(frame **list, frame *f)
{
    while (*list) list = &(*list)->next;
    f->next = NULL;
    *list = f;
}

void weft_lines_put(lines *l, int to, frame *f)
{
    if (to != l->rank) {
        append(&l->of[to].outbox, f);
        return;
    }
    if (f->unsent) --*f->unsent;
    append(&l->of[to].inbox, f);
}

frame *weft_lines_find(const lines *l, int from, uint64_t comm, int64_t number)
{
    frame *f = l->of[from].inbox;
    while (f && (f->head.comm != comm || f->head.number != number)) f = f->next;
    return f;
}

void weft_lines_drop(lines *l, int from, frame *f)
{
    frame **at = &l->of[from].inbox;
    while (*at != f) at = &(*at)->next;
    *at = f->next;
    free(f);
}

void weft_lines_forget(lines *l, const int *unsent)
{
    for (int r = 0; r < l->job->ranks; r++)
        for (frame *f = l->of[r].outbox; f; f = f->next)
            if (f->unsent == unsent) f->unsent = NULL;
}

/* Checks what a function of the transport has returned. */
static weft_status check(const lines *l, const char *function, weft_status status, uint64_t before,
                         size_t bytes, size_t moved)
{
    const char *name = l->job->engine->engine.name;
    WEFT_TRY(weft_ensure_message(status, before, "engine", name, function));
    if (moved <= bytes) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER, "engine %s, %s: %zu bytes were moved, of at most %zu", name,
                     function, moved, bytes);
}

static weft_status send(lines *l, int to, const void *data, size_t bytes, size_t *moved)
{
    uint64_t before = weft_failures();
    *moved = 0;
    weft_status status = l->job->engine->ops->send(l->job->state, l->rank, to, data, bytes, moved);
    return check(l, "send", status, before, bytes, *moved);
}

static weft_status receive(lines *l, int from, void *data, size_t bytes, size_t *moved)
{
    uint64_t before = weft_failures();
    *moved = 0;
    weft_status status =
        l->job->engine->ops->receive(l->job->state, l->rank, from, data, bytes, moved);
    return check(l, "receive", status, before, bytes, *moved);
}

static weft_status send_all(lines *l, int to)
{
    line *c = &l->of[to];
    while (c->outbox) {
        frame *f = c->outbox;
        size_t head = sizeof(f->head), all = head + f->head.bytes, moved;
        bool in_head = f->moved < head;
        const char *from = in_head ? (const char *)&f->head + f->moved : f->data + f->moved - head;
        WEFT_TRY(send(l, to, from, (in_head ? head : all) - f->moved, &moved));
        f->moved += moved;
        if (moved == 0) return WEFT_OK;
        if (f->moved < all) continue;
        if (f->unsent) --*f->unsent;
        c->outbox = f->next;
        free(f);
    }
    return WEFT_OK;
}

/* A transport may also give bytes that no rank has sent. */
static weft_status check_head(const lines *l, int from, const frame_head *head)
{
    static const uint64_t MOST_BYTES = (uint64_t)1 << 50; /* more than any transfer has */
    if (head->bytes <= MOST_BYTES) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER,
                     "engine %s, receive: rank %d got bytes from rank %d that this has not sent",
                     l->job->engine->engine.name, l->rank, from);
}

static weft_status receive_all(lines *l, int from)
{
    line *c = &l->of[from];
    for (size_t moved;;) {
        frame *f = c->arriving;
        if (f && f->moved == f->head.bytes) {
            append(&c->inbox, f);
            c->arriving = NULL;
        } else if (f) {
            WEFT_TRY(receive(l, from, f->data + f->moved, f->head.bytes - f->moved, &moved));
            f->moved += moved;
            if (moved == 0) return WEFT_OK;
        } else {
            WEFT_TRY(receive(l, from, (char *)&c->head + c->head_moved,
                             sizeof(c->head) - c->head_moved, &moved));
            c->head_moved += moved;
            if (moved == 0) return WEFT_OK;
            if (c->head_moved < sizeof(c->head)) continue;
            WEFT_TRY(check_head(l, from, &c->head));
            WEFT_TRY(weft_frame_new(&c->head, &c->arriving));
            c->head_moved = 0;
        }
    }
}

weft_status weft_lines_advance(lines *l)
{
    weft_status status = WEFT_OK;
    for (int i = 1; i < l->job->ranks && status == WEFT_OK; i++) {
        int r = (l->rank + i) % l->job->ranks;
        status = send_all(l, r);
        if (status == WEFT_OK) status = receive_all(l, r);
    }
    if (status != WEFT_OK) weft_transport_end_job(l->job, weft_last_message());
    return status;
}
