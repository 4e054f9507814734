/* The estimated step of one run (weft plan --cluster FILE). */
#include <stdio.h>

#include "cli.h"
#include "plan.h"

static void print_share(double share, const char *by)
{
    if (share > 0.0005) printf(", %.1f %% %s", 100 * share, by);
}

void note_processor(const char *cluster, bool quiet)
{
    char *processor = NULL;
    weft_status status = cluster && !quiet ? weft_measured_here(cluster, &processor) : WEFT_OK;
    if (status == WEFT_ERR_ARGUMENT && processor)
        fprintf(stderr, "weft: %s: estimates are for '%s', where its times were measured\n",
                cluster, processor);
    weft_free(processor);
}

void print_estimate(const char *cluster, const weft_step_estimate *p)
{
    printf("\nEstimated for %s: a step takes %.4g ms (%.4g to %.4g), %.4g samples/s\n", cluster,
           1e3 * p->seconds, 1e3 * p->low, 1e3 * p->high, p->samples_per_second);
    printf("of it %.4g ms of kernels, %.4g of transfers, %.4g of waiting, %.4g of the rest, in the "
           "mean over the ranks\n",
           1e3 * p->computed, 1e3 * p->transferred, 1e3 * p->waited, 1e3 * p->rest);
    printf("kernels: %.1f %% measured with these sizes", 100 * p->by_size);
    print_share(p->by_kind, "with others");
    print_share(p->by_operator, "by their operator");
    print_share(p->by_rates, "by rates alone");
    printf("\n");
    if (p->wire_bytes > 0)
        printf("between machines: %.0f bytes a step; the busiest sends for %.1f %% of the time\n",
               p->wire_bytes, 100 * p->busiest_link);
    if (p->staleness >= 0)
        printf("updates: %.2f others have come between in the mean; the busiest server works for "
               "%.1f %% of the time\n",
               p->staleness, 100 * p->server_busy);
}
