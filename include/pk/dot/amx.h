/* dot/amx.h: products of the kind PK_DOT_KIND on the matrix unit (amx.h), of the operands that the
 * register tiles of dot/tiles.h take: rows in place, panels. Included for every kind that the
 * unit has, with PK_DOT_AMX(unit, c, a, b) the operation.
 *
 * 32 rows by one panel at a time: tiles 0 to 3 are sums, 4 and 5 rows of the left operand, 6 and 7
 * columns of the panel. 64 bytes of k take four loads and four operations, as few loads as eight
 * tiles allow. Initial sums of a kind (dot.h), and results without room for a whole panel, use a
 * buffer.
 */
typedef struct {
  pk_amx *unit;
  int64_t rows; /* 1 to 32 */
  const char *a, *b;
  int64_t lda, bytes; /* the distance of rows of a, and the bytes used of each */
  const char *from;   /* or NULL */
  char *to;
  int64_t ldfrom, ldto;
  bool narrow; /* only the first vector of columns is valid */
} PK_DOT_OF(amx_tile);

/* 64 bytes of k. */
PK_DOT_INLINE void PK_DOT_OF(amx_step)(const bool two, const bool wide, pk_amx *unit, const char *a,
                                       int64_t lda, const char *b) {
  (void)unit;
  pk_amx_load(unit, 6, b, PK_DOT_STEP_BYTES);
  pk_amx_load(unit, 4, a, lda);
  PK_DOT_AMX(unit, 0, 4, 6);
  if (wide) {
    pk_amx_load(unit, 7, b + PK_DOT_SECOND, PK_DOT_STEP_BYTES);
    PK_DOT_AMX(unit, 1, 4, 7);
  }
  if (!two) return;
  pk_amx_load(unit, 5, a + PK_AMX_ROWS * lda, lda);
  PK_DOT_AMX(unit, 2, 5, 6);
  if (wide) PK_DOT_AMX(unit, 3, 5, 7);
}

/* Fewer than 64 bytes of k: padded with zeros on both sides, because the end of a panel is
 * arbitrary. */
PK_DOT_INLINE void PK_DOT_OF(amx_rest)(const bool two, const bool wide,
                                       const PK_DOT_OF(amx_tile) * t, const char *a, const char *b,
                                       int64_t bytes) {
  _Alignas(64) char rows[2 * PK_AMX_ROWS * PK_AMX_BYTES], panel[PK_AMX_ROWS * PK_DOT_STEP_BYTES];
  memset(rows, 0, sizeof rows);
  memset(panel, 0, sizeof panel);
  for (int64_t r = 0; r < t->rows; r++)
    memcpy(rows + r * PK_AMX_BYTES, a + r * t->lda, (size_t)bytes);
  memcpy(panel, b, (size_t)(bytes / 4 * PK_DOT_STEP_BYTES));
  for (int64_t n = 0; bytes % 4 && n < PK_DOT_STEP_BYTES; n += 4)
    memcpy(panel + bytes / 4 * PK_DOT_STEP_BYTES + n, b + bytes / 4 * PK_DOT_STEP_BYTES + n,
           (size_t)(bytes % 4));
  PK_DOT_OF(amx_step)(two, wide, t->unit, rows, PK_AMX_BYTES, panel);
}

/* One or two tiles of rows by one or two tiles of columns: loads or clears the sums, adds all
 * products along K, and stores them. */
PK_DOT_INLINE void PK_DOT_OF(amx_sums)(const bool two, const bool wide,
                                       const PK_DOT_OF(amx_tile) * t) {
  pk_amx *const unit = t->unit;
  const char *a = t->a, *b = t->b, *from = t->from;
  int64_t bytes = t->bytes;
  (void)unit;
  pk_amx_zero(unit, 0);
  if (wide) pk_amx_zero(unit, 1);
  if (two) pk_amx_zero(unit, 2);
  if (two && wide) pk_amx_zero(unit, 3);
  if (from) {
    const char *below = from + PK_AMX_ROWS * t->ldfrom;
    pk_amx_load(unit, 0, from, t->ldfrom);
    if (wide) pk_amx_load(unit, 1, from + PK_DOT_SECOND, t->ldfrom);
    if (two) pk_amx_load(unit, 2, below, t->ldfrom);
    if (two && wide) pk_amx_load(unit, 3, below + PK_DOT_SECOND, t->ldfrom);
  }
  for (; bytes >= PK_AMX_BYTES; bytes -= PK_AMX_BYTES) {
    PK_DOT_OF(amx_step)(two, wide, unit, a, t->lda, b);
    a += PK_AMX_BYTES, b += PK_AMX_ROWS * PK_DOT_STEP_BYTES;
  }
  if (bytes > 0) PK_DOT_OF(amx_rest)(two, wide, t, a, b, bytes);
  char *to = t->to, *below = to + PK_AMX_ROWS * t->ldto;
  pk_amx_store(unit, 0, to, t->ldto);
  if (wide) pk_amx_store(unit, 1, to + PK_DOT_SECOND, t->ldto);
  if (two) pk_amx_store(unit, 2, below, t->ldto);
  if (two && wide) pk_amx_store(unit, 3, below + PK_DOT_SECOND, t->ldto);
}

PK_DOT_OUTLINE void PK_DOT_OF(amx_multiply_tile)(const PK_DOT_OF(amx_tile) * t) {
  const bool two = t->rows > PK_AMX_ROWS, wide = PK_DOT_NV > 1 && !t->narrow;
  if (two && wide)
    PK_DOT_OF(amx_sums)(true, true, t);
  else if (two)
    PK_DOT_OF(amx_sums)(true, false, t);
  else if (wide)
    PK_DOT_OF(amx_sums)(false, true, t);
  else
    PK_DOT_OF(amx_sums)(false, false, t);
}

/* Configures tiles for 1 to 32 rows; a tile without rows is not used, but has a shape. */
PK_DOT_OUTLINE void PK_DOT_OF(amx_shape)(pk_amx *unit, int64_t rows) {
  pk_amx_config config = {.palette = 1};
  const uint8_t above = (uint8_t)(rows < PK_AMX_ROWS ? rows : PK_AMX_ROWS),
                below = (uint8_t)(rows > PK_AMX_ROWS ? rows - PK_AMX_ROWS : PK_AMX_ROWS);
  const uint8_t each[PK_AMX_TILES] = {above, above, below,       below,
                                      above, below, PK_AMX_ROWS, PK_AMX_ROWS};
  for (int t = 0; t < PK_AMX_TILES; t++) {
    config.rows[t] = each[t];
    config.bytes[t] = t == 4 || t == 5 ? PK_AMX_BYTES : 4 * PK_LANES;
  }
  pk_amx_configure(unit, &config);
}

/* The initial sums if they are not just those of `from`: the valid columns, and the initial sum
 * of each row. */
PK_DOT_INLINE void PK_DOT_OF(amx_begin)(int64_t rows, int64_t cols, const char *from,
                                        int64_t ldfrom, const int32_t *start, char *sums) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < PK_DOT_NR; n += PK_LANES) {
      char *const to = sums + r * PK_DOT_STEP_BYTES + 4 * n;
      if (from && cols > n) PK_DOT_OF(store)
      (to,
       PK_DOT_OF(more)(PK_DOT_OF(load_some)(from + r * ldfrom + 4 * n, cols - n), start, (int)r));
      else PK_DOT_OF(store)(to, PK_DOT_OF(start)(start, (int)r));
    }
}

/* Up to 32 rows by all panels. `started`: the sums of a row start from `start`, otherwise from
 * 0. */
PK_DOT_INLINE void PK_DOT_OF(amx_row)(const pk_dot_product *p, PK_DOT_OF(amx_tile) * t,
                                      const char *panel, int64_t panel_bytes, bool started,
                                      const int32_t *start, const char *from, int64_t ldfrom,
                                      char *to) {
  _Alignas(64) char sums[2 * PK_AMX_ROWS * PK_DOT_STEP_BYTES];
  for (int64_t n = 0; n < p->cols; n += PK_DOT_NR, panel += panel_bytes) {
    const int64_t cols = p->cols - n;
    const bool fits = cols >= PK_DOT_NR || p->padded, aside = started || (from && !fits);
    if (aside) PK_DOT_OF(amx_begin)
    (t->rows, fits ? PK_DOT_NR : cols, from ? from + 4 * n : NULL, ldfrom, start, sums);
    t->b = panel;
    t->from = aside ? sums : from ? from + 4 * n : NULL;
    t->ldfrom = aside ? PK_DOT_STEP_BYTES : ldfrom;
    t->to = fits ? to + 4 * n : sums;
    t->ldto = fits ? p->ldto : PK_DOT_STEP_BYTES;
    t->narrow = cols <= PK_LANES;
    PK_DOT_OF(amx_multiply_tile)(t);
    if (!fits) PK_DOT_OF(put_some)(t->rows, cols, sums, to + 4 * n, p->ldto);
  }
}

/* `bytes` of each row of a, from byte `at` on, like PK_DOT_OF(part) of dot/tiles.h. */
PK_DOT_OUTLINE void PK_DOT_OF(amx_part)(pk_amx *unit, const pk_dot_product *p, int64_t panel_bytes,
                                        int64_t at, int64_t bytes, int32_t factor) {
  _Alignas(64) char rows_of_a[2 * PK_AMX_ROWS * (4 * PK_DOT_LONG + 64)];
  int32_t start[2 * PK_AMX_ROWS] = {0};
  const bool copied = pk_dot_is_copied(p->lda, bytes, p->cols);
  const int64_t ldfrom = at ? p->ldto : p->ldfrom, ld = bytes / 64 * 64 + 64;
  const char *from = at ? p->to : p->from;
  for (int64_t r = 0, n, shape = 0; r < p->rows; r += n) {
    n = p->rows - r < 2 * PK_AMX_ROWS ? p->rows - r : 2 * PK_AMX_ROWS;
    PK_DOT_OF(amx_tile)
    t = {.unit = unit,
         .rows = n,
         .a = (const char *)p->a + r * p->lda + at,
         .lda = p->lda,
         .bytes = bytes};
    if (copied && n > 1) {
      pk_dot_copy_rows(rows_of_a, ld, t.a, p->lda, n, bytes);
      t.a = rows_of_a, t.lda = ld;
    }
    if (n != shape) PK_DOT_OF(amx_shape)(unit, n);
    shape = n;
    PK_DOT_OF(starts)(start, n, t.a, t.lda, bytes, factor);
    PK_DOT_OF(amx_row)
    (p, &t, (const char *)p->panels + at / 4 * PK_DOT_STEP_BYTES, panel_bytes, factor != 0, start,
     from ? from + r * ldfrom : NULL, ldfrom, (char *)p->to + r * p->ldto);
  }
}

/* Elements of `size` bytes. A long k is divided at multiples of a tile's rows. */
PK_DOT_OUTLINE void PK_DOT_OF(amx_multiply)(pk_amx *unit, const pk_dot_product *p, int64_t size,
                                            int32_t factor) {
  const int64_t panel_bytes = p->depth * size / 4 * PK_DOT_STEP_BYTES, all = p->k * size;
  int64_t at = 0;
  do {
    const int64_t left = all - at, part = 4 * PK_DOT_LONG / PK_AMX_BYTES * PK_AMX_BYTES,
                  bytes = left < part ? left : part;
    PK_DOT_OF(amx_part)(unit, p, panel_bytes, at, bytes, factor);
    at += bytes;
  } while (at < all);
  pk_amx_release(unit);
}
