/* Connections of a lane: opened on demand, reused, and reopened after the server has closed
 * them. */
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "load/engine_internal.h"

enum { BUFFER = 65536 };

/* --- chains --- */

static void chain_remove(weft_chain *chain, weft_wire *c)
{
    *(c->before ? &c->before->after : &chain->first) = c->after;
    *(c->after ? &c->after->before : &chain->last) = c->before;
    c->before = c->after = NULL;
}

static void chain_first(weft_chain *chain, weft_wire *c)
{
    c->before = NULL;
    c->after = chain->first;
    *(c->after ? &c->after->before : &chain->last) = c;
    chain->first = c;
}

static void chain_last(weft_chain *chain, weft_wire *c)
{
    c->after = NULL;
    c->before = chain->last;
    *(c->before ? &c->before->after : &chain->first) = c;
    chain->last = c;
}

/* --- ends --- */

static void shut(weft_wire *c)
{
    if (c->file >= 0) close(c->file);
    c->file = -1;
}

static void end(weft_engine *e, weft_wire *c, bool keep, int status, const char *what,
                const char *example)
{
    weft_lane *lane = c->lane;
    chain_remove(&lane->busy, c);
    c->busy = false;
    if (!keep) shut(c);
    /* The most recently used connection is reused first, so that few connections stay open. */
    chain_first(keep ? &lane->idle : &lane->closed, c);
    c->used = keep;
    weft_engine_ended(e, lane, c->now, status, what, example);
}

static void fail_address(weft_engine *e, weft_wire *c, int why)
{
    char address[160], text[256];
    weft_load_target_address(&c->lane->asking->target, c->address, address, sizeof(address));
    (void)snprintf(text, sizeof(text), "%s: %s", address, strerror(why));
    end(e, c, false, 0, "connect", text);
}

void weft_lane_give_up(weft_engine *e, weft_wire *c, const char *what, const char *why)
{
    end(e, c, false, 0, what, why);
}

/* --- requests --- */

static bool watch(weft_engine *e, weft_wire *c, bool first, bool writes)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (writes) event.events |= EPOLLOUT;
    if (!first && c->writes == writes) return true;
    c->writes = writes;
    return epoll_ctl(e->epoll, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->file, &event) == 0;
}

/* Sends as much as the connection takes: 0, or errno. */
static int send_more(weft_engine *e, weft_wire *c, bool first)
{
    while (c->sent < c->asked->size) {
        ssize_t n =
            send(c->file, c->asked->bytes + c->sent, c->asked->size - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
        if (n < 0) return errno;
        c->connected = true;
        c->sent += (size_t)n;
    }
    return watch(e, c, first, c->sent < c->asked->size) ? 0 : errno;
}

static void reset(weft_wire *c)
{
    c->sent = 0;
    c->heard = false;
    weft_heard_begin(&c->answer);
}

/* Connects to the next address of the target that has not been tried. */
static void connect_next(weft_engine *e, weft_wire *c)
{
    const weft_load_target *target = &c->lane->asking->target;
    int why = 0;
    for (; c->tried < target->count; c->tried++) {
        c->address = (target->good + c->tried) % target->count;
        c->connected = c->used = false;
        reset(c);
        shut(c);
        c->file = weft_load_target_connect(target, c->address);
        why = c->file < 0 ? errno : send_more(e, c, true);
        if (why) continue;
        c->now.row->figures.opened++;
        return;
    }
    fail_address(e, c, why);
}

/* A failure before the connection is established is one of the address. If the server has closed a
 * reused connection, the request is sent again once, since the server may not have seen it. */
static void broken(weft_engine *e, weft_wire *c, int why)
{
    if (!c->connected) {
        c->tried++;
        if (c->tried < c->lane->asking->target.count)
            connect_next(e, c);
        else
            fail_address(e, c, why);
    } else if (c->used && !c->heard && !c->again) {
        c->again = true;
        c->tried = 0;
        c->now.row->figures.again++;
        connect_next(e, c);
    } else {
        char text[128];
        (void)snprintf(text, sizeof(text), "the server closed the connection %s%s%s",
                       c->heard ? "within its answer" : "without an answer", why ? ": " : "",
                       why ? strerror(why) : "");
        end(e, c, false, 0, "closed", text);
    }
}

bool weft_lane_ask(weft_engine *e, weft_lane *lane, weft_due due)
{
    weft_wire *c = lane->idle.first ? lane->idle.first : lane->closed.first;
    if (!c) return false;
    bool open = c->file >= 0;
    chain_remove(open ? &lane->idle : &lane->closed, c);
    chain_last(&lane->busy, c);
    c->busy = true;
    c->now = due;
    c->asked = &lane->asking->all[e->number % (uint64_t)lane->asking->count];
    c->again = false;
    c->tried = 0;
    if (!open) {
        connect_next(e, c);
        return true;
    }
    reset(c);
    int why = send_more(e, c, false);
    if (why) broken(e, c, why);
    return true;
}

/* --- responses --- */

static void answered(weft_engine *e, weft_wire *c)
{
    char text[256] = "";
    bool keep = !c->answer.closes && c->sent == c->asked->size;
    if (c->answer.status != 200) weft_load_error_text(c->text, c->answer.kept, text, sizeof(text));
    end(e, c, keep, c->answer.status, "", text);
}

static void not_http(weft_engine *e, weft_wire *c, const char *why)
{
    char text[192];
    (void)snprintf(text, sizeof(text), "the answer is not HTTP: %s", why);
    end(e, c, false, 0, "protocol", text);
}

/* false: there is nothing more to read now. */
static bool receive(weft_engine *e, weft_wire *c)
{
    size_t used;
    ssize_t n = recv(c->file, e->buffer, BUFFER, 0);
    if (n < 0 && errno == EINTR) return true;
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0 || (n == 0 && !c->heard)) {
        broken(e, c, n < 0 ? errno : 0);
        return false;
    }
    c->heard = true;
    weft_heard_state state = n == 0 ? weft_heard_end(&c->answer)
                                    : weft_heard_feed(&c->answer, e->buffer, (size_t)n, &used);
    if (state == WEFT_HEARD_WRONG && n == 0)
        broken(e, c, 0);
    else if (state == WEFT_HEARD_WRONG)
        not_http(e, c, c->answer.wrong);
    else if (state == WEFT_HEARD_WHOLE && n > 0 && used < (size_t)n)
        not_http(e, c, "bytes follow its end; its Content-Length or a chunk is too small");
    else if (state == WEFT_HEARD_WHOLE)
        answered(e, c);
    return state == WEFT_HEARD_MORE && n == BUFFER;
}

/* An idle connection was closed by the server, or has received unexpected data. */
static void drop_idle(weft_wire *c)
{
    chain_remove(&c->lane->idle, c);
    shut(c);
    chain_first(&c->lane->closed, c);
}

void weft_lane_event(weft_engine *e, weft_wire *c, uint32_t events)
{
    if (c->file < 0) return;
    if (!c->busy) {
        drop_idle(c);
        return;
    }
    int why = 0;
    socklen_t size = sizeof(why);
    if (!c->connected && (events & (EPOLLERR | EPOLLHUP))) {
        if (getsockopt(c->file, SOL_SOCKET, SO_ERROR, &why, &size) < 0) why = errno;
        broken(e, c, why ? why : ECONNREFUSED);
        return;
    }
    if ((events & EPOLLOUT) && c->sent < c->asked->size) why = send_more(e, c, false);
    /* A response that arrived before the error is still read. */
    if (why && !(events & EPOLLIN)) {
        broken(e, c, why);
        return;
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        while (receive(e, c)) continue;
}

/* --- a lane --- */

weft_status weft_lane_open(weft_lane *lane, weft_asking *asking, int count)
{
    *lane = (weft_lane){.asking = asking, .count = count};
    WEFT_TRY(WEFT_NEW(&lane->all, count));
    for (int i = count; i-- > 0;) {
        weft_wire *c = &lane->all[i];
        *c = (weft_wire){.file = -1, .lane = lane};
        c->answer.text = c->text;
        c->answer.room = sizeof(c->text);
        chain_first(&lane->closed, c);
    }
    return WEFT_OK;
}

void weft_lane_close(weft_lane *lane)
{
    for (int i = 0; lane->all && i < lane->count; i++) {
        shut(&lane->all[i]);
        weft_heard_free(&lane->all[i].answer);
    }
    free(lane->all);
    free(lane->waiting);
    *lane = (weft_lane){0};
}
