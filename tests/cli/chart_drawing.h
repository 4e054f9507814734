/* Reads the SVG of a chart, and checks that it is well-formed, that curves lie in their frames and
 * texts inside the picture, and that tick labels do not overlap; text widths are estimated. */
#ifndef WEFT_TESTS_CHART_DRAWING_H
#define WEFT_TESTS_CHART_DRAWING_H

#include <stdbool.h>

#include "cli/compare.h"

enum { MOST_BOXES = 1024 };

typedef struct box {
    double left, top, right, bottom;
} box;

typedef struct drawing {
    const char *text;
    double width, height;
    box reach; /* extent of the curves in the last frame */
    box frames[2 * COURSES], ticks[MOST_BOXES], texts[MOST_BOXES];
    int frame_count, tick_count, text_count;
    int curves, legends;   /* numbers of curves and of legend entries */
    double grid_x, grid_y; /* of the last grid line, where it begins */
    char strokes[2 * COURSES * MOST_RUNS + 2][64], legend_strokes[MOST_RUNS][64];
} drawing;

/* Fails if the text is not well-formed. The drawing is overwritten by the next call. */
drawing *read_drawing(const char *text);
/* Fails unless the drawing has `runs` legend entries, two frames in each row, and so many curves in
 * all, and all of them lie as they must. */
void check_drawing(const drawing *d, int runs, int rows, int curves);

#endif
