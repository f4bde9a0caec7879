// A reference as a text: names, statements, and the signature.
#include "codegen/grad/text.h"
#include "codegen/grad/grad.h"
#include "codegen/grad/operations.h"

#include <string.h>

void text_line(Writer *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (int i = 0; i < w->indent; i++) buf_puts(w->out, "  ");
  buf_vprintf(w->out, format, args);
  buf_putc(w->out, '\n');
  va_end(args);
}

// ---- names

static bool is_taken(const Writer *w, const char *name) {
  for (int i = 0; i < w->names.count; i++)
    if (strcmp(w->names.at[i], name) == 0) return true;
  return false;
}

const char *text_name(Writer *w, const char *base) {
  const char *name = base;
  for (int i = 1; is_taken(w, name); i++) name = word_text(w, "%s%d", base, i);
  LIST_PUSH(w->arena, &w->names, name);
  return name;
}

// ---- values

static void assign(Writer *w, Instr *v, const char *base) {
  const char *text = used(w, v, -1), *name = text_name(w, base);
  if (word(v)->number) text = exact(w, v);
  text_line(w, "let %s = %s;", name, text);
  word(v)->number = false;
  word(v)->text = name;
  word(v)->binds = BINDS_ATOM;
  word(v)->reads = 0;
}

static void flush(Writer *w, uint64_t reads) {
  for (int i = 0; i < w->pending.count;) {
    Instr *v = w->pending.at[i];
    if (word(v)->reads & reads)
      assign(w, v, v->text ? v->text : "t");
    else
      i++;
  }
}

// Operands that would make the line too long get names.
static void take_apart(Writer *w, const Instr *v) {
  for (;;) {
    size_t total = 0;
    Instr *longest = NULL;
    for (int i = 0; i < v->nargs; i++) {
      const Word *arg = word(v->args[i]);
      total += strlen(arg->text);
      if (arg->pending && (!longest || strlen(arg->text) > strlen(word(longest)->text)))
        longest = v->args[i];
    }
    if (total <= TEXT_PART || !longest) return;
    assign(w, longest, longest->text ? longest->text : "t");
  }
}

static bool is_short(const Word *x) {
  return x->number || x->binds == BINDS_ATOM ? strcspn(x->text, "( [") == strlen(x->text) : false;
}

static void write_value(Writer *w, Instr *v, const Region *here) {
  Word *x = word(v);
  if (x->uses == 0) return;
  take_apart(w, v);
  for (int i = 0; i < v->nargs; i++)
    if (word(v->args[i])->pending) x->reads |= word(v->args[i])->reads;
  compose(w, v);
  if (v->op == OP_BROADCAST && word(v->args[0])->uses > 1 && is_short(x)) return;
  if (is_short(x) && !x->reads) return;
  bool moves = v->op == OP_ARRAY && w->blocks;  // to its only user
  bool again = x->uses > 1 || (x->home != here && !moves);
  if (v->op == OP_IF || (v->text && v->op != OP_BROADCAST && v->op != OP_LOAD) || again) {
    assign(w, v, v->text ? v->text : "t");
  } else {
    x->pending = true;
    LIST_PUSH(w->arena, &w->pending, v);
  }
}

static void count_uses(Writer *w, Region *region) {
  if (region->arg) region->arg->note = NEW(w->arena, Word);
  for (int i = 0; i < region->instrs.count; i++) region->instrs.at[i]->note = NEW(w->arena, Word);
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int k = 0; k < v->nargs; k++) {
      word(v->args[k])->uses++;
      word(v->args[k])->home = region;
    }
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) count_uses(w, v->regions[r]);
  }
}

// ---- statements

static void write_region(Writer *w, Region *region);

static bool same_window(const Instr *a, const Instr *b) {
  if (a->ref != b->ref) return false;
  for (int i = 0; i < a->ref->type.rank; i++) {
    bool starts =
        a->args[i] == b->args[i] || (a->args[i]->op == OP_CONST && b->args[i]->op == OP_CONST &&
                                     a->args[i]->ival == b->args[i]->ival);
    if (!starts || a->window.size[i] != b->window.size[i] ||
        a->window.stride[i] != b->window.stride[i] || a->window.squeeze[i] != b->window.squeeze[i])
      return false;
  }
  return true;
}

// What is added to the window that is stored to, or NULL.
static Instr *increment(const Instr *store) {
  const Instr *sum = ir_store_value((Instr *)store);
  if (sum->op != OP_ADD || !word(sum)->pending) return NULL;
  const Instr *old = sum->args[0];
  return old->op == OP_LOAD && word(old)->uses == 1 && same_window(old, store) ? sum->args[1]
                                                                               : NULL;
}

// " * N"
static const char *factor_text(const Writer *w, int size) {
  const char *text = w->size[size];
  return word_text(w, strpbrk(text, "+-") ? " * (%s)" : " * %s", text);
}

// " * M * N", and the bytes by which it is multiplied.
static const char *sizes_text(Writer *w, const Type *type, int64_t *bytes) {
  const char *sizes = "";
  *bytes = (dtype_info[type->dtype].bits + 7) / 8;
  for (int i = 0; i < type->rank; i++) {
    const Dim dim = type->dim[i];
    if (dim_is_const(dim)) *bytes *= dim;
    if (!dim_is_const(dim))
      sizes = word_text(w, "%s%s", sizes, factor_text(w, dim_size_index(dim)));
  }
  return sizes;
}

const char *bytes_text(Writer *w, const Type *type) {
  int64_t bytes;
  const char *sizes = sizes_text(w, type, &bytes);
  return word_text(w, "%lld%s", (long long)bytes, sizes);
}

// ---- what is computed again

static const char *terms_text(Writer *w, const Terms *terms) {
  const char *text = "";
  for (int rank = MOST_FACTORS; rank >= 0; rank--)
    for (int i = 0; i < terms->count; i++) {
      const Term *t = &terms->at[i];
      if (t->rank != rank) continue;
      text = word_text(w, "%s%s%.0f", text, *text ? " + " : "", t->count);
      for (int n = 0; n < t->rank; n++)
        text = word_text(w, "%s%s", text, factor_text(w, t->size[n]));
    }
  return text;
}

static const char *names_text(Writer *w, const Operations *found) {
  const char *text = "";
  for (int i = 0; i < found->names.count; i++)
    text = word_text(w, "%s%s%s", text,
                     !i                           ? ""
                     : i + 1 < found->names.count ? ", "
                                                  : " and ",
                     found->names.at[i]);
  return *text ? text : "values";
}

const char *again_text(Writer *w, const bool *again) {
  const Operations found = operations_of(w->k, again);
  if (!found.first_line) return NULL;
  const char *lines = found.first_line == found.last_line
                          ? word_text(w, "line %d", found.first_line)
                          : word_text(w, "lines %d to %d", found.first_line, found.last_line);
  return word_text(w, "computes %s of %s again: %s operations, of %s", names_text(w, &found), lines,
                   terms_text(w, &found.again), terms_text(w, &found.all));
}

// ---- what is kept

static bool is_tape(const Ref *ref) {
  return strncmp(ref->name, TAPE_PREFIX, strlen(TAPE_PREFIX)) == 0;
}

// "// keeps 4 * M * N bytes": the memory of a var that the reverse part reads, by sizes.
static const char *tape_text(Writer *w, const Ref *ref) {
  if (!is_tape(ref)) return "";
  return word_text(w, "  // keeps %s bytes", bytes_text(w, &ref->type));
}

void text_limit(Writer *w, const char *bytes, int64_t memory) {
  if (*bytes && memory)
    text_line(w,
              "  require %s <= %lld : \"the gradient keeps %s bytes for the backward pass, and "
              "--memory allows %lld\";",
              bytes, (long long)memory, bytes, (long long)memory);
}

// Of all vars that the reverse part reads.
static void limit_tapes(Writer *w, int64_t memory, GradResult *result) {
  const int count = w->k->states.count;
  const char **sizes = NEW_ARRAY(w->arena, const char *, count + 1), *all = "";
  int64_t *bytes = NEW_ARRAY(w->arena, int64_t, count + 1);
  int terms = 0;
  for (int i = 0; i < count; i++) {
    const Ref *ref = w->k->states.at[i];
    if (!is_tape(ref)) continue;
    int64_t own;
    int at = 0;
    sizes[terms] = sizes_text(w, &ref->type, &own);
    while (strcmp(sizes[at], sizes[terms]) != 0) at++;
    bytes[at] += own;
    terms += at == terms;
    LIST_PUSH(w->arena, &result->notes,
              word_text(w, "keeps %s: %s bytes", ref->name, bytes_text(w, &ref->type)));
  }
  for (int i = 0; i < terms; i++)
    all = word_text(w, "%s%s%lld%s", all, i ? " + " : "", (long long)bytes[i], sizes[i]);
  text_limit(w, all, memory);
}

static void write_store(Writer *w, Instr *v) {
  Instr *value = ir_store_value(v), *more = increment(v);
  if (!w->state[v->ref->id]) {
    const char *text = used(w, value, BINDS_LEAST), *name = text_name(w, v->ref->name);
    w->state[v->ref->id] = name;
    const char *shape = v->ref->type.rank ? dims_text(w, &v->ref->type) : "";
    text_line(w, "var %s: %s%s = %s;%s", name, dtype_info[v->ref->type.dtype].name, shape, text,
              tape_text(w, v->ref));
    return;
  }
  const char *at = window_text(w, v), *name = w->state[v->ref->id];
  const char *old = word_text(w, "%s%s + ", name, at), *text = used(w, value, BINDS_LEAST);
  bool adds = more && strncmp(text, old, strlen(old)) == 0;
  flush(w, (uint64_t)1 << (v->ref->id & 63));
  text_line(w, adds ? "%s%s += %s;" : "%s%s = %s;", name, at, adds ? text + strlen(old) : text);
}

static void write_for(Writer *w, Instr *v) {
  static const char *const names[] = {"i", "j", "k", "l", "m", "n"};
  const char *from = used(w, v->args[0], 9), *to = used(w, v->args[1], 9);
  flush(w, UINT64_MAX);
  const char *name = text_name(w, names[w->indent < 6 ? w->indent - 1 : 5]);
  *word(v->regions[0]->arg) =
      (Word){.text = name, .binds = BINDS_ATOM, .type = type_scalar(DT_I64)};
  text_line(w, "for %s in %s..%s {", name, from, to);
  write_region(w, v->regions[0]);
  text_line(w, "}");
}

static void write_if(Writer *w, Instr *v) {
  const char *c = used(w, v->args[0], BINDS_LEAST);
  flush(w, UINT64_MAX);
  text_line(w, w->blocks ? "when %s {" : "if %s {", c);
  write_region(w, v->regions[0]);
  if (v->regions[1] && v->regions[1]->instrs.count) {
    text_line(w, "} else {");
    write_region(w, v->regions[1]);
  }
  text_line(w, "}");
}

static void add_to_sum(Writer *w, const SumPart *part, const char *mask, const char *text) {
  const char *sum = word_text(w, "%s%s", part->name, part->window);
  if (part->when)
    text_line(w, "when %s {\n%s += %s;\n}", part->when, sum, text);
  else if (mask)
    text_line(w, "store(%s, load(%s, mask = %s, other = 0) + %s, mask = %s);", sum, sum, mask, text,
              mask);
  else
    text_line(w, "%s += %s;", sum, text);
}

static void write_results(Writer *w, Instr *yield) {
  const char **text = NEW_ARRAY(w->arena, const char *, yield->nargs + 1);
  const char *mask = NULL, *before = NULL;
  for (int i = 0; i < yield->nargs; i++) text[i] = exact(w, yield->args[i]);
  for (int i = 0; i < yield->nargs; i++) {
    const char *name = w->k->refs.at[w->k->inputs + i]->name;
    const SumPart *part = w->parts && w->parts[i].name ? &w->parts[i] : NULL;
    if (part && part->mask && (!before || strcmp(part->mask, before) != 0)) {
      mask = text_name(w, "inside");
      before = part->mask;
      text_line(w, "let %s = %s;", mask, before);
    }
    if (part)
      add_to_sum(w, part, part->mask ? mask : NULL, text[i]);
    else
      text_line(w, w->blocks ? "%s[...] = %s;" : "%s = %s;", name, text[i]);
  }
}

static void write_region(Writer *w, Region *region) {
  w->indent++;
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (v->op == OP_YIELD)
      write_results(w, v);
    else if (v->op == OP_STORE)
      write_store(w, v);
    else if (v->op == OP_FOR)
      write_for(w, v);
    else if (v->op == OP_IF && !has_result(v))
      write_if(w, v);
    else
      write_value(w, v, region);
  }
  w->indent--;
}

// ---- the signature

const char *text_operands(Writer *w, Ref *const *refs, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++) {
    const Ref *ref = refs[i];
    text = word_text(w, "%s%s%s: %s%s", text, i ? ", " : "", ref->name,
                     dtype_info[ref->array.dtype].name, ref->packed ? " packed" : "");
    if (ref->array.rank) text = word_text(w, "%s%s", text, dims_text(w, &ref->array));
  }
  return text;
}

void text_signature(Writer *w, const char *what, const char *name, const char *inputs,
                    const char *outputs) {
  bool fits = strlen(name) + strlen(inputs) + strlen(outputs) < TEXT_WIDTH - 20;
  text_line(w, "%s %s(%s)%s-> (%s) {", what, name, inputs, fits ? " " : "\n    ", outputs);
}

static bool all_known(const Region *region, const bool *known) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_SIZE && !known[v->ival]) return false;
  }
  return true;
}

void text_requirements(Writer *w, const bool *known) {
  for (int i = 0; i < w->k->requires.count; i++) {
    const Requirement *r = &w->k->requires.at[i];
    if (known && !all_known(r->condition, known)) continue;
    const char *condition = yielded_text(w, r->condition, 0);
    if (r->message)
      text_line(w, "  require %s : \"%s\";", condition, r->message);
    else
      text_line(w, "  require %s;", condition);
  }
}

// Statics are constants by now, so the text holds their values.
static const char *text_of_size(Writer *w, const Size *size) {
  if (size->solved) {
    const char *of = w->k->sizes.at[size->solved - 1].name;
    const char *product =
        size->factor == 1 ? of : word_text(w, "%lld * %s", (long long)size->factor, of);
    long long more = size->constant;
    if (more == 0) return product;
    return word_text(w, more < 0 ? "%s - %lld" : "%s + %lld", product, more < 0 ? -more : more);
  }
  bool plain = !strpbrk(size->name, " (");
  return plain || !size->value ? size->name : yielded_text(w, size->value, 0);
}

static void write_sizes(Writer *w) {
  w->size = NEW_ARRAY(w->arena, const char *, w->k->sizes.count + 1);
  for (int i = 0; i < w->k->sizes.count; i++) w->size[i] = w->k->sizes.at[i].name;
  for (int i = 0; i < w->k->sizes.count; i++) w->size[i] = text_of_size(w, &w->k->sizes.at[i]);
}

void text_start(Writer *w, Kernel *k, Buf *out) {
  *w = (Writer){.k = k, .arena = k->arena, .out = out};
  w->state = NEW_ARRAY(k->arena, const char *, k->states.count + 1);
  for (int i = 0; i < k->refs.count; i++) text_name(w, k->refs.at[i]->name);
  for (int i = 0; i < k->sizes.count; i++) text_name(w, k->sizes.at[i].name);
  w->axis = NEW_ARRAY(k->arena, const char *, k->grid.count + 1);
  for (int i = 0; i < k->grid.count; i++) w->axis[i] = text_name(w, k->grid.at[i].name);
  write_sizes(w);
}

void text_body(Writer *w, Kernel *k) {
  count_uses(w, k->reference);
  write_region(w, k->reference);
}

// The requirements give the sizes of segments.
static void tell_segments(Writer *w, GradResult *result) {
  for (int i = 0; i < result->segments.count; i++) {
    const char *note =
        word_text(w,
                  "keeps the values of `%s` iterations of a loop; if these are not all, the vars "
                  "before each other segment, which is computed again",
                  result->segments.at[i]);
    text_line(w, "  // %s", note);
    LIST_PUSH(w->arena, &result->notes, note);
  }
}

void grad_print(Kernel *k, GradResult *result, int64_t memory, Buf *out) {
  Writer w;
  text_start(&w, k, out);
  text_signature(&w, "reference", k->name, text_operands(&w, k->refs.at, k->inputs),
                 text_operands(&w, k->refs.at + k->inputs, k->outputs));
  tell_segments(&w, result);
  text_requirements(&w, NULL);
  limit_tapes(&w, memory, result);
  const char *again = again_text(&w, result->again);
  if (again) text_line(&w, "  // %s", again);
  if (again) LIST_PUSH(w.arena, &result->notes, again);
  text_body(&w, k);
  text_line(&w, "}");
}
