/* Standard output, with the cause of the first write that failed. */
#include <errno.h>
#include <stdio.h>

#include "cli.h"

static int first_error;

void flush_stdout(void)
{
    if (fflush(stdout) != 0 && first_error == 0) first_error = errno;
}

/* A write that failed when the buffer was full has left its cause in errno, if anywhere. */
int stdout_error(void)
{
    if (first_error || !ferror(stdout)) return first_error;
    return errno ? errno : EIO;
}
