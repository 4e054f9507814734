/* Data sets that are known by a name, whose files are those of MNIST: mnist, fashion-mnist. Without
 * a folder they are looked for where Debian's package or `weft fetch` puts them. */
#include <stdio.h>
#include <sys/stat.h>

#include "data/data.h"

weft_status weft_data_folder(const char *name, char **out)
{
    WEFT_NEED_AS("name, out", name, out);
    if (!*name) return weft_fail(WEFT_ERR_ARGUMENT, "the name of the data set is empty");
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data == '/') return weft_format(out, "%s/weft/%s", data, name);
    *out = NULL;
    if (home && *home == '/') return weft_format(out, "%s/.local/share/weft/%s", home, name);
    return weft_fail(WEFT_ERR_IO, "HOME is not set, so there is no folder for data; give one");
}

/* package, place: Debian's package, and the folder of its files; NULL: there is none. */
static weft_status open_named(const char *name, const char *package, const char *place,
                              const char *arguments, const weft_source_request *request,
                              weft_source **out)
{
    struct stat info;
    char *folder;
    if (*arguments) return weft_source_idx.open(arguments, request, out);
    if (place && stat(place, &info) == 0) return weft_source_idx.open(place, request, out);
    WEFT_TRY(weft_data_folder(name, &folder));
    weft_status status = weft_source_idx.open(folder, request, out);
    free(folder);
    if (status == WEFT_ERR_IO)
        return weft_fail(status, "%s; get them with weft fetch %s%s%s, or give %s:DIR",
                         weft_last_message(), name, package ? ", install Debian's " : "",
                         package ? package : "", name);
    return status;
}

static weft_status open_mnist(const char *arguments, const weft_source_request *request,
                              weft_source **out)
{
    return open_named("mnist", NULL, NULL, arguments, request, out);
}

static weft_status open_fashion(const char *arguments, const weft_source_request *request,
                                weft_source **out)
{
    return open_named("fashion-mnist", "dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist",
                      arguments, request, out);
}

const weft_source_ops weft_source_mnist = {
    .kind = "mnist",
    .form = "mnist[:DIR]",
    .help = "MNIST, as idx: reads it; without DIR that of weft fetch mnist",
    .open = open_mnist,
};
const weft_source_ops weft_source_fashion_mnist = {
    .kind = "fashion-mnist",
    .form = "fashion-mnist[:DIR]",
    .help = "Fashion-MNIST, as idx: reads it; without DIR that of Debian's package "
            "dataset-fashion-mnist or of weft fetch fashion-mnist",
    .open = open_fashion,
};
