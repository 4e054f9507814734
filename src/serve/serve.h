/* The parts of serving that weft_context_create registers: the batching policies, and the table of
 * server options. */
#ifndef WEFT_SERVE_SERVE_H
#define WEFT_SERVE_SERVE_H

#include "base/base.h"
#include "weft/options.h"

weft_status weft_policies_register(weft_context *context) WEFT_NODISCARD;
/* Options of `weft serve`, ended by a row without a name. */
extern const weft_option weft_server_rows[];

#endif
