/* Internals of members, shared by member.c and view_merge.c. */
#ifndef WEFT_MEMBERSHIP_MEMBER_INTERNAL_H
#define WEFT_MEMBERSHIP_MEMBER_INTERNAL_H

#include "membership/member.h"

struct weft_member {
    weft_member_options options;
    char *texts[3]; /* version, model and data of the fingerprint */
    weft_actor *actor;
    weft_view view;
    int slot;
    uint64_t run;
    char *waits;                /* members that were missing when this one was admitted */
    weft_buffer *configuration; /* run configuration, received in JoinAck; NULL: none */
    weft_member_stats figures;
    bool leaving, done, left, dismissed;
    bool asks_leave;         /* it sends Leave with `if_safe` besides its heartbeats */
    char *leave_refusal;     /* why the coordinator has rejected that; NULL: it has not */
    bool from_coordinator;   /* the view is the coordinator's, not one that members have merged or
                                sent */
    int leave_attempts;      /* Leave messages without an acknowledgement */
    int unanswered;          /* heartbeats sent since the last message of any sender */
    double last_message;     /* time of the coordinator's last message; below 0: none */
    double previous_message; /* time of the coordinator's message before that */
    weft_coordinator_status coordinator_status;
    /* Ids of members of former views that are not in the present one. The array has room for all
     * members of the view, too. */
    weft_actor_id *tombstones;
    size_t tombstone_count, tombstone_capacity;
    weft_id_index tombstone_places; /* the same ids */
    char host[WEFT_HOST];           /* name of this host; "": not known */
    double ticked;                  /* time when the timer last ran out and a heartbeat was sent */
    double slept; /* length of the last gap between heartbeats of over 1.5 intervals; 0: none */
};

/* Installs *view if it is newer than the present view and of the same run; otherwise frees it. */
weft_status weft_member_adopt(weft_member *m, weft_view *view,
                              weft_member_news *news) WEFT_NODISCARD;
/* Applies the changes of the coordinator to the view, if they are to this one, and frees them.
 * *missed: they are to another view, so the whole one is needed. */
weft_status weft_member_change(weft_member *m, weft_view *changes, weft_member_news *news,
                               bool *missed) WEFT_NODISCARD;
/* Sends a heartbeat. The coordinator answers with its view if that is newer than this member's. */
weft_status weft_member_heartbeat(weft_member *m) WEFT_NODISCARD;
/* Decodes the view in a message; *view has number 0 if the message holds no valid view. */
weft_status weft_member_read(const weft_member *m, const weft_message *message,
                             weft_view *view) WEFT_NODISCARD;

#endif
