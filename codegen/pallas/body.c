// Statements of a kernel's body: control flow becomes functions, whose arguments and results are
// the vars that they change.
#include "codegen/ir/text.h"
#include "codegen/pallas/internal.h"

#include <string.h>

// ---- the effects of a region

typedef struct {
  int *ids, count;  // vars that have a value before and are assigned inside, by id
  uint64_t refs;    // refs that are stored to, as bits
} Changes;

static void find_changes(Py *p, const Region *region, bool *assigned, uint64_t *refs, int loops) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_STORE) {
      assigned[v->ref->id] = true;
      *refs |= (uint64_t)1 << v->ref->id % 64;
    }
    if (v->target) *refs |= (uint64_t)1 << v->target->id % 64;
    if (v->op == OP_BREAK && loops == 0) assigned[p->k->refs.count + p->loops] = true;
    int inner = v->op == OP_FOR || v->op == OP_WHILE;
    find_changes(p, v->regions[0], assigned, refs, loops + inner);
    find_changes(p, v->regions[1], assigned, refs, loops + inner);
  }
}

static Changes list_changes(Py *p, const bool *assigned, uint64_t refs) {
  Changes changes = {NEW_ARRAY(p->arena, int, p->vars), 0, refs};
  for (int id = 0; id < p->vars; id++) {
    bool carried = id >= p->k->refs.count || p->is_carried[id];
    if (assigned[id] && carried && p->var[id]) changes.ids[changes.count++] = id;
  }
  return changes;
}

static Changes changes_of(Py *p, const Region *a, const Region *b) {
  bool *assigned = NEW_ARRAY(p->arena, bool, p->vars);
  uint64_t refs = 0;
  find_changes(p, a, assigned, &refs, 0);
  find_changes(p, b, assigned, &refs, 0);
  return list_changes(p, assigned, refs);
}

static const char *joined(Py *p, const char *a, const char *b) {
  return py_text(p, "%s%s%s", a, *a && *b ? ", " : "", b);
}

static const char *changed_names(Py *p, const Changes *c) {
  const char *names = "";
  for (int i = 0; i < c->count; i++) names = joined(p, names, p->var[c->ids[i]]);
  return names;
}

// Saves the vars before a nested function, to restore them after it.
static const char **save_vars(Py *p) {
  const char **saved = NEW_ARRAY(p->arena, const char *, p->vars);
  memcpy(saved, p->var, sizeof *saved * (size_t)p->vars);
  return saved;
}

static void restore_vars(Py *p, const char **saved) {
  memcpy(p->var, saved, sizeof *saved * (size_t)p->vars);
}

// ---- choices

static void put_function(Py *p, const char *head, Region *region, int from, const char *result) {
  const char **saved = save_vars(p);
  py_line(p, "%s", head);
  py_enter(p);
  size_t before = p->out->length;
  if (region) py_region(p, region, from);
  if (result && *result)
    py_line(p, "return %s", result);
  else if (p->out->length == before)
    py_line(p, "pass");
  py_leave(p);
  restore_vars(p, saved);
}

// One side of an `if` with results: the value, then the vars.
static void put_side(Py *p, const char *name, const char *names, Region *region, bool has_value) {
  const char **saved = save_vars(p);
  py_line(p, "def %s(%s):", name, names);
  py_enter(p);
  if (region) py_region(p, region, 0);
  const char *value = has_value ? py_exact(p, ir_yielded(region, 0)) : "";
  py_line(p, "return %s%s%s", value, has_value && *names ? ", " : "", names);
  py_leave(p);
  restore_vars(p, saved);
}

static void put_cond(Py *p, Instr *v, const char *condition, const Changes *changes) {
  const char *names = changed_names(p, changes), *then = py_free_name(p, "then"),
             *otherwise = py_free_name(p, "otherwise");
  put_side(p, then, names, v->regions[0], has_result(v));
  if (v->regions[1])
    put_side(p, otherwise, names, v->regions[1], has_result(v));
  else
    otherwise =
        changes->count == 1 ? py_text(p, "lambda %s: %s", names, names) : "lambda *same: same";
  const char *results = names;
  if (has_result(v)) {
    py(v)->text = py_name(p, v->text ? v->text : "chosen", v);
    py(v)->prec = PY_ATOM;
    py(v)->type = v->type;
    results = py_text(p, "%s%s%s", py(v)->text, *names ? ", " : "", names);
  }
  py_line(p, "%s = lax.cond(%s, %s, %s%s%s)", results, condition, then, otherwise,
          *names ? ", " : "", names);
}

static bool has_statements(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++)
    if (op_acts(region->instrs.at[i]->op)) return true;
  return false;
}

static void put_when(Py *p, const char *condition, Region *region, int from) {
  py_line(p, "@pl.when(%s)", condition);
  put_function(p, "def _():", region, from, NULL);
}

static void put_if(Py *p, Instr *v) {
  Changes changes = changes_of(p, v->regions[0], v->regions[1]);
  bool two = has_statements(v->regions[1]), one = has_statements(v->regions[0]);
  const char *condition = py_use(p, v->args[0], PY_CHOICE);
  py_flush(p, changes.refs);
  if (changes.count || has_result(v)) {
    put_cond(p, v, condition, &changes);
    return;
  }
  if (one && two) {
    const char *name = py_name(p, "c", NULL);
    py_line(p, "%s = %s", name, condition);
    condition = name;
  }
  if (one) put_when(p, condition, v->regions[0], 0);
  if (two) put_when(p, py_text(p, "jnp.logical_not(%s)", condition), v->regions[1], 0);
}

// ---- loops

static bool breaks(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_BREAK) return true;
    if (v->op != OP_FOR && v->op != OP_WHILE && (breaks(v->regions[0]) || breaks(v->regions[1])))
      return true;
  }
  return false;
}

// The head of a function with the carried values as parameters, of which `first` contains the first
// ones.
static void open_carry(Py *p, const char *name, const char *items, int count) {
  py_line(p, count == 1 ? "def %s(%s):" : "def %s(carry):", name, items);
  py_enter(p);
  if (count > 1) py_line(p, "%s = carry", items);
}

static const char *packed(Py *p, const char *items, int count) {
  return count == 1 ? items : py_text(p, "(%s)", items);
}

static void put_counted_loop(Py *p, Instr *v, const char *from, const char *to, const char *index,
                             const Changes *changes) {
  const char *names = changed_names(p, changes);
  if (!changes->count) {
    py_line(p, "@pl.loop(%s, %s)", from, to);
    put_function(p, py_text(p, "def _(%s):", index), v->regions[0], 0, NULL);
    return;
  }
  const char **saved = save_vars(p), *body = py_free_name(p, "body");
  py_line(p, changes->count == 1 ? "def %s(%s, %s):" : "def %s(%s, carry):", body, index, names);
  py_enter(p);
  if (changes->count > 1) py_line(p, "%s = carry", names);
  py_region(p, v->regions[0], 0);
  py_line(p, "return %s", names);
  py_leave(p);
  restore_vars(p, saved);
  py_line(p, "%s = lax.fori_loop(%s, %s, %s, %s)", names, from, to, body,
          packed(p, names, changes->count));
}

// A loop with `break`: the index and the flag are carried too.
static void put_breaking_loop(Py *p, Instr *v, const char *from, const char *to, const char *index,
                              const Changes *changes) {
  const char *names = changed_names(p, changes), *done = p->var[p->k->refs.count + p->loops];
  const char *going = py_free_name(p, "going"), *body = py_free_name(p, "body"),
             *items = joined(p, index, names);
  const char **saved = save_vars(p);
  open_carry(p, going, items, changes->count + 1);
  py_line(p, "return (%s < %s) & ~%s", index, to, done);
  py_leave(p);
  open_carry(p, body, items, changes->count + 1);
  py_region(p, v->regions[0], 0);
  py_line(p, "return %s", joined(p, py_text(p, "%s + 1", index), names));
  py_leave(p);
  restore_vars(p, saved);
  py_line(p, "_, %s = lax.while_loop(%s, %s, (jnp.int32(%s), %s))", names, going, body, from,
          names);
}

// Creates the flag for a loop's `break`, if it has one.
static bool begin_loop(Py *p, const Region *body) {
  p->loops++;
  int id = p->k->refs.count + p->loops;
  REQUIRE(id < p->vars);
  p->var[id] = NULL;
  if (!breaks(body)) return false;
  p->var[id] = py_name(p, "done", NULL);
  py_line(p, "%s = jnp.bool_(False)", p->var[id]);
  return true;
}

// The name in the source, or `t`.
static const char *index_name(Py *p, const Instr *index) {
  const Source *source = p->k->source;
  size_t length = index->span.end - index->span.start;
  if (!source || !source->text || index->span.end > source->length || length == 0) return "t";
  const char *name = arena_strndup(p->arena, source->text + index->span.start, length);
  return is_plain_name(name) && strcmp(name, "_") != 0 ? name : "t";
}

static void put_for(Py *p, Instr *v) {
  bool leaves = begin_loop(p, v->regions[0]);
  Changes changes = changes_of(p, v->regions[0], NULL);
  Instr *index = v->regions[0]->arg;
  const char *from = py_use(p, v->args[0], PY_CHOICE), *to = py_use(p, v->args[1], PY_COMPARE + 1);
  PyValue *value = py(index);
  py_flush(p, changes.refs);
  int64_t end = py(v->args[1])->bounds.high, last = end == INT64_MAX ? end : end - 1;
  *value = (PyValue){.text = py_name(p, index_name(p, index), NULL),
                     .prec = PY_ATOM,
                     .type = index->type,
                     .uses = value->uses,
                     .bounds = {py(v->args[0])->bounds.low, last}};
  if (leaves)
    put_breaking_loop(p, v, from, to, value->text, &changes);
  else
    put_counted_loop(p, v, from, to, value->text, &changes);
  p->loops--;
}

static const char *condition_text(Py *p, Region *region, const char *done) {
  py_region(p, region, 0);
  const char *text = py_use(p, ir_yielded(region, 0), done ? PY_AND : PY_CHOICE);
  return done ? py_text(p, "%s & ~%s", text, done) : text;
}

static bool reads_memory(const Py *p, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_LOAD && !p->is_carried[v->ref->id]) return true;
    for (int side = 0; side < 2; side++)
      if (v->regions[side] && reads_memory(p, v->regions[side])) return true;
  }
  return false;
}

// The values that the region reads are used once more than was counted.
static void read_twice(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int k = 0; k < v->nargs; k++) py(v->args[k])->left++;
    for (int side = 0; side < 2; side++) read_twice(v->regions[side]);
  }
}

// Conditions of lax.while_loop cannot read refs: such a condition is computed before the loop and
// at the end of each iteration, and carried.
static void put_while(Py *p, Instr *v) {
  bool leaves = begin_loop(p, v->regions[1]), reads = reads_memory(p, v->regions[0]);
  const char *done = leaves ? p->var[p->k->refs.count + p->loops] : NULL;
  Changes changes = changes_of(p, v->regions[1], NULL);
  py_flush(p, changes.refs);
  const char *names = changed_names(p, &changes),
             *going = reads ? py_name(p, "going", NULL) : py_free_name(p, "going"),
             *body = py_free_name(p, "body");
  const char **saved = save_vars(p);
  int count = changes.count + reads;
  if (reads) {
    read_twice(v->regions[0]);
    py_line(p, "%s = %s", going, condition_text(p, v->regions[0], NULL));
    names = joined(p, going, names);
  } else {
    open_carry(p, going, names, count);
    py_line(p, "return %s", condition_text(p, v->regions[0], done));
    py_leave(p);
  }
  open_carry(p, body, names, count);
  py_region(p, v->regions[1], 0);
  if (reads) py_line(p, "%s = %s", going, condition_text(p, v->regions[0], done));
  py_line(p, "return %s", count ? names : "carry");
  py_leave(p);
  restore_vars(p, saved);
  const char *test = !reads       ? going
                     : count == 1 ? py_text(p, "lambda %s: %s", going, going)
                                  : "lambda carry: carry[0]";
  py_line(p, "%s = lax.while_loop(%s, %s, %s)", count ? names : "_", test, body,
          packed(p, names, count));
  p->loops--;
}

// ---- the others

static void put_named(Py *p, Instr *v) {
  py_line(p, "with jax.named_scope(%s):", py_quoted(p, v->text));
  p->indent++;
  size_t before = p->out->length;
  py_region(p, v->regions[0], 0);
  if (p->out->length == before) py_line(p, "pass");
  p->indent--;
}

// The body becomes a function of its scratch, which is called at once.
static void put_scoped(Py *p, Instr *v) {
  Changes changes = changes_of(p, v->regions[0], NULL);
  const char *names = changed_names(p, &changes), *parameters = "", *memory = "",
             *scope = py_free_name(p, "scope");
  for (int i = 0; i < p->k->refs.count; i++) {
    if (p->k->refs.at[i]->scope != v) continue;
    parameters = joined(p, parameters, p->ref[i]);
    memory = py_text(p, "%s, %s", memory, py_scratch(p, p->k->refs.at[i]));
  }
  for (int i = 0; i < changes.count; i++)
    parameters =
        joined(p, parameters, py_text(p, "%s=%s", p->var[changes.ids[i]], p->var[changes.ids[i]]));
  py_flush(p, changes.refs);
  put_function(p, py_text(p, "def %s(%s):", scope, parameters), v->regions[0], 0, names);
  py_line(p, "%s%spl.run_scoped(%s%s)", names, *names ? " = " : "", scope, memory);
}

static void put_print(Py *p, Instr *v) {
  const char *text = py_quoted(p, v->text);
  for (int i = 0; i < v->nargs; i++) text = py_text(p, "%s, %s", text, py_exact(p, v->args[i]));
  py_line(p, "pl.debug_print(%s)", text);
}

// After a statement that may leave the loop: the rest of the region runs only if it did not.
static void put_rest(Py *p, Region *region, int from) {
  Region rest = *region;
  rest.instrs.at += from, rest.instrs.count -= from;
  Changes changes = changes_of(p, &rest, NULL);
  const char *done = p->var[p->k->refs.count + p->loops];
  if (!has_statements(&rest)) return;
  py_flush(p, ~(uint64_t)0);
  if (!changes.count) {
    put_when(p, py_text(p, "~%s", done), region, from);
    return;
  }
  const char *names = changed_names(p, &changes), *name = py_free_name(p, "rest");
  put_function(p, py_text(p, "def %s(%s):", name, names), region, from, names);
  const char *same =
      changes.count == 1 ? py_text(p, "lambda %s: %s", names, names) : "lambda *same: same";
  py_line(p, "%s = lax.cond(%s, %s, %s, %s)", names, done, same, name, names);
}

// Writes one instruction of the kernel's body.
static void put_instr(Py *p, Instr *v, const Region *here) {
  switch (v->op) {
    case OP_STORE:
      py_store(p, v);
      break;
    case OP_IF:
      put_if(p, v);
      break;
    case OP_FOR:
      put_for(p, v);
      break;
    case OP_WHILE:
      put_while(p, v);
      break;
    case OP_BREAK:
      py_line(p, "%s = jnp.bool_(True)", p->var[p->k->refs.count + p->loops]);
      break;
    case OP_NAMED:
      put_named(p, v);
      break;
    case OP_SCOPED:
      put_scoped(p, v);
      break;
    case OP_PIPELINE:
      py_pipeline(p, v);
      break;
    case OP_MOVE:
      py_fail(p, v->span, "a view of a part of a view that is not a window of its ref");
      break;
    case OP_COPY_START:
    case OP_COPY_WAIT:
    case OP_REMOTE_START:
      py_copy(p, v);
      break;
    case OP_SEM_SIGNAL:
    case OP_REMOTE_SIGNAL:
    case OP_SEM_WAIT:
    case OP_SEM_READ:
      py_semaphore(p, v);
      break;
    case OP_PRINT:
      put_print(p, v);
      break;
    case OP_ASSERT:
      py_line(p, "pl.debug_check(%s, %s)", py_use(p, v->args[0], PY_CHOICE), py_quoted(p, v->text));
      break;
    case OP_FETCH:
    case OP_WRITEBACK:
    case OP_YIELD:
      break;
    default:
      if (op_acts(v->op))
        py_fail(p, v->span, "`%s`", op_info[v->op].name);
      else
        py_value(p, v, here);
  }
}

static bool may_leave(const Instr *v) {
  bool loop = v->op == OP_FOR || v->op == OP_WHILE;
  return !loop && (breaks(v->regions[0]) || breaks(v->regions[1]));
}

void py_region(Py *p, Region *region, int from) {
  for (int i = from; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (py_is_choice(v))
      py_value(p, v, region);
    else
      put_instr(p, v, region);
    if (v->op == OP_BREAK) return;
    if (may_leave(v)) {
      put_rest(p, region, i + 1);
      return;
    }
  }
}
