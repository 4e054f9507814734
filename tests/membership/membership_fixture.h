/* A run in the simulator that has membership only: a coordinator, and members that join, send
 * heartbeats and leave, but do not train. */
#ifndef WEFT_TESTS_MEMBERSHIP_FIXTURE_H
#define WEFT_TESTS_MEMBERSHIP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "actor/sim.h"
#include "membership/member.h"

enum { MOST = 400 };
/* The first actor ids of servers (10, 11, ...) and of learners (30, 31, ...). */
enum { SERVERS = 10, LEARNERS = 30 };
/* From this id on actors are clients, which ask a member to leave. */
enum { CLIENTS = 360 };

typedef struct person {
    weft_actor head;
    weft_member *member;
} person;

/* A simulated run. `coordinator` and `members`, indexed by actor id, are the options with which the
 * simulator creates each actor; the other fields record what members were told. */
typedef struct crowd {
    weft_sim *sim;
    weft_coordinator_options coordinator;
    weft_member_options members[MOST];
    weft_actor_id asked;    /* the member that the next client asks to leave */
    uint64_t sought;        /* the run of which the next client asks to be a member; 0: of none */
    int wished_slot;        /* the slot, from 1, whose member the next client replaces; 0: none */
    char configuration[64]; /* run configuration that the member admitted last was given */
    /* The error of the last member that was refused or removed, and how many there were. */
    char refusal[400];
    int refused;
} crowd;

/* Begins a simulation with a coordinator, `learners` learners and `servers` servers. With `bad`,
 * links delay, lose, duplicate and reorder messages. Only one simulation may exist at a time. */
void begin(crowd *c, int learners, int servers, bool replicas, uint64_t seed, bool bad);
void until(crowd *c, double seconds);
const weft_view *view_of(crowd *c, int id);
person *person_of(crowd *c, int id);
/* Fails unless there are `members` members and all have the coordinator's view. */
void assert_agreed(crowd *c, int members);

#endif
