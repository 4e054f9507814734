/* The parts of this room that a context is built from. */
#ifndef WEFT_SERVE_SERVE_H
#define WEFT_SERVE_SERVE_H

#include "base/base.h"
#include "weft/options.h"

weft_status weft_policies_register(weft_context *context) WEFT_NODISCARD;
/* Options of a server. */
extern const weft_option weft_server_rows[];

#endif
