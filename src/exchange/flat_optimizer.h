/* The flat optimizer applies the run's optimizer to `count` contiguous parameters outside a model,
 * for servers and exchanges that own the update. Its graph has one parameter, or one for each
 * segment of the range, and the update of these. The graph runs on the device of the store `like`
 * if that device computes in host memory, and then gives the bits of the learner's own update;
 * otherwise it runs on the device `reference`. */
#ifndef WEFT_EXCHANGE_FLAT_OPTIMIZER_H
#define WEFT_EXCHANGE_FLAT_OPTIMIZER_H

#include <sys/uio.h>

#include "exchange/exchange.h"
#include "exchange/segments.h"

typedef struct weft_flat_optimizer weft_flat_optimizer;
/* segments: of all parameters, of which the range begins at `begin`; they are in place of the
 * options' multipliers. The options must have clip_norm 0, since a range lacks the other ranges'
 * part of the gradient norm, accumulate 1, and update WEFT_UPDATE_HERE. */
weft_status weft_flat_optimizer_open(weft_context *context, const weft_store *like,
                                     const weft_optimizer_options *options, weft_dtype dtype,
                                     int64_t count, weft_segment_list segments, int64_t begin,
                                     weft_flat_optimizer **out) WEFT_NODISCARD;
/* Sets *out to the bytes that such an optimizer takes without segments, and *state to those of its
 * moments. */
weft_status weft_flat_optimizer_memory(weft_context *context, const weft_store *like,
                                       const weft_optimizer_options *options, weft_dtype dtype,
                                       int64_t count, double *out, double *state) WEFT_NODISCARD;
void weft_flat_optimizer_close(weft_flat_optimizer **optimizer);
/* Updates parameters[count] in place with gradient[count]. */
weft_status weft_flat_optimizer_step(weft_flat_optimizer *optimizer, void *parameters,
                                     const void *gradient) WEFT_NODISCARD;
/* Sets the step of the run, from 1, whose learning rate the next update uses. Without this call the
 * schedule counts the updates. */
void weft_flat_optimizer_set_step(weft_flat_optimizer *optimizer, int64_t step);
/* Multiplies the learning rate of the following updates by this factor, which is 1 at first. */
void weft_flat_optimizer_scale_rate(weft_flat_optimizer *optimizer, double factor);
/* For updates without copies: `_buffers` gives the optimizer's own parameters and its own buffer
 * for a gradient, [count] each. `_run` updates these parameters with a gradient at any address that
 * is a multiple of the element size. */
void weft_flat_optimizer_buffers(weft_flat_optimizer *optimizer, void **parameters,
                                 void **gradient);
weft_status weft_flat_optimizer_run(weft_flat_optimizer *optimizer,
                                    const void *gradient) WEFT_NODISCARD;
/* The bytes of memory that an update reads and writes. */
weft_status weft_flat_optimizer_bytes(const weft_flat_optimizer *optimizer,
                                      double *out) WEFT_NODISCARD;
/* State i of an optimizer without segments: moments ("m", "v", "momentum") as [count]; the age of
 * the moments and the step of the schedule as scalars; false past the end. The caller sets `alike`
 * and `like_parameters`. */
bool weft_flat_optimizer_state(weft_flat_optimizer *optimizer, int i, weft_exchange_state *out);
/* Sets the parts of state i, which lie one after another in the whole state, and returns their
 * number; parts NULL: only the number. */
int weft_flat_optimizer_parts(const weft_flat_optimizer *optimizer, int i, struct iovec *parts);

#endif
