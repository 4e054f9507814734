/* Implements the engine self, which has one rank: every collective is a copy. A send, from the rank
 * to itself, waits until a receive has copied its elements and set `state` of the send. */
#include "base/tree_sum.h"
#include "comm/comm.h"

typedef struct self {
    weft_comm head;
    bool aborted;
    char why[512];
} self;

static void self_close(weft_comm *comm)
{
    free(comm);
}

static weft_status self_make(weft_context *context, weft_progress *member, weft_comm **out);

static weft_status self_split(weft_comm *comm, int color, int key, weft_comm **out)
{
    (void)key;
    return color < 0 ? WEFT_OK : self_make(comm->context, comm->member, out);
}

/* Allocates the workspace of a sum, which is its state. */
static weft_status self_prepare(weft_operation *o)
{
    if (!weft_is_sum(o->t.kind)) return WEFT_OK;
    return weft_new_aligned(weft_tree_room(o->t.leaves ? o->t.leaves : 1, 0), &o->state);
}

static void self_destroy(weft_operation *o)
{
    if (weft_is_sum(o->t.kind)) free(o->state);
}

static weft_status self_start(weft_operation *o)
{
    if (!weft_is_sum(o->t.kind)) o->state = NULL;
    return WEFT_OK;
}

static void copy(const weft_operation *o, int64_t count)
{
    if (o->t.receive != o->t.send && count > 0)
        memcpy(o->t.receive, o->t.send, (size_t)count * weft_dtype_size(o->t.dtype));
}

/* The oldest active send with the tag of the receive `o` that no receive has taken; NULL: none. */
static weft_operation *sent(const weft_operation *o)
{
    for (weft_operation *s = o->comm->member->active; s; s = s->next)
        if (s->comm == o->comm && s->t.kind == WEFT_SEND && s->t.tag == o->t.tag && !s->state)
            return s;
    return NULL;
}

static weft_status self_advance(weft_operation *o)
{
    weft_operation *from;
    switch (o->t.kind) {
    case WEFT_SEND: o->done = o->state != NULL; return WEFT_OK;
    case WEFT_RECEIVE:
        from = sent(o);
        if (!from) return WEFT_OK;
        if (from->t.count != o->t.count || from->t.dtype != o->t.dtype)
            return weft_fail(WEFT_ERR_PEER,
                             "rank 0 sent %lld %s as %s, rank 0 expects %lld %s of %s",
                             (long long)from->t.count, weft_dtype_name(from->t.dtype), from->what,
                             (long long)o->t.count, weft_dtype_name(o->t.dtype), o->what);
        if (o->t.count)
            memcpy(o->t.receive, from->t.send, (size_t)o->t.count * weft_dtype_size(o->t.dtype));
        from->state = o;
        break;
    case WEFT_BROADCAST: break; /* the data are in place */
    case WEFT_ALL_REDUCE: {
        weft_tree tree = {.dtype = o->t.dtype,
                          .ranks = 1,
                          .leaves = o->t.leaves ? o->t.leaves : 1,
                          .source = &o->t.send,
                          .stride = o->t.count,
                          .room = o->state};
        if (o->t.leaves > 1)
            weft_tree_sum(&tree, 0, o->t.count, o->t.receive);
        else
            copy(o, o->t.count);
        break;
    }
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_GATHER:
    case WEFT_GATHER:
    case WEFT_ALL_TO_ALL: copy(o, o->counts[0]); break;
    case WEFT_BARRIER: break;
    }
    o->done = true;
    return WEFT_OK;
}

static void self_describe(weft_operation *o, weft_text *text)
{
    weft_text_add(text, "; nothing with tag %d was sent or received by this only rank", o->t.tag);
}

static void self_abort(weft_comm *comm)
{
    self *s = (self *)comm;
    s->aborted = true;
    size_t size = WEFT_MIN(strlen(weft_last_message()), sizeof(s->why) - 1);
    memcpy(s->why, weft_last_message(), size);
    s->why[size] = '\0';
}

static const char *self_aborted(weft_comm *comm)
{
    const self *s = (const self *)comm;
    return s->aborted ? s->why : NULL;
}

static const weft_comm_ops ops = {
    .name = "self",
    .close = self_close,
    .split = self_split,
    .prepare = self_prepare,
    .destroy = self_destroy,
    .start = self_start,
    .advance = self_advance,
    .describe = self_describe,
    .abort = self_abort,
    .aborted = self_aborted,
};

static weft_status self_make(weft_context *context, weft_progress *member, weft_comm **out)
{
    self *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head =
        (weft_comm){.ops = &ops, .context = context, .member = member, .size = 1, .local_size = 1};
    *out = &s->head;
    return WEFT_OK;
}

static weft_status self_open(const weft_engine *engine, weft_context *context, int ranks,
                             weft_comm **out, int *local)
{
    (void)engine;
    weft_progress *member;
    if (ranks > 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "engine self has one rank, not %d; give --engine "
                         "threads or mpi",
                         ranks);
    WEFT_TRY(weft_progress_new(&member));
    weft_status status = self_make(context, member, out);
    if (status == WEFT_OK)
        *local = 1;
    else
        weft_progress_release(member);
    return status;
}

const weft_engine weft_engine_self = {
    .name = "self", .summary = "one rank", .open = self_open, .implied = true};

/* The engine processes opens no communicator: its learners are processes that find each other
 * through a coordinator, and each of them is a job of its own. */
static weft_status processes_open(const weft_engine *engine, weft_context *context, int ranks,
                                  weft_comm **out, int *local)
{
    (void)engine;
    (void)context;
    (void)out;
    (void)local;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "engine processes cannot run %d ranks in one process: its learners are "
                     "started by a supervisor, as weft train and weft_job_run do",
                     ranks);
}

const weft_engine weft_engine_processes = {
    .name = "processes",
    .summary = "learners and servers are processes, which are started again when they die",
    .open = processes_open};
