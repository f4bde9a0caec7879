// A region as C: its groups in order, and control flow.
#include "codegen/emit/internal.h"
#include "codegen/loops/loop_text.h"

#include <string.h>

// ---- where an input's block is made present: the innermost region that holds all loads of it, but
// not inside a loop

typedef struct {
  const Ref *ref;
  int found;
} LoadCount;

static void count_load(Instr *v, void *context) {
  LoadCount *c = context;
  if ((v->op == OP_LOAD || v->op == OP_COPY_START) && v->ref == c->ref) c->found++;
}

static int loads_in(Region *region, const Ref *ref) {
  LoadCount c = {ref, 0};
  ir_walk(region, count_load, &c);
  return c.found;
}

static Region *narrow(Region *region, const Ref *ref, int all) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r] && (v->op == OP_IF || v->op == OP_NAMED || v->op == OP_SCOPED) &&
          loads_in(v->regions[r], ref) == all)
        return narrow(v->regions[r], ref, all);
  }
  return region;
}

void find_fetches(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++) {
    RefGen *r = &g->refs[i];
    if (r->ref->role != REF_INPUT || r->form == FORM_DIRECT) continue;
    int all = loads_in(g->k->body, r->ref);
    if (g->options->literal_dma || shares_memory(g, r->ref))
      r->fetch_at = g->k->body;
    else
      r->fetch_at = all ? narrow(g->k->body, r->ref, all) : NULL;
    if (r->filled_by && val(r->filled_by)->region != r->fetch_at) r->filled_by = NULL;
  }
}

// ---- results of `if`

static void keep_result(Gen *g, Instr *v, const Region *arm) {
  const Instr *from = ir_yielded(arm, 0);
  if (v->type.rank == 0) {
    line(g, "%s = %s;", val(v)->scalar, scalar_text(g, from));
    return;
  }
  Context x = {.g = g};
  Place to;
  REQUIRE(place_of(g, v, &to));
  for (int i = 0; i < v->type.rank; i++) {
    x.index[i] = unique_name(g, text(g, "i%d", i));
    open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", x.index[i], x.index[i],
               extent_text(g, v->type.dim[i]), x.index[i]);
  }
  line(g, "pks_store_%s(%s, %s);", dtype_info[to.element].name,
       address(&x, &to, v->type.rank, x.index), argument_at(&x, from, false));
  for (int i = 0; i < v->type.rank; i++) close_block(g);
}

static void emit_arm(Gen *g, Instr *v, int arm) {
  emit_region(g, v->regions[arm]);
  if (has_result(v)) keep_result(g, v, v->regions[arm]);
}

// Nothing but values that nobody outside reads.
static bool is_idle(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (!has_result(v) || op_info[v->op].class == OPC_CONTROL) return false;
  }
  return true;
}

static void emit_if(Gen *g, Instr *v) {
  if (!has_result(v) && is_idle(v->regions[0]) && is_idle(v->regions[1])) return;
  if (has_result(v) && v->type.rank == 0) {
    val(v)->scalar = lasting_name(g, text(g, "v%d", v->id));
    line(g, "%s %s;", scalar_type(v->type.dtype), val(v)->scalar);
  }
  open_block(g, "if (%s)", scalar_text(g, v->args[0]));
  emit_arm(g, v, 0);
  if (v->regions[1] && v->regions[1]->instrs.count) {
    g->indent--;
    open_block(g, "} else");
    emit_arm(g, v, 1);
  }
  close_block(g);
}

static void emit_for(Gen *g, Instr *v) {
  const char *i = lasting_name(g, v->regions[0]->arg->text ? v->regions[0]->arg->text : "t"),
             *end = lasting_name(g, text(g, "%s_end", i));
  val(v->regions[0]->arg)->scalar = i;
  line(g, "const int64_t %s = %s;", end, scalar_text(g, v->args[1]));
  open_block(g, "for (int64_t %s = %s; %s < %s; %s++)", i, scalar_text(g, v->args[0]), i, end, i);
  emit_region(g, v->regions[0]);
  close_block(g);
}

static void emit_while(Gen *g, Instr *v) {
  open_block(g, "for (;;)");
  emit_region(g, v->regions[0]);
  const Region *condition = v->regions[0];
  line(g, "if (!(%s)) break;", scalar_text(g, ir_yielded(condition, 0)));
  emit_region(g, v->regions[1]);
  close_block(g);
}

static void emit_print(Gen *g, Instr *v) {
  int values = 0;
  for (int i = 0; i < v->nargs; i++) values += v->args[i]->type.rank == 0;
  const char *list = "";
  for (int i = 0; i < v->nargs; i++)
    if (v->args[i]->type.rank == 0)
      list = text(g, "%s%s(double)%s", list, *list ? ", " : "", scalar_text(g, v->args[i]));
  if (values)
    line(g, "pk_print(worker, %s, %d, (const double[]){%s});", quoted(g, v->text), values, list);
  else
    line(g, "pk_print(worker, %s, 0, NULL);", quoted(g, v->text));
}

static void emit_control(Gen *g, Instr *v) {
  switch (v->op) {
    case OP_IF:
      emit_if(g, v);
      break;
    case OP_FOR:
      emit_for(g, v);
      break;
    case OP_WHILE:
      emit_while(g, v);
      break;
    case OP_BREAK:
      line(g, "break;");
      break;
    case OP_NAMED:
      line(g, "pk_trace_begin(worker, %s);", quoted(g, v->text));
      emit_region(g, v->regions[0]);
      line(g, "pk_trace_end(worker);");
      break;
    case OP_SCOPED:
      clear_semaphores(g, v);
      emit_region(g, v->regions[0]);
      break;
    case OP_PRINT:
      emit_print(g, v);
      break;
    case OP_ASSERT:
      line(g, "if (!(%s)) pk_fail(worker, %s);", scalar_text(g, v->args[0]),
           quoted(g, text(g, "line %d: %s", line_of(g, v->span),
                          v->text ? v->text : "assertion failed")));
      break;
    case OP_WRITEBACK:
    case OP_FETCH:
    case OP_YIELD:
      break;
    default:
      emit_dma(g, v);
  }
}

void emit_region(Gen *g, Region *region) {
  for (int i = 0; i < g->k->refs.count; i++)
    if (g->refs[i].fetch_at == region) {
      print_fetch(g, &g->refs[i]);
      emit_fetch(g, &g->refs[i]);
    }
  Schedule *s = schedule_region(g, region);
  place_values(g, s);
  for (int i = 0; i < s->groups.count; i++) {
    Group *group = s->groups.at[i];
    print_group(g, group);
    if (group->kind == GROUP_ROWS)
      emit_rows(g, group);
    else if (group->kind == GROUP_GENERIC)
      emit_generic(g, group->instr);
    else if (group->kind == GROUP_SCALAR)
      emit_scalar(g, group->instr);
    else
      emit_control(g, group->instr);
  }
}
