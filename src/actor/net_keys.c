/* Makes key pairs (CURVE), and reads and writes key files. */
#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

#include "actor/net_internal.h"

static const char SECRET[] = "weft-secret-key ";
enum { DIGITS = 2 * sizeof(weft_key) };

/* --- as text --- */

void weft_key_text(const weft_key *key, char text[WEFT_KEY_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof(*key); i++) {
        text[2 * i] = digits[key->bytes[i] >> 4];
        text[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    text[DIGITS] = '\0';
}

/* Reads a key of exactly DIGITS hexadecimal digits; false: there are fewer, or another digit or
 * letter follows. */
static bool read_digits(const char *text, weft_key *out)
{
    for (size_t i = 0; i < DIGITS; i++) {
        int c = tolower((unsigned char)text[i]);
        if (!isxdigit(c)) return false;
        uint8_t digit = (uint8_t)(isdigit(c) ? c - '0' : c - 'a' + 10);
        out->bytes[i / 2] = (uint8_t)(i % 2 ? out->bytes[i / 2] | digit : digit << 4);
    }
    return !isalnum((unsigned char)text[DIGITS]);
}

bool weft_key_read(const char *text, weft_key *out)
{
    return read_digits(text, out) && text[DIGITS] == '\0';
}

/* --- pairs --- */

static weft_status fail_curve(void)
{
    return weft_fail(
        WEFT_ERR_UNSUPPORTED,
        "this ZeroMQ was built without CURVE encryption (%s), so keys cannot be used; install "
        "a ZeroMQ that was built with libsodium",
        zmq_strerror(zmq_errno()));
}

weft_status weft_key_pair_make(weft_key_pair *out)
{
    char public_key[41], secret[41];
    if (zmq_curve_keypair(public_key, secret) != 0) return fail_curve();
    bool done = zmq_z85_decode(out->public_key.bytes, public_key) &&
                zmq_z85_decode(out->secret.bytes, secret);
    explicit_bzero(secret, sizeof(secret));
    return done ? WEFT_OK : weft_fail_zmq("keys cannot be made");
}

weft_status weft_key_pair_of(const weft_key *secret, weft_key_pair *out)
{
    char public_key[41], text[41];
    bool done = zmq_z85_encode(text, secret->bytes, sizeof(secret->bytes)) &&
                zmq_curve_public(public_key, text) == 0 &&
                zmq_z85_decode(out->public_key.bytes, public_key);
    explicit_bzero(text, sizeof(text));
    if (!done) return fail_curve();
    out->secret = *secret;
    return WEFT_OK;
}

/* --- writing --- */

/* Writes a whole new file with these permissions; an existing one is never replaced. */
static weft_status write_new(const char *path, mode_t mode, const char *text)
{
    bool exists;
    weft_status status = weft_file_create(path, mode, text, strlen(text), &exists);
    if (!exists) return status;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: is there already, and keys are not replaced; give another name, or "
                     "remove it first",
                     path);
}

static weft_status write_pair(const char *path, const char *beside, const weft_key_pair *pair)
{
    char *secret = NULL, *open = NULL, text[WEFT_KEY_TEXT];
    const char *slash = strrchr(path, '/');
    weft_key_text(&pair->secret, text);
    weft_status status = weft_format(&secret,
                                     "# A secret key, for its owner alone. Other processes get the "
                                     "public key in %s.pub.\n%s%s\n",
                                     slash ? slash + 1 : path, SECRET, text);
    explicit_bzero(text, sizeof(text));
    weft_key_text(&pair->public_key, text);
    if (status == WEFT_OK) status = weft_format(&open, "%s %s\n", text, slash ? slash + 1 : path);
    if (status == WEFT_OK) status = write_new(path, 0600, secret);
    if (status == WEFT_OK) {
        status = write_new(beside, 0644, open);
        if (status != WEFT_OK) (void)unlink(path);
    }
    if (secret) explicit_bzero(secret, strlen(secret));
    free(secret);
    free(open);
    return status;
}

weft_status weft_keys_make(const char *path, char *public_key)
{
    WEFT_NEED(path);
    weft_key_pair pair;
    char *beside;
    size_t size = strlen(path);
    if (size == 0 || path[size - 1] == '/')
        return weft_fail(WEFT_ERR_ARGUMENT, "'%s' names no file; give the name of a key file",
                         path);
    if (!weft_is_printable(path))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the name is written into the key files, so it must have only "
                         "characters that can be printed",
                         path);
    WEFT_TRY(weft_format(&beside, "%s.pub", path));
    weft_status status = weft_key_pair_make(&pair);
    if (status == WEFT_OK) status = write_pair(path, beside, &pair);
    if (status == WEFT_OK && public_key) weft_key_text(&pair.public_key, public_key);
    explicit_bzero(&pair, sizeof(pair));
    free(beside);
    return status;
}

/* --- reading --- */

/* Handles one line of a small file. */
typedef weft_status (*line_fn)(void *user, const char *path, int number, char *line);

static weft_status each_line(const char *path, bool secret, line_fn fn, void *user)
{
    enum { MOST_LINE = 511 };
    char *text, *line;
    weft_status status = secret ? weft_secret_read(path, 077, "a secret key", &text)
                                : weft_secret_read(path, 0, "a file of keys", &text);
    char *rest = text;
    for (int number = 1; status == WEFT_OK && (line = strsep(&rest, "\n")); number++) {
        if (strlen(line) > MOST_LINE)
            status =
                weft_fail(WEFT_ERR_FORMAT, "%s:%d: the line is too long for a key", path, number);
        line[strcspn(line, "#\r")] = '\0';
        char *begin = line + strspn(line, " \t");
        if (status == WEFT_OK && *begin) status = fn(user, path, number, begin);
    }
    weft_secret_free(&text);
    return status;
}

typedef struct found {
    weft_key key;
    int count;
} found;

static weft_status take_secret(void *user, const char *path, int number, char *line)
{
    found *f = user;
    size_t mark = sizeof(SECRET) - 1;
    if (f->count == 0 && strncmp(line, SECRET, mark) == 0 && weft_key_read(line + mark, &f->key)) {
        f->count = 1;
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%d: a file with a secret key has one line '%s' and 64 hexadecimal digits, "
                     "as weft keygen writes it",
                     path, number, SECRET);
}

static weft_status count_public(void *user, const char *path, int number, char *line)
{
    weft_key key;
    (void)path;
    (void)number;
    ((found *)user)->count += read_digits(line, &key);
    return WEFT_OK;
}

/* Looks for a public key first, for a better error: the mode of its file is one that the file of a
 * secret key must not have. */
weft_status weft_key_load(const char *path, weft_key *secret)
{
    found f = {.count = 0};
    WEFT_TRY(each_line(path, false, count_public, &f));
    if (f.count)
        return weft_fail(
            WEFT_ERR_FORMAT,
            "%s: holds a public key; key needs the secret one, which weft keygen wrote to "
            "the file without .pub",
            path);
    WEFT_TRY(each_line(path, true, take_secret, &f));
    if (!f.count)
        return weft_fail(WEFT_ERR_FORMAT, "%s: has no secret key; weft keygen makes one", path);
    *secret = f.key;
    explicit_bzero(&f, sizeof(f));
    return WEFT_OK;
}

static weft_status take_allowed(void *user, const char *path, int number, char *line)
{
    weft_key key;
    if (strncmp(line, SECRET, sizeof(SECRET) - 1) == 0)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: this is a secret key; a list of admitted keys has public keys, "
                         "from the .pub file beside it",
                         path, number);
    if (!read_digits(line, &key))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: each line of a list of admitted keys is a public key, 64 "
                         "hexadecimal digits, and a name",
                         path, number);
    return weft_net_context_allow(user, &key);
}

weft_status weft_net_context_allow_file(weft_net_context *world, const char *path)
{
    return each_line(path, false, take_allowed, world);
}
