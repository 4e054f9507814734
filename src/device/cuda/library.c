/* Opens the libraries of CUDA: finds one that has all functions and fits the driver, and looks up
 * its functions. */
#include <dlfcn.h>
#include <stdio.h>

#include "device/cuda/cuda.h"

const char *cuda_symbols_find(void *found, const cuda_symbol *list, void *functions)
{
    for (; list->name; list++) {
        void *at = dlsym(found, list->name);
        if (!at) return list->name;
        memcpy((char *)functions + list->at, &at, sizeof(at));
    }
    return NULL;
}

typedef struct search {
    const cuda_library *library;
    int driver;
    void *functions;
    char *why;
    size_t size;
} search;

static bool take(void *user, const char *path, bool loaded)
{
    const search *s = user;
    const cuda_library *l = s->library;
    void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
    if (!found) return false;
    if (!cuda_symbols_find(found, l->symbols, s->functions) &&
        l->fits(s->functions, s->driver, path))
        return true;
    (void)snprintf(s->why, s->size, "%s is %s", path, l->refused);
    (void)dlclose(found);
    return false;
}

bool cuda_library_open(const cuda_library *library, int driver, void *functions, char *why,
                       size_t size)
{
    search s = {library, driver, functions, why, size};
    if (size > 0) why[0] = 0;
    return cuda_find(&library->names, take, &s);
}

bool cuda_library_starts(unsigned status, const char *function, const char *meaning, size_t version,
                         char *text, size_t size)
{
    if (status != 0) {
        (void)snprintf(text, size, "%s failed with %s", function, meaning);
        return false;
    }
    (void)snprintf(text, size, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return true;
}
