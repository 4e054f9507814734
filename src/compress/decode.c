/* The table of the forms of messages: checks encoded updates from untrusted sources, and decodes
 * their bit streams. A new shared form is a file in kernels/ and a line here; that
 * of a codec stands in the codec's own table. */
#include <math.h>

#include "compress/bits.h"
#include "compress/kernels/kernels.h"

static uint64_t get(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

/* --- bits --- */

static bool take_bits(weft_encoded *m, int n, uint64_t *value)
{
    struct weft_encoded_place *p = &m->place;
    const uint8_t *end = m->body + m->bytes;
    while (p->held <= 56 && p->in < end) {
        p->hold |= (uint64_t)*p->in++ << p->held;
        p->held += 8;
    }
    if (p->held < n) return false;
    *value = p->hold & ((UINT64_C(1) << n) - 1);
    p->hold >>= n;
    p->held -= n;
    return true;
}

/* Reads ones up to a zero, which is read too, or `most` ones, after which no zero is read. *count:
 * the number of ones. */
static bool take_ones(weft_encoded *m, int most, int *count)
{
    uint64_t bit = 1;
    if (!take_bits(m, 0, &bit)) return false; /* fills the hold */
    int ones = m->place.hold == UINT64_MAX ? 64 : __builtin_ctzll(~m->place.hold);
    *count = WEFT_MIN(ones, most);
    return take_bits(m, *count + (*count < most), &bit);
}

static bool take_times(weft_encoded *m, uint32_t *times)
{
    int low;
    uint64_t rest;
    if (!take_ones(m, WEFT_TIMES_BITS + 1, &low) || low > WEFT_TIMES_BITS) return false;
    if (!take_bits(m, low, &rest)) return false;
    *times = (uint32_t)(UINT64_C(1) << low | rest);
    return true;
}

static bool take_gap(weft_encoded *m, uint64_t *gap)
{
    struct weft_encoded_place *p = &m->place;
    weft_gaps gaps = {p->gap_sum, p->gap_count};
    int ones, k = weft_gaps_bits(&gaps);
    uint64_t low;
    if (!take_ones(m, WEFT_GAP_ONES, &ones)) return false;
    if (!take_bits(m, ones < WEFT_GAP_ONES ? k : 32, &low)) return false;
    *gap = ones < WEFT_GAP_ONES ? (uint64_t)ones << k | low : low;
    weft_gaps_note(&gaps, *gap);
    p->gap_sum = gaps.sum;
    p->gap_count = gaps.count;
    return true;
}

static bool take_signed(weft_encoded *m, uint32_t more, int32_t *times)
{
    uint64_t sign;
    uint32_t often;
    if (!take_bits(m, 1, &sign) || !take_times(m, &often)) return false;
    often += more;
    if (often > 1u << WEFT_TIMES_BITS || !isfinite(often * m->head.step)) return false;
    if (m->head.dtype == WEFT_F32 && !isfinite((float)often * (float)m->head.step)) return false;
    *times = sign ? -(int32_t)often : (int32_t)often;
    return true;
}

bool weft_encoded_nonzero(weft_encoded *m, bool times)
{
    struct weft_encoded_place *p = &m->place;
    uint64_t gap;
    if (!take_gap(m, &gap) || gap >= (uint64_t)(m->head.count - p->hit)) return false;
    p->hit += (int64_t)gap;
    return !times || take_signed(m, 0, &p->times);
}

bool weft_encoded_levels(weft_encoded *m, int32_t *times)
{
    return take_signed(m, 1, times);
}

bool weft_encoded_at_end(const weft_encoded *m)
{
    const struct weft_encoded_place *p = &m->place;
    return p->in == m->body + m->bytes && p->held < 8 && p->hold == 0;
}

bool weft_encoded_step_fits(const weft_encoded *m)
{
    double step = m->head.step;
    return step > 0 && (m->head.dtype == WEFT_F64 || (double)(float)step == step);
}

bool weft_encoded_step_within(const weft_encoded *m, double most)
{
    return m->head.step <= ldexp(most, -WEFT_TIMES_BITS);
}

bool weft_halves_finite(const uint8_t *numbers, int64_t n)
{
    static const uint16_t infinite = 0x7f80;
    for (int64_t i = 0; i < n; i++)
        if ((get(numbers + 2 * i, 2) & infinite) == infinite) return false;
    return true;
}

bool weft_halves_within(const uint8_t *numbers, int64_t n)
{
    /* The bits of bfloat16 numbers without signs have the order of their magnitudes; 0x5f00 is
     * 2^63. */
    for (int64_t i = 0; i < n; i++)
        if ((get(numbers + 2 * i, 2) & 0x7fff) > 0x5f00) return false;
    return true;
}

/* --- forms --- */

#define FORM(name)                                                                                 \
    {                                                                                              \
        &weft_form_##name##_float, &weft_form_##name##_double                                      \
    }
static const weft_form *const forms[][2] = {
    [WEFT_MESSAGE_DENSE] = FORM(dense),   [WEFT_MESSAGE_HALVES] = FORM(halves),
    [WEFT_MESSAGE_GAPS] = FORM(gaps),     [WEFT_MESSAGE_BITMAP] = FORM(bitmap),
    [WEFT_MESSAGE_VALUES] = FORM(values), [WEFT_MESSAGE_SHORTS] = FORM(shorts),
    [WEFT_MESSAGE_OWN] = {NULL, NULL}, /* the codec has it */
};

size_t weft_encoded_table(const weft_encoded_head *h)
{
    return forms[h->form][h->dtype == WEFT_F64]->bytes(h);
}

bool weft_encoded_is_plain(const weft_encoded *m)
{
    return m->form->plain;
}

void weft_encoded_rewind(weft_encoded *m)
{
    weft_gaps gaps = weft_gaps_begin(m->head.count, m->head.hits);
    m->place =
        (struct weft_encoded_place){.left = m->head.hits,
                                    .in = m->body + WEFT_MIN(m->form->bytes(&m->head), m->bytes),
                                    .gap_sum = gaps.sum,
                                    .gap_count = gaps.count};
}

static bool read_head(const uint8_t *data, size_t bytes, weft_encoded *m)
{
    if (bytes < WEFT_MESSAGE_HEADER || data[0] >= WEFT_COUNT(forms) ||
        data[1] >= WEFT_DTYPE_COUNT || data[3] != 0)
        return false;
    uint64_t step = get(data + 16, 8);
    m->head = (weft_encoded_head){.form = (weft_encoded_form)data[0],
                                  .dtype = (weft_dtype)data[1],
                                  .hits = (uint32_t)get(data + 4, 4),
                                  .count = (int64_t)get(data + 8, 8)};
    memcpy(&m->head.step, &step, sizeof(step));
    m->body = data + WEFT_MESSAGE_HEADER;
    m->bytes = bytes - WEFT_MESSAGE_HEADER;
    return true;
}

/* Finds the form of a message, in the shared ones or the codec's. */
static weft_status find_form(const weft_codec_ops *codec, weft_encoded *m)
{
    int wide = m->head.dtype == WEFT_F64;
    m->codec = codec;
    m->form = forms[m->head.form][wide];
    if (!m->form && codec && m->head.step == codec->tag) m->form = codec->own[wide];
    if (m->form) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_FORMAT,
        "an update of %zu bytes is damaged, or of another codec than %s: it has a form "
        "of a codec's own; all learners and servers need the same --compress",
        m->bytes + WEFT_MESSAGE_HEADER, codec ? codec->name : "none");
}

weft_status weft_encoded_open(const void *data, size_t bytes, const weft_codec_ops *codec,
                              weft_dtype dtype, int64_t count, weft_encoded *m)
{
    const uint8_t *head = data;
    if (!read_head(head, bytes, m))
        return weft_fail(WEFT_ERR_FORMAT,
                         "an encoded update of %zu bytes is shorter than its header", bytes);
    if (head[2] != WEFT_MESSAGE_VERSION)
        return weft_fail(WEFT_ERR_FORMAT, "an update is written in version %d, this is version %d",
                         head[2], WEFT_MESSAGE_VERSION);
    if (m->head.count != count || m->head.dtype != dtype)
        return weft_fail(WEFT_ERR_FORMAT, "an update is of %lld %s, should be of %lld %s",
                         (long long)m->head.count, weft_dtype_name(m->head.dtype), (long long)count,
                         weft_dtype_name(dtype));
    WEFT_TRY(find_form(codec, m));
    weft_encoded_rewind(m);
    if (!m->form->check(m, m->form->bytes(&m->head)))
        return weft_fail(WEFT_ERR_FORMAT, "an update of %zu bytes is damaged", bytes);
    weft_encoded_rewind(m);
    return WEFT_OK;
}

bool weft_encoded_squares(const weft_encoded *m)
{
    return m->form->within(m, m->head.dtype == WEFT_F32 ? 0x1p63 : 0x1p511);
}

void weft_encoded_add(weft_encoded *m, int64_t n, double scale, void *to)
{
    m->form->add(m, n, scale, to);
    m->place.at += n;
}

bool weft_numbers_finite(weft_dtype dtype, const void *numbers, int64_t n)
{
    return WEFT_OF_REAL(dtype, weft_all_finite)(numbers, n);
}
