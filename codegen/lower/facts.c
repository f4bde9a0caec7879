// Facts about the declared names of a kernel, for editors: shapes, sizes in bytes, values of
// statics.
#include "codegen/lower/internal.h"

#include <string.h>

// The bytes of a value; -1 if they depend on a size or are too many.
static int64_t type_bytes(const Type *type) {
  int64_t count = 1;
  for (int i = 0; i < type->rank; i++)
    if (!dim_is_const(type->dim[i]) || __builtin_mul_overflow(count, type->dim[i], &count))
      return -1;
  return __builtin_mul_overflow(count, (int64_t)dtype_bytes(type->dtype), &count) ? -1 : count;
}

static const char *bytes_text(Lower *l, const Type *type) {
  int64_t bytes = type_bytes(type);
  return bytes < 0 ? "" : arena_printf(l->arena, ", %lld bytes", (long long)bytes);
}

static const char *const space_text[] = {"VMEM", "SMEM", "HBM", "semaphores", "memory"};

static void tell_operand(Lower *l, const Ref *ref, NameFact *fact) {
  const char *buffers =
      ref->buffers > 1 ? arena_printf(l->arena, ", held %d times", ref->buffers) : "";
  fact->type = type_text(l, &ref->array);
  if (ref->space == SPACE_ANY)
    fact->more = "stays in HBM: copies move its parts";
  else if (ref->whole)
    fact->more = arena_printf(l->arena, "one block in %s%s", space_text[ref->space],
                              bytes_text(l, &ref->type));
  else
    fact->more = arena_printf(l->arena, "block %s in %s%s%s", type_text(l, &ref->type),
                              space_text[ref->space], bytes_text(l, &ref->type), buffers);
}

static void tell_ref(Lower *l, const Ref *ref, NameFact *fact) {
  if (ref_is_operand(ref)) {
    tell_operand(l, ref, fact);
  } else if (ref->space == SPACE_SEM) {
    fact->type = arena_printf(l->arena, "%s semaphore%s", semaphore_names[ref->semaphore],
                              ref->type.rank ? shape_text(l, &ref->type) : "");
  } else {
    fact->type = type_text(l, &ref->type);
    fact->more = arena_printf(l->arena, "%s%s", space_text[ref->space], bytes_text(l, &ref->type));
  }
}

static void tell_value(Lower *l, Value v, NameFact *fact) {
  fact->value = is_static(v);
  if (v.kind == V_INT)
    fact->type = arena_printf(l->arena, "%lld", (long long)v.ival);
  else if (v.kind == V_FLOAT)
    fact->type = format_double(l->arena, v.fval);
  else if (v.kind == V_BOOL)
    fact->type = v.ival ? "true" : "false";
  else if (v.kind == V_DTYPE)
    fact->type = dtype_info[v.dtype].name;
  else if (v.kind == V_DATA)
    fact->type = type_text(l, &v.instr->type);
  if (v.kind == V_DATA && v.instr->type.rank > 0) fact->more = bytes_text(l, &v.instr->type);
  if (fact->more) fact->more += strspn(fact->more, ", ");
}

static void tell_symbol(Lower *l, const Symbol *s) {
  NameFact fact = {.name = s->span};
  if (s->poisoned || s->span.end == 0) return;
  if (s->ref)
    tell_ref(l, s->ref, &fact);
  else if (s->kind == SYM_STATIC || (s->kind >= SYM_LET && s->kind <= SYM_PARAMETER))
    tell_value(l, s->value, &fact);
  if (fact.type) LIST_PUSH(l->arena, l->options->facts, fact);
}

void tell_facts(Lower *l) {
  for (int i = 0; i < l->known.count; i++) tell_symbol(l, l->known.at[i]);
}
