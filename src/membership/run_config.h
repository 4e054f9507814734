/* Compares the run configuration of a restarted coordinator with that of the run's members. */
#ifndef WEFT_MEMBERSHIP_RUN_CONFIG_H
#define WEFT_MEMBERSHIP_RUN_CONFIG_H

#include "actor/actor.h"

/* Writes into `reason` the first difference between the run configuration of the members and that
 * of a restarted coordinator; "": they agree. Names that begin with "@begun" are not compared: they
 * tell from which checkpoint the run began, and there may be a newer one now. NULL: not given, and
 * not compared. */
void weft_run_config_compare(const weft_buffer *runs, const weft_buffer *coordinators, char *reason,
                             size_t size);

/* The step after which the run began (@begun.step); 0: the configuration does not name one. */
int64_t weft_run_config_first_step(const weft_buffer *configuration);

#endif
