/* Writes the predicted classes of pixels as pictures: FOLDER/NAME.png, of which each pixel is the
 * number of a class, and the palette has a colour for each. A picture that was scaled and cut has a
 * mask of its own size. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/picture/picture.h"
#include "train/mask_files.h"
#include "weft/output.h"

enum { NUMBERS = 256, OUTSIDE = 255 }; /* the latter: pixels that were cut off */

struct weft_mask_files {
    weft_mask_request request;
    char *folder;
    weft_picture mask; /* of the size of samples */
    unsigned char palette[NUMBERS * 3];
    bool made; /* the folder was not there */
    int64_t sample, written, cut;
    weft_status status; /* of the first mask that could not be written */
    weft_error failure;
};

static bool has_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int entries = 0;
    if (!dir) return false;
    while (readdir(dir) != NULL) entries++;
    closedir(dir);
    return entries > 2; /* itself and the one above */
}

static weft_status check(const char *folder, const weft_data_stats *stats)
{
    const weft_shape *shape = &stats->input[0].shape;
    bool pixels = stats->inputs == 1 && stats->positions > 0 && shape->rank == 3 &&
                  stats->positions == shape->dim[1] * shape->dim[2];
    if (!pixels)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "masks is '%s', and the model does not give each pixel of a picture a "
                         "class; leave it out",
                         folder);
    if (stats->classes > NUMBERS)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "masks is '%s', and the model has %d classes; a picture has up to %d",
                         folder, stats->classes, NUMBERS);
    if (!has_entries(folder)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "masks is '%s', and the folder is not empty; give a new one", folder);
}

weft_status weft_mask_files_open(const weft_mask_request *request, weft_mask_files **out)
{
    weft_mask_files *m;
    struct stat info;
    const weft_data_stats *stats = request->stats;
    WEFT_TRY(check(request->folder, stats));
    WEFT_TRY(WEFT_NEW(&m, 1));
    m->made = stat(request->folder, &info) != 0;
    m->request = *request;
    m->mask = (weft_picture){.width = (int)stats->input[0].shape.dim[2],
                             .height = (int)stats->input[0].shape.dim[1],
                             .channels = 1};
    for (int i = 0; i < NUMBERS; i++) weft_class_color(i, m->palette + (ptrdiff_t)i * 3);
    if (stats->classes <= OUTSIDE) memset(m->palette + (ptrdiff_t)OUTSIDE * 3, 255, 3);
    weft_status status = weft_strdup(request->folder, &m->folder);
    if (status == WEFT_OK) status = WEFT_NEW(&m->mask.pixels, stats->positions);
    if (status == WEFT_OK) status = weft_dir_make(request->folder);
    *out = m;
    if (status != WEFT_OK) return weft_mask_files_close(out, status);
    return WEFT_OK;
}

/* The path of a sample's mask, whose folder is made: its identifier with another ending, or else
 * its number. */
static weft_status path_of(const weft_mask_files *m, const weft_prediction *p, char **out)
{
    const char *dot = p->id ? strrchr(p->id, '.') : NULL,
               *slash = p->id ? strrchr(p->id, '/') : NULL;
    char *folder;
    struct stat info;
    if (dot && slash && dot < slash) dot = NULL;
    if (!p->id) return weft_format(out, "%s/%lld.png", m->folder, (long long)p->sample);
    WEFT_TRY(weft_format(out, "%s/%.*s.png", m->folder,
                         dot ? (int)(dot - p->id) : (int)strlen(p->id), p->id));
    weft_status status = WEFT_OK;
    if (slash) {
        status = weft_format(&folder, "%s/%.*s", m->folder, (int)(slash - p->id), p->id);
        if (status == WEFT_OK) status = weft_dir_make(folder);
        if (status == WEFT_OK) free(folder);
    }
    if (status == WEFT_OK && stat(*out, &info) == 0)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "%s: two samples would have this mask; rename one of their pictures, or "
                           "predict their parts one after the other, into folders of their own",
                           *out);
    return status;
}

/* Gives the mask the size of the picture of the sample, if it has one; out->pixels NULL: it has
 * none. ARGUMENT: a part of the picture was cut off, and each number is that of a class. */
static weft_status enlarge(weft_mask_files *m, weft_picture *out)
{
    const weft_mask_request *r = &m->request;
    *out = (weft_picture){.channels = 1};
    if (r->sampled) return WEFT_OK;
    WEFT_TRY(weft_dataset_picture_size(r->data, r->split, m->sample, &out->width, &out->height));
    if (out->width == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&out->pixels, (size_t)out->width * (size_t)out->height));
    if (!weft_mask_spread(&m->mask, OUTSIDE, out)) return WEFT_OK;
    m->cut++;
    if (r->stats->classes <= OUTSIDE) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "a part of a picture was cut off, and %d classes leave its pixels no number; "
                     "give --mask-size sample",
                     r->stats->classes);
}

static weft_status write_mask(weft_mask_files *m, const weft_prediction *p)
{
    char *path = NULL;
    weft_text png = {0};
    weft_picture own = {0};
    weft_status status = path_of(m, p, &path);
    if (status == WEFT_OK) status = enlarge(m, &own);
    if (status == WEFT_OK)
        status = weft_picture_encode(own.pixels ? &own : &m->mask, m->palette, &png);
    if (status == WEFT_OK) status = weft_file_replace(path, WEFT_OUTPUT_OWN, png.data, png.size);
    m->written += status == WEFT_OK;
    weft_picture_free(&own);
    free(png.data);
    free(path);
    return status;
}

void weft_mask_files_take(void *user, const weft_prediction *p)
{
    weft_mask_files *m = user;
    int64_t pixels = (int64_t)m->mask.width * m->mask.height;
    if (m->request.fn) m->request.fn(m->request.user, p);
    if (m->status != WEFT_OK || p->position < 0 || p->position >= pixels) return;
    m->mask.pixels[p->position] = (unsigned char)p->predicted;
    if (p->position < pixels - 1) return;
    m->status = write_mask(m, p);
    m->sample++;
    weft_error_catch(&m->failure, m->status);
}

weft_status weft_mask_files_close(weft_mask_files **files, weft_status status)
{
    weft_mask_files *m = *files;
    *files = NULL;
    if (m->made && m->written == 0 && m->folder) (void)rmdir(m->folder);
    if (status == WEFT_OK) status = weft_error_raise(&m->failure);
    if (status == WEFT_OK && m->cut > 0)
        weft_log(m->request.context, WEFT_LOG_NOTE,
                 "%lld of %lld pictures have other proportions than samples; the pixels that were "
                 "cut off have no prediction, and are %d in their masks",
                 (long long)m->cut, (long long)m->written, OUTSIDE);
    weft_picture_free(&m->mask);
    free(m->folder);
    free(m);
    return status;
}
