/* Flushes standard output, and keeps the cause of the first write that failed. */
#include <errno.h>
#include <stdio.h>

#include "cli.h"

static int first_error;

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
