/* Writes the predicted classes of pixels as pictures: FOLDER/NAME.png, of which each pixel is the
 * number of a class, and the palette has a colour for each. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/picture/picture.h"
#include "train/mask_files.h"
#include "weft/output.h"

enum { NUMBERS = 256 };

struct weft_mask_files {
    char *folder;
    weft_picture mask;
    unsigned char palette[NUMBERS * 3];
    bool made; /* the folder was not there */
    int64_t written;
    weft_predict_fn fn; /* also gets each prediction; NULL: nothing */
    void *user;
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

weft_status weft_mask_files_open(const char *folder, const weft_data_stats *stats,
                                 weft_predict_fn fn, void *user, weft_mask_files **out)
{
    weft_mask_files *m;
    struct stat info;
    WEFT_TRY(check(folder, stats));
    WEFT_TRY(WEFT_NEW(&m, 1));
    m->made = stat(folder, &info) != 0;
    m->fn = fn;
    m->user = user;
    m->mask = (weft_picture){.width = (int)stats->input[0].shape.dim[2],
                             .height = (int)stats->input[0].shape.dim[1],
                             .channels = 1};
    for (int i = 0; i < NUMBERS; i++) weft_class_color(i, m->palette + (ptrdiff_t)i * 3);
    weft_status status = weft_strdup(folder, &m->folder);
    if (status == WEFT_OK) status = WEFT_NEW(&m->mask.pixels, stats->positions);
    if (status == WEFT_OK) status = weft_dir_make(folder);
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

static weft_status write_mask(weft_mask_files *m, const weft_prediction *p)
{
    char *path = NULL;
    weft_text png = {0};
    weft_status status = path_of(m, p, &path);
    if (status == WEFT_OK) status = weft_picture_encode(&m->mask, m->palette, &png);
    if (status == WEFT_OK) status = weft_file_replace(path, WEFT_OUTPUT_OWN, png.data, png.size);
    m->written += status == WEFT_OK;
    free(png.data);
    free(path);
    return status;
}

void weft_mask_files_take(void *user, const weft_prediction *p)
{
    weft_mask_files *m = user;
    int64_t pixels = (int64_t)m->mask.width * m->mask.height;
    if (m->fn) m->fn(m->user, p);
    if (m->status != WEFT_OK || p->position < 0 || p->position >= pixels) return;
    m->mask.pixels[p->position] = (unsigned char)p->predicted;
    if (p->position < pixels - 1) return;
    m->status = write_mask(m, p);
    weft_error_catch(&m->failure, m->status);
}

weft_status weft_mask_files_close(weft_mask_files **files, weft_status status)
{
    weft_mask_files *m = *files;
    *files = NULL;
    if (m->made && m->written == 0 && m->folder) (void)rmdir(m->folder);
    if (status == WEFT_OK) status = weft_error_raise(&m->failure);
    weft_picture_free(&m->mask);
    free(m->folder);
    free(m);
    return status;
}
