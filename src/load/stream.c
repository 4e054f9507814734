/* A connection to a target that never waits: a socket, and for https TLS over it (GnuTLS). */
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "load/http_client.h"

struct weft_load_trust {
    gnutls_certificate_credentials_t credentials;
    bool insecure;
};

/* --- trust --- */

static weft_status read_trusted(weft_load_trust *trust, const char *ca)
{
    char *text = NULL;
    if (ca) WEFT_TRY(weft_secret_read(ca, 0, "a list of certificates", &text));
    gnutls_datum_t data = {(unsigned char *)text, ca ? (unsigned)strlen(text) : 0};
    int count =
        ca ? gnutls_certificate_set_x509_trust_mem(trust->credentials, &data, GNUTLS_X509_FMT_PEM)
           : gnutls_certificate_set_x509_system_trust(trust->credentials);
    weft_secret_free(&text);
    if (!ca || count > 0) return WEFT_OK; /* a system without any is told by the handshake */
    return weft_fail(WEFT_ERR_IO, "--ca: %s: has no certificate in PEM form that can be read%s%s%s",
                     ca, count < 0 ? " (" : "", count < 0 ? gnutls_strerror(count) : "",
                     count < 0 ? ")" : "");
}

weft_status weft_load_trust_open(const char *ca, bool insecure, weft_load_trust **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_load_trust *trust = *out;
    trust->insecure = insecure;
    weft_status status = WEFT_OK;
    if (gnutls_certificate_allocate_credentials(&trust->credentials) < 0)
        status = weft_fail_memory(sizeof(*trust));
    else if (!insecure)
        status = read_trusted(trust, ca);
    if (status != WEFT_OK) weft_load_trust_close(out);
    return status;
}

void weft_load_trust_close(weft_load_trust **trust)
{
    if (!*trust) return;
    if ((*trust)->credentials) gnutls_certificate_free_credentials((*trust)->credentials);
    free(*trust);
    *trust = NULL;
}

/* --- begin and end --- */

static bool is_address(const char *name)
{
    struct in6_addr room;
    return inet_pton(AF_INET, name, &room) == 1 || inet_pton(AF_INET6, name, &room) == 1;
}

static bool begin_tls(weft_load_stream *s, const weft_load_target *t)
{
    if (gnutls_init(&s->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
        return false;
    if (gnutls_set_default_priority(s->session) < 0 ||
        gnutls_credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, t->trust->credentials) < 0)
        return false;
    if (!is_address(t->name) &&
        gnutls_server_name_set(s->session, GNUTLS_NAME_DNS, t->name, strlen(t->name)) < 0)
        return false;
    if (!t->trust->insecure) gnutls_session_set_verify_cert(s->session, t->name, 0);
    gnutls_transport_set_int(s->session, s->file);
    return true;
}

bool weft_load_stream_open(weft_load_stream *s, const weft_load_target *t, int address)
{
    const struct sockaddr *to = (const struct sockaddr *)&t->addresses[address];
    int one = 1;
    *s = (weft_load_stream){
        .file = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (s->file < 0) return false;
    /* A request is sent as a whole, so delaying packets (Nagle's algorithm) gains nothing. */
    (void)setsockopt(s->file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    bool good = connect(s->file, to, t->sizes[address]) == 0 || errno == EINPROGRESS;
    int why = errno;
    if (good && t->trust && !begin_tls(s, t)) {
        good = false;
        why = ENOMEM;
    }
    if (!good) weft_load_stream_close(s);
    errno = why;
    return good;
}

void weft_load_stream_close(weft_load_stream *s)
{
    if (s->session) gnutls_deinit(s->session);
    if (s->file >= 0) close(s->file);
    *s = (weft_load_stream){.file = -1};
}

/* --- data --- */

/* Turns a failure of GnuTLS into -1 with errno. */
static ssize_t fail(weft_load_stream *s, ssize_t code)
{
    int why = errno;
    if (code == GNUTLS_E_AGAIN || (code != 0 && !gnutls_error_is_fatal((int)code))) {
        errno = EAGAIN;
    } else if ((code == GNUTLS_E_PUSH_ERROR || code == GNUTLS_E_PULL_ERROR) && why != 0) {
        errno = why;
    } else {
        s->failure = (int)code;
        errno = EPROTO;
    }
    return -1;
}

/* Goes on with the handshake; 0: it is over. */
static ssize_t shake(weft_load_stream *s)
{
    if (s->failure) return fail(s, s->failure);
    if (s->ready) return 0;
    errno = 0;
    s->begun = true;
    int code = gnutls_handshake(s->session);
    if (code < 0) return fail(s, code);
    s->ready = true;
    return 0;
}

ssize_t weft_load_stream_send(weft_load_stream *s, const void *data, size_t size)
{
    if (!s->session) return send(s->file, data, size, MSG_NOSIGNAL);
    if (shake(s) < 0) return -1;
    errno = 0;
    ssize_t n = gnutls_record_send(s->session, data, size);
    return n < 0 ? fail(s, n) : n;
}

ssize_t weft_load_stream_receive(weft_load_stream *s, void *data, size_t size)
{
    if (!s->session) return recv(s->file, data, size, 0);
    if (shake(s) < 0) return -1;
    errno = 0;
    ssize_t n = gnutls_record_recv(s->session, data, size);
    /* Many servers close the connection without saying so in TLS. */
    if (n == GNUTLS_E_PREMATURE_TERMINATION) return 0;
    return n < 0 ? fail(s, n) : n;
}

bool weft_load_stream_is_ready(const weft_load_stream *s)
{
    return !s->session || s->ready;
}

bool weft_load_stream_wants_write(const weft_load_stream *s)
{
    return weft_load_stream_is_ready(s) || !s->begun ||
           gnutls_record_get_direction(s->session) == 1;
}

bool weft_load_stream_has_more(const weft_load_stream *s)
{
    return s->session && gnutls_record_check_pending(s->session) > 0;
}

const char *weft_load_stream_why(const weft_load_stream *s, int why, char *buffer, size_t size)
{
    gnutls_datum_t text = {.data = NULL};
    if (!s->failure) {
        (void)snprintf(buffer, size, "%s", strerror(why));
    } else if (s->failure == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR &&
               gnutls_certificate_verification_status_print(
                   gnutls_session_get_verify_cert_status(s->session), GNUTLS_CRT_X509, &text, 0) >=
                   0) {
        size_t length = text.size;
        while (length > 0 && strchr(" .\n", (char)text.data[length - 1])) length--;
        (void)snprintf(buffer, size,
                       "%.*s; give --ca FILE with the certificate that signed it, or --insecure",
                       (int)length, (const char *)text.data);
        gnutls_free(text.data);
    } else {
        (void)snprintf(buffer, size, "no TLS connection: %s", gnutls_strerror(s->failure));
    }
    return buffer;
}
