#include "fuzz.h"

#include "actor/envelope.h"

/* Fuzzes the envelope. The first byte says where the bytes behind the envelope are cut into head
 * and payload. An envelope that is read must be written with the same bytes, and must fit only the
 * message for which it was made. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_envelope e;
    uint8_t again[WEFT_ENVELOPE_BYTES];
    if (size < 1 + WEFT_ENVELOPE_BYTES) {
        if (size > 0 && weft_envelope_read(data + 1, size - 1, &e)) abort();
        return 0;
    }
    if (!weft_envelope_read(data + 1, WEFT_ENVELOPE_BYTES, &e)) return 0;
    weft_envelope_write(&e, again);
    if (memcmp(again, data + 1, sizeof(again)) != 0) abort();
    const uint8_t *rest = data + 1 + WEFT_ENVELOPE_BYTES;
    size_t bytes = size - 1 - WEFT_ENVELOPE_BYTES, head = data[0] < bytes ? data[0] : bytes;
    bool fits = weft_envelope_verify_checksum(&e, rest, head, rest + head, bytes - head);
    if (fits && weft_envelope_total(&e) != WEFT_ENVELOPE_BYTES + bytes) abort();
    /* An envelope that is made for this message fits; if the one that was read fits too, both are
     * equal. */
    weft_buffer payload = {.bytes = bytes - head, .data = (void *)(uintptr_t)(rest + head)};
    weft_message message = {.type = e.type, .head = rest, .head_bytes = head, .payload = &payload};
    weft_envelope own = weft_envelope_of(e.from, e.to, &message, e.inside);
    if (!weft_envelope_verify_checksum(&own, rest, head, rest + head, bytes - head)) abort();
    if (fits && memcmp(&own, &e, sizeof(e)) != 0) abort();
    return 0;
}
