/* Keeps compiled programs in files, $XDG_CACHE_HOME/weft/kernels/HASH: one for each source and
 * version of driver and hardware. A file holds its key, so that a foreign or damaged one is
 * recognized and made anew; without a folder programs are compiled in each process. The host's
 * processor has no such files (program.c). */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/gpu/gpu.h"

/* The head of a file; the binary follows. */
typedef struct head {
    char magic[8];
    uint64_t key[2]; /* hashes of the source and of the versions */
    uint64_t bytes;
    uint64_t sum; /* of the binary */
} head;

static const char magic[8] = "weftgpu1";

/* FNV-1a. */
static uint64_t hash(uint64_t of, const void *data, size_t size)
{
    const unsigned char *c = data;
    for (size_t i = 0; i < size; i++) of = (of ^ c[i]) * 0x100000001b3u;
    return of;
}

static void key_of(const gpu_card *card, const char *source, uint64_t key[2])
{
    key[0] = hash(0xcbf29ce484222325u, source, strlen(source));
    key[1] = hash(key[0] ^ 0x9e3779b97f4a7c15u, source, strlen(source));
    key[1] = hash(key[1], card->version, strlen(card->version));
    key[0] = hash(key[0], card->driver->name, strlen(card->driver->name));
}

/* Writes the path of a key's file; with `make`, makes the folders. False: there is no folder. */
static bool path_of(const uint64_t key[2], bool make, char *to, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache && *cache == '/';
    if (!own && !(home && *home == '/')) return false;
    int end = snprintf(to, size, "%s%s", own ? cache : home, own ? "" : "/.cache");
    static const char *const folders[] = {"", "/weft", "/kernels"};
    for (size_t i = 0; i < WEFT_COUNT(folders); i++) {
        if (end < 0 || (size_t)end >= size) return false;
        end += snprintf(to + end, size - (size_t)end, "%s", folders[i]);
        if (make && (size_t)end < size) (void)mkdir(to, 0700);
    }
    if ((size_t)end >= size) return false;
    int name = snprintf(to + end, size - (size_t)end, "/%016llx%016llx", (unsigned long long)key[0],
                        (unsigned long long)key[1]);
    return name > 0 && (size_t)name < size - (size_t)end;
}

static bool read_all(int file, void *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = read(file, (char *)to + at, bytes - at);
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

static void *read_binary(int file, const uint64_t key[2], size_t *bytes)
{
    head h;
    struct stat info;
    void *binary;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || !read_all(file, &h, sizeof(h)) ||
        memcmp(h.magic, magic, sizeof(magic)) != 0 || memcmp(h.key, key, sizeof(h.key)) != 0 ||
        h.bytes != (uint64_t)info.st_size - sizeof(h) || h.bytes == 0)
        return NULL;
    if (weft->allocate((size_t)h.bytes, &binary) != WEFT_OK) return NULL;
    if (!read_all(file, binary, (size_t)h.bytes) || hash(0, binary, (size_t)h.bytes) != h.sum) {
        free(binary);
        return NULL;
    }
    *bytes = (size_t)h.bytes;
    return binary;
}

void gpu_cache_read(const gpu_card *card, const char *source, void **out, size_t *bytes)
{
    uint64_t key[2];
    char path[1024];
    *out = NULL;
    key_of(card, source, key);
    if (!path_of(key, false, path, sizeof(path))) return;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return;
    *out = read_binary(file, key, bytes);
    close(file);
}

void gpu_cache_write(const gpu_card *card, const char *source, const void *binary, size_t bytes)
{
    head h = {.bytes = bytes, .sum = hash(0, binary, bytes)};
    char path[1024], part[1040];
    memcpy(h.magic, magic, sizeof(magic));
    key_of(card, source, h.key);
    if (!path_of(h.key, true, path, sizeof(path))) return;
    (void)snprintf(part, sizeof(part), "%s.XXXXXX", path);
    int file = mkostemp(part, O_CLOEXEC);
    if (file < 0) return;
    bool written = write(file, &h, sizeof(h)) == (ssize_t)sizeof(h) &&
                   write(file, binary, bytes) == (ssize_t)bytes;
    written = close(file) == 0 && written;
    if (!written || rename(part, path) != 0) (void)unlink(part);
}
