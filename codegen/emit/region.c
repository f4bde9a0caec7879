// A region as C: its groups in order, and control flow.
#include "codegen/emit/internal.h"

#include <string.h>

// ---- results of `if`

static void keep_result(CWriter *w, Instr *v, const Region *arm) {
  Gen *g = w->g;
  const Instr *from = ir_yielded(arm, 0);
  if (v->type.rank == 0) {
    line(w, "%s = %s;", expr_text(val(v)->scalar), scalar_text(g, from));
    return;
  }
  Context x = {.g = g, .w = w};
  Place to;
  REQUIRE(place_of(g, v, &to));
  for (int i = 0; i < v->type.rank; i++) {
    const char *at = unique_name(&w->names, text(g, "i%d", i));
    x.index[i] = expr_symbol(&g->exprs, at);
    open_block(w, "for (int64_t %s = 0; %s < %s; %s++)", at, at, extent_text(g, v->type.dim[i]),
               at);
  }
  line(w, "pks_store_%s(%s, %s);", dtype_info[to.element].name,
       address(g, &to, v->type.rank, x.index), expr_text(argument_at(&x, from, false)));
  for (int i = 0; i < v->type.rank; i++) close_block(w);
}

static void emit_groups(CWriter *w, const Schedule *s, bool arm);

static void emit_arm(CWriter *w, const Group *group, int arm) {
  emit_groups(w, group->inner[arm], true);
  if (has_result(group->instr)) keep_result(w, group->instr, group->instr->regions[arm]);
}

static void emit_if(CWriter *w, const Group *group) {
  Gen *g = w->g;
  Instr *v = group->instr;
  if (has_result(v) && v->type.rank == 0) {
    const char *name = lasting_name(&w->names, text(g, "v%d", v->id));
    expr_name(val(v)->scalar, name);
    line(w, "%s %s;", scalar_type(v->type.dtype), name);
  }
  open_block(w, "if (%s)", scalar_text(g, v->args[0]));
  emit_arm(w, group, 0);
  if (group->inner[1]) {
    w->indent--;
    open_block(w, "} else");
    emit_arm(w, group, 1);
  }
  close_block(w);
}

static void emit_for(CWriter *w, const Group *group) {
  Gen *g = w->g;
  const Instr *v = group->instr, *arg = v->regions[0]->arg;
  const char *i = lasting_name(&w->names, arg->text ? arg->text : "t");
  const Expr *end = scalar_expr(g, v->args[1]);
  expr_name(val(arg)->scalar, i);
  if (v->args[1]->op != OP_CONST) {
    const char *name = lasting_name(&w->names, text(g, "%s_end", i));
    line(w, "const int64_t %s = %s;", name, expr_text(end));
    end = expr_symbol(&g->exprs, name);
  }
  open_block(w, "for (int64_t %s = %s; %s < %s; %s++)", i, scalar_text(g, v->args[0]), i,
             expr_text(end), i);
  emit_region(w, group->inner[0]);
  close_block(w);
}

static void emit_while(CWriter *w, const Group *group) {
  Gen *g = w->g;
  open_block(w, "for (;;)");
  emit_region(w, group->inner[0]);
  const Instr *condition = ir_yielded(group->instr->regions[0], 0);
  if (condition->op == OP_CONST)
    line(w, condition->ival ? "if (!pk_always()) break;" : "if (pk_always()) break;");
  else
    line(w, "if (%s) break;", expr_text(expr_not(&g->exprs, scalar_expr(g, condition))));
  emit_region(w, group->inner[1]);
  close_block(w);
}

// A pk_printed. The elements of an array are not printed.
static const char *printed(Gen *g, const Instr *v) {
  DType t = v->type.dtype;
  if (v->type.rank)
    return text(g, "{PK_PRINT_TEXT, {.text = \"array of %s\"}}", dtype_info[t].name);
  const char *value = scalar_text(g, v);
  if (is_float(t)) return text(g, "{PK_PRINT_FLOAT, {.f = (double)(%s)}}", value);
  if (t == DT_U64) return text(g, "{PK_PRINT_UNSIGNED, {.u = %s}}", value);
  return text(g, "{PK_PRINT_SIGNED, {.i = %s}}", value);
}

static void emit_print(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const char *worker = reading(g, "worker"), *list = "";
  for (int i = 0; i < v->nargs; i++)
    list = text(g, "%s%s%s", list, i ? ", " : "", printed(g, v->args[i]));
  if (v->nargs)
    line(w, "pk_print(%s, %s, %d, (const pk_printed[]){%s});", worker, quoted(g, v->text), v->nargs,
         list);
  else
    line(w, "pk_print(%s, %s, 0, NULL);", worker, quoted(g, v->text));
}

static void emit_assert(CWriter *w, const Instr *v) {
  Gen *g = w->g;
  const Instr *condition = v->args[0];
  bool constant = condition->op == OP_CONST;
  if (constant && condition->ival) return;
  const char *unless = expr_text(expr_not(&g->exprs, scalar_expr(g, condition))),
             *said = v->text ? v->text : "assertion failed";
  line(w, "%spk_fail(%s, %s);", constant ? "" : text(g, "if (%s) ", unless), reading(g, "worker"),
       quoted(g, text(g, "line %d: %s", line_of(g, v->span), said)));
}

// Writes a branch, a loop or another control instruction.
static void emit_control(CWriter *w, const Group *group) {
  Gen *g = w->g;
  Instr *v = group->instr;
  const char *outer;
  switch (v->op) {
    case OP_IF:
      emit_if(w, group);
      break;
    case OP_FOR:
      emit_for(w, group);
      break;
    case OP_WHILE:
      emit_while(w, group);
      break;
    case OP_NAMED:
      line(w, "pk_trace_begin(%s, %s);", reading(g, "worker"), quoted(g, v->text));
      outer = w->region;
      w->region = intern(v->text);
      emit_region(w, group->inner[0]);
      w->region = outer;
      line(w, "pk_trace_end(worker);");
      break;
    case OP_SCOPED:
      clear_semaphores(w, v);
      emit_region(w, group->inner[0]);
      break;
    case OP_PRINT:
      emit_print(w, v);
      break;
    case OP_ASSERT:
      emit_assert(w, v);
      break;
    case OP_WRITEBACK:
    case OP_FETCH:
    case OP_YIELD:
      break;
    default:
      lap_at(w, v->span, op_info[v->op].name);
      emit_dma(w, v);
  }
}

// Nothing is written for it.
static bool is_silent(const Group *group) {
  return group->kind == GROUP_CONTROL &&
         (group->instr->op == OP_FETCH || group->instr->op == OP_WRITEBACK ||
          group->instr->op == OP_YIELD);
}

// Compilers warn of code after a `break`, and of a loop whose body ends with one.
static void emit_break(CWriter *w, const Schedule *s, int i, bool arm) {
  while (++i < s->groups.count && arm) arm = is_silent(s->groups.at[i]);
  line(w, arm ? "break;" : "if (pk_always()) break;");
}

// `arm`: of an `if`.
static void emit_groups(CWriter *w, const Schedule *s, bool arm) {
  if (!s) return;
  for (int i = 0; i < s->fetches.count; i++) {
    const Ref *ref = s->fetches.at[i]->ref;
    lap_at(w, block_span(ref), text(w->g, "fetch %s", ref->name));
    emit_fetch(w, s->fetches.at[i]);
  }
  for (int i = 0; i < s->groups.count; i++) {
    Group *group = s->groups.at[i];
    if (group->kind != GROUP_ROWS && !is_silent(group)) show_source(w, group->instr->span);
    if (group->kind == GROUP_ROWS)
      emit_rows(w, group);
    else if (group->kind == GROUP_GENERIC)
      lap_at(w, group->instr->span, op_info[group->instr->op].name), emit_generic(w, group);
    else if (group->kind == GROUP_SCALAR)
      emit_scalar(w, group->instr);
    else if (group->instr->op == OP_BREAK)
      emit_break(w, s, i, arm);
    else
      emit_control(w, group);
  }
}

void emit_region(CWriter *w, const Schedule *s) { emit_groups(w, s, false); }
