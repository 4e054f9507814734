/* Inside of serving: ports. */
#ifndef WEFT_SERVE_PORT_H
#define WEFT_SERVE_PORT_H

#include "base/base.h"

typedef enum weft_port_use {
    WEFT_PORT_ALONE,  /* listens */
    WEFT_PORT_SHARED, /* listens beside other processes that share it, where somebody keeps it */
    WEFT_PORT_KEPT    /* does not listen; processes that share it may come and go */
} weft_port_use;

/* Port 0: one that is free. A socket, *bound its port. ARGUMENT: an address that is none; IO: the
 * port is in use. */
weft_status weft_port_open(const char *host, int64_t port, weft_port_use use, int *out,
                           int *bound) WEFT_NODISCARD;

#endif
