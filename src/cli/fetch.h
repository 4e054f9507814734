/* Fetching files over HTTP, in pieces, with their sums. */
#ifndef WEFT_CLI_FETCH_H
#define WEFT_CLI_FETCH_H

#include "cli.h"

enum { SUM_TEXT = 64 }; /* digits of a SHA-256 */

/* fetch_file.c: fetches a file to a path, unless it is there, and checks its SHA-256; what was
 * fetched before a connection broke is kept as PATH.part, and the next try goes on behind it.
 * *fetched: bytes that came now. Returns a sentence without the path, which the caller frees with
 * free(); NULL: the file is there. */
char *fetch_file(const char *url, const char *path, const char *sum, long long *fetched);

/* Finds the sum of a file in lines "SUM  NAME". Returns as fetch_file. */
char *find_sum(const char *path, const char *name, char sum[SUM_TEXT + 1]);

#endif
