// The generator's notes on the IR: a Gen before any decision, and the users of values afterwards.
#include "codegen/ir/rewrite.h"
#include "codegen/loops/loops.h"

#include <ctype.h>
#include <string.h>

typedef struct {
  Gen *g;
  int position;
} Numbering;

// When a device waits for others or signals them, others may have written the memory that they
// reach.
static void note_others(Gen *g, Instr *v, const Ref *written) {
  for (int i = 0; g->k->mesh.count && i < g->k->refs.count; i++)
    if (g->refs[i].reached && g->k->refs.at[i] != written)
      LIST_PUSH(g->arena, &g->refs[i].writers, v);
}

static void note_reached(Instr *v, void *context) {
  Gen *g = context;
  if (v->op == OP_REMOTE_START) g->refs[v->target->id].reached = true;
}

static void attach(Region *region, Numbering *n) {
  Arena *arena = n->g->arena;
  if (region->arg) {
    region->arg->note = NEW(arena, Val);
    val(region->arg)->region = region;
  }
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    v->note = NEW(arena, Val);
    val(v)->region = region;
    val(v)->position = n->position++;
    const Ref *written = v->op == OP_STORE ? v->ref : op_starts_copy(v->op) ? v->target : NULL;
    if (written) LIST_PUSH(arena, &n->g->refs[written->id].writers, v);
    if (op_is_dma(v->op)) note_others(n->g, v, written);
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) attach(v->regions[r], n);
  }
}

static void note_users(Instr *v, void *context) {
  Gen *g = context;
  for (int i = first_read(v); i < v->nargs; i++)
    if (v->args[i]->note) LIST_PUSH(g->arena, &val(v->args[i])->users, v);
}

// The names that arena.c and emission derive from an operand's name.
static const char *const operand_forms[] = {
    "%s_held",  "%s_key",     "%s_block", "%s_stream", "%s_slot",  "%s_skinny",
    "%s_small", "%s_new",     "%s_hbm",   "%s_whole",  "%s_copy",  "%s_slice",
    "%s_begun", "%s_outside", "%s_at0",   "%s_at1",    "%s_at2",   "%s_at3",
    "%s_at4",   "%s_at5",     "%s_at6",   "%s_at7",    "%s_slots", "%s_blocks_tag",
};
enum { OPERAND_FORMS = sizeof operand_forms / sizeof *operand_forms };
_Static_assert(MAX_RANK == 8, "an operand's names are those of 8 axes");

static bool is_plain(const char *name) {
  bool plain = isalpha((unsigned char)name[0]) || name[0] == '_';
  for (const char *p = name; *p; p++) plain = plain && (isalnum((unsigned char)*p) || *p == '_');
  return plain;
}

static const char *word_of(char operator) {
  switch (operator) {
    case '+':
      return "_plus_";
    case '-':
      return "_minus_";
    case '*':
      return "_times_";
    case '/':
      return "_over_";
    default:
      return "";
  }
}

// The C name of a size whose name is an expression: M_over_4 for M / 4.
static const char *size_in_words(Gen *g, const char *expression, int number) {
  enum { LONGEST = 40 };
  const char *name = "";
  for (const char *p = expression; *p && strlen(name) <= LONGEST; p++)
    name = isalnum((unsigned char)*p) || *p == '_' ? text(g, "%s%c", name, *p)
                                                   : text(g, "%s%s", name, word_of(*p));
  return is_plain(name) && strlen(name) <= LONGEST ? name : text(g, "size%d", number);
}

static void name_everything(Gen *g) {
  static const char *const axis_forms[] = {"%s", "n_%s"};
  Kernel *k = g->k;
  g->c_name.size = NEW_ARRAY(g->arena, const char *, k->sizes.count + 1);
  g->c_name.axis = NEW_ARRAY(g->arena, const char *, k->grid.count + 1);
  g->c_name.device = NEW_ARRAY(g->arena, const char *, k->mesh.count + 1);
  keep_name(&g->names, text(g, "%s_arena", k->symbol));
  keep_name(&g->names, text(g, "%s_layout", k->symbol));
  for (int i = 0; i < k->sizes.count; i++) {
    const char *name = k->sizes.at[i].name;
    g->c_name.size[i] = lasting_name(&g->names, is_plain(name) ? name : size_in_words(g, name, i));
  }
  for (int i = 0; i < k->mesh.count; i++)
    g->c_name.device[i] = lasting_name(&g->names, text(g, "device_%s", k->mesh.at[i].name));
  for (int i = 0; i < k->grid.count; i++)
    g->c_name.axis[i] = name_family(&g->names, k->grid.at[i].name, axis_forms, 2);
  for (int i = 0; i < k->refs.count; i++)
    if (ref_is_operand(k->refs.at[i]))
      g->refs[i].stem = name_family(&g->names, k->refs.at[i]->name, operand_forms, OPERAND_FORMS);
}

static void see_load(Instr *v, void *context) {
  if (v->op == OP_LOAD) *(bool *)context = true;
}

static bool launch_reads(const Kernel *k) {
  bool found = false;
  for (int i = 0; i < k->grid.count; i++) ir_walk(k->grid.at[i].extent, see_load, &found);
  for (int i = 0; i < k->requires.count; i++)
    ir_walk(k->requires.at[i].condition, see_load, &found);
  return found;
}

// Creates the generator's state for a kernel, before any decision.
Gen *gen_new(Kernel *k, const EmitOptions *options, Buf *explain_text) {
  Gen *g = NEW(k->arena, Gen);
  *g = (Gen){.k = k,
             .arena = k->arena,
             .exprs = {.arena = k->arena},
             .names = {.arena = k->arena},
             .options = options,
             .target = options->target,
             .explain = explain_text};
  g->lanes = options->target->vector_bytes / 4;
  g->panel = g->lanes * options->target->dot_vectors;
  g->refs = NEW_ARRAY(k->arena, RefGen, k->refs.count + 1);
  for (int i = 0; i < k->refs.count; i++)
    if (k->refs.at[i]->alias) g->refs[k->refs.at[i]->alias->id].shared = true;
  for (int i = 0; i < k->refs.count; i++) g->refs[i].ref = k->refs.at[i];
  g->launch_reads = launch_reads(k);
  ir_take_parts(k);
  ir_walk(k->body, note_reached, g);
  attach(k->body, &(Numbering){g, 0});
  ir_walk(k->body, note_users, g);
  name_everything(g);
  return g;
}

static void forget_users(Instr *v, void *context) {
  (void)context;
  val(v)->users.count = 0;
}

bool has_value_only(const Instr *v) { return has_result(v) && op_info[v->op].class != OPC_CONTROL; }

static void remove_unused(Gen *g, Region *region) {
  for (int i = region->instrs.count - 1; i >= 0; i--) {
    Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) remove_unused(g, v->regions[r]);
    if (!has_value_only(v) || val(v)->users.count) continue;
    for (int a = 0; a < v->nargs; a++) {
      Val *arg = val(v->args[a]);
      int kept = 0;
      for (int u = 0; u < arg->users.count; u++)
        if (arg->users.at[u] != v) arg->users.at[kept++] = arg->users.at[u];
      arg->users.count = kept;
    }
    ir_remove(region, i);
  }
}

// After masks were dropped: the users of each value, and the values without users.
void find_users_again(Gen *g) {
  ir_walk(g->k->body, forget_users, NULL);
  ir_walk(g->k->body, note_users, g);
  remove_unused(g, g->k->body);
}
