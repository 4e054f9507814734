/* Flushes standard output, and keeps the cause of the first write that failed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

static int first_error;

/* Whether `word` is in a list that is separated by spaces, whatever its case. */
static bool is_listed(const char *list, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; size > 0 && *at;) {
        size_t own = strcspn(at, " ");
        if (own == size && strncasecmp(at, word, size) == 0) return true;
        at += own + (at[own] == ' ');
    }
    return false;
}

bool suffix_fits(const char *command_name, const char *option, const char *path,
                 const char *formats, const char *written, const char *right)
{
    char shown[1024];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (!dot || !is_listed(formats, dot + 1)) return true;
    (void)weft_printable(path, shown, sizeof(shown) - 16);
    size_t stem = strlen(shown) - strlen(dot);
    fprintf(stderr,
            "weft: %s '%s' ends with %s, and %s is written; name it '%.*s%s'\n"
            "Try 'weft help %s'.\n",
            option, shown, dot, written, (int)stem, shown, right, command_name);
    return false;
}

void flush_stdout(void)
{
    if (fflush(stdout) != 0 && first_error == 0) first_error = errno;
}

/* If a write failed within printf, when the buffer was full, only the stream's error flag is set;
 * its cause may still be in errno. */
int stdout_error(void)
{
    if (first_error || !ferror(stdout)) return first_error;
    return errno ? errno : EIO;
}
