/* What commands about members of a run have in common. */
#ifndef WEFT_CLI_MEMBERS_H
#define WEFT_CLI_MEMBERS_H

#include "cli.h"

/* Reads the options of one, and `most` other words, of which all but a coordinator's are needed.
 * Returns the exit code of a mistake, or 0. The options are freed in any case. */
int member_begin(weft_context *context, weft_cluster_kind kind, const char *name, int argc,
                 char **argv, const char **words, int most, weft_cluster_options *o);
/* Frees the options and says what was wrong, if something was. Returns the exit code. */
int member_end(weft_context *context, weft_cluster_options *o, weft_status status);

#endif
