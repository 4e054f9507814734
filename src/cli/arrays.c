/* Gives arrays that are freed back to the system at once. */
#include <malloc.h>
#include <stdlib.h>

#include "cli.h"

/* malloc keeps what is freed below a threshold, which grows with each larger array that is freed,
 * up to 32 MB: what a run takes would depend on what it has freed before. A step allocates no
 * arrays, so a run loses nothing if they are mapped and unmapped. */
enum { LARGE = 256 << 10 };

void map_arrays(void)
{
#ifdef __GLIBC__
    if (!getenv("MALLOC_MMAP_THRESHOLD_")) (void)mallopt(M_MMAP_THRESHOLD, LARGE);
#endif
}
