/* Files of predicted masks. */
#ifndef WEFT_TRAIN_MASK_FILES_H
#define WEFT_TRAIN_MASK_FILES_H

#include "train/train.h"

typedef struct weft_mask_files weft_mask_files;
typedef struct weft_mask_request {
    weft_context *context;
    const char *folder;
    const weft_data_stats *stats; /* of the training */
    const weft_dataset *data;     /* of which all samples of a split are predicted, in order */
    weft_split split;
    bool sampled;       /* masks have the size of samples, and else that of the pictures */
    weft_predict_fn fn; /* also gets each prediction; NULL: nothing */
    void *user;
} weft_mask_request;

/* Makes the folder, unless it is there and empty. ARGUMENT: the folder has entries, or the model
 * does not give each pixel of a picture a class. */
weft_status weft_mask_files_open(const weft_mask_request *request,
                                 weft_mask_files **out) WEFT_NODISCARD;
/* Takes a prediction, and writes the mask of a sample whose last pixel it is. user: the files. */
void weft_mask_files_take(void *user, const weft_prediction *prediction);
/* Says how many pictures were cut. Returns `status` or, if it is OK, that of the first mask that
 * could not be written. */
weft_status weft_mask_files_close(weft_mask_files **files, weft_status status) WEFT_NODISCARD;

#endif
