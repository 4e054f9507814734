/* An actor for tests of the simulator: what it does is in its part of a script. */
#ifndef WEFT_TESTS_SCRIPTED_ACTOR_H
#define WEFT_TESTS_SCRIPTED_ACTOR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "actor/sim.h"

typedef struct player player;
typedef struct script {
    weft_status (*begin)(player *p);
    weft_status (*message)(player *p, const weft_message *message);
    weft_status (*timer)(player *p, int timer);
    weft_status (*part)(player *p, int64_t ticket, int part);
    weft_status (*computed)(player *p, int64_t ticket);
    double seconds; /* of a computation, in `parts` equal parts */
    int parts;
    double shares[8];
    int lives;
    double noted[64]; /* when what the test looks at happened, and what it was */
    int64_t what[64];
    int notes;
    int said; /* computations that the host has been told have come */
} script;

struct player {
    weft_actor head;
    script *says;
    int64_t sent, seen;
};

void note(player *p, int64_t what);
weft_status make(void *user, weft_actor_id id, int life, weft_actor **out);
weft_sim *simulate(script *all, int count, weft_sim_link link, uint64_t seed);
weft_status send_bytes(player *p, weft_actor_id to, uint32_t type, size_t bytes);
weft_status note_message(player *p, const weft_message *message);

#endif
