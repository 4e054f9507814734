#include "fuzz.h"

#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_signature out;
    char text[512];
    if (size >= sizeof(text)) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (weft_labels_parse(text, &out) == WEFT_OK && (out.inputs < 1 || out.outputs < 1)) abort();
    return 0;
}
