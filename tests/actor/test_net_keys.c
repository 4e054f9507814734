/* Tests of key files: secret and public keys are read, faulty files are refused with a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actor/net.h"

static char folder[] = "/tmp/weft-keys-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static const char *put(const char *name, mode_t mode, const char *text)
{
    const char *path = path_of(name);
    (void)unlink(path);
    assert_int_equal(weft_file_replace(path, WEFT_OUTPUT_REPLACE, text, strlen(text)), WEFT_OK);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static int enter(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    return weft_dir_remove(folder) == WEFT_OK ? 0 : -1;
}

static void test_round(void **state)
{
    (void)state;
    char text[WEFT_KEY_TEXT], again[WEFT_KEY_TEXT];
    weft_key secret;
    weft_key_pair pair;
    weft_net_context *world;
    assert_int_equal(weft_keys_make(path_of("a"), text), WEFT_OK);
    assert_int_equal(weft_key_load(path_of("a"), &secret), WEFT_OK);
    assert_int_equal(weft_key_pair_of(&secret, &pair), WEFT_OK);
    weft_key_text(&pair.public_key, again);
    assert_string_equal(text, again);
    assert_int_equal(weft_net_context_create(&world), WEFT_OK);
    assert_int_equal(weft_net_context_allow_file(world, path_of("a.pub")), WEFT_OK);
    /* The secret key's file is refused as a list of public keys, and the other way round. */
    assert_int_equal(weft_net_context_allow_file(world, path_of("a")), WEFT_ERR_FORMAT);
    assert_non_null(strstr(weft_last_message(), "this is a secret key"));
    assert_int_equal(chmod(path_of("a.pub"), 0600), 0);
    assert_int_equal(weft_key_load(path_of("a.pub"), &secret), WEFT_ERR_FORMAT);
    weft_net_context_destroy(&world);
}

#define DIGITS "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"

static void test_secret(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        const char *text, *says;
    } cases[] = {
        {0644, "weft-secret-key " DIGITS "\n",
         "other users can access this, a secret key (mode 644)"},
        {0640, "weft-secret-key " DIGITS "\n", "other users can access"},
        {0602, "weft-secret-key " DIGITS "\n", "other users can access"},
        {0600, "", "has no secret key"},
        {0600, "# only this\n\n", "has no secret key"},
        {0600, DIGITS "\n", "holds a public key"},
        {0600, "weft-secret-key " DIGITS "0\n", ":1: a file"},
        {0600, "weft-secret-key 0123\n", ":1: a file"},
        {0600, "weft-secret-key " DIGITS "\nweft-secret-key " DIGITS "\n", ":2: a file"},
    };
    weft_key key;
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        assert_int_not_equal(weft_key_load(put("s", cases[i].mode, cases[i].text), &key), WEFT_OK);
        assert_non_null(strstr(weft_last_message(), cases[i].says));
        /* An error message never shows a secret key. */
        assert_null(strstr(weft_last_message(), "0123456789abcdef"));
    }
    assert_int_equal(weft_key_load(put("s", 0400, "weft-secret-key " DIGITS), &key), WEFT_OK);
    assert_int_equal(weft_key_load(path_of("none"), &key), WEFT_ERR_IO);
    assert_int_equal(weft_key_load(folder, &key), WEFT_ERR_IO);
}

static void test_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: the file is read */
    } cases[] = {
        {"", NULL},
        {"# nobody\n", NULL},
        {"  " DIGITS " alice # at home\n\n" DIGITS "\n" DIGITS "\tbob\r\n", NULL},
        {DIGITS, NULL},
        {"alice " DIGITS "\n", ":1: each line"},
        {"# one\n" DIGITS "a bob\n", ":2: each line"},
        {"0123 bob\n", ":1: each line"},
    };
    weft_net_context *world;
    char *longest;
    assert_int_equal(weft_net_context_create(&world), WEFT_OK);
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        weft_status status = weft_net_context_allow_file(world, put("l", 0644, cases[i].text));
        assert_int_equal(status, cases[i].says ? WEFT_ERR_FORMAT : WEFT_OK);
        if (cases[i].says) assert_non_null(strstr(weft_last_message(), cases[i].says));
    }
    assert_int_equal(WEFT_NEW(&longest, 2000), WEFT_OK);
    memset(longest, 'a', 1999);
    assert_int_equal(weft_net_context_allow_file(world, put("l", 0644, longest)), WEFT_ERR_FORMAT);
    assert_non_null(strstr(weft_last_message(), ":1: the line is too long for a key"));
    assert_int_equal(weft_net_context_allow_file(world, "/dev/zero"), WEFT_ERR_IO);
    free(longest);
    weft_net_context_destroy(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_allowed),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
