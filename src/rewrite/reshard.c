/* Reshards values for their readers: it decides on all-reduces and reduce-scatters of partial
 * values, all-gathers, slices, all-to-alls, halos, and messages between pipeline stages. Each form
 * of a value is made once and reused. The nodes are added in collectives.c. */
#include "rewrite/rewrite.h"

/* --- forms --- */

static bool matches(const rewriter *r, const form *f, weft_value v, int place, weft_phase phase)
{
    const value_state *s = &r->values[v];
    if (f->place != place && f->place != ANYWHERE) return false;
    /* A form that was gathered from stored parts (ZeRO 3), or that has a halo, is made again in
     * each phase, so that memory holds only the rank's own part from forward to backward. A form
     * that another place has sent is kept, since it is sent once. */
    bool gathered = s->weak && place == s->place && !sharding_same(f->split, s->split);
    return f->phase == phase || !(f->halo || gathered);
}

static form *find(const rewriter *r, weft_value v, int place, sharding split, weft_phase phase,
                  bool rounded)
{
    for (int i = r->values[v].first_form; i >= 0; i = r->forms[i].next) {
        form *f = &r->forms[i];
        if (!f->halo && f->rounded == rounded && sharding_same(f->split, split) &&
            matches(r, f, v, place, phase))
            return f;
    }
    return NULL;
}

form *weft_rewrite_form(const rewriter *r, weft_value v, int place, sharding split,
                        weft_phase phase)
{
    return find(r, v, place, split, phase, false);
}

/* Declares the values of a form to be their part of the whole, whatever has made them: a node, a
 * collective or a message. A range of elements is no such part, and a halo is more than one. */
static void declare_part(const rewriter *r, const form *f)
{
    const weft_shape *whole = &r->from->values[f->value].type.shape;
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    if (f->local == WEFT_NO_VALUE || f->halo || f->split.at[AXIS_DATA] == FLAT) return;
    weft_rewrite_part(r, whole, f->split, &part, start);
    for (int p = 0; p < WEFT_MAX(f->parts, 1); p++)
        weft_graph_set_part(r->to, f->local + p, whole, start);
}

weft_status weft_rewrite_add_form(rewriter *r, form f)
{
    WEFT_TRY(WEFT_GROW(&r->forms, &r->form_capacity, r->form_count));
    value_state *s = &r->values[f.value];
    f.phase = r->phase;
    f.next = -1;
    declare_part(r, &f);
    if (f.local != WEFT_NO_VALUE) r->to->values[f.local].weight = r->from->values[f.value].weight;
    *(s->first_form < 0 ? &s->first_form : &r->forms[s->last_form].next) = (int)r->form_count;
    s->last_form = (int)r->form_count;
    r->forms[r->form_count++] = f;
    return WEFT_OK;
}

/* --- messages between places --- */

/* The sharding in which a value is first at a place: its own, or the one in which it is sent. */
static sharding split_at(const rewriter *r, weft_value v, int place)
{
    const value_state *s = &r->values[v];
    sharding split = s->split;
    if (place != s->place && split.at[AXIS_DATA] == FLAT) split.at[AXIS_DATA] = WHOLE;
    return split;
}

weft_status weft_rewrite_send(rewriter *r, weft_value v)
{
    value_state *s = &r->values[v];
    uint64_t others = readers_elsewhere(s);
    weft_value local;
    if (!others) return WEFT_OK;
    s->tag = r->tags++;
    if (s->tag > 30000)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "more than 30000 values would be transferred between ranks");
    WEFT_TRY(weft_rewrite_reshard(r, v, s->place, split_at(r, v, ANYWHERE), &local));
    if (r->place != s->place) return WEFT_OK;
    local = weft_move_cast(r, v, local, weft_move_type_of_part(r, v, split_at(r, v, ANYWHERE)));
    for (int q = 0; q < r->plan->places; q++) {
        if (!(others & (uint64_t)1 << q)) continue;
        weft_attr attrs[] = {WEFT_ATTR_INT("peer", weft_plan_rank_at(r->plan, r->rank, q)),
                             WEFT_ATTR_INT("tag", s->tag)};
        (void)weft_move_emit(r, "send", v, &local, 1, attrs, 2);
    }
    return weft_graph_status(r->to);
}

static weft_status receive(rewriter *r, weft_value v, int place, weft_value *local)
{
    const value_state *s = &r->values[v];
    sharding split = split_at(r, v, place);
    weft_dtype dtype = weft_move_type_of_part(r, v, split);
    weft_shape part;
    int64_t start[WEFT_MAX_RANK];
    *local = WEFT_NO_VALUE;
    if (weft_rewrite_here(r, place)) {
        weft_rewrite_part(r, &r->from->values[v].type.shape, split, &part, start);
        weft_attr attrs[] = {WEFT_ATTR_INT("peer", weft_plan_rank_at(r->plan, r->rank, s->place)),
                             WEFT_ATTR_INT("tag", s->tag),
                             {.name = "shape", .count = part.rank},
                             WEFT_ATTR_INT("dtype", dtype)};
        for (int d = 0; d < part.rank; d++) attrs[2].ints[d] = part.dim[d];
        bool own = dtype != r->from->real;
        *local = weft_move_emit(r, "receive", v, NULL, 0, attrs, own ? 4 : 3);
        *local = weft_move_cast(r, v, *local, r->from->values[v].type.dtype);
    }
    return weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = split, .local = *local});
}

/* --- resharding --- */

static bool other_axis_splits(sharding s, int axis, int dim)
{
    for (int a = 0; a < SHARD_AXES; a++)
        if (a != axis && s.at[a] == dim) return true;
    return false;
}

/* Converts x from sharding `have` to `want` at this place. A FLAT range is a range of the part that
 * the other axes leave, so ranges are joined first and taken last. */
static weft_value convert(rewriter *r, weft_value v, weft_value x, sharding have, sharding want,
                          int parts)
{
    int mask = 0;
    bool narrow = weft_move_type_of_part(r, v, have) != weft_move_type(r, v);
    if (have.at[AXIS_DATA] == FLAT) {
        x = weft_move_join(r, v, x, have);
        have.at[AXIS_DATA] = WHOLE;
    }
    for (int a = 0; a < SHARD_AXES; a++) {
        if (have.at[a] != PARTIAL || want.at[a] == PARTIAL) continue;
        if (want.at[a] == FLAT && parts == 0) continue;
        if (want.at[a] < 0 || other_axis_splits(have, a, want.at[a]) || parts > 0) {
            mask |= 1 << a;
            continue;
        }
        x = weft_move_cast(r, v, x, weft_move_type(r, v));
        x = weft_move_collective(r, "reduce_scatter", v, x, a, want.at[a], -1);
        x = weft_move_cast(r, v, x, r->from->values[v].type.dtype);
        have.at[a] = want.at[a];
    }
    if (mask) {
        weft_value in[WEFT_MAX_OUTPUTS];
        for (int p = 0; p < WEFT_MAX(parts, 1); p++) in[p] = x + p;
        x = weft_move_sum(r, v, in, 1, mask, parts);
    }
    for (int a = 0; a < SHARD_AXES; a++)
        if (mask & 1 << a) have.at[a] = WHOLE;
    for (int a = 0; a < SHARD_AXES; a++) {
        if (have.at[a] < 0 || have.at[a] == want.at[a]) continue;
        bool direct = want.at[a] >= 0 && !other_axis_splits(have, a, want.at[a]);
        if (narrow) x = weft_move_cast(r, v, x, WEFT_BF16);
        x = direct ? weft_move_collective(r, "all_to_all", v, x, a, want.at[a], have.at[a])
                   : weft_move_collective(r, "all_gather", v, x, a, have.at[a], have.at[a]);
        have.at[a] = direct ? want.at[a] : WHOLE;
    }
    if (narrow) x = weft_move_cast(r, v, x, WEFT_F32);
    for (int a = 0; a < SHARD_AXES; a++)
        if (have.at[a] == WHOLE && want.at[a] >= 0) x = weft_move_slice(r, v, x, a, want.at[a]);
    if (want.at[AXIS_DATA] == FLAT)
        x = weft_move_range(r, v, x, want, have.at[AXIS_DATA] == PARTIAL);
    return x;
}

/* Makes the sum of a partial value its sharding for later readers, which then need not sum again;
 * but not if other places have received the addends. */
static void keep_sum(rewriter *r, weft_value v, int place, sharding sum)
{
    value_state *s = &r->values[v];
    if (s->place == place && !readers_elsewhere(s)) s->split = sum;
}

/* The mask of axes over which a value must be summed to have sharding `want`; 0 if it needs any
 * other conversion. */
static int sum_mask(const rewriter *r, weft_value v, sharding want)
{
    sharding have = r->values[v].split;
    int mask = 0;
    for (int a = 0; a < SHARD_AXES; a++) {
        if (have.at[a] == want.at[a]) continue;
        if (have.at[a] != PARTIAL || want.at[a] != WHOLE) return 0;
        mask |= 1 << a;
    }
    return mask;
}

weft_status weft_rewrite_sum_inputs(rewriter *r, const weft_node *node, int place,
                                    const sharding *want)
{
    for (int i = 0; i < node->in_count; i++) {
        weft_value in[WEFT_MAX_OUTPUTS], out = WEFT_NO_VALUE;
        int mask = sum_mask(r, node->in[i], want[i]), of[WEFT_MAX_OUTPUTS], count = 0;
        for (int j = i; j < node->in_count && mask && count < WEFT_MAX_OUTPUTS; j++) {
            weft_value v = node->in[j];
            const form *own = weft_rewrite_form(r, v, place, r->values[v].split, r->phase);
            bool twice = false;
            for (int k = 0; k < count; k++) twice = twice || node->in[of[k]] == v;
            if (twice || !own || own->parts > 0 || sum_mask(r, v, want[j]) != mask ||
                weft_move_type(r, v) != weft_move_type(r, node->in[i]) ||
                weft_rewrite_form(r, v, place, want[j], r->phase))
                continue;
            in[count] = own->local;
            of[count++] = j;
        }
        if (count < 2) continue;
        if (weft_rewrite_here(r, place)) out = weft_move_sum(r, node->in[i], in, count, mask, 0);
        WEFT_TRY(weft_graph_status(r->to));
        for (int k = 0; k < count; k++) {
            weft_value v = node->in[of[k]];
            WEFT_TRY(weft_rewrite_add_form(
                r, (form){.value = v,
                          .place = place,
                          .split = want[of[k]],
                          .local = out == WEFT_NO_VALUE ? WEFT_NO_VALUE : out + k}));
            keep_sum(r, v, place, want[of[k]]);
        }
    }
    return WEFT_OK;
}

weft_status weft_rewrite_reshard(rewriter *r, weft_value v, int place, sharding want,
                                 weft_value *local)
{
    const form *f = weft_rewrite_form(r, v, place, want, r->phase);
    *local = f ? f->local : WEFT_NO_VALUE;
    if (f) return WEFT_OK;
    weft_value x;
    int parts = 0;
    sharding have = split_at(r, v, place);
    const form *own = weft_rewrite_form(r, v, place, have, r->phase);
    if (own) {
        x = own->local;
        parts = own->parts;
    } else {
        WEFT_TRY(receive(r, v, place, &x));
    }
    for (int a = 0; a < SHARD_AXES; a++)
        if (want.at[a] == PARTIAL && have.at[a] != PARTIAL)
            return weft_fail(WEFT_ERR_INTERNAL, "'%s' is no partial sum", r->from->values[v].name);
    *local = x;
    if (sharding_same(have, want)) return WEFT_OK;
    /* An input that every place has stays as it is where another place converts it. */
    *local = weft_rewrite_here(r, place) ? convert(r, v, x, have, want, parts) : WEFT_NO_VALUE;
    WEFT_TRY(weft_graph_status(r->to));
    WEFT_TRY(weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = want, .local = *local}));
    if (sum_mask(r, v, want)) keep_sum(r, v, place, want);
    return WEFT_OK;
}

weft_status weft_rewrite_gather_rounded(rewriter *r, weft_value v, int place, sharding want,
                                        weft_value *local)
{
    const value_state *s = &r->values[v];
    if (!s->weak || place != s->place || sharding_same(s->split, want) ||
        weft_rewrite_form(r, v, place, want, r->phase))
        return weft_rewrite_reshard(r, v, place, want, local);
    const form *f = find(r, v, place, want, r->phase, true);
    *local = f ? f->local : WEFT_NO_VALUE;
    if (f) return WEFT_OK;
    if (weft_rewrite_here(r, place)) {
        const form *own = weft_rewrite_form(r, v, place, s->split, r->phase);
        *local = convert(r, v, weft_move_cast(r, v, own->local, WEFT_BF16), s->split, want, 0);
    }
    WEFT_TRY(weft_graph_status(r->to));
    return weft_rewrite_add_form(
        r, (form){.value = v, .place = place, .split = want, .local = *local, .rounded = true});
}

/* --- rows of neighbours --- */

static void halo_attrs(const rewriter *r, int64_t whole, int axis, int dim, const int64_t window[4],
                       weft_attr attrs[6])
{
    attrs[0] = (weft_attr)WEFT_ATTR_INT("axes", 1 << axis);
    attrs[1] = (weft_attr)WEFT_ATTR_INT("ranks", r->plan->size[axis]);
    attrs[2] = (weft_attr)WEFT_ATTR_INT("index", r->coordinate[axis]);
    attrs[3] = (weft_attr)WEFT_ATTR_INT("dim", dim);
    attrs[4] = (weft_attr)WEFT_ATTR_INT("whole", whole);
    attrs[5] = (weft_attr){.name = "window", .count = 4};
    for (int i = 0; i < 4; i++) attrs[5].ints[i] = window[i];
}

weft_status weft_rewrite_halo(rewriter *r, weft_value v, int place, sharding split, int axis,
                              int dim, const int64_t window[4], weft_value *local)
{
    weft_attr attrs[6];
    weft_value x;
    for (int i = r->values[v].first_form; i >= 0; i = r->forms[i].next) {
        const form *f = &r->forms[i];
        if (!f->halo || f->axis != axis || f->dim != dim || !sharding_same(f->split, split) ||
            memcmp(f->window, window, sizeof(f->window)) != 0 || !matches(r, f, v, place, r->phase))
            continue;
        *local = f->local;
        return WEFT_OK;
    }
    WEFT_TRY(weft_rewrite_reshard(r, v, place, split, &x));
    *local = WEFT_NO_VALUE;
    halo_attrs(r, whole_dim(r, v, dim), axis, dim, window, attrs);
    if (weft_rewrite_here(r, place)) *local = weft_move_emit(r, "halo", v, &x, 1, attrs, 6);
    WEFT_TRY(weft_graph_status(r->to));
    form f = {.value = v,
              .place = place,
              .split = split,
              .halo = true,
              .axis = axis,
              .dim = dim,
              .local = *local};
    memcpy(f.window, window, sizeof(f.window));
    return weft_rewrite_add_form(r, f);
}

weft_value weft_rewrite_halo_add(rewriter *r, weft_value v, weft_value touched, int axis, int dim,
                                 const int64_t window[4])
{
    weft_attr attrs[6];
    halo_attrs(r, whole_dim(r, v, dim), axis, dim, window, attrs);
    return weft_move_emit(r, "halo_add", v, &touched, 1, attrs, 6);
}
