/* What the room of serving offers to the context that it is built into. */
#ifndef WEFT_SERVE_SERVE_H
#define WEFT_SERVE_SERVE_H

#include "base/base.h"
#include "weft/options.h"

weft_status weft_policies_register(weft_context *context) WEFT_NODISCARD;
/* Those of a server. */
extern const weft_option weft_server_rows[];

#endif
