/* Compares the run configuration of a coordinator with that of a run. */
#ifndef WEFT_MEMBERSHIP_RUN_CONFIG_H
#define WEFT_MEMBERSHIP_RUN_CONFIG_H

#include "actor/actor.h"

/* How the configuration of a run differs from that of a coordinator that has restarted; "": in no
 * option that counts. Names that begin with "@begun", which tell where the run began, do not count:
 * there may be a newer checkpoint. NULL: not given, and not compared. */
void weft_run_config_compare(const weft_buffer *runs, const weft_buffer *coordinators, char *reason,
                             size_t size);

#endif
