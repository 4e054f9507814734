/* Runs the writing of a checkpoint in a thread of its own, since the writes and syncs of a slow
 * disk may last longer than a failure timeout: meanwhile the rank polls its exchange, which sends
 * heartbeats. */
#ifndef WEFT_CHECKPOINT_WRITE_THREAD_H
#define WEFT_CHECKPOINT_WRITE_THREAD_H

#include "exchange/exchange.h"

typedef struct weft_write_thread weft_write_thread;

/* Calls `write` in a new thread, and polls the exchange in the calling thread until `write` has
 * returned. Returns the failure of `write` or, if it has not failed, the first one of a poll. An
 * exchange without the hook `poll` (or NULL) needs no polls: then there is no new thread, and
 * `write` gets NULL as its thread. */
weft_status weft_write_thread_run(weft_exchange *exchange,
                                  weft_status (*write)(weft_write_thread *thread, void *user),
                                  void *user) WEFT_NODISCARD;
/* Called by `write`: calls `fn` in the thread of the rank, which alone uses its communicators and
 * its device, and returns its status. thread NULL: the caller is in that thread. */
weft_status weft_write_thread_ask(weft_write_thread *thread, weft_status (*fn)(void *user),
                                  void *user) WEFT_NODISCARD;

#endif
