/* Exchanges: how learners, each with a complete copy of the model, talk to each other between
 * steps. */
#ifndef WEFT_EXCHANGE_EXCHANGE_H
#define WEFT_EXCHANGE_EXCHANGE_H

#include "base/base.h"
#include "weft/comm.h"
#include "weft/program.h"

typedef struct weft_exchange weft_exchange;

typedef struct weft_exchange_ops {
    const char *name;
    const char *form; /* how a specification looks */
    const char *help;
    /* `between` joins the ranks that hold the same part of the model in every learner. */
    weft_status (*open)(const char *arguments, weft_comm *between, weft_store *store,
                        weft_exchange **out);
    void (*close)(weft_exchange *exchange);
    /* Before the first step of a process, with the parameters in place. */
    weft_status (*begin)(weft_exchange *exchange);
    /* After step number `step` (from 1) of this learner, the last one of the run if `last`. Tells
     * whether all learners have met in it. */
    weft_status (*step)(weft_exchange *exchange, int64_t step, bool last, bool *met);
    /* What of it belongs into a checkpoint: range i has as many elements as the parameters
     * (WEFT_ALL_PARAMETERS of the store) and their type, and is the same in all learners. NULL past
     * the end. May be NULL. */
    void *(*range)(weft_exchange *exchange, int i, const char **name);
} weft_exchange_ops;

/* The head of every exchange. */
struct weft_exchange {
    const weft_exchange_ops *ops;
    weft_comm *between;
    weft_store *store;
    bool restored; /* its ranges come from a checkpoint */
};

extern const weft_exchange_ops weft_exchange_average, weft_exchange_oneshot;

/* Opens "NAME:key=value,...". ARGUMENT: no such exchange, or a wrong key or value. */
weft_status weft_exchange_open(const char *spec, weft_comm *between, weft_store *store,
                               weft_exchange **out) WEFT_NODISCARD;
/* A step as ops say. */
weft_status weft_exchange_step(weft_exchange *exchange, int64_t step, bool last,
                               bool *met) WEFT_NODISCARD;
/* Checks the specification alone. */
weft_status weft_exchange_check(const char *spec) WEFT_NODISCARD;
void weft_exchange_close(weft_exchange **exchange);

#endif
