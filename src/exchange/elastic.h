/* Shared by exchanges with elastic learners: options and checks of a member, limits on waiting, and
 * the leave. */
#ifndef WEFT_EXCHANGE_ELASTIC_H
#define WEFT_EXCHANGE_ELASTIC_H

#include "actor/net.h"
#include "exchange/exchange.h"
#include "exchange/shared_params.h"
#include "membership/member.h"

/* Options of the member of an elastic learner; heartbeat_interval: seconds between two heartbeats.
 */
weft_member_options weft_elastic_member(const weft_exchange_site *site, double heartbeat_interval);
/* ARGUMENT: the learner is elastic, and its ranks do not have all parameters. */
weft_status weft_elastic_check_ranks(const weft_exchange_site *site,
                                     const weft_shared_params *shared) WEFT_NODISCARD;
/* PEER: another learner has taken the slot while this one started. */
weft_status weft_elastic_check_slot(const weft_exchange_site *site,
                                    const weft_member *member) WEFT_NODISCARD;
/* Seconds that a learner waits for a silent member, instead of `usual`: very few if it is elastic,
 * and its stop was requested. */
double weft_elastic_limit(const weft_exchange *exchange, double usual);
bool weft_elastic_is_stopped(const weft_exchange *exchange);
/* Polls for a limited time until the coordinator has acknowledged the leave. hurry: for a short
 * one. */
weft_status weft_elastic_await_leave(const weft_exchange *exchange, weft_net *net,
                                     bool hurry) WEFT_NODISCARD;

/* A learner that ends with an error leaves the run, so that other members need not wait until its
 * failure timeout has run out. Learners of a job do not: their supervisor replaces them. */
void weft_elastic_abandon(const weft_exchange *exchange, weft_net *net,
                          weft_status (*leave_now)(weft_actor *actor));

#endif
