/* Reads the TLS certificate and its private key and checks them with GnuTLS, since the HTTP library
 * does not say what is wrong with them. */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "serve/front/access_control.h"

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

static weft_status check_certificate(const char *path, char *text)
{
    gnutls_x509_crt_t *list = NULL;
    unsigned count = 0;
    gnutls_datum_t data = datum(text);
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

static weft_status check_pair(const char *certificate, const char *key, weft_tls_files *s)
{
    gnutls_certificate_credentials_t both;
    gnutls_datum_t first = datum(s->certificate), second = datum(s->key);
    WEFT_TRY(check_certificate(certificate, s->certificate));
    WEFT_TRY(check_key(key, s->key));
    if (gnutls_certificate_allocate_credentials(&both) < 0) return weft_fail_memory(sizeof(first));
    int code = gnutls_certificate_set_x509_key_mem(both, &first, &second, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(both);
    if (code >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: is not the key of the certificate %s (%s)", key,
                     certificate, gnutls_strerror(code));
}

weft_status weft_tls_files_read(const char *certificate, const char *key, weft_tls_files *out)
{
    *out = (weft_tls_files){0};
    if (!certificate || !key)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s is given without %s; TLS needs both",
                         certificate ? "--certificate" : "--key",
                         certificate ? "--key" : "--certificate");
    weft_status status = weft_secret_read(certificate, 0, "a certificate", &out->certificate);
    /* The file's group may read the key, since many systems have a group for TLS keys. */
    if (status == WEFT_OK) status = weft_secret_read(key, 007, "a private key", &out->key);
    if (status == WEFT_OK) status = check_pair(certificate, key, out);
    if (status != WEFT_OK) weft_tls_files_free(out);
    return status;
}

void weft_tls_files_free(weft_tls_files *s)
{
    weft_secret_free(&s->certificate);
    weft_secret_free(&s->key);
}
