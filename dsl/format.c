#include "dsl/ast.h"

bool format_source(Arena *arena, const Source *source, Diag *diag, Buf *out) {
  parse(arena, source, diag);
  if (diag_error_count(diag)) return false;
  buf_add(out, source->text, source->length);
  return true;
}
