/* Which server keeps which range of the parameters, as servers come and go. */
#ifndef WEFT_MEMBERSHIP_RANGE_ASSIGNMENT_H
#define WEFT_MEMBERSHIP_RANGE_ASSIGNMENT_H

#include "membership/view.h"

/* Gives out all ranges to the servers of the view, in the order of their slots. */
weft_status weft_assignment_begin(weft_view *view, int ranges) WEFT_NODISCARD;
/* A server is gone, and no member of the view any more: who has its replicas takes its place. Where
 * nobody has one the view gets a fault that says which range is lost, why, and how to go on
 * (`advice`); replicas: they were asked for. */
weft_status weft_assignment_remove_server(weft_view *view, const weft_view_member *server,
                                          bool replicas, const char *advice) WEFT_NODISCARD;
/* Ranges without a replica get one, on servers with few ranges; whether any did. */
bool weft_assignment_add_backups(weft_view *view);
/* Whether some range would be lost without this server. */
bool weft_assignment_is_last_copy(const weft_view *view, weft_actor_id server);

#endif
