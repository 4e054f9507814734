/* Exchanges with elastic learners share these functions: options and checks of their member, limits
 * on waiting, and the leave. */
#ifndef WEFT_EXCHANGE_ELASTIC_H
#define WEFT_EXCHANGE_ELASTIC_H

#include "actor/net.h"
#include "exchange/exchange.h"
#include "exchange/shared_params.h"
#include "membership/member.h"

/* The options of an elastic learner's member. heartbeat_interval: seconds between two
 * heartbeats. */
weft_member_options weft_elastic_member(const weft_exchange_setup *setup,
                                        double heartbeat_interval);
/* Checks that each rank of an elastic learner has all parameters. ARGUMENT: the mesh shards
 * them. */
weft_status weft_elastic_check_ranks(const weft_exchange_setup *setup,
                                     const weft_shared_params *shared) WEFT_NODISCARD;
/* Called when the learner begins: counts the learners of its view, and checks that it has joined
 * with the slot that it requested. PEER: another learner has taken the slot while this one
 * started. */
weft_status weft_elastic_begin(weft_exchange *exchange, const weft_member *member) WEFT_NODISCARD;
/* Takes what a learner reports of a step into the statistics of its member. */
void weft_elastic_note_step(weft_member_stats *stats, const weft_step_result *result);
/* Called before the learner ends: counts the learners of its view. */
void weft_elastic_note_end(weft_exchange *exchange, const weft_member *member);
/* Seconds that a learner waits for an answer: `usual`, but at most one if it is elastic, belongs to
 * no job, and is asked to stop. */
double weft_elastic_limit(const weft_exchange *exchange, double usual);
/* Whether the learner is elastic, belongs to no job, and is asked to stop. */
bool weft_elastic_is_stopped(const weft_exchange *exchange);
/* Called after each step of a learner: logs that the coordinator has not answered for the failure
 * timeout, and that it answers again. Not in a job, whose supervisor restarts the coordinator. */
void weft_elastic_watch(weft_exchange *exchange, const weft_member *member);
/* Polls until the coordinator has acknowledged the learner's leave, for at most 15 seconds; with
 * `hurry`, or if the coordinator has not answered for the failure timeout, for at most one
 * second. */
weft_status weft_elastic_await_leave(const weft_exchange *exchange, const weft_member *member,
                                     weft_net *net, bool hurry) WEFT_NODISCARD;

/* Makes a learner that ends with an error leave the run (`leave_now` sends the leave), so that
 * other members need not wait until its failure timeout has run out. Learners of a job do not
 * leave, since their supervisor replaces them. */
void weft_elastic_abandon(const weft_exchange *exchange, weft_net *net,
                          weft_status (*leave_now)(weft_actor *actor));

#endif
