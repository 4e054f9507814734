/* The part of communicators that all engines share: the registration of engines, the life of an
 * operation, waiting with a time limit, and statistics. */
#include "comm/comm.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/registry.h"

static const weft_engine *const engines[] = {
    &weft_engine_self,
    &weft_engine_threads,
    &weft_engine_mpi,
    &weft_engine_processes,
};

weft_status weft_engines_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(engines)];
    weft_context_extend(context, &weft_engines_extension);
    for (size_t i = 0; i < WEFT_COUNT(engines); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_ENGINE,
                                  .name = engines[i]->name,
                                  .summary = engines[i]->summary,
                                  .implied = engines[i]->implied,
                                  .ops = engines[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(engines));
}

weft_status weft_comm_open(weft_context *context, const char *engine, int ranks, weft_comm **out,
                           int *local)
{
    WEFT_NEED(context, engine, out, local);
    const weft_entry *entry;
    if (ranks < 0 || ranks > WEFT_MAX_RANKS)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d ranks, 1 to %d are possible", ranks,
                         WEFT_MAX_RANKS);
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_ENGINE, engine, strlen(engine), &entry));
    return ((const weft_engine *)entry->ops)->open(entry->ops, context, ranks, out, local);
}

size_t weft_comm_share_bytes(const weft_context *context, const char *engine, int size)
{
    const weft_entry *entry;
    if (weft_registry_find(context, WEFT_KIND_ENGINE, engine, strlen(engine), &entry) != WEFT_OK)
        return 0;
    const weft_engine *of = entry->ops;
    return of->share ? of->share(size) : 0;
}

size_t weft_comm_process_bytes(const weft_context *context, const char *engine)
{
    const weft_entry *entry;
    if (weft_registry_find(context, WEFT_KIND_ENGINE, engine, strlen(engine), &entry) != WEFT_OK)
        return 0;
    const weft_engine *of = entry->ops;
    return of->process ? of->process() : 0;
}

void weft_comm_close(weft_comm **comm)
{
    if (!comm || !*comm) return;
    weft_progress *member = (*comm)->member;
    (*comm)->ops->close(*comm);
    weft_progress_release(member);
    *comm = NULL;
}

weft_status weft_progress_new(weft_progress **out)
{
    weft_progress *member;
    WEFT_TRY(WEFT_NEW(&member, 1));
    *member = (weft_progress){.references = 1, .timeout = 300};
    *out = member;
    return WEFT_OK;
}

void weft_progress_release(weft_progress *member)
{
    if (--member->references == 0) free(member);
}

int weft_comm_rank(const weft_comm *comm)
{
    WEFT_NEED_ELSE(0, comm);
    return comm->rank;
}
int weft_comm_size(const weft_comm *comm)
{
    WEFT_NEED_ELSE(0, comm);
    return comm->size;
}
int weft_comm_local_rank(const weft_comm *comm)
{
    WEFT_NEED_ELSE(0, comm);
    return comm->member->local_rank;
}

int weft_comm_local_size(const weft_comm *comm)
{
    WEFT_NEED_ELSE(0, comm);
    return comm->local_size;
}
void weft_comm_set_timeout(weft_comm *comm, double seconds)
{
    WEFT_NEED_VOID(comm);
    comm->member->timeout = seconds;
}
double weft_comm_timeout(const weft_comm *comm)
{
    WEFT_NEED_ELSE(0, comm);
    return comm->member->timeout;
}

weft_status weft_comm_check(weft_comm *comm)
{
    WEFT_NEED(comm);
    const char *why = comm->ops->aborted(comm);
    return why ? weft_fail(WEFT_ERR_PEER, WEFT_ENDED ": %s", why) : WEFT_OK;
}

void weft_comm_set_note(weft_comm *comm, char *note)
{
    WEFT_NEED_VOID(comm);
    comm->member->note = note;
}

void weft_comm_set_check(weft_comm *comm, bool check)
{
    WEFT_NEED_VOID(comm);
    comm->member->check = check;
}
weft_comm_stats weft_comm_get_stats(const weft_comm *comm)
{
    WEFT_NEED_ELSE((weft_comm_stats){0}, comm);
    return comm->member->stats;
}

weft_status weft_comm_split(weft_comm *comm, int color, int key, weft_comm **out)
{
    WEFT_NEED(comm, out);
    *out = NULL;
    WEFT_TRY(comm->ops->split(comm, color, key, out));
    if (*out) comm->member->references++;
    return WEFT_OK;
}

void weft_comm_abort(weft_comm *comm)
{
    WEFT_NEED_VOID(comm);
    comm->ops->abort(comm);
}

/* --- operations --- */

static void fill_counts(int64_t *to, const int64_t *from, int64_t each, size_t n)
{
    for (size_t r = 0; r < n; r++) to[r] = from ? from[r] : each;
}

size_t weft_comm_room_bytes(const weft_context *context, const char *engine, const weft_transfer *t,
                            int size)
{
    const weft_entry *entry;
    weft_comm comm = {.size = size, .local_size = size};
    weft_operation o = {.comm = &comm, .t = *t};
    size_t n = (size_t)size, bytes = 0;
    if (weft_registry_find(context, WEFT_KIND_ENGINE, engine, strlen(engine), &entry) != WEFT_OK)
        return 0;
    const weft_engine *of = entry->ops;
    if (!of->room || WEFT_NEW(&o.counts, 2 * n) != WEFT_OK) return 0;
    fill_counts(o.counts, t->counts, t->count, n);
    fill_counts(o.counts + n, t->receive_counts, t->count, n);
    bytes = of->room(&o);
    free(o.counts);
    return bytes;
}

bool weft_comm_is_far(const weft_comm *comm)
{
    return comm->ops->far;
}

weft_status weft_comm_prepare(weft_comm *comm, const weft_transfer *transfer, weft_operation **out)
{
    WEFT_NEED(comm, transfer, out);
    return weft_comm_prepare_far(comm, transfer, NULL, out);
}

weft_status weft_comm_prepare_far(weft_comm *comm, const weft_transfer *transfer, weft_far *far,
                                  weft_operation **out)
{
    weft_operation *o;
    size_t n = (size_t)comm->size;
    if (far && !far->ops->run && !comm->ops->far)
        return weft_fail(WEFT_ERR_INTERNAL, "communicators of %s read host memory alone",
                         comm->ops->name);
    WEFT_TRY(weft_transfer_check(comm, transfer));
    WEFT_TRY(WEFT_NEW(&o, 1));
    o->comm = comm;
    o->far = far;
    o->t = *transfer;
    weft_status status = weft_strdup(transfer->what ? transfer->what : "a value", &o->what);
    for (int i = 0; i < 2 && status == WEFT_OK; i++)
        (void)snprintf(o->note[i], WEFT_NOTE_SIZE, "%s %s of %s", i ? "after" : "in",
                       weft_transfer_name(transfer->kind), o->what);
    if (status == WEFT_OK) status = WEFT_NEW(&o->counts, 2 * n);
    if (status == WEFT_OK) {
        fill_counts(o->counts, transfer->counts, transfer->count, n);
        fill_counts(o->counts + n, transfer->receive_counts, transfer->count, n);
        o->bytes = weft_transfer_sends(o) * (int64_t)weft_dtype_size(transfer->dtype);
        if (!weft_runs_on_device(o)) status = comm->ops->prepare(o);
    }
    if (status != WEFT_OK) {
        free(o->what);
        free(o->counts);
        free(o);
        return status;
    }
    *out = o;
    return WEFT_OK;
}

/* Reading the clock takes a good part of the time of a short operation. So an operation of at most
 * SHORT_BYTES bytes is timed only after SHORT_WAIT polls. */
enum { SHORT_BYTES = 4096, SHORT_WAIT = 10 };

static void leave(weft_operation *o)
{
    for (weft_operation **at = &o->comm->member->active; *at; at = &(*at)->next)
        if (*at == o) {
            *at = o->next;
            return;
        }
}

void weft_operation_destroy(weft_operation **operation)
{
    if (!operation || !*operation) return;
    weft_operation *o = *operation;
    leave(o);
    if (!weft_runs_on_device(o)) o->comm->ops->destroy(o);
    free(o->what);
    free(o->counts);
    free(o);
    *operation = NULL;
}

weft_status weft_operation_ended(const weft_operation *o, const char *when, const char *why)
{
    return weft_fail(WEFT_ERR_PEER, WEFT_ENDED " %s %s of %s: %s", when,
                     weft_transfer_name(o->t.kind), o->what, why);
}

static weft_status aborted(weft_operation *o)
{
    const char *why = o->comm->ops->aborted(o->comm);
    return why ? weft_operation_ended(o, "in", why) : WEFT_OK;
}

weft_status weft_operation_start(weft_operation *o)
{
    WEFT_NEED_AS("operation", o);
    weft_comm *c = o->comm;
    if (o->started)
        return weft_fail(WEFT_ERR_INTERNAL, "%s of %s was started twice",
                         weft_transfer_name(o->t.kind), o->what);
    o->done = weft_runs_on_device(o);
    o->began = o->bytes > SHORT_BYTES ? weft_seconds() : 0;
    if (weft_is_collective(o->t.kind) && !weft_runs_on_device(o)) o->sequence = c->sequence++;
    c->member->stats.operations++;
    c->member->stats.bytes += o->bytes;
    if (c->member->note) memcpy(c->member->note, o->note[0], WEFT_NOTE_SIZE);
    WEFT_TRY(weft_runs_on_device(o) ? o->far->ops->run(o->far, &o->t, o->counts)
                                    : c->ops->start(o));
    o->started = true;
    weft_operation **at = &c->member->active;
    while (*at) at = &(*at)->next;
    *at = o;
    o->next = NULL;
    return WEFT_OK;
}

/* Advances all active operations. */
static weft_status advance_all(weft_progress *m)
{
    for (weft_operation **at = &m->active; *at;) {
        weft_operation *o = *at;
        if (!weft_runs_on_device(o)) WEFT_TRY(o->comm->ops->advance(o));
        if (!o->done) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        o->ended = o->began > 0 ? weft_seconds() : 0;
        m->stats.seconds += o->ended - o->began;
        if (m->note && !m->active) memcpy(m->note, o->note[1], WEFT_NOTE_SIZE);
    }
    return WEFT_OK;
}

weft_status weft_operation_test(weft_operation *o, bool *done)
{
    WEFT_NEED_AS("operation, done", o, done);
    WEFT_TRY(advance_all(o->comm->member));
    *done = o->done;
    if (o->done) o->started = false;
    return *done ? WEFT_OK : aborted(o);
}

static weft_status overdue(weft_operation *o)
{
    weft_text text = {0};
    char *message;
    weft_comm *c = o->comm;
    weft_text_add(&text, "rank %d waited %.0f s in %s of %s", c->rank, c->member->timeout,
                  weft_transfer_name(o->t.kind), o->what);
    c->ops->describe(o, &text);
    WEFT_TRY(weft_text_take(&text, &message));
    weft_status status = weft_fail(WEFT_ERR_PEER, "%s", message);
    free(message);
    weft_comm_abort(c);
    return status;
}

/* Pauses between two polls of a wait: at first not at all, then with a pause instruction, then by
 * yielding, then by sleeping. If this machine has more ranks than cores (`crowded`), a wait sleeps
 * early, since a thread that yields gets as much of a core as a thread that computes. */
static void pause_for(int64_t round, bool crowded)
{
    if (round < 2000 && !crowded) {
#if defined(__x86_64__)
        if (round > 100) __builtin_ia32_pause();
#endif
        return;
    }
    if (round < (crowded ? 100 : 20000))
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

weft_status weft_operation_wait(weft_operation *o)
{
    WEFT_NEED_AS("operation", o);
    weft_comm *c = o->comm;
    if (!o->started) return WEFT_OK;
    if (c->member->note && !o->done) memcpy(c->member->note, o->note[0], WEFT_NOTE_SIZE);
    double began = 0;
    weft_wait_clock wait_clock = {0};
    const double timeout = c->member->timeout;
    bool crowded = c->local_size > weft_cores();
    for (int64_t round = 0;; round++) {
        WEFT_TRY(advance_all(c->member));
        if (o->done) break;
        if (round == SHORT_WAIT) began = weft_seconds();
        if (round == SHORT_WAIT && o->began == 0) o->began = began;
        if (round % 64 == 63) {
            WEFT_TRY(aborted(o));
            if (!o->t.unlimited && weft_wait_clock_read(&wait_clock, timeout / 8) > timeout)
                return overdue(o);
        }
        pause_for(round, crowded);
    }
    o->started = false;
    if (began > 0) c->member->stats.waited += WEFT_MAX(o->ended - began, 0.0);
    return WEFT_OK;
}

weft_status weft_comm_run(weft_comm *comm, const weft_transfer *transfer)
{
    WEFT_NEED(comm, transfer);
    weft_operation *o;
    WEFT_TRY(weft_comm_prepare(comm, transfer, &o));
    weft_status status = weft_operation_start(o);
    if (status == WEFT_OK) status = weft_operation_wait(o);
    weft_operation_destroy(&o);
    return status;
}

weft_status weft_comm_barrier(weft_comm *comm)
{
    WEFT_NEED(comm);
    return weft_comm_run(comm, WEFT_TRANSFER(.kind = WEFT_BARRIER, .what = "everybody"));
}
