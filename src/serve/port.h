/* Internals of serving: opening listening sockets, and reserving a port that several server
 * processes share. */
#ifndef WEFT_SERVE_PORT_H
#define WEFT_SERVE_PORT_H

#include "base/base.h"

typedef enum weft_port_use {
    WEFT_PORT_ALONE,   /* listens; no other process may use the port */
    WEFT_PORT_SHARED,  /* listens on a reserved port together with other processes (SO_REUSEPORT) */
    WEFT_PORT_RESERVED /* does not listen, but keeps the port for processes that share it */
} weft_port_use;

/* Opens a socket. port 0: the system chooses a free one. *bound: the number of its port. ARGUMENT:
 * the address is invalid; IO: the socket cannot be bound, for example as the port is in use. */
weft_status weft_port_open(const char *host, int64_t port, weft_port_use use, int *out,
                           int *bound) WEFT_NODISCARD;

/* Whether an address is one of this machine alone. */
bool weft_port_is_local(const char *host);

#endif
