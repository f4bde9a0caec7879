// A kernel's C file and header.
#include "codegen/emit/emit.h"

#include "codegen/emit/internal.h"
#include "codegen/loops/loop_text.h"

#include <string.h>

// ---- signature, tables

static void put_type(Gen *g, const Type *t, Buf *out) {
  buf_printf(out, "%s[", dtype_info[t->dtype].name);
  for (int i = 0; i < t->rank; i++) {
    if (i) buf_puts(out, ", ");
    if (dim_is_const(t->dim[i]))
      buf_printf(out, "%lld", (long long)t->dim[i]);
    else
      buf_puts(out, g->k->sizes.at[dim_size_index(t->dim[i])].name);
  }
  buf_putc(out, ']');
}

static void put_signature(Gen *g, Buf *out) {
  const Kernel *k = g->k;
  buf_printf(out, "%s(", k->name);
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    if (i == k->inputs)
      buf_puts(out, ") -> (");
    else if (i)
      buf_puts(out, ", ");
    buf_printf(out, "%s: ", k->refs.at[i]->name);
    put_type(g, &k->refs.at[i]->array, out);
  }
  buf_puts(out, k->outputs ? ")" : ") -> ()");
}

static void put_statics(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->statics.count; i++)
    buf_printf(out, "%s%s=%s", i ? " " : "", g->k->statics.at[i].name, g->k->statics.at[i].value);
}

static void put_tables(Gen *g, Buf *out) {
  const Kernel *k = g->k;
  int operands = k->inputs + k->outputs;
  buf_printf(out, "static const pk_operand %s_operands[] = {\n", k->symbol);
  for (int i = 0; i < operands; i++) {
    const Ref *r = k->refs.at[i];
    buf_printf(out, "  {\"%s\", %s, %d, %s, %d, {", r->name, pk_dtype_name(r->array.dtype),
               r->array.rank, r->role == REF_OUTPUT ? "true" : "false",
               r->alias ? r->alias->id : -1);
    for (int d = 0; d < r->array.rank; d++)
      buf_printf(out, "%s%lld", d ? ", " : "", (long long)r->array.dim[d]);
    buf_puts(out, r->array.rank ? "}},\n" : "0}},\n");
  }
  if (!operands) buf_puts(out, "  {\"\", PK_F32, 0, false, -1, {0}},\n");
  buf_printf(out, "};\n\nstatic const char *const %s_sizes[] = {", k->symbol);
  for (int i = 0; i < k->sizes.count; i++)
    buf_printf(out, "%s\"%s\"", i ? ", " : "", k->sizes.at[i].name);
  buf_puts(out, k->sizes.count ? "};\n\n" : "\"\"};\n\n");
}

// ---- prepare: derived sizes, requirements, grid, memory

// Bytes of a block in VMEM, in whole tiles.
static const Expr *tile_bytes(Gen *g, const Type *t) {
  ExprPool *pool = &g->exprs;
  const Expr *bytes = number(g, dtype_bytes(t->dtype));
  for (int i = 0; i < t->rank; i++) {
    const Expr *n = extent_expr(g, t->dim[i]);
    if (i == t->rank - 1)
      n = expr_round_up(pool, n, TILE_LANES);
    else if (i == t->rank - 2)
      n = expr_round_up(pool, n, tile_sublanes(t->dtype));
    bytes = expr_sat_mul(pool, bytes, n);
  }
  return dtype_info[t->dtype].bits == 4 && t->rank ? expr_sat_half(pool, bytes) : bytes;
}

static void put_vmem(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->refs.count; i++) {
    const Ref *r = g->k->refs.at[i];
    if (r->space != SPACE_VMEM && r->space != SPACE_VAR) continue;
    const Expr *bytes = tile_bytes(g, r->declared ? r->declared : &r->type);
    if (r->buffers > 1) bytes = expr_sat_mul(&g->exprs, number(g, r->buffers), bytes);
    buf_printf(out, "  plan->vmem_bytes = pk_sat_add(plan->vmem_bytes, %s); /* %s */\n",
               expr_text(bytes), r->name);
  }
}

// A sum of products: numbers times run-time sizes, as double.
typedef struct {
  double factor;
  const char *sizes;  // " * (double)M * (double)N"
} Term;
typedef LIST(Term) Terms;

static Term times(Gen *g, Term term, Dim d) {
  if (dim_is_const(d))
    term.factor *= (double)d;
  else
    term.sizes = text(g, "%s * (double)%s", term.sizes, extent_text(g, d));
  return term;
}

static Term product_of(Gen *g, const Type *t) {
  Term term = {1, intern("")};
  for (int i = 0; i < t->rank; i++) term = times(g, term, t->dim[i]);
  return term;
}

static void add_term(Gen *g, Terms *sum, Term term) {
  for (int i = 0; i < sum->count; i++)
    if (sum->at[i].sizes == term.sizes) {
      sum->at[i].factor += term.factor;
      return;
    }
  LIST_PUSH(g->arena, sum, term);
}

static const char *term_text(Gen *g, Term term) {
  if (term.factor == 1 && *term.sizes) return text(g, "%s", term.sizes + strlen(" * "));
  const char *factor = text(g, "%.15g", term.factor);
  return text(g, "%s%s%s", factor, strpbrk(factor, ".e") ? "" : ".0", term.sizes);
}

typedef struct {
  Gen *g;
  Terms sum;
} WorkWalk;

// A rough count of operations of one step, all branches taken: whether threads pay is a matter of
// magnitude.
static void add_work(Instr *v, void *context) {
  WorkWalk *w = context;
  bool computes = has_result(v) && v->type.rank > 0 && !is_transparent(v);
  if (v->op == OP_DOT) {
    Term term = product_of(w->g, &v->type);
    for (int i = 0; i < v->args[0]->type.rank; i++) {
      bool kept = false;
      for (int o = 0; o < v->type.rank; o++) kept |= v->labels.out[o] == v->labels.a[i];
      if (!kept) term = times(w->g, term, v->args[0]->type.dim[i]);
    }
    term.factor *= 0.2;
    add_term(w->g, &w->sum, term);
  } else if (computes || (v->op == OP_LOAD && v->type.rank > 0)) {
    add_term(w->g, &w->sum, product_of(w->g, &v->type));
  }
}

static const char *work_text(Gen *g) {
  WorkWalk w = {.g = g};
  ir_walk(g->k->body, add_work, &w);
  const char *all = w.sum.count ? "" : "0.0";
  for (int i = 0; i < w.sum.count; i++)
    all = text(g, "%s%s%s", all, i ? " + " : "", term_text(g, w.sum.at[i]));
  return all;
}

// The part of a widened block that lies inside its array.
static const char *filled_text(Gen *g) {
  const Ref *out = g->k->refs.at[g->k->inputs];
  if (!g->k->outputs || !out->declared) return "";
  return text(g, " * (%s) / (%s) / (double)plan->cells", term_text(g, product_of(g, &out->array)),
              term_text(g, product_of(g, &out->type)));
}

static const char *quoted_message(Gen *g, const Requirement *r) {
  const Source *s = g->k->source;
  const char *message = r->message;
  if (!message && r->span.end > r->span.start && r->span.end <= s->length)
    message = text(g, "%.*s", (int)(r->span.end - r->span.start), s->text + r->span.start);
  if (!message) message = "a requirement does not hold";
  return quoted(g, message);
}

static void put_grid(Gen *g, Buf *out) {
  buf_puts(out, "  plan->cells = plan->steps = 1;\n");
  for (int i = 0; i < g->k->grid.count; i++) {
    if (g->k->grid.at[i].parallel)
      buf_printf(out, "  plan->cells = pk_sat_mul(plan->cells, %s);\n",
                 expr_text(cell_count(g, i)));
    buf_printf(out, "  plan->steps = pk_sat_mul(plan->steps, %s);\n", expr_text(grid_extent(g, i)));
  }
}

static void put_requirements(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->requires.count; i++) {
    const Requirement *r = &g->k->requires.at[i];
    const Expr *broken = expr_not(&g->exprs, index_expr(g, r->condition, 0));
    buf_printf(out, "  if (%s) return %s;\n", expr_text(broken), quoted_message(g, r));
  }
}

// A derived size is a result of `prepare` too.
static void put_derived(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->sizes.count; i++)
    if (g->k->sizes.at[i].value)
      buf_printf(out, "  %s[%d] = %s;\n", reading(g, "size"), i, reading(g, g->size_name[i]));
}

static void put_plan(Gen *g, Buf *out) {
  const Kernel *k = g->k;
  put_derived(g, out);
  put_requirements(g, out);
  put_grid(g, out);
  put_vmem(g, out);
  if (!k->flow)
    buf_printf(out,
               "  const %s_arena a = %s_layout(%s%s);\n  plan->arena_bytes = a.bytes;\n  "
               "plan->clear_bytes = a.clear;\n",
               k->symbol, k->symbol, g->launch_reads ? text(g, "%s, ", reading(g, "array")) : "",
               reading(g, "size"));
  buf_printf(out, "  const double step_work = %s;\n", work_text(g));
  buf_printf(out,
             "  plan->work = plan->cells > 0 ? step_work * (double)plan->steps / "
             "(double)plan->cells%s : 0;\n  return NULL;\n}\n\n",
             filled_text(g));
}

static void put_prepare(Gen *g, Buf *out) {
  Buf body = {0}, head = {0}, *outer = g->c;
  Declarations sizes = {0};
  expr_forget_reads(&g->exprs);
  put_plan(g, &body);
  g->c = &head;
  g->indent = 1;
  declare_sizes(g, true, &sizes);
  put_declarations(g, &sizes);
  g->c = out;
  buf_printf(out, "static const char *%s_prepare(%sint64_t *size, pk_plan *plan) {\n", g->k->symbol,
             g->launch_reads ? "const pk_array *array, " : "");
  put_unread(g, "size");
  if (g->launch_reads) put_unread(g, "array");
  if (head.length) buf_add(out, head.text, head.length);
  buf_add(out, body.text, body.length);
  g->c = outer;
  buf_free(&head);
  buf_free(&body);
}

// ---- the files

// The parameters' names: the operands', where these are free.
static const char **name_parameters(Gen *g) {
  const Kernel *k = g->k;
  Gen *entry = NEW(g->arena, Gen);
  *entry = (Gen){.k = g->k, .arena = g->arena, .role = NAME_C_PARAMETER};
  const char *const own[] = {"context", "tensors", "uintptr_t", text(g, "%s_kernel", k->symbol)};
  for (int i = 0; i < 4; i++) LIST_PUSH(g->arena, &entry->kept, intern(own[i]));
  const char **names = NEW_ARRAY(g->arena, const char *, k->refs.count + 1);
  for (int i = 0; i < k->inputs + k->outputs; i++)
    names[i] = lasting_name(entry, k->refs.at[i]->name);
  return names;
}

static void put_prototype(Gen *g, const char *const *parameters, Buf *out) {
  buf_printf(out, "pk_status %s(pk_context *context", g->k->symbol);
  for (int i = 0; i < g->k->inputs + g->k->outputs; i++)
    buf_printf(out, ", %sDLTensor *%s", i < g->k->inputs ? "const " : "", parameters[i]);
  buf_puts(out, ")");
}

static void put_header(Gen *g, const char *const *parameters, Buf *h) {
  const char *symbol = g->k->symbol;
  buf_printf(h, "/* ");
  put_signature(g, h);
  if (strcmp(symbol, g->k->name) != 0)
    buf_printf(h, "\n * In C the kernel is %s: %s is taken.", symbol, g->k->name);
  buf_printf(h,
             "\n * Generated by pkc. */\n#ifndef PK_KERNEL_%s_H\n#define "
             "PK_KERNEL_%s_H\n\n#include <pk/pk.h>\n\n",
             symbol, symbol);
  buf_puts(h, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  put_prototype(g, parameters, h);
  buf_printf(h, ";\nextern const pk_kernel %s_kernel;\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n",
             symbol);
}

// The kernel as an object: NAME_kernel, of a variant NAME_TARGET_kernel.
static const char *kernel_object(Gen *g) {
  const char *symbol = g->k->symbol;
  if (g->options->part || !g->options->variant) return text(g, "%s_kernel", symbol);
  return text(g, "%s_%s_kernel", symbol, target_symbol(g->arena, g->target));
}

// The functions of a kernel, or the variants that have them.
static void put_functions(Gen *g, Buf *out) {
  const Kernel *k = g->k;
  if (g->options->choice) {
    buf_printf(out, "  .variant = %s_variants,\n", k->symbol);
    return;
  }
  buf_printf(out, "  .%s = %s_prepare,\n", g->launch_reads ? "prepare_from" : "prepare", k->symbol);
  if (k->flow)
    put_flow_entry(k, out);
  else
    buf_printf(out, "  .cell = %s_cell,\n", k->symbol);
}

static void put_entry(Gen *g, const char *const *parameters, Buf *out) {
  const Kernel *k = g->k;
  int operands = k->inputs + k->outputs;
  buf_printf(out,
             "%sconst pk_kernel %s = {\n  .abi = PK_ABI,\n  .name = \"%s\",\n  .signature = \"",
             g->options->part ? "static " : "", kernel_object(g), k->name);
  put_signature(g, out);
  buf_puts(out, "\",\n  .statics = \"");
  put_statics(g, out);
  int bound = 0;
  for (int i = 0; i < k->sizes.count; i++) bound += !k->sizes.at[i].value;
  buf_printf(out,
             "\",\n  .operands = %d,\n  .inputs = %d,\n  .operand = %s_operands,\n  .sizes = %d,\n "
             " .size_name = %s_sizes,\n  "
             ".bound = %d,\n",
             operands, k->inputs, k->symbol, k->sizes.count, k->symbol, bound);
  if (k->one_row) buf_puts(out, "  .one_row = true,\n");
  buf_printf(out, "  .vmem_limit = %lld,\n", (long long)k->vmem_limit);
  put_functions(g, out);
  buf_puts(out, "};\n\n");
  if (g->options->part || g->options->variant) return;
  put_prototype(g, parameters, out);
  buf_puts(out, " {\n  DLTensor *const tensors[] = {");
  for (int i = 0; i < operands; i++)
    buf_printf(out, "%s%s%s", i ? ", " : "", i < k->inputs ? "(DLTensor *)(uintptr_t)" : "",
               parameters[i]);
  buf_printf(out, "%s};\n  return pk_call_kernel(context, &%s_kernel, tensors);\n}\n",
             operands ? "" : "NULL", k->symbol);
}

static void note_wide(Instr *v, void *context) {
  DType t = v->op == OP_STORE ? ir_store_value(v)->type.dtype : v->type.dtype;
  bool found =
      (has_result(v) || v->op == OP_STORE) && is_wide(t) && (t != DT_I64 || v->type.rank > 0);
  if (found) *(bool *)context = true;
}

// Rank 0 of i64 is index arithmetic, which needs no more than rt.h and step.h.
static bool has_wide_lanes(const Kernel *k) {
  bool found = false;
  for (int i = 0; i < k->refs.count; i++) {
    const Type *t = &k->refs.at[i]->type;
    found = found || (is_wide(t->dtype) && (t->dtype != DT_I64 || t->rank > 0));
  }
  ir_walk(k->body, note_wide, &found);
  return found;
}

void emit_prologue(const Target *t, Buf *out) {
  buf_printf(out, "#define PK_VEC_BYTES %d\n#define PK_DOT_MR %d\n#define PK_DOT_NV %d\n",
             t->vector_bytes, t->dot_rows, t->dot_vectors);
  if (t->stream) buf_puts(out, "#define PK_DOT_STREAM 1\n");
  buf_puts(out, "#include <pk/kernel.h>\n");
}

static void put_preamble(Gen *g, const char *const *parameters, Buf *out) {
  buf_puts(out, "/* ");
  put_signature(g, out);
  buf_puts(out, "\n * ");
  put_statics(g, out);
  const Target *t = g->target;
  buf_printf(out,
             "\n * Generated by pkc for %s: vectors of %d bytes, register tile %d x %d. Runs on "
             "any machine. */\n",
             t->name, t->vector_bytes, t->dot_rows, g->panel);
  emit_prologue(t, out);
  put_dot_headers(g, out);
  if (has_wide_lanes(g->k)) buf_puts(out, "#include <pk/vec/wide.h>\n");
  buf_puts(out, "\n");
  if (!g->options->variant) put_prototype(g, parameters, out);
  buf_printf(out, "%sextern const pk_kernel %s;\n\n", g->options->variant ? "" : ";\n",
             kernel_object(g));
}

// The file that chooses among variants has the kernel's tables and no functions.
static void put_choice(Gen *g, const char *const *parameters, Buf *out) {
  const char *symbol = g->k->symbol;
  buf_puts(out, "/* ");
  put_signature(g, out);
  buf_puts(out, "\n * ");
  put_statics(g, out);
  buf_puts(out, "\n * Generated by pkc. */\n#include <pk/rt.h>\n\n");
  put_prototype(g, parameters, out);
  buf_printf(out, ";\nextern const pk_kernel %s_kernel;\n", symbol);
  for (int i = 0; i < g->options->choices; i++)
    buf_printf(out, "extern const pk_kernel %s_%s_kernel;\n", symbol,
               target_symbol(g->arena, g->options->choice[i]));
  buf_printf(out, "\nstatic const pk_variant %s_variants[] = {\n", symbol);
  for (int i = 0; i < g->options->choices; i++) {
    const Target *t = g->options->choice[i];
    buf_printf(out, "  {\"%s\", %#x, &%s_%s_kernel},\n", t->name, t->needs, symbol,
               target_symbol(g->arena, t));
  }
  buf_puts(out, "  {NULL, 0, NULL},\n};\n\n");
  put_tables(g, out);
  put_entry(g, parameters, out);
}

void emit_kernel(Kernel *k, const EmitOptions *options, Buf *c, Buf *h, Buf *loops,
                 Buf *explain_text) {
  Buf cell = {0};
  Gen *g = build_loops(k, options, explain_text);
  if (loops && !k->flow) print_loops(g, loops);
  if (options->choice) {
    put_choice(g, name_parameters(g), c);
    put_header(g, name_parameters(g), h);
    return;
  }
  g->c = &cell;
  if (k->flow)
    emit_flow(g);
  else
    emit_cell(g);
  const char *const *parameters = name_parameters(g);
  if (options->part)
    put_dot_headers(g, c);
  else
    put_preamble(g, parameters, c);
  if (k->flow) put_flow_callees(g, c, loops);
  put_tables(g, c);
  buf_add(c, cell.text, cell.length);
  put_prepare(g, c);
  put_entry(g, parameters, c);
  if (!options->part && !options->variant) put_header(g, parameters, h);
  if (explain_text && !k->flow) explain_all(g);
  buf_free(&cell);
}
