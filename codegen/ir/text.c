// Prints the text form of the block IR.
#include "codegen/ir/text.h"
#include "codegen/ir/flow.h"

#include <ctype.h>
#include <string.h>

const char *const space_names[] = {"vmem", "smem", "any", "sem", "var"};
const char *const at_names[] = {"block", "element", "slice"};
const char *const role_names[] = {"input", "output", "scratch", "var", "state"};
const char *const semaphore_names[] = {"dma", "regular", "barrier"};

bool is_plain_name(const char *name) {
  if (!isalpha((unsigned char)name[0]) && name[0] != '_') return false;
  for (; *name; name++)
    if (!isalnum((unsigned char)*name) && *name != '_') return false;
  return true;
}

typedef struct {
  const Kernel *k;
  Buf *out;
  int depth;
} Printer;

static void put_line(Printer *p) {
  buf_putc(p->out, '\n');
  for (int i = 0; i < p->depth; i++) buf_puts(p->out, "  ");
}

static void put_quoted(Buf *out, const char *text) {
  buf_putc(out, '"');
  for (const char *c = text ? text : ""; *c; c++) {
    unsigned char byte = (unsigned char)*c;
    if (byte == '"' || byte == '\\')
      buf_printf(out, "\\%c", byte);
    else if (byte < 32 || byte > 126)
      buf_printf(out, "\\x%02x", byte);
    else
      buf_putc(out, *c);
  }
  buf_putc(out, '"');
}

static void put_name(Buf *out, const char *name) {
  if (name && is_plain_name(name))
    buf_puts(out, name);
  else
    put_quoted(out, name);
}

static void put_span(Printer *p, Span span) {
  const Source *source = p->k->source;
  if (!source || !source->text || (span.start == 0 && span.end == 0)) return;
  int line, column, end_line, end_column;
  uint32_t limit = (uint32_t)source->length;
  source_position(source, span.start < limit ? span.start : limit, &line, &column);
  source_position(source, span.end < limit ? span.end : limit, &end_line, &end_column);
  buf_printf(p->out, " @%d:%d-%d:%d", line, column, end_line, end_column);
}

// A size or grid axis by its name where that is an identifier and the first of its kind, else by
// its number.
static void put_size(Printer *p, int64_t index) {
  const char *name = index >= 0 && index < p->k->sizes.count ? p->k->sizes.at[index].name : NULL;
  bool plain = name && is_plain_name(name);
  for (int64_t i = 0; plain && i < index; i++)
    plain = !p->k->sizes.at[i].name || strcmp(p->k->sizes.at[i].name, name) != 0;
  if (plain)
    buf_puts(p->out, name);
  else
    buf_printf(p->out, "#%lld", (long long)index);
}

static void put_grid_axis(Printer *p, int64_t index) {
  const char *name = index >= 0 && index < p->k->grid.count ? p->k->grid.at[index].name : NULL;
  bool plain = name && is_plain_name(name);
  for (int64_t i = 0; plain && i < index; i++)
    plain = !p->k->grid.at[i].name || strcmp(p->k->grid.at[i].name, name) != 0;
  if (plain)
    buf_puts(p->out, name);
  else
    buf_printf(p->out, "#%lld", (long long)index);
}

static void put_mesh_axis(Printer *p, int64_t index) {
  if (index >= 0 && index < p->k->mesh.count)
    buf_puts(p->out, p->k->mesh.at[index].name);
  else
    buf_printf(p->out, "#%lld", (long long)index);
}

// Vars of the reference are numbered after the others.
static int ref_number(const Printer *p, const Ref *ref) {
  return ref->role == REF_STATE ? p->k->refs.count + ref->id : ref->id;
}

// A ref is written $name where that is an identifier and the first of its kind, else $number.
static bool goes_by_name(const Printer *p, const Ref *ref) {
  if (!is_plain_name(ref->name)) return false;
  int number = ref_number(p, ref), refs = p->k->refs.count;
  for (int i = 0; i < number && i < refs + p->k->states.count; i++) {
    const Ref *other = i < refs ? p->k->refs.at[i] : p->k->states.at[i - refs];
    if (strcmp(other->name, ref->name) == 0) return false;
  }
  return true;
}

static void put_ref(Printer *p, const Ref *ref) {
  if (goes_by_name(p, ref))
    buf_printf(p->out, "$%s", ref->name);
  else
    buf_printf(p->out, "$%d", ref_number(p, ref));
}

static void put_dim(Printer *p, Dim dim) {
  if (dim_is_const(dim))
    buf_printf(p->out, "%lld", (long long)dim);
  else
    put_size(p, dim_size_index(dim));
}

static void put_type(Printer *p, const Type *type) {
  buf_puts(p->out, type->dtype == DT_COUNT ? "none" : dtype_info[type->dtype].name);
  if (type->rank == 0) return;
  for (int i = 0; i < type->rank; i++) {
    buf_puts(p->out, i ? ", " : "[");
    put_dim(p, type->dim[i]);
  }
  buf_putc(p->out, ']');
}

static void put_ints(Printer *p, const char *word, const int64_t *ints, int count) {
  buf_printf(p->out, " %s (", word);
  for (int i = 0; i < count; i++) buf_printf(p->out, "%s%lld", i ? ", " : "", (long long)ints[i]);
  buf_putc(p->out, ')');
}

static void put_axes(Printer *p, int64_t mask) {
  buf_puts(p->out, " axes (");
  const char *comma = "";
  for (int i = 0; i < 63; i++)
    if (mask >> i & 1) {
      buf_printf(p->out, "%s%d", comma, i);
      comma = ", ";
    }
  buf_putc(p->out, ')');
}

static void put_labels(Printer *p, const Instr *instr) {
  const int8_t *labels[] = {instr->labels.a, instr->labels.b, instr->labels.out};
  const Type *types[] = {&instr->args[0]->type, &instr->args[1]->type, &instr->type};
  static const char *const before[] = {" \"", ",", "->"};
  for (int i = 0; i < 3; i++) {
    buf_puts(p->out, before[i]);
    for (int axis = 0; axis < types[i]->rank; axis++)
      buf_putc(p->out, (char)('a' + labels[i][axis]));
  }
  buf_putc(p->out, '"');
}

static void put_args(Printer *p, const Instr *instr, int from, const char *before) {
  for (int i = from; i < instr->nargs; i++)
    buf_printf(p->out, "%s%%%d", i == from ? before : ", ", instr->args[i]->id);
}

static void put_window_of(Printer *p, const Instr *instr, const Type *type, const Window *window,
                          Instr *const *starts) {
  buf_putc(p->out, '[');
  for (int i = 0; i < type->rank; i++) {
    buf_printf(p->out, "%s%%%d", i ? ", " : "", starts[i]->id);
    if (window->squeeze[i]) continue;
    buf_puts(p->out, " : ");
    const Instr *length = ir_length(instr, window, i);
    if (length)
      buf_printf(p->out, "%%%d", length->id);
    else
      put_dim(p, window->size[i]);
    if (window->stride[i] != 1) buf_printf(p->out, " step %lld", (long long)window->stride[i]);
  }
  buf_putc(p->out, ']');
}

static void put_perm(Printer *p, const int *perm, int rank) {
  buf_putc(p->out, '(');
  for (int i = 0; i < rank; i++) buf_printf(p->out, "%s%d", i ? ", " : "", perm[i]);
  buf_puts(p->out, ") ");
}

// The steps of a view, each followed by a blank.
static void put_chain(Printer *p, const Instr *instr, bool target) {
  const Chain *chain = target ? instr->target_chain : instr->chain;
  const Type *before = target ? &instr->target->type : &instr->ref->type;
  Instr *const *starts = ir_chain_args(instr, target);
  if (chain) buf_putc(p->out, ' ');
  for (int i = 0; chain && i < chain->count; before = &chain->at[i++].type) {
    const ChainStep *step = &chain->at[i];
    buf_printf(p->out, "%s ", chain_names[step->kind]);
    if (step->kind == CHAIN_WINDOW) {
      put_window_of(p, instr, before, &step->window, starts);
      starts += before->rank;
      buf_putc(p->out, ' ');
    } else if (step->kind == CHAIN_TRANSPOSE) {
      put_perm(p, step->perm, step->type.rank);
    } else {
      put_type(p, &step->type);
      buf_putc(p->out, ' ');
    }
  }
}

static void put_end(Printer *p, const Instr *instr, bool target) {
  const Ref *ref = target ? instr->target : instr->ref;
  put_ref(p, ref);
  put_chain(p, instr, target);
  put_window_of(p, instr, ir_seen(ref, target ? instr->target_chain : instr->chain),
                target ? &instr->target_window : &instr->window, ir_starts(instr, target));
}

static void put_window(Printer *p, const Instr *instr) {
  buf_putc(p->out, ' ');
  put_end(p, instr, false);
  int next = instr->ref->type.rank;
  if (instr->op == OP_STORE && next < instr->nargs)
    buf_printf(p->out, ", %%%d", instr->args[next++]->id);
  if (instr->flags & INSTR_OPEN) buf_puts(p->out, " open");
  if (instr->flags & INSTR_MASKED && next < instr->nargs)
    buf_printf(p->out, " mask %%%d", instr->args[next++]->id);
  if (instr->flags & INSTR_OTHER && next < instr->nargs)
    buf_printf(p->out, " other %%%d", instr->args[next]->id);
}

static void put_list(Printer *p, Instr *const *values, int count) {
  for (int i = 0; i < count; i++) buf_printf(p->out, "%s%%%d", i ? ", " : "", values[i]->id);
}

static void put_element(Printer *p, const Ref *semaphore, Instr *const *index) {
  put_ref(p, semaphore);
  buf_putc(p->out, '[');
  put_list(p, index, semaphore->type.rank);
  buf_putc(p->out, ']');
}

static void put_device(Printer *p, const Instr *instr) {
  buf_puts(p->out, " device (");
  put_list(p, ir_device_index(instr), p->k->mesh.count);
  buf_putc(p->out, ')');
}

static void put_copy(Printer *p, const Instr *instr) {
  buf_putc(p->out, ' ');
  put_end(p, instr, false);
  buf_puts(p->out, " to ");
  put_end(p, instr, true);
  if (instr->op == OP_MOVE) return;
  buf_puts(p->out, " on ");
  put_element(p, instr->semaphore, ir_semaphore_index(instr));
  if (instr->op == OP_REMOTE_START) {
    buf_puts(p->out, " receive ");
    put_element(p, instr->receive, ir_receive_index(instr));
    put_device(p, instr);
  }
  if (instr->ival) buf_printf(p->out, " priority %lld", (long long)instr->ival);
  if (instr->flags & INSTR_EDGE) buf_puts(p->out, " edge");
  if (instr->flags & INSTR_OTHER)
    buf_printf(p->out, " other %%%d", instr->args[instr->nargs - 1]->id);  // no lengths then
}

static void put_semaphore(Printer *p, const Instr *instr) {
  buf_putc(p->out, ' ');
  put_element(p, instr->semaphore, ir_semaphore_index(instr));
  if (instr->op != OP_SEM_READ) buf_printf(p->out, ", %%%d", ir_amount(instr)->id);
  if (instr->op == OP_REMOTE_SIGNAL) put_device(p, instr);
}

static void put_scoped(Printer *p, const Instr *instr) {
  const char *before = " (";
  for (int i = 0; i < p->k->refs.count; i++)
    if (p->k->refs.at[i]->scope == instr) {
      buf_puts(p->out, before);
      put_ref(p, p->k->refs.at[i]);
      before = ", ";
    }
  buf_puts(p->out, before[1] == '(' ? " ()" : ")");
}

static void put_region(Printer *p, const Region *region);

static void put_value(Printer *p, const Instr *instr) {
  if (is_float(instr->type.dtype))
    buf_printf(p->out, " %s", format_double(p->k->arena, instr->fval));
  else
    buf_printf(p->out, " %lld", (long long)instr->ival);
}

// Prints the arguments and regions of a control instruction.
static void put_control(Printer *p, const Instr *instr, Attribute attribute) {
  if (attribute == ATTR_IF) put_args(p, instr, 0, " ");
  if (attribute == ATTR_FOR) {
    if (instr->regions[0]->arg) buf_printf(p->out, " %%%d in", instr->regions[0]->arg->id);
    put_args(p, instr, 0, " ");
  }
  if (attribute == ATTR_NAMED) {
    buf_putc(p->out, ' ');
    put_quoted(p->out, instr->text);
  }
  if (attribute == ATTR_SCOPED || attribute == ATTR_PIPELINE) put_scoped(p, instr);
  if (attribute == ATTR_PIPELINE) {
    put_args(p, instr, 0, " over ");
    buf_printf(p->out, " at %%%d", instr->regions[0]->arg->id);
  }
  put_region(p, instr->regions[0]);
  if (!instr->regions[1]) return;
  buf_puts(p->out, attribute == ATTR_IF ? " else" : " do");
  if (attribute == ATTR_PIPELINE) buf_printf(p->out, " %%%d", instr->regions[1]->arg->id);
  put_region(p, instr->regions[1]);
}

static void put_text(Printer *p, const Instr *instr, Attribute attribute) {
  if (attribute == ATTR_TEXT) put_args(p, instr, 0, " ");
  buf_putc(p->out, ' ');
  put_quoted(p->out, instr->text);
  if (attribute == ATTR_TEXT) return;
  buf_puts(p->out, " (");
  put_args(p, instr, 0, "");
  buf_putc(p->out, ')');
}

// Prints the attribute of an instruction.
static void put_attribute(Printer *p, const Instr *instr) {
  int rank = instr->type.rank;
  switch (op_info[instr->op].attribute) {
    case ATTR_VALUE:
      put_value(p, instr);
      break;
    case ATTR_AXIS:
      buf_printf(p->out, " axis %lld", (long long)instr->ival);
      break;
    case ATTR_AXES:
      put_axes(p, instr->ival);
      break;
    case ATTR_SIZE:
      buf_putc(p->out, ' '), put_size(p, instr->ival);
      break;
    case ATTR_GRID_AXIS:
      buf_putc(p->out, ' '), put_grid_axis(p, instr->ival);
      break;
    case ATTR_MESH_AXIS:
      buf_putc(p->out, ' '), put_mesh_axis(p, instr->ival);
      break;
    case ATTR_REF:
      buf_putc(p->out, ' '), put_ref(p, instr->ref);
      break;
    case ATTR_PERMUTATION:
      put_ints(p, "perm", instr->ints, rank);
      break;
    case ATTR_SLICE:
      put_ints(p, "from", instr->ints, rank), put_ints(p, "step", instr->ints2, rank);
      break;
    case ATTR_PAD:
      put_ints(p, "low", instr->ints, rank), put_ints(p, "high", instr->ints2, rank);
      break;
    case ATTR_LABELS:
      put_labels(p, instr);
      if (instr->ival) buf_printf(p->out, " %s", precision_names[instr->ival]);
      break;
    default:
      break;
  }
  if (instr->flags & INSTR_REVERSE) buf_puts(p->out, " reverse");
}

// Prints one instruction.
static void put_instr(Printer *p, const Instr *instr) {
  put_line(p);
  if (has_result(instr)) {
    buf_printf(p->out, "%%%d: ", instr->id);
    put_type(p, &instr->type);
    buf_puts(p->out, " = ");
  }
  buf_puts(p->out, op_info[instr->op].name);
  Attribute attribute = op_info[instr->op].attribute;
  if (attribute == ATTR_WINDOW) {
    put_window(p, instr);
  } else if (attribute == ATTR_COPY) {
    put_copy(p, instr);
  } else if (attribute == ATTR_SEMAPHORE) {
    put_semaphore(p, instr);
  } else if (attribute == ATTR_PRINT || attribute == ATTR_TEXT) {
    put_text(p, instr, attribute);
  } else if (attribute >= ATTR_IF) {
    put_control(p, instr, attribute);
  } else {
    put_args(p, instr, 0, " ");
    put_attribute(p, instr);
  }
  put_span(p, instr->span);
}

static void put_region(Printer *p, const Region *region) {
  buf_puts(p->out, " {");
  p->depth++;
  for (int i = 0; i < region->instrs.count; i++) put_instr(p, region->instrs.at[i]);
  p->depth--;
  put_line(p);
  buf_putc(p->out, '}');
}

// ` shard (dx, _, (dy, dz))`
static void put_shard(Printer *p, const Ref *ref) {
  bool any = false;
  for (int i = 0; i < ref->array.rank; i++) any |= ref->parts[i] > 0;
  if (!any) return;
  buf_puts(p->out, " shard (");
  for (int i = 0; i < ref->array.rank; i++) {
    const int8_t *by = ref->shard[i];
    bool several = by[0] && by[1];
    buf_puts(p->out, i ? ", " : "");
    if (!by[0]) buf_putc(p->out, '_');
    if (several) buf_putc(p->out, '(');
    for (int k = 0; k < MOST_MESH_AXES && by[k]; k++) {
      if (k) buf_puts(p->out, ", ");
      put_mesh_axis(p, by[k] - 1);
    }
    if (several) buf_putc(p->out, ')');
  }
  buf_putc(p->out, ')');
}

// Prints the array, blocks and properties of an operand.
static void put_operand(Printer *p, const Ref *ref) {
  buf_puts(p->out, " of ");
  put_type(p, &ref->array);
  if (ref->packed) buf_puts(p->out, " packed");
  put_shard(p, ref);
  buf_puts(p->out, " blocks [");
  for (int i = 0; i < ref->array.rank; i++) {
    if (i) buf_puts(p->out, ", ");
    if (ref->squeeze[i])
      buf_putc(p->out, '_');
    else
      put_dim(p, ref->block[i]);
  }
  buf_putc(p->out, ']');
  if (ref->whole) buf_puts(p->out, " whole");
  if (ref->prefetch) buf_puts(p->out, " prefetch");
  if (ref->revisit) buf_puts(p->out, " revisit");
  if (ref->buffers != 2) buf_printf(p->out, " buffers %d", ref->buffers);
  if (ref->alias) buf_puts(p->out, " alias "), put_ref(p, ref->alias);
  if (ref->has_pad && ref->pad) buf_puts(p->out, " pad"), put_value(p, ref->pad);
  if (ref->operand) {
    buf_puts(p->out, " in "), put_ref(p, ref->operand);
    buf_printf(p->out, " at %s", at_names[ref->at]);
    return;
  }
  bool bounded = false;
  for (int i = 0; i < ref->array.rank; i++) bounded |= ref->halo[i][0] >= 0 || ref->halo[i][1] >= 0;
  if (bounded && ref->at != AT_BLOCK)
    for (int i = 0; i < ref->array.rank; i++) put_ints(p, i ? "," : "halo", ref->halo[i], 2);
  if (!ref->index_map) return;
  buf_printf(p->out, " at %s", at_names[ref->at]);
  put_region(p, ref->index_map);
  put_span(p, ref->map_span);
}

static void put_ref_declaration(Printer *p, const Ref *ref) {
  put_line(p);
  buf_printf(p->out, "%s ", role_names[ref->role]);
  put_ref(p, ref);
  if (!goes_by_name(p, ref)) buf_putc(p->out, ' '), put_quoted(p->out, ref->name);
  buf_puts(p->out, ": ");
  put_type(p, &ref->type);
  buf_printf(p->out, " %s", space_names[ref->space]);
  if (ref->space == SPACE_SEM) buf_printf(p->out, " %s", semaphore_names[ref->semaphore]);
  put_span(p, ref->span);
  if (ref_is_operand(ref) || ref->operand) put_operand(p, ref);
}

// Prints a kernel's sizes and statics.
static void put_header(Printer *p) {
  const Kernel *k = p->k;
  for (int i = 0; i < k->sizes.count; i++) {
    put_line(p);
    buf_puts(p->out, "size ");
    put_name(p->out, k->sizes.at[i].name);
    put_span(p, k->sizes.at[i].span);
    if (k->sizes.at[i].value) buf_puts(p->out, " ="), put_region(p, k->sizes.at[i].value);
  }
  for (int i = 0; i < k->statics.count; i++) {
    put_line(p);
    buf_puts(p->out, "static ");
    put_name(p->out, k->statics.at[i].name);
    buf_puts(p->out, " = ");
    put_quoted(p->out, k->statics.at[i].value);
  }
  for (int i = 0; i < k->mesh.count; i++) {
    put_line(p);
    buf_printf(p->out, "mesh %s %lld", k->mesh.at[i].name, (long long)k->mesh.at[i].extent);
    put_span(p, k->mesh.at[i].span);
  }
  if (k->vmem_limit) put_line(p), buf_printf(p->out, "vmem_limit %lld", (long long)k->vmem_limit);
}

static void put_launch(Printer *p) {
  const Kernel *k = p->k;
  for (int i = 0; i < k->grid.count; i++) {
    put_line(p);
    buf_puts(p->out, "grid ");
    put_name(p->out, k->grid.at[i].name);
    buf_puts(p->out, k->grid.at[i].parallel ? " parallel" : " arbitrary");
    put_span(p, k->grid.at[i].span);
    put_region(p, k->grid.at[i].extent);
  }
  for (int i = 0; i < k->requires.count; i++) {
    put_line(p);
    buf_puts(p->out, "require");
    if (k->requires.at[i].message)
      buf_putc(p->out, ' '), put_quoted(p->out, k->requires.at[i].message);
    put_span(p, k->requires.at[i].span);
    put_region(p, k->requires.at[i].condition);
  }
}

// Prints a kernel in the form that ir_read reads.
void ir_print(const Kernel *k, Buf *out) {
  Printer printer = {k, out, 1}, *p = &printer;
  buf_puts(out, k->flow ? "program " : "kernel ");
  put_name(out, k->name);
  if (k->source && k->source->path) buf_puts(out, " from "), put_quoted(out, k->source->path);
  put_span(p, k->span);
  put_header(p);
  // Grid axes come before the operands, whose index maps name them; but extents may read prefetched
  // operands.
  int first = 0;
  while (first < k->refs.count && k->refs.at[first]->prefetch)
    put_ref_declaration(p, k->refs.at[first++]);
  put_launch(p);
  for (int i = first; i < k->refs.count; i++) put_ref_declaration(p, k->refs.at[i]);
  for (int i = 0; i < k->states.count; i++) put_ref_declaration(p, k->states.at[i]);
  if (k->flow) {
    flow_print(k, out);
  } else {
    put_line(p), buf_puts(out, "body");
    put_region(p, k->body);
  }
  if (k->reference) put_line(p), buf_puts(out, "reference"), put_region(p, k->reference);
  buf_putc(out, '\n');
  for (int i = 0; k->flow && i < k->flow->callees.count; i++) {
    buf_putc(out, '\n');
    ir_print(k->flow->callees.at[i].kernel, out);
  }
}
