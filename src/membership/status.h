/* Describes a view for people. */
#ifndef WEFT_MEMBERSHIP_STATUS_H
#define WEFT_MEMBERSHIP_STATUS_H

#include "membership/view.h"
#include "weft/members.h"

/* now: by the clock of the actor that has the view. *out is freed with weft_cluster_status_free. */
weft_status weft_cluster_describe(const weft_view *view, double now,
                                  weft_cluster_status *out) WEFT_NODISCARD;

#endif
