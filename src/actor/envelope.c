/* Encodes, decodes and checks envelopes. */
#include "actor/envelope.h"

#include <xxhash.h>

static const char MAGIC[4] = {'W', 'E', 'F', 'T'};

static void put(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

void weft_envelope_write(const weft_envelope *e, uint8_t to[WEFT_ENVELOPE_BYTES])
{
    memcpy(to, MAGIC, sizeof(MAGIC));
    put(to + 4, WEFT_ENVELOPE_VERSION, 2);
    put(to + 6, e->inside, 2);
    put(to + 8, e->from, 4);
    put(to + 12, e->to, 4);
    put(to + 16, e->type, 4);
    put(to + 20, e->head_bytes, 4);
    put(to + 24, e->payload_bytes, 8);
    put(to + 32, e->checksum, 8);
}

static uint64_t checksum_of(const weft_envelope *e, const void *head, const void *payload)
{
    uint8_t fields[WEFT_ENVELOPE_BYTES];
    weft_envelope_write(e, fields);
    uint64_t sum = XXH3_64bits(fields, WEFT_ENVELOPE_BYTES - 8);
    if (e->head_bytes) sum = XXH3_64bits_withSeed(head, e->head_bytes, sum);
    if (e->payload_bytes && !e->inside)
        sum = XXH3_64bits_withSeed(payload, (size_t)e->payload_bytes, sum);
    return sum;
}

weft_envelope weft_envelope_of(weft_actor_id from, weft_actor_id to, const weft_message *message,
                               bool inside)
{
    weft_envelope e = {.from = from,
                       .to = to,
                       .type = message->type,
                       .head_bytes = (uint32_t)message->head_bytes,
                       .payload_bytes = message->payload ? message->payload->bytes : 0,
                       .inside = inside};
    e.checksum = checksum_of(&e, message->head, message->payload ? message->payload->data : NULL);
    return e;
}

bool weft_envelope_read(const void *data, size_t bytes, weft_envelope *out)
{
    const uint8_t *from = data;
    if (bytes != WEFT_ENVELOPE_BYTES || memcmp(from, MAGIC, sizeof(MAGIC)) != 0 ||
        get(from + 4, 2) != WEFT_ENVELOPE_VERSION || get(from + 6, 2) > 1)
        return false;
    *out = (weft_envelope){.from = (weft_actor_id)get(from + 8, 4),
                           .to = (weft_actor_id)get(from + 12, 4),
                           .type = (uint32_t)get(from + 16, 4),
                           .head_bytes = (uint32_t)get(from + 20, 4),
                           .payload_bytes = get(from + 24, 8),
                           .checksum = get(from + 32, 8),
                           .inside = get(from + 6, 2)};
    return true;
}

bool weft_envelope_verify_checksum(const weft_envelope *e, const void *head, size_t head_bytes,
                                   const void *payload, size_t payload_bytes)
{
    return head_bytes == e->head_bytes && payload_bytes == e->payload_bytes &&
           checksum_of(e, head, payload) == e->checksum;
}

size_t weft_envelope_total(const weft_envelope *e)
{
    return WEFT_ENVELOPE_BYTES + e->head_bytes + (size_t)e->payload_bytes;
}
