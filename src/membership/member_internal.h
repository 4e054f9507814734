/* Inside of members: what member.c and view_merge.c share. */
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
    char *waits;                /* who was missing when it was taken */
    weft_buffer *configuration; /* that it was given then; NULL: nothing */
    weft_member_stats figures;
    bool leaving, done, left, dismissed;
    bool told;      /* the view is the coordinator's own word, not what members have made or said */
    int farewells;  /* that nobody has answered */
    int unanswered; /* beats since somebody has written, whoever it was */
    double heard;   /* of the coordinator; below 0: never */
    weft_coordinator_status word;
    weft_actor_id
        *lost; /* who was in a view once, and is in this one no more; room for all who are */
    size_t lost_count, lost_capacity;
    char host[WEFT_HOST]; /* the name of this machine; "": not known */
    double ticked;        /* when its timer ran out last, and it said that it lives */
    double slept;         /* the last time between two of those that was longer than it should be */
};

/* Takes *view, which then is the member's or nobody's, where it is newer and of this run. */
weft_status weft_member_adopt(weft_member *m, weft_view *view,
                              weft_member_news *news) WEFT_NODISCARD;
/* *view has number 0 where that is none. */
weft_status weft_member_read(const weft_member *m, const weft_message *message,
                             weft_view *view) WEFT_NODISCARD;

#endif
