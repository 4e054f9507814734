/* Functions that the doubles of CUDA's libraries share. */
#include "library.h"

#include <dlfcn.h>
#include <stdarg.h>

static int live; /* objects that were not destroyed */

void library_misuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)fprintf(stderr, "fake_%s: ", library_name);
    (void)vfprintf(stderr, format, list);
    (void)fputs("\n", stderr);
    va_end(list);
    abort();
}

void *library_of_driver(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) library_misuse("the double of the driver is not loaded");
    return found;
}

static unsigned ask(const char *function, bool in_context)
{
    cu_result (*driver)(const char *, bool);
    *(void **)&driver = library_of_driver("fake_planned_library");
    return driver(function, in_context);
}

unsigned library_planned(const char *function)
{
    return ask(function, true);
}

unsigned library_planned_anywhere(const char *function)
{
    return ask(function, false);
}

unsigned library_queue_when(cu_stream stream, const char *function, bool (*ready)(void *user),
                            void (*run)(void *user), void *user, const fake_use *use, int uses)
{
    fake_queue_fn *queue;
    *(void **)&queue = library_of_driver("fake_queue_library");
    return queue(stream, function, ready, run, user, use, uses);
}

unsigned library_queue(cu_stream stream, const char *function, void (*run)(void *user), void *user,
                       const fake_use *use, int uses)
{
    return library_queue_when(stream, function, NULL, run, user, use, uses);
}

static void report(void)
{
    const char *path = getenv("FAKE_CUDA_LEFT");
    FILE *file = path && live > 0 ? fopen(path, "a") : NULL;
    if (!file) return;
    (void)fprintf(file, "%d objects of %s\n", live, library_name);
    (void)fclose(file);
}

void *library_new(size_t bytes, const char *kind)
{
    static int registered;
    object *o = calloc(1, bytes);
    if (!o) library_misuse("out of memory");
    if (!__atomic_fetch_add(&registered, 1, __ATOMIC_RELAXED)) (void)atexit(report);
    *o = (object){LIVES, kind};
    (void)__atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
    return o;
}

void library_need(const char *function, const void *data, const char *kind)
{
    const object *o = data;
    if (!o) library_misuse("%s: no %s", function, kind);
    if (strcmp(o->kind, kind) != 0) library_misuse("%s: a %s, not a %s", function, o->kind, kind);
    if (o->state != LIVES) library_misuse("%s: the %s was destroyed before", function, kind);
}

unsigned library_end(const char *function, void *data, const char *kind)
{
    library_need(function, data, kind);
    ((object *)data)->state = GONE;
    (void)__atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
    return 0;
}

static bool overlap(fake_use a, fake_use b)
{
    return (const char *)a.at < (const char *)b.at + b.bytes &&
           (const char *)b.at < (const char *)a.at + a.bytes;
}

void library_need_apart(const char *function, const fake_use *use, int uses, int first, int count)
{
    for (int i = first; i < first + count; i++)
        for (int k = 0; k < uses; k++)
            if (i != k && overlap(use[i], use[k]))
                library_misuse("%s: the memory of %d and of %d overlap", function, i, k);
}

double library_tf32(double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
    memcpy(&single, &bits, sizeof(bits));
    return (double)single;
}
