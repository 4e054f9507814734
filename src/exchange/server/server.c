/* The server: takes pushes, and answers pulls when the policy lets it. */
#include "exchange/server/server.h"

#include "exchange/wire.h"
#include "server.pb-c.h"

/* A pull that is not answered yet. */
typedef struct question {
    weft_actor_id learner;
    int64_t request, clock, have;
    bool leaving, whole;
} question;

typedef struct shelf {
    weft_served of;
    question *questions;
    size_t question_count, question_capacity;
    weft_blob *copy; /* of the parameters at version `copied`, for all who pull it */
    weft_blob *last; /* the one before it, which may be under way still */
    int64_t copied;
} shelf;

typedef struct server {
    weft_actor head;
    shelf *shelves;
    int count;
    bool halt; /* somebody wants all to leave */
} server;

static shelf *find_shelf(const server *s, uint32_t number)
{
    for (int i = 0; i < s->count; i++)
        if ((uint32_t)s->shelves[i].of.number == number) return &s->shelves[i];
    return NULL;
}

weft_range *weft_server_range_of(const weft_actor *actor, int number)
{
    const server *s = (const server *)actor;
    const shelf *f = find_shelf(s, (uint32_t)number);
    return f ? f->of.range : NULL;
}

static weft_status copy_parameters(shelf *f)
{
    weft_range *range = f->of.range;
    size_t bytes = weft_range_bytes(range);
    if (f->copy && f->copied == weft_range_version(range)) return WEFT_OK;
    weft_blob *before = f->copy;
    f->copy = f->last;
    f->last = before;
    WEFT_TRY(weft_blob_renew(bytes, &f->copy));
    memcpy(f->copy->data, weft_range_parameters(range), bytes);
    f->copied = weft_range_version(range);
    return WEFT_OK;
}

/* Parameters and all that the update keeps, behind each other. */
static weft_status copy_whole(const shelf *f, weft_blob **out)
{
    size_t bytes = weft_range_bytes(f->of.range);
    for (int i = 0; i < f->of.state_count; i++) bytes += f->of.states[i].iov_len;
    WEFT_TRY(weft_blob_new(bytes, out));
    char *at = (*out)->data;
    memcpy(at, weft_range_parameters(f->of.range), weft_range_bytes(f->of.range));
    at += weft_range_bytes(f->of.range);
    for (int i = 0; i < f->of.state_count; i++) {
        memcpy(at, f->of.states[i].iov_base, f->of.states[i].iov_len);
        at += f->of.states[i].iov_len;
    }
    return WEFT_OK;
}

static weft_status answer_whole(server *s, const shelf *f, const question *q,
                                const Weft__Parameters *p)
{
    weft_blob *all;
    WEFT_TRY(copy_whole(f, &all));
    weft_status status = weft_wire_send(&s->head, q->learner, WEFT_WIRE_PARAMETERS, p, all);
    weft_blob_drop(&all);
    return status;
}

static weft_status answer(server *s, shelf *f, const question *q)
{
    Weft__Parameters p = WEFT__PARAMETERS__INIT;
    p.range = (uint32_t)f->of.number;
    p.request = q->request;
    p.version = weft_range_version(f->of.range);
    p.halt = s->halt;
    if (q->whole) return answer_whole(s, f, q, &p);
    bool newer = q->have != p.version;
    if (newer) WEFT_TRY(copy_parameters(f));
    return weft_wire_send(&s->head, q->learner, WEFT_WIRE_PARAMETERS, &p, newer ? f->copy : NULL);
}

/* Whether the learner's own updates are in, and all that the policy wants it to see. Who leaves
 * sees what all have come to. */
static bool may_answer(const shelf *f, const question *q)
{
    if (q->leaving) return weft_range_learners(f->of.range) == 0;
    return weft_range_clock(f->of.range, q->learner) >= q->clock &&
           weft_range_may_begin(f->of.range, q->clock);
}

/* Who wants to leave is gone when its updates are in. */
static weft_status let_go(const shelf *f)
{
    for (size_t i = 0; i < f->question_count; i++) {
        const question *q = &f->questions[i];
        int64_t clock = weft_range_clock(f->of.range, q->learner);
        if (q->leaving && clock >= q->clock) WEFT_TRY(weft_range_leave(f->of.range, q->learner));
    }
    return WEFT_OK;
}

static weft_status answer_all(server *s, shelf *f)
{
    size_t kept = 0;
    WEFT_TRY(let_go(f));
    for (size_t i = 0; i < f->question_count; i++) {
        question q = f->questions[i];
        if (may_answer(f, &q))
            WEFT_TRY(answer(s, f, &q));
        else
            f->questions[kept++] = q;
    }
    f->question_count = kept;
    return WEFT_OK;
}

/* A learner asks one thing at a time; if it asks again, that is what it wants to know. */
static weft_status ask(shelf *f, question q)
{
    for (size_t i = 0; i < f->question_count; i++)
        if (f->questions[i].learner == q.learner) {
            if (q.request >= f->questions[i].request) f->questions[i] = q;
            return WEFT_OK;
        }
    WEFT_TRY(WEFT_GROW(&f->questions, &f->question_capacity, f->question_count));
    f->questions[f->question_count++] = q;
    return WEFT_OK;
}

static weft_status take_push(server *s, const weft_letter *letter, const Weft__Push *m)
{
    shelf *f = find_shelf(s, m->range);
    Weft__Pushed reply = WEFT__PUSHED__INIT;
    weft_push_fate fate = WEFT_PUSH_UNKNOWN;
    reply.range = m->range;
    reply.sequence = m->sequence;
    reply.fate = WEFT__PUSHED__FATE__UNKNOWN;
    if (f) {
        weft_push push = {letter->from, m->sequence, m->clock, m->version, letter->payload};
        weft_status status = weft_range_push(f->of.range, &push, &fate);
        /* What a learner sends is its fault alone. */
        if (status != WEFT_OK && status != WEFT_ERR_FORMAT) return status;
        if (status == WEFT_ERR_FORMAT)
            reply.fate = WEFT__PUSHED__FATE__DAMAGED;
        else if (fate == WEFT_PUSH_EARLY)
            reply.fate = WEFT__PUSHED__FATE__EARLY;
        else if (fate != WEFT_PUSH_UNKNOWN)
            reply.fate = WEFT__PUSHED__FATE__TAKEN;
    }
    WEFT_TRY(weft_wire_send(&s->head, letter->from, WEFT_WIRE_PUSHED, &reply, NULL));
    return f ? answer_all(s, f) : WEFT_OK;
}

static weft_status take_pull(server *s, const weft_letter *letter, const Weft__Pull *m)
{
    shelf *f = find_shelf(s, m->range);
    bool known = f && (m->leaving ? weft_range_knows(f->of.range, letter->from)
                                  : weft_range_clock(f->of.range, letter->from) >= 0);
    if (!known) {
        Weft__Parameters nobody = WEFT__PARAMETERS__INIT;
        nobody.range = m->range;
        nobody.request = m->request;
        nobody.version = -1;
        return weft_wire_send(&s->head, letter->from, WEFT_WIRE_PARAMETERS, &nobody, NULL);
    }
    s->halt = s->halt || m->halt;
    if (m->halt) weft_range_halt(f->of.range, m->clock);
    WEFT_TRY(ask(f, (question){letter->from, m->request, m->clock, m->have, m->leaving, m->whole}));
    return answer_all(s, f);
}

static weft_status server_letter(weft_actor *actor, const weft_letter *letter)
{
    server *s = (server *)actor;
    weft_status status = WEFT_OK;
    void *m = NULL;
    if (letter->type == WEFT_WIRE_PUSH && (m = weft_wire_read(letter, &weft__push__descriptor)))
        status = take_push(s, letter, m);
    else if (letter->type == WEFT_WIRE_PULL &&
             (m = weft_wire_read(letter, &weft__pull__descriptor)))
        status = take_pull(s, letter, m);
    weft_wire_free(m);
    return status; /* what is none of ours is not answered */
}

static weft_status nothing(weft_actor *actor)
{
    (void)actor;
    return WEFT_OK;
}

static weft_status no_timer(weft_actor *actor, int timer)
{
    (void)actor;
    (void)timer;
    return WEFT_OK;
}

static void server_destroy(weft_actor *actor)
{
    server *s = (server *)actor;
    for (int i = 0; i < s->count; i++) {
        weft_range_destroy(&s->shelves[i].of.range);
        weft_blob_drop(&s->shelves[i].copy);
        weft_blob_drop(&s->shelves[i].last);
        free(s->shelves[i].questions);
    }
    free(s->shelves);
    free(s);
}

static const weft_actor_ops server_ops = {
    .name = "server",
    .begin = nothing,
    .letter = server_letter,
    .timer = no_timer,
    .destroy = server_destroy,
};

weft_status weft_server_create(const weft_served *ranges, int count, weft_actor **out)
{
    server *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_status status = WEFT_NEW(&s->shelves, count);
    if (status != WEFT_OK) {
        free(s);
        return status;
    }
    s->head.ops = &server_ops;
    s->count = count;
    for (int i = 0; i < count; i++) s->shelves[i].of = ranges[i];
    *out = &s->head;
    return WEFT_OK;
}
