/* Internals of serving: listening ports. */
#ifndef WEFT_SERVE_PORT_H
#define WEFT_SERVE_PORT_H

#include "base/base.h"

typedef enum weft_port_use {
    WEFT_PORT_ALONE,   /* listens */
    WEFT_PORT_SHARED,  /* listens, together with other processes, on a port that is reserved */
    WEFT_PORT_RESERVED /* reserves the port without listening, for processes that share it */
} weft_port_use;

/* Opens a socket; *bound is its port. Port 0: a free one. ARGUMENT: the address is invalid; IO: the
 * port is in use. */
weft_status weft_port_open(const char *host, int64_t port, weft_port_use use, int *out,
                           int *bound) WEFT_NODISCARD;

#endif
