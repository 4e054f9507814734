/* Lists the places of a library of CUDA in the order of NVIDIA's own search: what is loaded,
 * packages of Python, the loader's path, CUDA_HOME. Python is not run: its packages lie at known
 * places beside an environment's folder or the python3 that PATH finds. */
#include <glob.h>
#include <stdio.h>
#include <unistd.h>

#include "device/cuda/cuda.h"

typedef struct search {
    const cuda_names *names;
    bool (*use)(void *user, const char *path, bool loaded);
    void *user;
} search;

static bool use_names(const search *s, bool loaded)
{
    for (const char *const *name = s->names->files; *name; name++)
        if (s->use(s->user, *name, loaded)) return true;
    return false;
}

static bool use_matches(const search *s, const char *pattern)
{
    glob_t found;
    bool used = false;
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = found.gl_pathc; i > 0 && !used; i--) /* the newest last */
        used = s->use(s->user, found.gl_pathv[i - 1], false);
    globfree(&found);
    return used;
}

/* The library in a folder (which may be a pattern) or in one of its subfolders. */
static bool use_folder(const search *s, const char *folder, const char *const *below)
{
    char pattern[1024];
    for (; *below; below++) {
        int n = snprintf(pattern, sizeof(pattern), "%s%s/%s*", folder, *below, s->names->files[0]);
        if (n > 0 && (size_t)n < sizeof(pattern) && use_matches(s, pattern)) return true;
    }
    return false;
}

/* The packages of an environment or of an installation of Python: PREFIX/lib/python3.X. */
static bool use_prefix(const search *s, const char *prefix)
{
    char folder[768];
    static const char *const sites[] = {"lib/python3*/site-packages", "lib/python3*/dist-packages"};
    for (size_t i = 0; prefix && *prefix == '/' && i < WEFT_COUNT(sites); i++) {
        int n = snprintf(folder, sizeof(folder), "%s/%s", prefix, sites[i]);
        if (n > 0 && (size_t)n < sizeof(folder) && use_folder(s, folder, s->names->packages))
            return true;
    }
    return false;
}

/* The prefix of the first python3 on PATH: the folder above its own. */
static void python_prefix(char *to, size_t size)
{
    const char *path = getenv("PATH");
    to[0] = 0;
    for (const char *at = path; at && *at; at += strcspn(at, ":"), at += *at == ':') {
        char file[1024];
        int length = (int)strcspn(at, ":");
        (void)snprintf(file, sizeof(file), "%.*s/python3", length, at);
        if (*at != '/' || access(file, X_OK) != 0) continue;
        (void)snprintf(to, size, "%.*s/..", length, at);
        return;
    }
}

static bool use_python(const search *s)
{
    char prefix[512], own[512];
    const char *home = getenv("HOME");
    python_prefix(prefix, sizeof(prefix));
    (void)snprintf(own, sizeof(own), "%s/.local", home ? home : "");
    return use_prefix(s, getenv("VIRTUAL_ENV")) || use_prefix(s, getenv("CONDA_PREFIX")) ||
           use_prefix(s, prefix) || use_prefix(s, own) || use_prefix(s, "/usr/local") ||
           use_prefix(s, "/usr");
}

bool cuda_find(const cuda_names *names, bool (*use)(void *user, const char *path, bool loaded),
               void *user)
{
    static const char *const libraries[] = {"/lib64", "/lib", NULL};
    const search s = {names, use, user};
    const char *const roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), getenv("CONDA_PREFIX"),
                                 "/usr/local/cuda"};
    if (use_names(&s, true) || use_python(&s) || use_names(&s, false)) return true;
    for (size_t i = 0; i < WEFT_COUNT(roots); i++)
        if (roots[i] && *roots[i] == '/' && use_folder(&s, roots[i], libraries)) return true;
    return false;
}
