#include "fuzz.h"

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_safetensors file;
    if (weft_safetensors_parse("fuzz", data, size, &file) != WEFT_OK) return 0;
    uint32_t sum = 0;
    for (size_t i = 0; i < file.count; i++)
        sum ^= weft_crc32(file.tensors[i].data, file.tensors[i].bytes);
    weft_safetensors_free(&file);
    return sum == 1 ? -1 : 0;
}
