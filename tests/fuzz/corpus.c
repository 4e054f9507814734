/* Runs fuzz targets once over files, where no fuzzer is built: fuzz_corpus TARGET FOLDER. A file
 * that a fuzzer would report ends this program the same way: by abort(), a sanitizer or a signal.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_targets.h"

#define DECLARE(name) int fuzz_##name(const uint8_t *data, size_t size);
FUZZ_TARGETS(DECLARE)

#define ROW(name) {#name, fuzz_##name},
static const struct {
    const char *name;
    int (*run)(const uint8_t *, size_t);
} targets[] = {FUZZ_TARGETS(ROW)};

/* The target gets a copy of exactly the file's size, so that a sanitizer sees each byte that is
 * read beyond it. */
static int run_file(int (*run)(const uint8_t *, size_t), const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) return -1;
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    int result = !data || fread(data, 1, (size_t)size, file) != (size_t)size ? -1 : 0;
    if (result == 0) (void)run(data, (size_t)size);
    free(data);
    (void)fclose(file);
    return result;
}

int main(int argc, char **argv)
{
    size_t at = 0, count = sizeof(targets) / sizeof(*targets);
    int files = 0;
    while (argc == 3 && at < count && strcmp(targets[at].name, argv[1]) != 0) at++;
    DIR *folder = argc == 3 && at < count ? opendir(argv[2]) : NULL;
    if (!folder) {
        (void)fprintf(stderr, "fuzz_corpus: there is no such target or folder: %s %s\n",
                      argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof(path), "%s/%s", argv[2], entry->d_name);
        printf("%s\n", path); /* the last line names the file that ended the program */
        fflush(stdout);
        if (run_file(targets[at].run, path) != 0) {
            perror(path);
            return 1;
        }
        files++;
    }
    closedir(folder);
    printf("%d files\n", files);
    return files ? 0 : 1;
}
