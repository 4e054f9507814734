/*
 * Exchanges: how learners, each with a complete copy of the model, talk to each other.
 */
#ifndef WEFT_EXCHANGE_H
#define WEFT_EXCHANGE_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of exchange i: how its specification looks, and one sentence; NULL past the end. */
WEFT_API const char *weft_exchange_form(int i);
WEFT_API const char *weft_exchange_help(int i);

#ifdef __cplusplus
}
#endif
#endif
