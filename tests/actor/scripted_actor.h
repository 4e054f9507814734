/* An actor for tests of the simulator, whose reaction to each event is a function of its script. */
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
    double seconds; /* duration of a computation, which has `parts` equal output parts */
    int parts;
    double shares[8];
    /* how often the actor was created */
    int lives;
    /* When each event that the test records (`note`) happened, and a number that tells which. */
    double noted[64];
    int64_t what[64];
    int notes;
    int said; /* computations whose results the simulator has asked its host for */
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
