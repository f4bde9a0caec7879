// Reads the text form of the block IR. Any IR that it accepts can be printed; verify.c checks the
// rules.
#include "codegen/ir/words.h"
#include "codegen/ir/names.h"

#include <string.h>

enum { MAX_NESTING = 200 };

// ---- types, refs, values

static int find_size(Reader *r) {
  int found = -1;
  if (r->token.kind == T_HASH && r->token.number < r->k->sizes.count) found = (int)r->token.number;
  if (r->token.kind == T_NAME)
    for (int i = 0; i < r->k->sizes.count && found < 0; i++)
      if (r->k->sizes.at[i].name == r->token.text) found = i;
  if (found < 0)
    complain(r, "no such size", "");
  else
    advance(r);
  return found < 0 ? 0 : found;
}

static int find_grid_axis(Reader *r) {
  int found = -1;
  if (r->token.kind == T_HASH && r->token.number < r->k->grid.count) found = (int)r->token.number;
  if (r->token.kind == T_NAME)
    for (int i = 0; i < r->k->grid.count && found < 0; i++)
      if (r->k->grid.at[i].name == r->token.text) found = i;
  if (found < 0)
    complain(r, "no such grid axis", "");
  else
    advance(r);
  return found < 0 ? 0 : found;
}

static int find_mesh_axis(Reader *r) {
  int found = -1;
  for (int i = 0; r->token.kind == T_NAME && i < r->k->mesh.count && found < 0; i++)
    if (r->k->mesh.at[i].name == r->token.text) found = i;
  if (found < 0)
    complain(r, "no such mesh axis", "");
  else
    advance(r);
  return found < 0 ? 0 : found;
}

static Dim read_dim(Reader *r) {
  if (r->token.kind != T_NUMBER) return dim_of_size(find_size(r));
  int64_t value = expect_int(r);
  if (value < 0) complain(r, "a negative extent", "");
  return value;
}

static Type read_type(Reader *r) {
  Type type = type_scalar(DT_COUNT);
  if (r->token.kind == T_NAME) type.dtype = dtype_by_name(r->token.text);
  if (type.dtype == DT_COUNT && !at_name(r, "none")) complain(r, "expected a dtype", "");
  advance(r);
  if (!accept_mark(r, '[')) return type;
  do {
    if (type.rank == MAX_RANK)
      complain(r, "too many axes", "");
    else
      type.dim[type.rank++] = read_dim(r);
  } while (!r->failed && accept_mark(r, ','));
  expect_mark(r, ']');
  return type;
}

static Ref *find_ref(Reader *r) {
  Ref *found = NULL;
  int refs = r->k->refs.count, count = refs + r->k->states.count;
  for (int i = 0; r->token.kind == T_REF && i < count && !found; i++) {
    Ref *ref = i < refs ? r->k->refs.at[i] : r->k->states.at[i - refs];
    if (r->token.text ? ref->name == r->token.text : r->token.number == i) found = ref;
  }
  if (found)
    advance(r);
  else
    complain(r, "no such ref", "");
  return found;
}

static void define_value(Reader *r, int64_t id, Instr *instr) {
  if (id >= r->value_capacity) {
    int wider = (int)id * 2 + 64;
    Instr **values = NEW_ARRAY(r->arena, Instr *, wider);
    if (r->value_capacity) memcpy(values, r->values, sizeof *values * (size_t)r->value_capacity);
    r->values = values;
    r->value_capacity = wider;
  }
  if (r->values[id]) complain(r, "this id is taken", "");
  r->values[id] = instr;
  instr->id = (int)id;
  if (id >= r->k->next_id) r->k->next_id = (int)id + 1;
}

static Instr *find_value(Reader *r) {
  bool known =
      r->token.kind == T_VALUE && r->token.number < r->value_capacity && r->values[r->token.number];
  if (!known) {
    complain(r, "expected a value defined before", "");
    return NULL;
  }
  Instr *value = r->values[r->token.number];
  advance(r);
  return value;
}

typedef LIST(Instr *) Values;

static void read_values(Reader *r, Values *values) {
  if (r->token.kind != T_VALUE) return;
  do {
    Instr *value = find_value(r);
    if (value) LIST_PUSH(r->arena, values, value);
  } while (!r->failed && accept_mark(r, ','));
}

// ---- instructions

static Region *read_region(Reader *r, Instr *arg);

static void read_ints(Reader *r, const char *word, int64_t *ints, int count) {
  if (word) expect_name(r, word);
  expect_mark(r, '(');
  for (int i = 0; i < count && !r->failed; i++) {
    if (i) expect_mark(r, ',');
    ints[i] = expect_int(r);
  }
  expect_mark(r, ')');
}

static void read_axes(Reader *r, Instr *instr) {
  expect_name(r, "axes");
  expect_mark(r, '(');
  while (!r->failed && !at_mark(r, ')')) {
    int64_t axis = expect_int(r);
    if (axis < 0 || axis >= MAX_RANK)
      complain(r, "no such axis", "");
    else
      instr->ival |= (int64_t)1 << axis;
    if (!accept_mark(r, ',')) break;
  }
  expect_mark(r, ')');
}

static void read_labels(Reader *r, Instr *instr, const Values *args) {
  const char *text = r->token.kind == T_STRING && args->count == 2 ? r->token.text : NULL;
  if (!text) return complain(r, "expected two operands and labels", "");
  int8_t *labels[] = {instr->labels.a, instr->labels.b, instr->labels.out};
  int ranks[] = {args->at[0]->type.rank, args->at[1]->type.rank, instr->type.rank};
  static const char *const behind[] = {",", "->", ""};
  for (int i = 0; i < 3; i++) {
    for (int axis = 0; axis < ranks[i]; axis++, text++) {
      if (*text < 'a' || *text >= 'a' + DOT_LABELS)
        return complain(r, "labels do not fit the operands", "");
      labels[i][axis] = (int8_t)(*text - 'a');
    }
    if (strncmp(text, behind[i], strlen(behind[i])) != 0)
      return complain(r, "labels do not fit the operands", "");
    text += strlen(behind[i]);
  }
  if (*text) return complain(r, "labels do not fit the operands", "");
  advance(r);
}

static void push_value(Reader *r, Values *args) {
  Instr *value = find_value(r);
  if (value) LIST_PUSH(r->arena, args, value);
}

// A window of a ref or view of that type. lengths: receives those of a copy's window; NULL: none
// are allowed.
static void read_window_of(Reader *r, const Type *type, Window *w, Values *args, Values *lengths) {
  expect_mark(r, '[');
  for (int i = 0; i < type->rank && !r->failed; i++) {
    if (i) expect_mark(r, ',');
    push_value(r, args);
    w->stride[i] = 1;
    w->size[i] = 1;
    w->squeeze[i] = !accept_mark(r, ':');
    if (w->squeeze[i]) continue;
    w->length[i] = lengths && r->token.kind == T_VALUE;
    if (w->length[i])
      push_value(r, lengths);
    else
      w->size[i] = read_dim(r);
    if (accept_name(r, "step")) w->stride[i] = expect_int(r);
  }
  expect_mark(r, ']');
}

static ChainStep read_step(Reader *r, ChainKind kind, const Type *before, Values *starts) {
  ChainStep step = {.kind = kind, .type = *before};
  if (kind == CHAIN_WINDOW) {
    read_window_of(r, before, &step.window, starts, NULL);
    step.type = ir_window_type(before, &step.window);
  } else if (kind == CHAIN_TRANSPOSE) {
    expect_mark(r, '(');
    for (int i = 0; i < before->rank && !r->failed; i++) {
      if (i) expect_mark(r, ',');
      int64_t axis = expect_int(r);
      if (axis < 0 || axis >= before->rank) return complain(r, "no axis of the view", ""), step;
      step.perm[i] = (int)axis;
      step.type.dim[i] = before->dim[axis];
    }
    expect_mark(r, ')');
  } else {
    step.type = read_type(r);
  }
  return step;
}

// The steps of a view, if there are any.
static const Chain *read_chain(Reader *r, const Ref *ref, Values *starts) {
  LIST(ChainStep) steps = {0};
  const Type *before = &ref->type;
  for (int kind = 0; kind < CHAIN_KINDS && !r->failed; kind++) {
    if (!accept_name(r, chain_names[kind])) continue;
    ChainStep step = read_step(r, (ChainKind)kind, before, starts);
    LIST_PUSH(r->arena, &steps, step);
    before = &steps.at[steps.count - 1].type;
    kind = -1;
  }
  if (steps.count == 0) return NULL;
  Chain *chain = NEW(r->arena, Chain);
  *chain = (Chain){steps.count, steps.at};
  return chain;
}

static void read_window(Reader *r, Instr *instr, Values *args) {
  instr->ref = find_ref(r);
  if (!instr->ref) return;
  read_window_of(r, &instr->ref->type, &instr->window, args, NULL);
  if (instr->op == OP_STORE) {
    expect_mark(r, ',');
    push_value(r, args);
  }
  if (accept_name(r, "open")) instr->flags |= INSTR_OPEN;
  if (accept_name(r, "mask")) push_value(r, args), instr->flags |= INSTR_MASKED;
  if (accept_name(r, "other")) push_value(r, args), instr->flags |= INSTR_OTHER;
}

// One element of an array of semaphores.
static Ref *read_element(Reader *r, Values *args) {
  Ref *semaphore = find_ref(r);
  expect_mark(r, '[');
  for (int i = 0; semaphore && i < semaphore->type.rank && !r->failed; i++) {
    if (i) expect_mark(r, ',');
    push_value(r, args);
  }
  expect_mark(r, ']');
  return semaphore;
}

static void read_device(Reader *r, Values *args) {
  expect_name(r, "device");
  expect_mark(r, '(');
  for (int i = 0; i < r->k->mesh.count && !r->failed; i++) {
    if (i) expect_mark(r, ',');
    push_value(r, args);
  }
  expect_mark(r, ')');
}

// Reads the windows of a copy.
static void read_copy(Reader *r, Instr *instr, Values *args) {
  Values lengths = {0}, same = {0}, starts = {0};
  if (!(instr->ref = find_ref(r))) return;
  instr->chain = read_chain(r, instr->ref, &starts);
  read_window_of(r, ir_seen(instr->ref, instr->chain), &instr->window, args, &lengths);
  expect_name(r, "to");
  if (!(instr->target = find_ref(r))) return;
  instr->target_chain = read_chain(r, instr->target, &starts);
  read_window_of(r, ir_seen(instr->target, instr->target_chain), &instr->target_window, args,
                 &same);
  bool paired = lengths.count == same.count;
  for (int i = 0; paired && i < same.count; i++) paired = lengths.at[i] == same.at[i];
  if (!paired) complain(r, "the lengths of both windows are the same values", "");
  if (instr->op != OP_MOVE) expect_name(r, "on"), instr->semaphore = read_element(r, args);
  if (instr->op == OP_REMOTE_START) {
    expect_name(r, "receive");
    instr->receive = read_element(r, args);
    read_device(r, args);
  }
  if (accept_name(r, "priority")) instr->ival = expect_int(r);
  if (accept_name(r, "edge")) instr->flags |= INSTR_EDGE;
  if (accept_name(r, "other")) push_value(r, args), instr->flags |= INSTR_OTHER;
  for (int i = 0; i < starts.count; i++) LIST_PUSH(r->arena, args, starts.at[i]);
  for (int i = 0; i < lengths.count; i++) LIST_PUSH(r->arena, args, lengths.at[i]);
}

static void read_semaphore(Reader *r, Instr *instr, Values *args) {
  instr->semaphore = read_element(r, args);
  if (instr->op == OP_SEM_READ) return;
  expect_mark(r, ',');
  push_value(r, args);
  if (instr->op == OP_REMOTE_SIGNAL) read_device(r, args);
}

static void read_scoped(Reader *r, Instr *instr) {
  expect_mark(r, '(');
  while (!r->failed && !at_mark(r, ')')) {
    Ref *ref = find_ref(r);
    if (ref) ref->scope = instr;
    if (!accept_mark(r, ',')) break;
  }
  expect_mark(r, ')');
}

static Instr *read_variable(Reader *r, int64_t *id) {
  Instr *arg = NEW(r->arena, Instr);
  arg->op = OP_ARG;
  arg->type = type_scalar(DT_I64);
  *id = r->token.number;
  if (r->token.kind != T_VALUE) complain(r, "expected the loop's variable", "");
  advance(r);
  return arg;
}

static void read_for(Reader *r, Instr *instr, Values *args) {
  int64_t id;
  Instr *arg = read_variable(r, &id);
  expect_name(r, "in");
  read_values(r, args);
  if (!r->failed) define_value(r, id, arg);
  instr->regions[0] = read_region(r, arg);
}

static void read_pipeline(Reader *r, Instr *instr, Values *args) {
  static const char *const before[] = {"at", "do"};
  read_scoped(r, instr);
  if (accept_name(r, "over")) read_values(r, args);
  for (int i = 0; i < 2; i++) {
    int64_t id;
    expect_name(r, before[i]);
    Instr *arg = read_variable(r, &id);
    if (!r->failed) define_value(r, id, arg);
    instr->regions[i] = read_region(r, arg);
  }
}

static void read_control(Reader *r, Instr *instr, Attribute attribute, Values *args) {
  if (attribute == ATTR_FOR) return read_for(r, instr, args);
  if (attribute == ATTR_PIPELINE) return read_pipeline(r, instr, args);
  if (attribute == ATTR_IF) read_values(r, args);
  if (attribute == ATTR_NAMED) instr->text = expect_string(r);
  if (attribute == ATTR_SCOPED) read_scoped(r, instr);
  instr->regions[0] = read_region(r, NULL);
  if (attribute == ATTR_WHILE) expect_name(r, "do");
  if (attribute == ATTR_WHILE || (attribute == ATTR_IF && accept_name(r, "else")))
    instr->regions[1] = read_region(r, NULL);
}

static void read_value(Reader *r, Instr *instr) {
  if (instr->type.dtype != DT_COUNT && is_float(instr->type.dtype))
    instr->fval = expect_float(r);
  else
    instr->ival = expect_int(r);
}

// Reads the attribute of an instruction, such as its axis or permutation.
static void read_attribute(Reader *r, Instr *instr, const Values *args) {
  int rank = instr->type.rank;
  switch (op_info[instr->op].attribute) {
    case ATTR_VALUE:
      read_value(r, instr);
      break;
    case ATTR_AXIS:
      expect_name(r, "axis"), instr->ival = expect_int(r);
      break;
    case ATTR_AXES:
      read_axes(r, instr);
      break;
    case ATTR_SIZE:
      instr->ival = find_size(r);
      break;
    case ATTR_GRID_AXIS:
      instr->ival = find_grid_axis(r);
      break;
    case ATTR_MESH_AXIS:
      instr->ival = find_mesh_axis(r);
      break;
    case ATTR_REF:
      instr->ref = find_ref(r);
      break;
    case ATTR_PERMUTATION:
      read_ints(r, "perm", instr->ints, rank);
      break;
    case ATTR_SLICE:
      read_ints(r, "from", instr->ints, rank), read_ints(r, "step", instr->ints2, rank);
      break;
    case ATTR_PAD:
      read_ints(r, "low", instr->ints, rank), read_ints(r, "high", instr->ints2, rank);
      break;
    case ATTR_LABELS:
      read_labels(r, instr, args);
      for (int i = 1; i < PRECISIONS; i++)
        if (accept_name(r, precision_names[i])) instr->ival = i;
      break;
    default:
      break;
  }
  if (accept_name(r, "reverse")) instr->flags |= INSTR_REVERSE;
}

static void read_text(Reader *r, Instr *instr, Attribute attribute, Values *args) {
  if (attribute == ATTR_TEXT) read_values(r, args);
  instr->text = expect_string(r);
  if (attribute == ATTR_TEXT) return;
  expect_mark(r, '(');
  read_values(r, args);
  expect_mark(r, ')');
}

// Reads the arguments of an instruction, with those of its window or attribute.
static void read_operands(Reader *r, Instr *instr) {
  Values args = {0};
  Attribute attribute = op_info[instr->op].attribute;
  if (attribute == ATTR_WINDOW) {
    read_window(r, instr, &args);
  } else if (attribute == ATTR_COPY) {
    read_copy(r, instr, &args);
  } else if (attribute == ATTR_SEMAPHORE) {
    read_semaphore(r, instr, &args);
  } else if (attribute == ATTR_PRINT || attribute == ATTR_TEXT) {
    read_text(r, instr, attribute, &args);
  } else if (attribute >= ATTR_IF) {
    read_control(r, instr, attribute, &args);
  } else {
    read_values(r, &args);
    read_attribute(r, instr, &args);
  }
  instr->args = args.at ? args.at : NEW_ARRAY(r->arena, Instr *, 1);
  instr->nargs = args.count;
  if (op_info[instr->op].nargs >= 0 && instr->nargs != op_info[instr->op].nargs)
    complain(r, "wrong number of arguments", "");
}

// Reads one instruction.
static Instr *read_instr(Reader *r) {
  Instr *instr = NEW(r->arena, Instr);
  instr->type = type_scalar(DT_COUNT);
  uint32_t start = r->token.start;
  int64_t id = -1;
  if (r->token.kind == T_VALUE) {
    id = r->token.number;
    advance(r);
    expect_mark(r, ':');
    instr->type = read_type(r);
    if (!r->failed && !has_result(instr)) complain(r, "expected a dtype", "");
    expect_mark(r, '=');
  }
  instr->op = r->token.kind == T_NAME ? op_by_name(r->token.text) : OP_COUNT;
  if (instr->op == OP_COUNT || instr->op == OP_ARG) complain(r, "expected an operation", "");
  if (r->failed) return instr;
  bool wants = op_has_result(instr->op);
  if (instr->op != OP_IF && wants != (id >= 0))
    complain(r, wants ? "this operation has a result" : "this operation has no result", "");
  advance(r);
  read_operands(r, instr);
  instr->span = read_span(r, start);
  if (r->failed) return instr;
  if (id >= 0)
    define_value(r, id, instr);
  else
    LIST_PUSH(r->arena, &r->unnamed, instr);
  return instr;
}

static Region *read_region(Reader *r, Instr *arg) {
  Region *region = NEW(r->arena, Region);
  region->arg = arg;
  if (++r->depth > MAX_NESTING) complain(r, "regions are nested too deeply", "");
  expect_mark(r, '{');
  while (!r->failed && !at_mark(r, '}')) {
    Instr *instr = read_instr(r);
    LIST_PUSH(r->arena, &region->instrs, instr);
  }
  expect_mark(r, '}');
  r->depth--;
  return region;
}

// ---- the kernel

static void read_blocks(Reader *r, Ref *ref) {
  expect_name(r, "blocks");
  expect_mark(r, '[');
  for (int i = 0; i < ref->array.rank && !r->failed; i++) {
    if (i) expect_mark(r, ',');
    ref->squeeze[i] = at_name(r, "_") && accept_name(r, "_");
    ref->block[i] = ref->squeeze[i] ? 1 : read_dim(r);
  }
  expect_mark(r, ']');
}

static void read_pad(Reader *r, Ref *ref) {
  ref->has_pad = true;
  ref->pad = NEW(r->arena, Instr);
  ref->pad->op = OP_CONST;
  ref->pad->type = type_scalar(ref->array.dtype);
  ref->pad->args = NEW_ARRAY(r->arena, Instr *, 1);
  read_value(r, ref->pad);
  LIST_PUSH(r->arena, &r->unnamed, ref->pad);
}

static void read_shard_axis(Reader *r, Ref *ref, int axis, int place) {
  int mesh_axis = find_mesh_axis(r);
  if (place >= MOST_MESH_AXES) complain(r, "too many mesh axes", "");
  if (r->failed || place >= MOST_MESH_AXES) return;
  ref->shard[axis][place] = (int8_t)(mesh_axis + 1);
  ref->parts[axis] = (place ? ref->parts[axis] : 1) * r->k->mesh.at[mesh_axis].extent;
}

static void read_shard(Reader *r, Ref *ref) {
  expect_mark(r, '(');
  for (int i = 0; i < ref->array.rank && !r->failed; i++) {
    if (i) expect_mark(r, ',');
    if (at_name(r, "_") && accept_name(r, "_")) continue;
    bool several = accept_mark(r, '(');
    int place = 0;
    do read_shard_axis(r, ref, i, place++);
    while (several && !r->failed && accept_mark(r, ','));
    if (several) expect_mark(r, ')');
  }
  expect_mark(r, ')');
}

// Reads the array, blocks and properties of an operand.
static void read_operand(Reader *r, Ref *ref) {
  expect_name(r, "of");
  ref->array = read_type(r);
  ref->packed = accept_name(r, "packed");
  if (accept_name(r, "shard")) read_shard(r, ref);
  read_blocks(r, ref);
  ref->whole = accept_name(r, "whole");
  ref->prefetch = accept_name(r, "prefetch");
  ref->revisit = accept_name(r, "revisit");
  ref->buffers = 2;
  if (accept_name(r, "buffers")) {
    int64_t buffers = expect_int(r);
    if (buffers < 1 || buffers > MOST_BUFFERS) complain(r, "a number of buffers out of range", "");
    ref->buffers = (int)buffers;
  }
  if (accept_name(r, "alias")) ref->alias = find_ref(r);
  if (accept_name(r, "pad")) read_pad(r, ref);
  if (ref->role == REF_SCRATCH) {
    expect_name(r, "in");
    ref->operand = find_ref(r);
  }
  for (int i = 0; i < MAX_RANK; i++) ref->halo[i][0] = ref->halo[i][1] = -1;
  if (accept_name(r, "halo"))
    for (int i = 0; i < ref->array.rank && !r->failed; i++) {
      if (i) expect_mark(r, ',');
      read_ints(r, NULL, ref->halo[i], 2);
    }
  if (!at_name(r, "at")) return;
  advance(r);
  uint32_t start = r->token.start;
  int at = 0;
  while (at < AT_COUNT && !at_name(r, at_names[at])) at++;
  if (at == AT_COUNT) complain(r, "expected block, element or slice", "");
  ref->at = (AtMode)(at % AT_COUNT);
  advance(r);
  if (ref->operand) return;
  ref->index_map = read_region(r, NULL);
  ref->map_span = read_span(r, start);
}

static void read_semaphore_kind(Reader *r, Ref *ref) {
  for (int kind = 0; kind < SEMAPHORE_COUNT; kind++)
    if (accept_name(r, semaphore_names[kind])) {
      ref->semaphore = (SemaphoreKind)kind;
      return;
    }
  complain(r, "expected dma, regular or barrier", "");
}

// Reads the declaration of a ref.
static void read_ref(Reader *r, RefRole role) {
  Kernel *k = r->k;
  Ref *ref = NEW(r->arena, Ref);
  uint32_t start = r->token.start;
  ref->role = role;
  ref->id = role == REF_STATE ? k->states.count : k->refs.count;
  int number = k->refs.count + (role == REF_STATE ? ref->id : 0);
  if (role != REF_STATE && k->states.count) complain(r, "a ref after those of the reference", "");
  if (r->token.kind != T_REF || (!r->token.text && r->token.number != number))
    complain(r, "expected a ref, $name or its number", "");
  bool numbered = !r->token.text;
  ref->name = numbered ? "" : r->token.text;
  advance(r);
  if (numbered) ref->name = expect_string(r);
  expect_mark(r, ':');
  ref->type = read_type(r);
  int space = 0;
  while (space < SPACE_COUNT && !at_name(r, space_names[space])) space++;
  if (space == SPACE_COUNT) complain(r, "expected a memory space", "");
  ref->space = (Space)(space % SPACE_COUNT);
  advance(r);
  if (ref->space == SPACE_SEM) read_semaphore_kind(r, ref);
  ref->span = read_span(r, start);
  if (ref_is_operand(ref) || (role == REF_SCRATCH && at_name(r, "of"))) read_operand(r, ref);
  if (role == REF_STATE)
    LIST_PUSH(r->arena, &k->states, ref);
  else
    LIST_PUSH(r->arena, &k->refs, ref);
  k->inputs += role == REF_INPUT;
  k->outputs += role == REF_OUTPUT;
}

static void read_size(Reader *r) {
  Size size = {0};
  uint32_t start = r->token.start;
  size.name = expect_text(r);
  size.span = read_span(r, start);
  if (accept_mark(r, '=')) size.value = read_region(r, NULL);
  LIST_PUSH(r->arena, &r->k->sizes, size);
}

static void read_static(Reader *r) {
  StaticValue value = {0};
  value.name = expect_text(r);
  expect_mark(r, '=');
  value.value = expect_string(r);
  LIST_PUSH(r->arena, &r->k->statics, value);
}

static void read_grid_axis(Reader *r) {
  GridAxis axis = {0};
  uint32_t start = r->token.start;
  axis.name = expect_text(r);
  axis.parallel = at_name(r, "parallel");
  if (!accept_name(r, "parallel")) expect_name(r, "arbitrary");
  axis.span = read_span(r, start);
  axis.extent = read_region(r, NULL);
  LIST_PUSH(r->arena, &r->k->grid, axis);
}

static void read_mesh_axis(Reader *r) {
  MeshAxis axis = {0};
  uint32_t start = r->token.start;
  axis.name = expect_text(r);
  axis.extent = expect_int(r);
  if (axis.extent < 1 || axis.extent > MOST_DEVICES / ir_device_count(r->k))
    complain(r, "too few or too many devices", "");
  if (r->k->mesh.count == MOST_MESH_AXES) complain(r, "too many mesh axes", "");
  axis.span = read_span(r, start);
  if (!r->failed) LIST_PUSH(r->arena, &r->k->mesh, axis);
}

static void read_requirement(Reader *r) {
  Requirement requirement = {0};
  uint32_t start = r->token.start;
  if (r->token.kind == T_STRING) requirement.message = expect_string(r);
  requirement.span = read_span(r, start);
  requirement.condition = read_region(r, NULL);
  LIST_PUSH(r->arena, &r->k->requires, requirement);
}

static void read_item(Reader *r) {
  for (int role = 0; role < ROLE_COUNT; role++)
    if (accept_name(r, role_names[role])) return read_ref(r, (RefRole)role);
  if (accept_name(r, "size")) return read_size(r);
  if (accept_name(r, "static")) return read_static(r);
  if (accept_name(r, "grid")) return read_grid_axis(r);
  if (accept_name(r, "require")) return read_requirement(r);
  if (accept_name(r, "mesh")) return read_mesh_axis(r);
  if (accept_name(r, "vmem_limit")) {
    r->k->vmem_limit = expect_int(r);
    return;
  }
  complain(r, "expected a declaration or the body", "");
}

static void read_kernel(Reader *r) {
  Kernel *k = r->k;
  advance(r);
  expect_name(r, "kernel");
  uint32_t start = r->token.start;
  k->name = expect_text(r);
  k->symbol = name_of_kernel(k->arena, k->name, NAME_C_KERNEL, NULL, 0);
  if (accept_name(r, "from"))
    make_blank_source(r, expect_string(r));
  else
    use_own_source(r);
  if (r->failed) return;
  k->span = read_span(r, start);
  while (!r->failed && !at_name(r, "body")) read_item(r);
  expect_name(r, "body");
  k->body = read_region(r, NULL);
  if (accept_name(r, "reference")) k->reference = read_region(r, NULL);
  if (!r->failed && r->token.kind != T_END) complain(r, "text after the kernel", "");
}

Kernel *ir_parse(Arena *arena, const Source *source, Diag *diag) {
  Reader reader = {.arena = arena, .source = source, .diag = diag, .k = NEW(arena, Kernel)};
  reader.k->arena = arena;
  if (source->length > INT32_MAX) {
    complain(&reader, "the text is too long", "");
    return NULL;
  }
  read_kernel(&reader);
  if (reader.failed) return NULL;
  for (int i = 0; i < reader.unnamed.count; i++) reader.unnamed.at[i]->id = reader.k->next_id++;
  return reader.k;
}
