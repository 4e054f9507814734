/* Lists folders of pictures, and finds the parts of a data set, which are folders of usual names.
 */
#include <dirent.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/pictures.h"

/* --- listing --- */

void weft_listing_free(weft_listing *l)
{
    weft_strings_free(&l->folders, l->folder_count);
    weft_strings_free(&l->pictures, l->picture_count);
    weft_strings_free(&l->others, l->other_count);
}

static weft_status list_entry(const char *folder, const char *name, weft_listing *l)
{
    char *path;
    struct stat info;
    if (name[0] == '.') return WEFT_OK;
    WEFT_TRY(weft_format(&path, "%s/%s", folder, name));
    bool known = stat(path, &info) == 0, is_folder = known && S_ISDIR(info.st_mode);
    free(path);
    if (is_folder) {
        WEFT_TRY(WEFT_GROW(&l->folders, &l->folder_room, l->folder_count));
        return weft_strdup(name, &l->folders[l->folder_count++]);
    }
    if (!weft_is_picture_name(name)) {
        WEFT_TRY(WEFT_GROW(&l->others, &l->other_room, l->other_count));
        return weft_strdup(name, &l->others[l->other_count++]);
    }
    WEFT_TRY(WEFT_GROW(&l->pictures, &l->picture_room, l->picture_count));
    return weft_strdup(name, &l->pictures[l->picture_count++]);
}

/* A picture itself is no folder of pictures. */
static weft_status fail_to_list(const char *folder)
{
    struct stat info;
    if (stat(folder, &info) == 0 && S_ISREG(info.st_mode))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: is a file, and pictures are given by their folder; put it into one",
                         folder);
    return weft_fail_io("be read", folder);
}

weft_status weft_listing_read(const char *folder, weft_listing *l)
{
    weft_status status = WEFT_OK;
    *l = (weft_listing){0};
    DIR *dir = opendir(folder);
    if (!dir) return fail_to_list(folder);
    for (const struct dirent *e; status == WEFT_OK && (e = readdir(dir));)
        status = list_entry(folder, e->d_name, l);
    closedir(dir);
    if (status != WEFT_OK) {
        weft_listing_free(l);
        return status;
    }
    weft_strings_sort(l->folders, l->folder_count);
    weft_strings_sort(l->pictures, l->picture_count);
    weft_strings_sort(l->others, l->other_count);
    return WEFT_OK;
}

void weft_pictures_leave_out(weft_pictures *s, const char *folder, char *const *names,
                             int64_t count)
{
    if (count > 0 && s->left_out == 0)
        (void)snprintf(s->left_example, sizeof(s->left_example), "%s%s%s", folder,
                       *folder && folder[strlen(folder) - 1] != '/' ? "/" : "", names[0]);
    s->left_out += count;
}

void weft_pictures_warn_left_out(const weft_pictures *s)
{
    char shown[sizeof(s->left_example)];
    if (s->left_out == 0) return;
    weft_log(s->context, WEFT_LOG_WARNING,
             "%s: %lld file%s left out, such as %s: pictures are the files .jpg, .jpeg, .png and "
             ".webp in the folder of a class",
             s->folder, (long long)s->left_out, s->left_out == 1 ? " is" : "s are",
             weft_printable(s->left_example, shown, sizeof(shown)));
}

/* --- parts --- */

/* The part that a folder of this name is; WEFT_SPLITS: none. */
static int part_of(const char *name)
{
    static const char *const names[WEFT_SPLITS][3] = {
        [WEFT_TRAIN] = {"train", "training"},
        [WEFT_TEST] = {"test", "testing"},
        [WEFT_VALIDATION] = {"valid", "val", "validation"}};
    for (int p = 0; p < WEFT_SPLITS; p++)
        for (int i = 0; i < 3 && names[p][i]; i++)
            if (strcasecmp(name, names[p][i]) == 0) return p;
    return WEFT_SPLITS;
}

/* Whether the folder `name` of the data has folders of classes or, with masks, that of pictures. */
static weft_status may_be_part(const weft_pictures *s, const char *name, bool *may)
{
    char *path;
    weft_listing l;
    WEFT_TRY(weft_format(&path, "%s/%s", s->folder, name));
    weft_status status = weft_listing_read(path, &l);
    free(path);
    WEFT_TRY(status);
    *may = l.folder_count > 0;
    weft_listing_free(&l);
    return WEFT_OK;
}

/* Takes the folder of a part; a name that is none is added to *unread, if the data have parts. */
static weft_status take_folder(weft_pictures *s, const char *name, char *part[WEFT_SPLITS],
                               weft_text *unread)
{
    bool may = false;
    int p = part_of(name);
    if (p < WEFT_SPLITS) WEFT_TRY(may_be_part(s, name, &may));
    if (!may) {
        weft_text_add(unread, "%s%s", unread->size > 0 ? ", " : "", name);
        return WEFT_OK;
    }
    if (part[p])
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the folders %s and %s are both named as the %s part; keep one of "
                         "them, or move the other out",
                         s->folder, part[p], name, weft_split_name((weft_split)p));
    return weft_strdup(name, &part[p]);
}

weft_status weft_pictures_find_parts(weft_pictures *s, char *part[WEFT_SPLITS])
{
    weft_listing l;
    weft_text names = {0};
    char *unread = NULL;
    WEFT_TRY(weft_listing_read(s->folder, &l));
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < l.folder_count && status == WEFT_OK; i++)
        status = take_folder(s, l.folders[i], part, &names);
    weft_listing_free(&l);
    weft_status taken = weft_text_take(&names, &unread);
    if (status == WEFT_OK) status = taken;
    if (status == WEFT_OK && part[WEFT_TRAIN] && *unread)
        weft_log(s->context, WEFT_LOG_WARNING,
                 "%s: the parts train, test and valid are read, which have a folder for each "
                 "class; left out beside %s: %s",
                 s->folder, part[WEFT_TRAIN], unread);
    free(unread);
    return status;
}
