/* Assigns ranges of the parameters to servers, as servers join and leave. */
#ifndef WEFT_MEMBERSHIP_RANGE_ASSIGNMENT_H
#define WEFT_MEMBERSHIP_RANGE_ASSIGNMENT_H

#include "membership/view.h"

/* Assigns all ranges to the servers of the view, in the order of their slots. */
weft_status weft_assignment_begin(weft_view *view, int ranges) WEFT_NODISCARD;
/* A server is no member of the view any more: replicas of its ranges become primaries. A range
 * without a replica in sync gives the view a fault, which says what is lost, why, and how to go on
 * (`advice`); replicas: the run has replicas. */
weft_status weft_assignment_remove_server(weft_view *view, const weft_view_member *server,
                                          bool replicas, const char *advice) WEFT_NODISCARD;
/* Assigns a replica to ranges without one, on servers with few ranges; whether any got one. */
bool weft_assignment_add_replicas(weft_view *view);
/* Whether a range would be lost without this server. */
bool weft_assignment_is_last_copy(const weft_view *view, weft_actor_id server);

#endif
