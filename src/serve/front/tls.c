/* Reads the TLS certificate and its private key, checks them one by one, so that the message says
 * which of them is wrong, and gives them to the handshakes of new connections. */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "serve/front/access_control.h"

/* A certificate with those that signed it, and its key. */
typedef struct tls_pair {
    gnutls_certificate_credentials_t credentials;
    struct tls_pair *older;
} tls_pair;

struct weft_tls {
    /* The pair of new connections. Older pairs are kept until the end, since connections that began
     * with one may still be open. */
    tls_pair *newest; /* atomic: files are read in another thread than connections begin in */
};

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

static weft_status check_certificate(const char *path, char *text)
{
    gnutls_x509_crt_t *list = NULL;
    gnutls_datum_t data = datum(text);
    unsigned count = 0;
    int code = gnutls_x509_crt_list_import2(&list, &count, &data, GNUTLS_X509_FMT_PEM, 0);
    for (unsigned i = 0; code >= 0 && i < count; i++) gnutls_x509_crt_deinit(list[i]);
    if (code >= 0) gnutls_free(list);
    if (code >= 0 && count > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: is no certificate (%s); it must be PEM, with those that signed it behind "
                     "it",
                     path, gnutls_strerror(code));
}

static weft_status check_key(const char *path, char *text)
{
    gnutls_x509_privkey_t key;
    gnutls_datum_t data = datum(text);
    int code = gnutls_x509_privkey_init(&key);
    if (code < 0) return weft_fail_memory(sizeof(data));
    code = gnutls_x509_privkey_import2(key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_x509_privkey_deinit(key);
    if (code >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: is no private key (%s); it must be PEM, and not need a password", path,
                     gnutls_strerror(code));
}

/* The texts of both files. */
typedef struct tls_files {
    const char *paths[2];
    char *certificate, *key;
} tls_files;

static void free_pair(tls_pair *p)
{
    if (p->credentials) gnutls_certificate_free_credentials(p->credentials);
    free(p);
}

static weft_status make_pair(const tls_files *f, tls_pair *p)
{
    gnutls_datum_t first = datum(f->certificate), second = datum(f->key);
    WEFT_TRY(check_certificate(f->paths[0], f->certificate));
    WEFT_TRY(check_key(f->paths[1], f->key));
    if (gnutls_certificate_allocate_credentials(&p->credentials) < 0)
        return weft_fail_memory(sizeof(first));
    int code =
        gnutls_certificate_set_x509_key_mem(p->credentials, &first, &second, GNUTLS_X509_FMT_PEM);
    if (code >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: is not the key of the certificate %s (%s)", f->paths[1],
                     f->paths[0], gnutls_strerror(code));
}

weft_status weft_tls_read(weft_tls *tls, const char *certificate, const char *key)
{
    tls_files f = {.paths = {certificate, key}};
    tls_pair *pair;
    WEFT_TRY(WEFT_NEW(&pair, 1));
    weft_status status = weft_secret_read(certificate, 0, "a certificate", &f.certificate);
    /* The file's group may read the key, since many systems have a group for TLS keys. */
    if (status == WEFT_OK) status = weft_secret_read(key, 007, "a private key", &f.key);
    if (status == WEFT_OK) status = make_pair(&f, pair);
    weft_secret_free(&f.certificate);
    weft_secret_free(&f.key);
    if (status != WEFT_OK) {
        free_pair(pair);
        return status;
    }
    pair->older = tls->newest; /* one thread at a time reads files */
    __atomic_store_n(&tls->newest, pair, __ATOMIC_RELEASE);
    return WEFT_OK;
}

weft_status weft_tls_open(const char *certificate, const char *key, weft_tls **out)
{
    *out = NULL;
    if (!certificate || !key)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s is given without %s; TLS needs both",
                         certificate ? "--certificate" : "--key",
                         certificate ? "--key" : "--certificate");
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = weft_tls_read(*out, certificate, key);
    if (status != WEFT_OK) weft_tls_close(out);
    return status;
}

void weft_tls_close(weft_tls **tls)
{
    if (!*tls) return;
    for (tls_pair *p = (*tls)->newest, *older; p; p = older) {
        older = p->older;
        free_pair(p);
    }
    free(*tls);
    *tls = NULL;
}

gnutls_certificate_credentials_t weft_tls_credentials(const weft_tls *tls)
{
    return __atomic_load_n(&tls->newest, __ATOMIC_ACQUIRE)->credentials;
}
