/* dot/slot.h: what the tiles of dot/block.h do besides multiplying, with each PK_DOT_SLOT steps.
 * Included for every PK_DOT_KIND. */

/* 64 bytes of each row that the next row of tiles reads. `rows` are those of a tile; the next has
 * as many, or one less (pk_dot_take). */
PK_DOT_INLINE void PK_DOT_OF(copy_rows)(const int rows, pk_dot_side *s) {
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) {
    if (r == rows - 1 && s->rows < rows) break;
    memcpy(s->copy + r * s->ldcopy, s->a + r * s->lda, 64);
    __builtin_prefetch(s->a + r * s->lda + PK_DOT_SIDE_NEAR);
  }
  s->a += 64, s->copy += 64;
}
PK_DOT_INLINE void PK_DOT_OF(bring_rows)(const int rows, pk_dot_side *s) {
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) {
    if (r == rows - 1 && s->rows < rows) break;
    __builtin_prefetch(s->a + r * s->lda);
  }
  s->a += 64;
}

/* Some steps of the next panel: from the right operand, or into L2. */
PK_DOT_INLINE void PK_DOT_OF(bring_panel)(pk_dot_side *s) {
  PK_DOT_UNROLL for (int i = 0; i < PK_DOT_SIDE_STEPS; i++) {
    if (s->source) {
      memcpy(s->panel, s->source, PK_DOT_STEP_BYTES);
      for (int b = 0; b < PK_DOT_STEP_BYTES; b += 64)
        __builtin_prefetch(s->source + PK_DOT_SLOT * s->ldsource + b, 0, 2);
      s->source += s->ldsource;
    } else {
      for (int b = 0; b < PK_DOT_STEP_BYTES; b += 64) __builtin_prefetch(s->panel + b, 0, 2);
    }
    s->panel += PK_DOT_STEP_BYTES;
  }
  s->steps -= PK_DOT_SIDE_STEPS;
}

PK_DOT_INLINE void PK_DOT_OF(slot)(const int rows, pk_dot_side *s) {
  if (s->sums_rows > 0) {
    for (int b = 0; b < PK_DOT_STEP_BYTES; b += 64) __builtin_prefetch(s->sums + b);
    s->sums += s->ldsums, s->sums_rows--;
  }
  if (s->rows && s->copy)
    PK_DOT_OF(copy_rows)(rows, s);
  else if (s->rows)
    PK_DOT_OF(bring_rows)(rows, s);
  if (s->steps >= PK_DOT_SIDE_STEPS) PK_DOT_OF(bring_panel)(s);
}
