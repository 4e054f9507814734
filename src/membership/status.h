/* Converts a view into the public status of a run (weft/members.h), for displays. */
#ifndef WEFT_MEMBERSHIP_STATUS_H
#define WEFT_MEMBERSHIP_STATUS_H

#include "membership/view.h"
#include "weft/members.h"

/* now: the time by the clock of the actor that has the view. The caller frees *out with
 * weft_cluster_status_free. */
weft_status weft_cluster_describe(const weft_view *view, double now,
                                  weft_cluster_status *out) WEFT_NODISCARD;

#endif
