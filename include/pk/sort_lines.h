/* sort_lines.h: sorts lines of elements of PK_SORT_BITS bits. Only sort_network.h includes it, once
 * for each width.
 *
 * Short lines are sorted PK_SORT_LANES at a time, each in its own lane, so no step crosses lanes.
 * Long lines are sorted one by one. */
typedef pk_sort_key PK_SORT(pk_sort_word) __attribute__((may_alias));

/* The bits to invert so that integers of the kind compare as signed integers. */
PK_INLINE pk_sort_key PK_SORT(pk_sort_flip)(int kind, bool descending) {
  return (kind == PK_SORT_UNSIGNED ? -PK_SORT_LAST - 1 : 0) ^ (descending ? -1 : 0);
}
PK_INLINE pk_sort_vector PK_SORT(pk_sort_nan)(pk_sort_vector bits) {
  return (pk_sort_vector)((bits & PK_SORT_LAST) > PK_SORT_INFINITY);
}
/* The floats that their key does not determine: NaNs and -0. */
PK_INLINE pk_sort_vector PK_SORT(pk_sort_odd)(pk_sort_vector bits) {
  return PK_SORT(pk_sort_nan)(bits) | (pk_sort_vector)(bits == -PK_SORT_LAST - 1);
}
/* Converts elements to keys whose ascending order is the order of the result, with NaNs last in
 * both directions, and keys to elements. */
PK_INLINE pk_sort_vector PK_SORT(pk_sort_keys_of)(pk_sort_vector bits, int kind, pk_sort_key flip) {
  if (kind != PK_SORT_FLOAT) return bits ^ flip;
  const pk_sort_vector turned = bits ^ (bits >> (PK_SORT_BITS - 1) & PK_SORT_LAST),
                       some = (pk_sort_vector)((bits & PK_SORT_LAST) != 0),
                       nan = PK_SORT(pk_sort_nan)(bits);
  return (((turned & some) ^ flip) & ~nan) | (nan & PK_SORT_LAST);
}
PK_INLINE pk_sort_vector PK_SORT(pk_sort_bits_of)(pk_sort_vector key, int kind, pk_sort_key flip) {
  key ^= flip;
  return kind == PK_SORT_FLOAT ? key ^ (key >> (PK_SORT_BITS - 1) & PK_SORT_LAST) : key;
}
/* Loads and stores up to PK_SORT_LANES elements with a stride of `step`. */
PK_INLINE pk_sort_vector PK_SORT(pk_sort_gather)(const PK_SORT(pk_sort_word) * p, int64_t step,
                                                 int64_t count) {
  if (step == 1 && count >= PK_SORT_LANES)
    return (pk_sort_vector) * (const PK_SORT(pk_sort_memory) *)(const void *)p;
  pk_sort_key lane[PK_SORT_LANES] = {0};
  for (int64_t k = 0; k < count && k < PK_SORT_LANES; k++) lane[k] = p[k * step];
  return PK_SORT(pk_sort_load)(lane);
}
PK_INLINE void PK_SORT(pk_sort_scatter)(PK_SORT(pk_sort_word) * p, int64_t step, int64_t count,
                                        pk_sort_vector v) {
  if (step == 1 && count >= PK_SORT_LANES) {
    *(PK_SORT(pk_sort_memory) *)(void *)p = (PK_SORT(pk_sort_memory))v;
    return;
  }
  pk_sort_key lane[PK_SORT_LANES];
  PK_SORT(pk_sort_store)(lane, v);
  for (int64_t k = 0; k < count && k < PK_SORT_LANES; k++) p[k * step] = lane[k];
}

/* Writes the zeros and the NaNs in the order of the input, since the sort is stable. */
static inline void PK_SORT(pk_sort_settle)(PK_SORT(pk_sort_word) * to, int64_t to_step,
                                           const PK_SORT(pk_sort_word) * from, int64_t step,
                                           int64_t n) {
  int64_t zero = 0, nan = n;
  while (zero < n && (to[zero * to_step] & PK_SORT_LAST) != 0) zero++;
  for (int64_t i = 0; i < n; i++) nan -= (from[i * step] & PK_SORT_LAST) > PK_SORT_INFINITY;
  for (int64_t i = 0; i < n; i++) {
    const pk_sort_key bits = from[i * step], size = bits & PK_SORT_LAST;
    if (size == 0)
      to[zero++ * to_step] = bits;
    else if (size > PK_SORT_INFINITY)
      to[nan++ * to_step] = bits;
  }
}

/* `lines` lines of n elements. `step` is the stride of elements, `line` that of lines. */
typedef struct {
  PK_SORT(pk_sort_word) * to;
  int64_t to_step, to_line;
  const PK_SORT(pk_sort_word) * from;
  int64_t step, line, n, lines;
  int kind;
  bool descending;
  int64_t *scratch; /* scratch memory: ten rows of `stride` >= n elements */
  int64_t stride;
} PK_SORT(pk_sort_job);

/* Copies `count` lines to rows: row i contains element i of each line, one line in each lane. The
 * remaining lanes repeat the last line. pk_sort_empty copies the rows back. */
static inline void PK_SORT(pk_sort_fill)(pk_sort_key *rows, const PK_SORT(pk_sort_word) * from,
                                         int64_t step, int64_t line, int64_t n, int64_t count) {
  if (line == 1) {
    for (int64_t i = 0; i < n; i++) PK_SORT(pk_sort_store)
    (rows + i * PK_SORT_LANES, PK_SORT(pk_sort_gather)(from + i * step, 1, count));
    return;
  }
  for (int64_t k = 0; k < PK_SORT_LANES; k++) {
    const PK_SORT(pk_sort_word) *p = from + (k < count ? k : count - 1) * line;
    for (int64_t i = 0; i < n; i++) rows[i * PK_SORT_LANES + k] = p[i * step];
  }
}
static inline void PK_SORT(pk_sort_empty)(PK_SORT(pk_sort_word) * to, int64_t to_step,
                                          int64_t to_line, const pk_sort_key *rows, int64_t n,
                                          int64_t count) {
  if (to_line == 1) {
    for (int64_t i = 0; i < n; i++) PK_SORT(pk_sort_scatter)
    (to + i * to_step, 1, count, PK_SORT(pk_sort_load)(rows + i * PK_SORT_LANES));
    return;
  }
  for (int64_t k = 0; k < count; k++)
    for (int64_t i = 0; i < n; i++) to[k * to_line + i * to_step] = rows[i * PK_SORT_LANES + k];
}

/* Sorts `count` lines from number `at` on, each in its own lane. */
static inline void PK_SORT(pk_sort_side_by_side)(const PK_SORT(pk_sort_job) * j, int64_t at,
                                                 int64_t count) {
  PK_SORT(pk_sort_word) *const to = j->to + at * j->to_line;
  const PK_SORT(pk_sort_word) *const from = j->from + at * j->line;
  pk_sort_key *const rows = (pk_sort_key *)(void *)j->scratch;
  const int64_t n = j->n, height = PK_SORT(pk_sort_height)(n);
  const pk_sort_key flip = PK_SORT(pk_sort_flip)(j->kind, j->descending);
  const pk_sort_vector last = PK_SORT_LAST - (pk_sort_vector){0};
  pk_sort_vector odd = {0};
  PK_SORT(pk_sort_fill)(rows, from, j->step, j->line, n, count);
  for (int64_t i = 0; i < n; i++) {
    const pk_sort_vector bits = PK_SORT(pk_sort_load)(rows + i * PK_SORT_LANES);
    odd |= PK_SORT(pk_sort_odd)(bits);
    PK_SORT(pk_sort_store)
    (rows + i * PK_SORT_LANES, PK_SORT(pk_sort_keys_of)(bits, j->kind, flip));
  }
  for (int64_t i = n; i < height; i++) PK_SORT(pk_sort_store)(rows + i * PK_SORT_LANES, last);
  PK_SORT(pk_sort_columns)(rows, height);
  for (int64_t i = 0; i < n; i++) {
    const pk_sort_vector key = PK_SORT(pk_sort_load)(rows + i * PK_SORT_LANES);
    PK_SORT(pk_sort_store)
    (rows + i * PK_SORT_LANES, PK_SORT(pk_sort_bits_of)(key, j->kind, flip));
  }
  PK_SORT(pk_sort_empty)(to, j->to_step, j->to_line, rows, n, count);
  if (j->kind == PK_SORT_FLOAT && pk_sort_any((pk_i32p)odd))
    for (int64_t k = 0; k < count; k++) PK_SORT(pk_sort_settle)
  (to + k * j->to_line, j->to_step, from + k * j->line, j->step, n);
}

/* Sorts one line: gathers its elements as keys, sorts the keys, and scatters them. Floats whose
 * keys collide are put in order afterwards. */
static inline void PK_SORT(pk_sort_line)(const PK_SORT(pk_sort_job) * j, int64_t at) {
  PK_SORT(pk_sort_word) *const to = j->to + at * j->to_line;
  const PK_SORT(pk_sort_word) *const from = j->from + at * j->line;
  pk_sort_key *keys = (pk_sort_key *)(void *)j->scratch;
  const int64_t n = j->n;
  const pk_sort_key flip = PK_SORT(pk_sort_flip)(j->kind, j->descending);
  pk_sort_vector odd = {0};
  for (int64_t i = 0; i < n; i += PK_SORT_LANES) {
    const pk_sort_vector bits = PK_SORT(pk_sort_gather)(from + i * j->step, j->step, n - i);
    odd |= PK_SORT(pk_sort_odd)(bits);
    PK_SORT(pk_sort_store)(keys + i, PK_SORT(pk_sort_keys_of)(bits, j->kind, flip));
  }
  keys = PK_SORT(pk_sort_keys)(keys, (pk_sort_key *)(void *)(j->scratch + 2 * j->stride), n);
  for (int64_t i = 0; i < n; i += PK_SORT_LANES) {
    const pk_sort_vector key = PK_SORT(pk_sort_load)(keys + i);
    PK_SORT(pk_sort_scatter)
    (to + i * j->to_step, j->to_step, n - i, PK_SORT(pk_sort_bits_of)(key, j->kind, flip));
  }
  if (j->kind == PK_SORT_FLOAT && pk_sort_any((pk_i32p)odd))
    PK_SORT(pk_sort_settle)(to, j->to_step, from, j->step, n);
}

static inline void PK_SORT(pk_sort_lines)(const PK_SORT(pk_sort_job) * j) {
  const int64_t longest = j->step == 1 ? PK_SORT_TRANSPOSED : PK_SORT_SIDE_BY_SIDE;
  for (int64_t at = 0, count; at < j->lines; at += count) {
    count = pk_sort_side_by_side_count(j->n, longest, j->lines - at, PK_SORT_LANES);
    if (count)
      PK_SORT(pk_sort_side_by_side)(j, at, count);
    else
      PK_SORT(pk_sort_line)(j, at), count = 1;
  }
}
