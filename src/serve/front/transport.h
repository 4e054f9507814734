/* Internals of the front end: the bytes of a connection, with or without TLS. */
#ifndef WEFT_SERVE_FRONT_TRANSPORT_H
#define WEFT_SERVE_FRONT_TRANSPORT_H

#include "serve/front/access_control.h"

typedef struct weft_transport {
    int socket;
    struct gnutls_session_int *tls; /* NULL: none */
    bool shaking;                   /* the handshake is not over */
} weft_transport;

/* Results of reading, writing and the handshake in place of a number of bytes. */
enum { WEFT_TRANSPORT_AGAIN = -1, WEFT_TRANSPORT_BROKEN = -2 };

/* Begins TLS with the present certificate if `tls` is not NULL. The caller closes the socket also
 * after a failure. */
weft_status weft_transport_open(weft_transport *transport, int socket,
                                const weft_tls *tls) WEFT_NODISCARD;
/* Says the end in TLS if the handshake is over, and closes the socket. */
void weft_transport_close(weft_transport *transport);
/* Makes closing reset the connection, so that what was sent does not look whole. */
void weft_transport_break(weft_transport *transport);
/* Says that this side sends no more. */
void weft_transport_finish(weft_transport *transport);
/* Goes on with the handshake; 0: it is over. */
int weft_transport_handshake(weft_transport *transport);
/* Whether the handshake waits until the socket can be written. */
bool weft_transport_wants_write(const weft_transport *transport);
/* The bytes that were read; 0: the client sends no more. */
ssize_t weft_transport_read(weft_transport *transport, char *to, size_t size);
/* The bytes that were written. more: others follow at once. */
ssize_t weft_transport_write(weft_transport *transport, const char *from, size_t size, bool more);

#endif
