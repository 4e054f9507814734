/* Draws the confusion matrix of an evaluation as a picture. */
#include "formats/picture/picture.h"
#include "train/metrics.h"

/* Pixels of a side of the picture, and the most of a cell. */
enum { SIDE = 480, MOST_CELL = 32 };

weft_status weft_confusion_picture(const weft_report *report, weft_text *png)
{
    int n = report->classes, cell = WEFT_MIN(WEFT_MAX(SIDE / n, 1), MOST_CELL);
    weft_picture p = {.width = n * cell, .height = n * cell, .channels = 1};
    WEFT_TRY(WEFT_NEW(&p.pixels, (size_t)p.width * (size_t)p.height));
    for (int t = 0; t < n; t++) {
        const int64_t *row = report->confusion + (size_t)t * (size_t)n;
        double samples = 0;
        for (int c = 0; c < n; c++) samples += (double)row[c];
        for (int c = 0; c < n; c++) {
            double share = samples > 0 ? (double)row[c] / samples : 0;
            for (int y = t * cell; y < (t + 1) * cell; y++)
                memset(p.pixels + (size_t)y * (size_t)p.width + (size_t)c * (size_t)cell,
                       (int)(255.5 - 255 * share), (size_t)cell);
        }
    }
    weft_status status = weft_picture_encode(&p, NULL, png);
    free(p.pixels);
    return status;
}
