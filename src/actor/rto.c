/* RTO estimator: smoothed round-trip time, its variation, and exponential backoff. */
#include "actor/rto.h"

#include <math.h>

/* Most doublings of the timeout, so that a silent receiver is still probed now and then. */
enum { MOST_BACKOFFS = 5 };

double weft_rto_timeout(const weft_rto *rto, double least)
{
    return ldexp(fmax(least, rto->mean + 4 * rto->spread), rto->backoffs);
}

void weft_rto_sample(weft_rto *rto, double seconds)
{
    if (!(seconds >= 0 && seconds < HUGE_VAL)) return;
    if (rto->mean > 0) {
        rto->spread += (fabs(seconds - rto->mean) - rto->spread) / 4;
        rto->mean += (seconds - rto->mean) / 8;
    } else {
        rto->mean = seconds;
        rto->spread = seconds / 2;
    }
    rto->backoffs = 0;
}

void weft_rto_backoff(weft_rto *rto)
{
    if (rto->backoffs < MOST_BACKOFFS) rto->backoffs++;
}
