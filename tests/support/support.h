/* Shared by all tests: cmocka, checks that print a failed call's message, and temporary files. */
#ifndef WEFT_TESTS_SUPPORT_H
#define WEFT_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fast.h"
#include "weft/serve.h"
#include "weft/weft.h"

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        weft_status check_status = (call);                                                         \
        if (check_status != WEFT_OK) fail_msg("%s: %s", #call, weft_last_message());               \
    } while (0)

/* Checks that the call fails with this status, and that the error message contains these words. */
#define assert_refused(call, status, words)                                                        \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        if (!strstr(weft_last_message(), words))                                                   \
            fail_msg("message '%s' does not hold '%s'", weft_last_message(), words);               \
    } while (0)

/* The value of a model's port by its role, such as PORT(values, LOSS). */
#define PORT(values, role) weft_model_value(&(values), WEFT_PORT_##role)

/* A context with only the built-in names; built_in returns name i of a kind, NULL past the last. */
static inline const weft_context *fresh_context(void)
{
    static weft_context *fresh;
    if (!fresh) assert_ok(weft_context_create(&fresh));
    return fresh;
}

static inline const char *built_in(weft_kind kind, int i)
{
    return weft_context_name(fresh_context(), kind, i);
}

/* Reads a sample and its label, from data whose targets are classes. */
static inline void read_sample(const weft_dataset *d, weft_split split, int64_t i, float *x,
                               int32_t *label)
{
    assert_ok(weft_dataset_read(d, split, i, 0, x));
    assert_ok(weft_dataset_read(d, split, i, 1, label));
}

/* The path of a file in the folder of real data sets, which is not part of the repository. NULL:
 * the file does not exist; the test must return, and a message says that it was skipped. */
static inline const char *shared_data(const char *name)
{
    static char path[4096];
    const char *root = getenv("WEFT_DATA");
    (void)snprintf(path, sizeof(path), "%s/%s", root ? root : WEFT_SHARED_DATA, name);
    if (access(path, R_OK) == 0) return path;
    print_message("SKIPPED: %s is not here\n", path);
    return NULL;
}

/* A model of this name that is small enough for a test in which its size does not matter. */
static inline const char *small_model(const char *model)
{
    static const char *const small[][2] = {{"resnet", "resnet:width=4"},
                                           {"mobilenet", "mobilenet:width=0.25"},
                                           {"googlenet", "googlenet:width=8"},
                                           {"unet", "unet:depth=2,width=4"},
                                           {"vit", "vit:patch=7,layers=2,heads=2,width=16"},
                                           {"vgg", "vgg:depth=11,norm,width=4,hidden=32"}};
    for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++)
        if (strcmp(small[i][0], model) == 0) return small[i][1];
    return model;
}

/* Whether a model takes images of one channel with this side. */
static inline bool takes_side(weft_context *c, const char *model, int64_t pixels)
{
    weft_graph *g;
    weft_model_values values;
    weft_model_options o;
    weft_model_options_init(&o);
    o.model = model;
    o.classes = 10;
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){1, pixels, pixels}));
    assert_true(weft_graph_create(c, WEFT_F32, &g) == WEFT_OK);
    weft_status status = weft_model_build(g, &o, &values);
    assert_true(status == WEFT_OK || status == WEFT_ERR_ARGUMENT);
    weft_graph_destroy(&g);
    return status == WEFT_OK;
}

/* Whether a built-in model takes images; tests/data/sequence_data.sh has those that refuse them. */
static inline bool takes_images(weft_context *c, const char *model)
{
    return takes_side(c, model, 28);
}

static inline char *temporary_folder(void)
{
    char pattern[1024];
    const char *root = getenv("TMPDIR");
    (void)snprintf(pattern, sizeof(pattern), "%s/weft-test-XXXXXX", root ? root : "/tmp");
    assert_non_null(mkdtemp(pattern));
    return strdup(pattern);
}

static inline void remove_folder(char *path)
{
    char command[4200];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
    free(path);
}

static inline void write_file(const char *folder, const char *name, const void *data, size_t size,
                              char *path, size_t room)
{
    (void)snprintf(path, room, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

#endif
