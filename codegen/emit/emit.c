// A kernel's C file and header.
#include "codegen/emit/emit.h"

#include "codegen/emit/internal.h"
#include "codegen/ir/flow.h"
#include "codegen/loops/loop_text.h"

#include <string.h>

// ---- signature, tables

static void put_type(Gen *g, const Type *t, bool packed, Buf *out) {
  buf_printf(out, "%s%s[", dtype_info[t->dtype].name, packed ? " packed " : "");
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
    put_type(g, ir_all(k->refs.at[i]), k->refs.at[i]->packed, out);
  }
  buf_puts(out, k->outputs ? ")" : ") -> ()");
}

static void put_statics(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->statics.count; i++)
    buf_printf(out, "%s%s=%s", i ? " " : "", g->k->statics.at[i].name, g->k->statics.at[i].value);
}

static void put_shard(const int8_t (*shard)[MOST_MESH_AXES], int rank, Buf *out) {
  buf_puts(out, "  {");
  for (int i = 0; i < rank; i++) {
    buf_puts(out, i ? ", {" : "{");
    for (int k = 0; k < MOST_MESH_AXES; k++) buf_printf(out, "%s%d", k ? ", " : "", shard[i][k]);
    buf_putc(out, '}');
  }
  buf_puts(out, rank ? "},\n" : "{0}},\n");
}

// The number of devices, and the division of the operands and of a program's temporaries.
static void put_mesh(const Kernel *k, Buf *out) {
  buf_printf(out, "static const pk_shard %s_shards[] = {\n", k->symbol);
  int arrays = k->flow ? k->flow->arrays.count : k->inputs + k->outputs;
  for (int i = 0; i < arrays; i++)
    if (k->flow)
      put_shard(k->flow->arrays.at[i].shard, k->flow->arrays.at[i].type.rank, out);
    else
      put_shard(k->refs.at[i]->shard, k->refs.at[i]->array.rank, out);
  if (arrays == 0) buf_puts(out, "  {{0}},\n");
  buf_printf(out, "};\n\nstatic const pk_mesh %s_mesh = {%d, {", k->symbol, k->mesh.count);
  for (int i = 0; i < k->mesh.count; i++)
    buf_printf(out, "%s%lld", i ? ", " : "", (long long)k->mesh.at[i].extent);
  buf_puts(out, "}, {");
  for (int i = 0; i < k->mesh.count; i++)
    buf_printf(out, "%s\"%s\"", i ? ", " : "", k->mesh.at[i].name);
  buf_printf(out, "}, %s_shards};\n\n", k->symbol);
}

static void put_packed(const Kernel *k, Buf *out) {
  buf_printf(out, "static const bool %s_packed[] = {", k->symbol);
  for (int i = 0; i < k->inputs + k->outputs; i++)
    buf_printf(out, "%s%s", i ? ", " : "", k->refs.at[i]->packed ? "true" : "false");
  buf_puts(out, "};\n\n");
}

// Writes the tables of operands and sizes of the kernel's description.
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
      buf_printf(out, "%s%lld", d ? ", " : "", (long long)ir_all(r)->dim[d]);
    buf_puts(out, r->array.rank ? "}},\n" : "0}},\n");
  }
  if (!operands) buf_puts(out, "  {\"\", PK_F32, 0, false, -1, {0}},\n");
  buf_printf(out, "};\n\nstatic const char *const %s_sizes[] = {", k->symbol);
  for (int i = 0; i < k->sizes.count; i++)
    buf_printf(out, "%s\"%s\"", i ? ", " : "", k->sizes.at[i].name);
  buf_puts(out, k->sizes.count ? "};\n\n" : "\"\"};\n\n");
  if (k->mesh.count) put_mesh(k, out);
  if (ir_any_packed(k)) put_packed(k, out);
}

// ---- the files

// The parameters' names: those of the operands, if they are free.
static const char **name_parameters(Gen *g) {
  const Kernel *k = g->k;
  Names taken = {.arena = g->arena, .role = NAME_C_PARAMETER};
  const char *const own[] = {"context", "tensors", "uintptr_t", text(g, "%s_kernel", k->symbol)};
  for (int i = 0; i < 4; i++) keep_name(&taken, own[i]);
  const char **names = NEW_ARRAY(g->arena, const char *, k->refs.count + 1);
  for (int i = 0; i < k->inputs + k->outputs; i++)
    names[i] = lasting_name(&taken, k->refs.at[i]->name);
  return names;
}

// The tables that the loops index by four bits.
static void put_lookups(Gen *g, Buf *out) {
  for (int n = 0; n < g->tables.count; n++) {
    buf_printf(out, "static const float %s_table%d[] = {", g->k->symbol, n);
    for (int i = 0; i < TABLE_SIZE; i++)
      buf_printf(out, "%s%s", i ? ", " : "", literal_text(DT_F32, 0, g->tables.at[n].value[i]));
    buf_puts(out, n + 1 < g->tables.count ? "};\n" : "};\n\n");
  }
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
  return text(g, "%s_%s_kernel", symbol, target_symbol(g->arena, g->target->name));
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

// What `pkc calibrate` measured; otherwise the runtime has estimates.
static void put_thread_costs(Gen *g, Buf *out) {
  const Calibration *c = g->target->core->calibration;
  if (c && c->known[CALIBRATED_worth_ns] && c->known[CALIBRATED_thread_ns])
    buf_printf(out, "  .worth_ns = %lld,\n  .thread_ns = %lld,\n",
               (long long)c->value[CALIBRATED_worth_ns], (long long)c->value[CALIBRATED_thread_ns]);
}

// Writes the exported description of the kernel, a pk_kernel.
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
  if (k->mesh.count) buf_printf(out, "  .mesh = &%s_mesh,\n", k->symbol);
  if (ir_any_packed(k)) buf_printf(out, "  .packed = %s_packed,\n", k->symbol);
  buf_printf(out, "  .vmem_limit = %lld,\n", (long long)k->vmem_limit);
  put_thread_costs(g, out);
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

// i64 of rank 0 is index arithmetic, which needs only rt.h and step.h.
static bool has_wide_lanes(const Kernel *k) {
  bool found = false;
  for (int i = 0; i < k->refs.count; i++) {
    const Type *t = &k->refs.at[i]->type;
    found = found || (is_wide(t->dtype) && (t->dtype != DT_I64 || t->rank > 0));
  }
  ir_walk(k->body, note_wide, &found);
  return found;
}

typedef struct {
  OpClass class;
  bool found;
} ClassSearch;

static void note_class(Instr *v, void *context) {
  ClassSearch *s = context;
  s->found |= op_info[v->op].class == s->class;
}

static bool has_class(const Kernel *k, OpClass class) {
  ClassSearch s = {class, false};
  ir_walk(k->body, note_class, &s);
  return s.found;
}

static void note_sort(Instr *v, void *context) {
  if (v->op == OP_SORT || v->op == OP_ARGSORT) *(bool *)context = true;
}

static bool has_sorts(const Kernel *k) {
  bool found = false;
  ir_walk(k->body, note_sort, &found);
  return found;
}

// Headers of what the kernel uses. A program has those of each kernel before it.
static void put_includes(Gen *g, Buf *out) {
  put_dot_headers(g, out);
  if (has_wide_lanes(g->k)) buf_puts(out, "#include <pk/vec/wide.h>\n");
  if (has_class(g->k, OPC_SCAN)) buf_puts(out, "#include <pk/scan.h>\n");
  if (has_class(g->k, OPC_ARGREDUCE)) buf_puts(out, "#include <pk/search.h>\n");
  if (has_sorts(g->k)) buf_puts(out, "#include <pk/sort.h>\n");
}

void emit_prologue(const Target *t, Buf *out) {
  TargetMacro macros[MOST_TARGET_MACROS];
  int count = target_macros(t, macros);
  // Linked micro-kernels have the numbers of the table.
  if (t->core->calibration && calibration_moves(t->core->calibration))
    buf_puts(out, "#undef PK_MICRO\n");
  for (int i = 0; i < count; i++)
    buf_printf(out, "#define %s %lld\n", macros[i].name, (long long)macros[i].value);
  buf_puts(out, "#include <pk/kernel.h>\n");
}

// The beginning of a C file: the signature as a comment, the target's macros, the headers and the
// prototype.
static void put_preamble(Gen *g, const char *const *parameters, Buf *out) {
  buf_puts(out, "/* ");
  put_signature(g, out);
  buf_puts(out, "\n * ");
  put_statics(g, out);
  const Target *t = g->target;
  const Calibration *measured = t->core->calibration;
  buf_printf(
      out,
      "\n * Generated by pkc for %s%s%s: vectors of %d bytes, register tile %d x %d. Runs on "
      "any machine. */\n",
      t->name, measured ? ", calibration " : "", measured ? measured->id : "", t->vector_bytes,
      t->dot_rows, g->panel);
  emit_prologue(t, out);
  put_includes(g, out);
  if (g->options->profile) buf_puts(out, "#include <pk/profile.h>\n");
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
               target_symbol(g->arena, g->options->choice[i]->name));
  buf_printf(out, "\nstatic const pk_variant %s_variants[] = {\n", symbol);
  for (int i = 0; i < g->options->choices; i++) {
    const Target *t = g->options->choice[i];
    buf_printf(out, "  {\"%s\", %#x, &%s_%s_kernel},\n", t->name, t->needs, symbol,
               target_symbol(g->arena, t->name));
  }
  buf_puts(out, "  {NULL, 0, NULL},\n};\n\n");
  put_tables(g, out);
  put_entry(g, parameters, out);
}

// ---- the kernels that a program calls

// The explanation of a kernel begins with its earlier notes, so each kernel has a separate text.
static void put_callee(Gen *g, Kernel *callee, const EmitOptions *options, Buf *out, Buf *loops) {
  Buf account = {0};
  buf_printf(out, "/* ---- %s */\n\n", callee->name);
  emit_kernel(callee, options, out, NULL, loops, g->explain ? &account : NULL);
  if (g->explain) buf_printf(g->explain, "\n%s", account.text ? account.text : "");
  buf_free(&account);
}

static void put_callees(Gen *g, Buf *out, Buf *loops) {
  const Flow *flow = g->k->flow;
  EmitOptions options = *g->options;
  options.part = true;
  if (g->explain) flow_explain(g->k, g->explain);
  for (int i = 0; i < flow->callees.count; i++)
    put_callee(g, flow->callees.at[i].kernel, &options, out, loops);
  buf_printf(out, "/* ---- %s */\n\n", g->k->name);
}

static void emit_choice(Gen *g, Buf *c, Buf *h) {
  const char *const *parameters = name_parameters(g);
  put_choice(g, parameters, c);
  put_header(g, parameters, h);
}

static void emit_functions(Gen *g, const char *const *parameters, Buf *c, Buf *loops) {
  Buf cell = {0};
  CWriter w = {.g = g, .c = &cell, .names = g->names};
  if (g->k->flow)
    emit_flow(&w);
  else
    emit_cell(&w);
  if (g->options->part)
    put_includes(g, c);
  else
    put_preamble(g, parameters, c);
  if (g->k->flow) put_callees(g, c, loops);
  put_tables(g, c);
  put_lookups(g, c);
  buf_add(c, cell.text, cell.length);
  emit_prepare(&w, c);
  put_entry(g, parameters, c);
  buf_free(&cell);
}

void emit_kernel(Kernel *k, const EmitOptions *options, Buf *c, Buf *h, Buf *loops,
                 Buf *explain_text) {
  Gen *g = build_loops(k, options, explain_text);
  if (loops && !k->flow) print_loops(g, loops);
  if (options->choice) {
    emit_choice(g, c, h);
    return;
  }
  const char *const *parameters = name_parameters(g);
  emit_functions(g, parameters, c, loops);
  if (!options->part && !options->variant) put_header(g, parameters, h);
  if (explain_text && !k->flow) explain_all(g);
}
