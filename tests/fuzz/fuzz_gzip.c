#include "fuzz.h"

#include "formats/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *out;
    size_t out_size;
    if (weft_gzip_inflate("fuzz", data, size, 1 << 20, &out, &out_size) == WEFT_OK) free(out);
    return 0;
}
