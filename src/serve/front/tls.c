/* Reads the TLS certificate and its private key, checks them with GnuTLS, since the HTTP library
 * does not say what is wrong with them, and gives them to the handshakes of new connections. */
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "serve/front/access_control.h"

/* A certificate with those that signed it, and its key. */
typedef struct tls_pair {
    gnutls_pcert_st *chain; /* [count] */
    unsigned count;
    gnutls_privkey_t key;
    struct tls_pair *older;
} tls_pair;

struct weft_tls {
    /* The pair of new connections. Older pairs are kept until the end, since a handshake that began
     * with one may still be under way. */
    tls_pair *newest; /* atomic: files are read in another thread than handshakes are made */
};

/* The credentials for handshakes of this thread: the callback of GnuTLS has no argument for them.
 */
static _Thread_local const weft_tls *used_here;

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

/* *count: of the certificates in the text. */
static weft_status check_certificate(const char *path, char *text, unsigned *count)
{
    gnutls_x509_crt_t *list = NULL;
    gnutls_datum_t data = datum(text);
    *count = 0;
    int code = gnutls_x509_crt_list_import2(&list, count, &data, GNUTLS_X509_FMT_PEM, 0);
    for (unsigned i = 0; code >= 0 && i < *count; i++) gnutls_x509_crt_deinit(list[i]);
    if (code >= 0) gnutls_free(list);
    if (code >= 0 && *count > 0) return WEFT_OK;
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

static weft_status check_pair(const tls_files *f, unsigned *count)
{
    gnutls_certificate_credentials_t both;
    gnutls_datum_t first = datum(f->certificate), second = datum(f->key);
    WEFT_TRY(check_certificate(f->paths[0], f->certificate, count));
    WEFT_TRY(check_key(f->paths[1], f->key));
    if (gnutls_certificate_allocate_credentials(&both) < 0) return weft_fail_memory(sizeof(first));
    int code = gnutls_certificate_set_x509_key_mem(both, &first, &second, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(both);
    if (code >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: is not the key of the certificate %s (%s)", f->paths[1],
                     f->paths[0], gnutls_strerror(code));
}

static void free_pair(tls_pair *p)
{
    for (unsigned i = 0; p->chain && i < p->count; i++) gnutls_pcert_deinit(&p->chain[i]);
    if (p->key) gnutls_privkey_deinit(p->key);
    free(p->chain);
    free(p);
}

static weft_status make_pair(const tls_files *f, tls_pair *p)
{
    unsigned count;
    gnutls_datum_t first = datum(f->certificate), second = datum(f->key);
    WEFT_TRY(check_pair(f, &count));
    WEFT_TRY(WEFT_NEW(&p->chain, count));
    int code = gnutls_pcert_list_import_x509_raw(p->chain, &count, &first, GNUTLS_X509_FMT_PEM, 0);
    if (code >= 0) p->count = count;
    if (code >= 0) code = gnutls_privkey_init(&p->key);
    if (code >= 0)
        code = gnutls_privkey_import_x509_raw(p->key, &second, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: cannot be used (%s)", f->paths[0],
                     gnutls_strerror(code));
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

void weft_tls_use_here(const weft_tls *tls)
{
    used_here = tls;
}

static int give_pair(gnutls_session_t session, const gnutls_datum_t *names, int name_count,
                     const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                     gnutls_pcert_st **chain, unsigned *count, gnutls_privkey_t *key)
{
    (void)session, (void)names, (void)name_count, (void)algorithms, (void)algorithm_count;
    if (!used_here) return -1;
    const tls_pair *newest = __atomic_load_n(&used_here->newest, __ATOMIC_ACQUIRE);
    *chain = newest->chain;
    *count = newest->count;
    *key = newest->key;
    return 0;
}

void *weft_tls_callback(void)
{
    gnutls_certificate_retrieve_function2 *give = give_pair;
    return (void *)(uintptr_t)give;
}
