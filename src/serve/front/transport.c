/* The bytes of a connection: a socket that never waits, and for https TLS over it (GnuTLS). */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/front/transport.h"

/* TLS 1.2 and 1.3; RFC 8996 says that older versions must not be used. */
static const char VERSIONS[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

weft_status weft_transport_open(weft_transport *t, int socket, const weft_tls *tls)
{
    *t = (weft_transport){.socket = socket};
    if (!tls) return WEFT_OK;
    int code = gnutls_init(&t->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (code >= 0) code = gnutls_priority_set_direct(t->tls, VERSIONS, NULL);
    if (code >= 0)
        code = gnutls_credentials_set(t->tls, GNUTLS_CRD_CERTIFICATE, weft_tls_credentials(tls));
    if (code < 0) {
        if (t->tls) gnutls_deinit(t->tls);
        t->tls = NULL;
        return weft_fail(WEFT_ERR_IO, "TLS cannot begin: %s", gnutls_strerror(code));
    }
    gnutls_transport_set_int(t->tls, socket);
    t->shaking = true;
    return WEFT_OK;
}

void weft_transport_close(weft_transport *t)
{
    if (t->tls && !t->shaking) (void)gnutls_bye(t->tls, GNUTLS_SHUT_WR);
    if (t->tls) gnutls_deinit(t->tls);
    if (t->socket >= 0) (void)close(t->socket);
    *t = (weft_transport){.socket = -1};
}

void weft_transport_break(weft_transport *t)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(t->socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    t->shaking = true; /* closing does not say the end in TLS */
}

void weft_transport_finish(weft_transport *t)
{
    if (t->tls && !t->shaking) (void)gnutls_bye(t->tls, GNUTLS_SHUT_WR);
    (void)shutdown(t->socket, SHUT_WR);
}

/* The meaning of a negative result of GnuTLS. */
static int meaning(ssize_t code)
{
    bool fatal = code != GNUTLS_E_AGAIN && gnutls_error_is_fatal((int)code);
    return fatal ? WEFT_TRANSPORT_BROKEN : WEFT_TRANSPORT_AGAIN;
}

int weft_transport_handshake(weft_transport *t)
{
    int code = t->shaking ? gnutls_handshake(t->tls) : 0;
    if (code < 0 && meaning(code) == WEFT_TRANSPORT_BROKEN)
        (void)gnutls_alert_send_appropriate(t->tls, code);
    if (code < 0) return meaning(code);
    t->shaking = false;
    return 0;
}

bool weft_transport_wants_write(const weft_transport *t)
{
    return t->shaking && gnutls_record_get_direction(t->tls) == 1;
}

ssize_t weft_transport_read(weft_transport *t, char *to, size_t size)
{
    ssize_t n;
    if (t->tls) {
        n = gnutls_record_recv(t->tls, to, size);
        /* Many clients close the connection without saying so in TLS. */
        if (n == GNUTLS_E_PREMATURE_TERMINATION) return 0;
        /* No client may begin a second handshake. */
        if (n == GNUTLS_E_REHANDSHAKE) return WEFT_TRANSPORT_BROKEN;
        return n < 0 ? meaning(n) : n;
    }
    do n = recv(t->socket, to, size, 0);
    while (n < 0 && errno == EINTR);
    if (n >= 0) return n;
    return errno == EAGAIN || errno == EWOULDBLOCK ? WEFT_TRANSPORT_AGAIN : WEFT_TRANSPORT_BROKEN;
}

ssize_t weft_transport_write(weft_transport *t, const char *from, size_t size, bool more)
{
    ssize_t n;
    if (t->tls) {
        n = gnutls_record_send(t->tls, from, size);
        return n < 0 ? meaning(n) : n;
    }
    do n = send(t->socket, from, size, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
    while (n < 0 && errno == EINTR);
    if (n >= 0) return n;
    return errno == EAGAIN || errno == EWOULDBLOCK ? WEFT_TRANSPORT_AGAIN : WEFT_TRANSPORT_BROKEN;
}
