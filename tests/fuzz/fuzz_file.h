/* Fuzz input as a file, for functions that read only files. The file is in memory and only its
 * owner may read it, as secret keys require. */
#ifndef WEFT_TESTS_FUZZ_FILE_H
#define WEFT_TESTS_FUZZ_FILE_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the path of the file, which holds these bytes until the next call. */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        if (file < 0 || fchmod(file, 0600) != 0) abort();
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size) abort();
    return path;
}

#endif
