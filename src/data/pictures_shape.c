/* The shape of samples that are pictures: a given size, that of the training, or that of the first
 * picture. */
#include "data/pictures.h"
#include "formats/picture/picture.h"

/* "N" or "HxW", from 1 to `most`. */
static bool parse_size(const char *text, int64_t most, int64_t *height, int64_t *width)
{
    char first[24];
    const char *cross = strchr(text, 'x');
    size_t size = cross ? (size_t)(cross - text) : strlen(text);
    if (size >= sizeof(first)) return false;
    memcpy(first, text, size);
    first[size] = '\0';
    if (!weft_parse_int(first, height)) return false;
    *width = *height;
    if (cross && !weft_parse_int(cross + 1, width)) return false;
    return *height >= 1 && *height <= most && *width >= 1 && *width <= most;
}

/* Takes the size of the first picture. */
static weft_status look_at_first(const weft_pictures *s, int *height, int *width)
{
    char *path = NULL;
    weft_bytes bytes = {0};
    weft_status status = weft_pictures_open_item(s, &s->item[0], &path, &bytes);
    if (status == WEFT_OK) status = weft_picture_size(path, bytes.data, bytes.size, width, height);
    if (status != WEFT_OK)
        status = weft_fail(status, "%s; give size=N, which would be that of this first picture",
                           weft_last_message());
    else if (*width > WEFT_USUAL_SIDE || *height > WEFT_USUAL_SIDE)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "%s is %d pixels high and %d wide; give the size to which pictures are "
                           "brought, as in size=224 or size=%dx%d",
                           path, *height, *width, *height, *width);
    weft_pictures_close_item(&s->item[0], path, &bytes);
    return status;
}

weft_status weft_pictures_set_shape(weft_pictures *s, const weft_picture_keys *keys,
                                    const weft_data_stats *stats)
{
    const char *size = keys->size;
    int channels = keys->grey ? 1 : keys->colour ? 3 : 0;
    enum { MOST = 4096 };
    int64_t height = 0, width = 0;
    int high, wide;
    const weft_shape *known =
        stats && stats->input[0].shape.rank == 3 ? &stats->input[0].shape : NULL;
    if (size && !parse_size(size, MOST, &height, &width))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data '%s': size is '%s', must be a side or HEIGHTxWIDTH, from 1 to %d",
                         s->head.ops->kind, size, MOST);
    if (!size && known) {
        height = WEFT_MIN(known->dim[1], (int64_t)MOST);
        width = WEFT_MIN(known->dim[2], (int64_t)MOST);
    } else if (!size) {
        WEFT_TRY(look_at_first(s, &high, &wide));
        height = high;
        width = wide;
    }
    if (channels == 0)
        channels = known && (known->dim[0] == 1 || known->dim[0] == 4) ? (int)known->dim[0] : 3;
    weft_source_set_shape(&s->head, weft_shape_of(3, (int64_t[]){channels, height, width}));
    return WEFT_OK;
}
