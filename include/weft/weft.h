/*
 * Includes all public headers of libweft; each of them can also be included alone. weft/serve.h has
 * those of libweft-serve: serving, and its load generator.
 *
 * Wrong arguments. A function checks each pointer, value, index, enumerator and number that it is
 * given, and changes nothing if one of them is wrong. A function that returns a weft_status then
 * fails with ARGUMENT; one that adds to a graph makes the graph fail (weft/graph.h); any other
 * function does nothing and returns 0, NULL, false, or the value that stands for none (-1,
 * WEFT_NO_VALUE). NULL is wrong unless the description allows it. Functions that destroy, close or
 * free something take NULL and a pointer to NULL; `user` is the caller's own. A handle that was
 * destroyed, and memory shorter than its size says, cannot be recognised.
 *
 * Structs of options begin with struct_size. Their initialiser (weft_..._init) sets it and the
 * defaults; a struct that is only zeroed is refused. A program that was compiled with an older
 * version has shorter structs, which are accepted: the fields that they lack have their defaults.
 * Longer structs, of a newer version, are accepted if what this library does not know is 0.
 *
 * Other structs have the same size in all versions with one soname (libweft.so.MAJOR, see
 * weft/version.h), and each of their fields stays where it is. If a struct ends with `room`, fields
 * of later versions take that room. Such structs are those that contain each other
 * (weft/train_options.h, weft/cluster.h, weft/simulate.h), weft_sampling, weft_transfer and the
 * results that the library writes into the caller's memory. The room of what a caller gives must be
 * 0, as an initialiser, {0} or a designated initialiser of C leaves it; that of a result is 0.
 * Structs without `room` never change. Structs that a callback gets (weft_event, weft_prediction,
 * weft_request_result, weft_gradient, weft_reading, and those that the functions of weft/..._ops.h
 * get) may grow at their end: a program reads them where they are, or copies single fields.
 *
 * Callbacks. The library calls them from C code and holds locks of its own around some of them; a
 * callback must return, and must not leave by longjmp or by an exception of C++, which would leave
 * locks held and memory unfreed. A program in C++ catches exceptions in the callback, and reports
 * them by the callback's result or through `user`.
 *
 * fork. A process may fork before it has created its first context. Afterwards a child must only
 * call functions that are safe after fork in a process with threads, and then exec or _exit: the
 * threads of OpenMP, of batchers and of servers do not exist in the child, so a call of the library
 * there may wait for ever.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/cluster.h"
#include "weft/codec_ops.h"
#include "weft/comm.h"
#include "weft/context.h"
#include "weft/data.h"
#include "weft/data_ops.h"
#include "weft/device.h"
#include "weft/device_ops.h"
#include "weft/estimate.h"
#include "weft/exchange_ops.h"
#include "weft/generate.h"
#include "weft/graph.h"
#include "weft/job.h"
#include "weft/keys.h"
#include "weft/members.h"
#include "weft/model.h"
#include "weft/model_ops.h"
#include "weft/optim.h"
#include "weft/operator_ops.h"
#include "weft/optim_ops.h"
#include "weft/options.h"
#include "weft/output.h"
#include "weft/plan.h"
#include "weft/plugin.h"
#include "weft/port.h"
#include "weft/program.h"
#include "weft/rate_ops.h"
#include "weft/registry.h"
#include "weft/services.h"
#include "weft/report.h"
#include "weft/server_policy_ops.h"
#include "weft/spec.h"
#include "weft/status.h"
#include "weft/strategies.h"
#include "weft/transport_ops.h"
#include "weft/simulate.h"
#include "weft/time_to_target.h"
#include "weft/train.h"
#include "weft/train_options.h"
#include "weft/types.h"
#include "weft/version.h"

#endif
