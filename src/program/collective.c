/* Collectives that a library of the ranks' devices runs in place of communicators: its own
 * communicators, whose names travel over those of the ranks, are opened when the first program
 * needs them. */
#include <sched.h>
#include <stdio.h>

#include "program/far.h"

/* One for the ranks of each set of axes, and one for those of the learner. */
enum { LEARNER = WEFT_MESH_MASKS, ALL };

struct device_library {
    const weft_collective_ops *ops;
    weft_device *device;
    weft_comm *learner; /* tells whether ranks have left */
    weft_collective *of[ALL];
    weft_queue *queue;    /* of all operations, in the order in which all ranks begin them */
    pthread_t user;       /* the thread that begins operations */
    pthread_mutex_t lock; /* of the following and the library's communicators */
    bool given_up;
};

const char *weft_collectives_library(const weft_device *device)
{
    const weft_collective_ops *ops = device->ops->collectives;
    return ops && !weft_device_shares(device) ? ops->library(device) : NULL;
}

static void give_up(device_library *c)
{
    for (int i = 0; i < ALL; i++)
        if (c->of[i]) c->ops->give_up(c->of[i]);
    c->given_up = true;
}

/* Whether the ranks are there, and the library has met no failure. */
static weft_status check(const device_library *c, double seconds)
{
    bool done;
    WEFT_TRY(weft_comm_check(c->learner));
    for (int i = 0; i < ALL; i++)
        if (c->of[i]) WEFT_TRY(c->ops->poll(c->of[i], &done));
    double most = weft_comm_timeout(c->learner);
    if (seconds < most) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER,
                     "rank %d waited %.0f s for its device, which waits for other ranks in %s",
                     weft_comm_rank(c->learner), seconds, c->ops->library(c->device));
}

/* Any thread may wait for an event; processes ask for each other in the thread that begins
 * operations, since MPI takes one thread at a time. */
static weft_status waiting(void *user, double seconds)
{
    device_library *c = user;
    weft_status status = WEFT_OK;
    bool here = weft_comm_is_far(c->learner) || pthread_equal(c->user, pthread_self());
    if (!here || pthread_mutex_trylock(&c->lock) != 0) return WEFT_OK;
    if (!c->given_up) status = check(c, seconds);
    if (status != WEFT_OK) give_up(c);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* Waits until the library has queued what it was given. */
static weft_status settle(device_library *c, weft_collective *of)
{
    double began = weft_seconds();
    bool done = false;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && !done) {
        status = c->ops->poll(of, &done);
        if (status == WEFT_OK && !done) status = check(c, weft_seconds() - began);
        if (!done) sched_yield();
    }
    if (status != WEFT_OK) give_up(c);
    return status;
}

weft_status weft_collectives_new(weft_device *device, weft_comm *learner, device_library **out)
{
    device_library *c;
    WEFT_TRY(WEFT_NEW(&c, 1));
    *c = (device_library){.ops = device->ops->collectives,
                          .device = device,
                          .learner = learner,
                          .user = pthread_self()};
    pthread_mutex_init(&c->lock, NULL);
    weft_status status = weft_queue_open(device, &c->queue);
    if (status == WEFT_OK) {
        device->waiting = waiting;
        device->waiting_user = c;
        *out = c;
    } else {
        pthread_mutex_destroy(&c->lock);
        free(c);
    }
    return status;
}

void weft_collectives_free(device_library **given)
{
    device_library *c = *given;
    *given = NULL;
    if (!c) return;
    /* The message of what failed before stays. */
    weft_error message = {.status = WEFT_OK};
    weft_error_catch(&message, WEFT_ERR_INTERNAL);
    weft_status status = weft_comm_check(c->learner);
    if (status != WEFT_OK) give_up(c);
    for (int i = 0; i < ALL; i++)
        if (c->of[i]) c->ops->close(c->of[i]);
    c->device->waiting = NULL;
    weft_queue_close(c->device, &c->queue);
    pthread_mutex_destroy(&c->lock);
    free(c);
    status = weft_error_raise(&message);
    (void)status;
}

static weft_status open_one(device_library *c, weft_comm *comm, weft_collective **out)
{
    char id[WEFT_COLLECTIVE_ID] = "";
    int rank = weft_comm_rank(comm);
    if (rank == 0) WEFT_TRY(c->ops->invite(c->device, id));
    WEFT_TRY(weft_comm_run(comm, WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_U8,
                                               .what = "the name of a communicator of devices",
                                               .send = id, .receive = id, .count = sizeof(id))));
    WEFT_TRY(c->ops->open(c->device, id, weft_comm_size(comm), rank, out));
    return settle(c, *out);
}

weft_status weft_collectives_open(device_library *c, weft_comm *comm, int axes,
                                  weft_collective **out)
{
    int at = axes < 0 ? LEARNER : axes;
    if (!c->of[at]) WEFT_TRY(open_one(c, comm, &c->of[at]));
    *out = c->of[at];
    return WEFT_OK;
}

weft_queue **weft_collectives_queue(device_library *c)
{
    return &c->queue;
}

weft_status weft_collectives_run(device_library *c, weft_collective *of, const weft_transfer *t,
                                 const int64_t *counts, weft_address send, weft_address receive)
{
    c->user = pthread_self();
    pthread_mutex_lock(&c->lock);
    weft_status status = c->ops->queue(of, t, counts, send, receive, c->queue);
    if (status == WEFT_OK)
        status = settle(c, of);
    else
        give_up(c);
    pthread_mutex_unlock(&c->lock);
    return status;
}
