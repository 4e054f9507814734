/* Reads files with secrets, such as tokens and private keys, and refuses a file whose mode lets
 * other users read it. */
#include <sys/stat.h>

#include "serve/front/access_control.h"

enum { MOST = 1 << 20 };

static weft_status read_all(FILE *file, const char *path, const char *what, char *text)
{
    size_t size = fread(text, 1, MOST + 1, file);
    if (ferror(file)) return weft_fail_io("read", path);
    if (size > MOST) return weft_fail(WEFT_ERR_FORMAT, "%s: is too long for %s", path, what);
    if (memchr(text, '\0', size))
        return weft_fail(WEFT_ERR_FORMAT, "%s: has a zero byte, so it is not %s", path, what);
    text[size] = '\0';
    return WEFT_OK;
}

weft_status weft_secret_read(const char *path, unsigned closed_to, const char *what, char **out)
{
    struct stat info;
    weft_status status = WEFT_OK;
    FILE *file = fopen(path, "re");
    *out = NULL;
    if (!file) return weft_fail_io("open", path);
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode))
        status =
            weft_fail(WEFT_ERR_IO, "%s: is not a regular file; give the path of %s", path, what);
    else if (info.st_mode & closed_to)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "%s: other users can access this, %s (mode %03o); chmod 600 %s, and "
                           "make a new one if one of them may have read it",
                           path, what, (unsigned)info.st_mode & 0777, path);
    if (status == WEFT_OK) status = WEFT_NEW(out, MOST + 2);
    if (status == WEFT_OK) status = read_all(file, path, what, *out);
    if (status != WEFT_OK) weft_secret_free(out);
    fclose(file);
    return status;
}

void weft_secret_free(char **text)
{
    if (*text) explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}
