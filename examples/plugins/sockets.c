/* An engine as a plug-in: ranks are threads that send each other bytes through pairs of sockets.
 *
 *   weft train --plugin ./libsockets.so -n 4 --engine sockets */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

/* The state is int ends[ranks * ranks]: ends[from * ranks + to] is the socket of rank `from` to
 * rank `to`. Rank 0 needs none to itself, so ends[0] is the number of ranks. */
static void sockets_close(void *state)
{
    int *ends = state;
    for (int i = 1; i < ends[0] * ends[0]; i++)
        if (ends[i] > 0) close(ends[i]);
    free(ends);
}

static weft_status sockets_open(int ranks, void **state)
{
    int *ends, pair[2];
    weft_status status = weft->allocate((size_t)(ranks * ranks) * sizeof(int), &ends);
    if (status != WEFT_OK) return status;
    ends[0] = ranks;
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < a; b++) {
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
                status = weft->fail(WEFT_ERR_IO, "no socket: %s", strerror(errno));
                sockets_close(ends);
                return status;
            }
            ends[a * ranks + b] = pair[0];
            ends[b * ranks + a] = pair[1];
        }
    *state = ends;
    return WEFT_OK;
}

static weft_status result(ssize_t bytes, int peer, size_t *moved)
{
    *moved = bytes > 0 ? (size_t)bytes : 0;
    if (bytes > 0 || (bytes < 0 && (errno == EAGAIN || errno == EINTR))) return WEFT_OK;
    return weft->fail(WEFT_ERR_PEER, "rank %d: %s", peer, bytes ? strerror(errno) : "closed");
}

static weft_status sockets_send(void *state, int from, int to, const void *data, size_t bytes,
                                size_t *moved)
{
    const int *ends = state;
    return result(send(ends[from * *ends + to], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL), to,
                  moved);
}

static weft_status sockets_receive(void *state, int to, int from, void *data, size_t bytes,
                                   size_t *moved)
{
    const int *ends = state;
    return result(recv(ends[to * *ends + from], data, bytes, MSG_DONTWAIT), from, moved);
}

static const weft_transport_ops ops = {.struct_size = sizeof(ops),
                                       .open = sockets_open,
                                       .close = sockets_close,
                                       .send = sockets_send,
                                       .receive = sockets_receive};

static const weft_entry entries[] = {{.kind = WEFT_KIND_ENGINE,
                                      .name = "sockets",
                                      .summary = "ranks are threads that are joined by sockets",
                                      .ops = &ops},
                                     {.name = NULL}};

WEFT_PLUGIN(weft, entries);
