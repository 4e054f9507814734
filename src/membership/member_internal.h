/* Internals of members, shared by member.c and view_merge.c. */
#ifndef WEFT_MEMBERSHIP_MEMBER_INTERNAL_H
#define WEFT_MEMBERSHIP_MEMBER_INTERNAL_H

#include "membership/member.h"

struct weft_member {
    weft_member_options options;
    char *texts[3]; /* of the fingerprint */
    weft_actor *actor;
    weft_view view;
    int slot;
    uint64_t run;
    char *waits;                /* members missing when it was admitted */
    weft_buffer *configuration; /* received then; NULL: none */
    weft_member_stats figures;
    bool leaving, done, left, dismissed;
    bool from_coordinator;   /* the view is the coordinator's, not one that members have merged or
                                sent */
    int leave_attempts;      /* Leave messages without an acknowledgement */
    int unanswered;          /* heartbeats since the last message, from any sender */
    double last_message;     /* last message of the coordinator; below 0: none */
    double previous_message; /* the one before that */
    weft_coordinator_status word;
    weft_actor_id *tombstones; /* members of former views that are not in this one; with
                                  room for all */
    size_t tombstone_count, tombstone_capacity;
    char host[WEFT_HOST]; /* name of this host; "": not known */
    double ticked;        /* time of the last timer and heartbeat */
    double slept;         /* the last interval between two that was too long */
};

/* Installs *view if it is newer and of this run, and takes or frees it. */
weft_status weft_member_adopt(weft_member *m, weft_view *view,
                              weft_member_news *news) WEFT_NODISCARD;
/* *view has number 0 if the message has none. */
weft_status weft_member_read(const weft_member *m, const weft_message *message,
                             weft_view *view) WEFT_NODISCARD;

#endif
