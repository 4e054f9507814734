/* What is read from a file only: one in memory, which nobody else may read. */
#ifndef WEFT_TESTS_FUZZ_FILE_H
#define WEFT_TESTS_FUZZ_FILE_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Its path; it holds these bytes until the next call. */
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
