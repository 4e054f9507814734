/* The places where NVRTC is looked for, in their order: environments of Python, the python3 that
 * PATH finds, the loader, CUDA_HOME. Files in folders of the test stand for NVRTC. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/cuda/cuda.h"
#include "support.h"

static const char *const files[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", NULL};
static const char *const packages[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib", NULL};
static const cuda_names nvrtc = {files, packages};
static char root[200], *found[100];
static int count, most;

static bool note(void *user, const char *path, bool loaded)
{
    size_t size = strlen(root);
    char text[1200];
    assert_ptr_equal(user, root);
    assert_true(count < 100);
    if (strchr(path, '/') && strncmp(path, root, size) != 0) return false; /* of this machine */
    (void)snprintf(text, sizeof(text), "%s%s", loaded ? "loaded " : "",
                   strchr(path, '/') ? path + size : path);
    found[count++] = strdup(text);
    return count == most;
}

static void make(const char *path, mode_t mode)
{
    char text[1200];
    (void)snprintf(text, sizeof(text), "%s%s", root, path);
    for (char *c = text + strlen(root) + 1; *c; c++)
        if (*c == '/') {
            *c = 0;
            (void)mkdir(text, 0700);
            *c = '/';
        }
    FILE *file = fopen(text, "w");
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(chmod(text, mode), 0);
}

static void set(const char *name, const char *below)
{
    char text[1200];
    (void)snprintf(text, sizeof(text), "%s%s", root, below);
    assert_int_equal(setenv(name, text, 1), 0);
}

static void expect(const char *const *want)
{
    for (int i = 0; i < count || want[i]; i++) {
        if (i >= count || !want[i])
            fail_msg("%d: %s, not %s", i, i < count ? found[i] : "", want[i]);
        assert_string_equal(found[i], want[i]);
    }
    for (; count > 0; count--) free(found[count - 1]);
}

static void test_order(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/weft-find-XXXXXX");
    assert_non_null(mkdtemp(root));
    make("/venv/lib/python3.9/site-packages/nvidia/cu13/lib/libnvrtc.so.13", 0600);
    make("/venv/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", 0600);
    make("/venv/lib/python3.9/site-packages/nvidia/cu13/lib/libnvrtc-builtins.so.13.0", 0600);
    make("/conda/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", 0600);
    make("/conda/lib/libnvrtc.so.12", 0600);
    make("/own/bin/python3", 0700);
    make("/own/lib/python3.11/dist-packages/nvidia/cu13/lib/libnvrtc.so.13", 0600);
    make("/none/python3", 0600); /* it cannot be executed */
    make("/home/.local/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", 0600);
    make("/cuda/lib64/libnvrtc.so", 0600);
    make("/cuda/lib64/libnvrtc.so.13", 0600);
    set("VIRTUAL_ENV", "/venv");
    set("CONDA_PREFIX", "/conda");
    set("HOME", "/home");
    set("CUDA_HOME", "/cuda");
    char path[1200];
    (void)snprintf(path, sizeof(path), "relative:%s/none:%s/own/bin:/usr/bin", root, root);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(setenv("CUDA_PATH", "relative", 1), 0);
    assert_false(cuda_find(&nvrtc, note, root));
    expect((const char *const[]){
        "loaded libnvrtc.so", "loaded libnvrtc.so.13", "loaded libnvrtc.so.12",
        "/venv/lib/python3.9/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
        "/venv/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "/conda/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "/own/bin/../lib/python3.11/dist-packages/nvidia/cu13/lib/libnvrtc.so.13",
        "/home/.local/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "libnvrtc.so",
        "libnvrtc.so.13", "libnvrtc.so.12", "/cuda/lib64/libnvrtc.so.13", "/cuda/lib64/libnvrtc.so",
        "/conda/lib/libnvrtc.so.12", NULL});
    /* The first one that is taken ends the search. */
    most = 4;
    assert_true(cuda_find(&nvrtc, note, root));
    assert_int_equal(count, 4);
    for (; count > 0; count--) free(found[count - 1]);
    /* Nothing is set. */
    most = 0;
    static const char *const names[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "HOME",
                                        "CUDA_HOME",   "CUDA_PATH",    "PATH"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(unsetenv(names[i]), 0);
    assert_false(cuda_find(&nvrtc, note, root));
    expect((const char *const[]){"loaded libnvrtc.so", "loaded libnvrtc.so.13",
                                 "loaded libnvrtc.so.12", "libnvrtc.so", "libnvrtc.so.13",
                                 "libnvrtc.so.12", NULL});
    assert_int_equal(setenv("PATH", "/usr/bin:/bin", 1), 0);
    (void)snprintf(path, sizeof(path), "rm -rf '%s'", root);
    assert_int_equal(system(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
    return cmocka_run_group_tests_name("cuda_find", tests, NULL, NULL);
}
