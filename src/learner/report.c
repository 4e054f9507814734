/* Figures of an evaluation. */
#include "learner/learner.h"

weft_status weft_report_init(weft_report *report, int classes)
{
    *report = (weft_report){.classes = classes};
    return WEFT_NEW(&report->confusion, (size_t)classes * (size_t)classes);
}

void weft_report_free(weft_report *report)
{
    free(report->confusion);
    *report = (weft_report){0};
}

void weft_report_finish(weft_report *r)
{
    int64_t right = 0;
    int present = 0;
    double f1 = 0;
    for (int c = 0; c < r->classes; c++) {
        int64_t hit = r->confusion[(size_t)c * (size_t)r->classes + (size_t)c], row = 0, column = 0;
        for (int o = 0; o < r->classes; o++) {
            row += r->confusion[(size_t)c * (size_t)r->classes + (size_t)o];
            column += r->confusion[(size_t)o * (size_t)r->classes + (size_t)c];
        }
        right += hit;
        if (row + column == 0) continue;
        present++;
        f1 += 2.0 * (double)hit / (double)(row + column);
    }
    r->accuracy = r->samples ? (double)right / (double)r->samples : 0;
    r->f1_macro = present ? f1 / present : 0;
}
