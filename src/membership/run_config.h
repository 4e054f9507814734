/* What a coordinator gives joiners, as members of a run that is under way look at it. */
#ifndef WEFT_MEMBERSHIP_RUN_CONFIG_H
#define WEFT_MEMBERSHIP_RUN_CONFIG_H

#include "actor/actor.h"

/* In what that of a run and that of a coordinator which comes anew to it differ, in words; "": in
 * nothing that counts. Where a run began, which names that begin with "@begun" say, does
 * not: there may be a newer checkpoint since. NULL: nothing was given, and nothing is compared. */
void weft_run_config_compare(const weft_buffer *runs, const weft_buffer *coordinators, char *reason,
                             size_t size);

#endif
