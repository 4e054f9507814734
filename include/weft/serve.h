/*
 * Includes all public headers of libweft-serve: models behind HTTP, the load generator, forecasts
 * of latencies. The library stands on libweft, which has all other headers (weft/weft.h) and does
 * not know this one. A program that uses one of these headers is linked with -lweft-serve
 * (pkg-config weft-serve, or the target weft::serve of CMake). The rules of weft/weft.h hold here,
 * too.
 */
#ifndef WEFT_SERVE_H
#define WEFT_SERVE_H

#include "weft/batcher.h"
#include "weft/batching_ops.h"
#include "weft/forecast.h"
#include "weft/load.h"
#include "weft/server.h"
#include "weft/service.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the batching policies (WEFT_KIND_POLICY), the arrival processes (WEFT_KIND_ARRIVALS) and the
 * option tables of servers and loads to the registry of a context, which weft_context_create cannot
 * do, since libweft does not know them. The functions of these headers do it themselves; a program
 * that lists or adds such entries, or loads plug-ins that add them, calls this function first. A
 * second call changes nothing. ARGUMENT: an entry has one of the names already. */
WEFT_API WEFT_NODISCARD weft_status weft_serve_register(const weft_context *context);

#ifdef __cplusplus
}
#endif
#endif
