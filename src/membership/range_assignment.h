/* Assigns ranges of the parameters to servers, as servers join and leave. */
#ifndef WEFT_MEMBERSHIP_RANGE_ASSIGNMENT_H
#define WEFT_MEMBERSHIP_RANGE_ASSIGNMENT_H

#include "membership/view.h"

/* Assigns a primary to each range when a run begins: the servers of the view in turn (round robin),
 * in the order of their slots. */
weft_status weft_assignment_begin(weft_view *view, int ranges) WEFT_NODISCARD;
/* Called when a server has been removed from the view: replicas in sync become primaries of its
 * ranges (failover). A range without a replica in sync gives the view a fault, which says what is
 * lost, why, and how to continue (`advice`). replicas: the run has replicas. */
weft_status weft_assignment_remove_server(weft_view *view, const weft_view_member *server,
                                          bool replicas, const char *advice) WEFT_NODISCARD;
/* Assigns a replica to each range without one, on the server with the fewest ranges. Returns
 * whether any range got one. */
bool weft_assignment_add_replicas(weft_view *view);
/* Whether the server has the last copy of a range: no other server that stays has all of the range.
 * A server that was asked to leave does not stay, although it is still in the view. */
bool weft_assignment_is_last_copy(const weft_view *view, weft_actor_id server);
/* Whether the server has a copy of a range. */
bool weft_assignment_has_range(const weft_view *view, weft_actor_id server);

#endif
