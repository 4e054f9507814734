/* Files of predicted masks. */
#ifndef WEFT_TRAIN_MASK_FILES_H
#define WEFT_TRAIN_MASK_FILES_H

#include "train/train.h"

typedef struct weft_mask_files weft_mask_files;
/* Makes the folder, unless it is there and empty. fn: also gets each prediction; NULL: none does.
 * ARGUMENT: the folder has entries, or the model does not give each pixel of a picture a class. */
weft_status weft_mask_files_open(const char *folder, const weft_data_stats *stats,
                                 weft_predict_fn fn, void *user,
                                 weft_mask_files **out) WEFT_NODISCARD;
/* Takes a prediction, and writes the mask of a sample whose last pixel it is. user: the files. */
void weft_mask_files_take(void *user, const weft_prediction *prediction);
/* Returns `status` or, if it is OK, that of the first mask that could not be written. */
weft_status weft_mask_files_close(weft_mask_files **files, weft_status status) WEFT_NODISCARD;

#endif
