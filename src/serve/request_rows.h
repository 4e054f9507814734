/* The rows of an inference request: which of their numbers count, and whether these can be
 * computed. */
#ifndef WEFT_SERVE_REQUEST_ROWS_H
#define WEFT_SERVE_REQUEST_ROWS_H

#include "weft/service.h"

/* The numbers that count of a row of input k: those up to the length that the request gives. */
int64_t weft_request_counted(const weft_input *inputs, int k, const weft_inference_request *q,
                             int64_t row);
/* Checks the numbers of a request, which layers index memory by, or which must be finite in single
 * precision once they are normalised, as those of a file must be. table: as in weft_servable_info.
 * ARGUMENT: the message names the number and its row, from 1. */
weft_status weft_request_check_rows(const weft_data_stats *stats, bool table,
                                    const weft_inference_request *q) WEFT_NODISCARD;

#endif
