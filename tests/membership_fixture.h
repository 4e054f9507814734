/* Those who take part in a run, in the simulator: a coordinator, and members that are nothing else.
 */
#ifndef WEFT_TESTS_MEMBERSHIP_FIXTURE_H
#define WEFT_TESTS_MEMBERSHIP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "actor/sim.h"
#include "membership/member.h"

enum { MOST = 64 };
/* Servers are 10, 11, ..., learners 30, 31, ... */
enum { SERVERS = 10, LEARNERS = 30 };

typedef struct person {
    weft_actor head;
    weft_member *member;
} person;

/* How each actor is made, by number; what is said of it when it is gone. */
typedef struct crowd {
    weft_sim *sim;
    weft_coordinator_options coordinator;
    weft_member_options members[MOST];
    char configuration[64]; /* as somebody was given it */
    char refusal[400];
    int refused;
} crowd;

/* A simulation that has them all in it; of `bad` links anything may get lost. There is one at a
 * time. */
void begin(crowd *c, int learners, int servers, bool replicas, uint64_t seed, bool bad);
void until(crowd *c, double seconds);
const weft_view *view_of(crowd *c, int id);
person *person_of(crowd *c, int id);
/* Whoever is there has the coordinator's view. */
void assert_agreed(crowd *c, int members);

#endif
