// Many devices: the mesh, shardings of operands, and how the body names other devices.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

// ---- the mesh

static bool add_mesh_axis(Lower *l, const Node *axis) {
  int64_t extent, count = ir_device_count(l->k);
  l->place = IN_SHAPE;
  Symbol *s = declare(l, SYM_MESH, axis->name, axis->name_span);
  s->index = l->k->mesh.count;
  if (!lower_static_int(l, axis->a, "the extent of a mesh axis", &extent)) return false;
  if (l->k->mesh.count == MOST_MESH_AXES) {
    diag_error(l->diag, axis->name_span, ERR_BAD_MESH, "a mesh has at most %d axes",
               MOST_MESH_AXES);
    return false;
  }
  if (extent < 1 || extent > MOST_DEVICES / count) {
    diag_error(l->diag, axis->a->span, ERR_BAD_MESH, "a mesh has from 1 to %d devices, not %lld",
               MOST_DEVICES, (long long)(extent < 1 ? extent : saturating_mul(extent, count)));
    return false;
  }
  LIST_PUSH(l->arena, &l->k->mesh, ((MeshAxis){axis->name, axis->name_span, extent}));
  return true;
}

bool lower_mesh(Lower *l) {
  const NodeList *items = &l->node->a->list;
  const Node *first = NULL;
  for (int i = 0; i < items->count; i++) {
    const Node *node = items->at[i];
    if (node->kind != N_MESH) continue;
    if (first) {
      diag_error(l->diag, node->span, ERR_DUPLICATE, "a kernel has one mesh");
      diag_note(l->diag, first->span, "the first one is here");
      return false;
    }
    first = node;
    for (int k = 0; k < node->list.count; k++)
      if (!add_mesh_axis(l, node->list.at[k])) return false;
  }
  return true;
}

static bool is_one_of(const char *name, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static Symbol *find_mesh_axis(Lower *l, const Node *node, const char *name, Span span,
                              ErrorCode code) {
  Symbol *s = name ? find_symbol(l, name) : NULL;
  const char *names[MOST_MESH_AXES];
  if (s && s->kind == SYM_MESH) return s;
  for (int i = 0; i < l->k->mesh.count; i++) names[i] = l->k->mesh.at[i].name;
  if (l->k->mesh.count == 0)
    diag_error(l->diag, span, code, "this kernel has no mesh: `mesh (dx: 4);` declares one");
  else if (!name)
    diag_error(l->diag, node->span, code, "expected the name of a mesh axis");
  else if (is_one_of(name, names, l->k->mesh.count))
    diag_error(l->diag, span, code,
               "`%s` is an axis of the kernel's mesh, which a function outside the kernel does not "
               "see: declare the function in the kernel",
               name);
  else
    diag_error(l->diag, span, code, "there is no mesh axis `%s`%s", name,
               suggestion(l, name, names, l->k->mesh.count));
  return NULL;
}

static Symbol *named_axis(Lower *l, const Node *node, ErrorCode code) {
  return find_mesh_axis(l, node, node->kind == N_NAME ? node->name : NULL, node->span, code);
}

// ---- shardings

// The extent of part of an axis: the size M / 4, which is created if it does not exist.
static Dim divided_dim(Lower *l, Dim dim, int64_t parts, Span span) {
  Frame frame;
  if (parts <= 1) return dim;
  if (dim_is_const(dim)) return dim / parts;
  Region *region = enter_region(l, &frame);
  Instr *divisor = index_const(l, parts, span),
        *part = index_op(l, OP_DIV, dim_value(l, dim, span), divisor, span);
  yield_from(l, part, span);
  leave_region(l);
  int known = part_size(l, part);
  if (known >= 0) return dim_of_size(known);
  const char *name = arena_printf(l->arena, "%s / %lld", l->k->sizes.at[dim_size_index(dim)].name,
                                  (long long)parts);
  return dim_of_size(add_derived_size(l, intern_n(name, strlen(name)), span, region));
}

Dim part_dim(Lower *l, const Ref *ref, int axis) {
  return divided_dim(l, ref->array.dim[axis], ref->parts[axis], ref->span);
}

// Calls in which the axis does not divide are refused.
static bool require_division(Lower *l, const Ref *ref, int axis, Span span) {
  Frame frame;
  Dim dim = ref->array.dim[axis];
  int64_t parts = ref->parts[axis];
  if (parts <= 1 || (dim_is_const(dim) && dim % parts == 0)) return true;
  const char *message = arena_printf(l->arena, "axis %d of `%s` (%s) divides into %lld equal parts",
                                     axis, ref->name, dim_text(l, dim), (long long)parts);
  if (dim_is_const(dim)) {
    diag_error(l->diag, span, ERR_BAD_SHARD, "an axis of %s does not divide into %lld equal parts",
               dim_text(l, dim), (long long)parts);
    return false;
  }
  Type index = type_scalar(DT_I64);
  Region *region = enter_region(l, &frame);
  Instr *divisor = index_const(l, parts, span),
        *rest = emit2(l, OP_REM, index, span, dim_value(l, dim, span), divisor);
  yield_from(l, emit2(l, OP_EQ, type_scalar(DT_BOOL), span, rest, index_const(l, 0, span)), span);
  leave_region(l);
  LIST_PUSH(l->arena, &l->k->requires, ((Requirement){span, region, message}));
  return true;
}

static bool divide_axis(Lower *l, Ref *ref, int axis, const Node *name, const Node **by) {
  Symbol *s = named_axis(l, name, ERR_BAD_SHARD);
  if (!s || s->index >= l->k->mesh.count) return false;
  if (by[s->index]) {
    diag_error(l->diag, name->span, ERR_BAD_SHARD, "`%s` divides an axis of `%s` already", s->name,
               ref->name);
    diag_note(l->diag, by[s->index]->span, "the first time is here");
    return false;
  }
  by[s->index] = name;
  int place = 0;
  while (ref->shard[axis][place]) place++;
  ref->shard[axis][place] = (int8_t)(s->index + 1);
  ref->parts[axis] = (place ? ref->parts[axis] : 1) * l->k->mesh.at[s->index].extent;
  return true;
}

static bool lower_shard_axis(Lower *l, const Node *node, Ref *ref, int axis, const Node **by) {
  if (node->kind == N_UNDERSCORE) return true;
  bool several = node->kind == N_TUPLE;
  for (int i = 0; i < (several ? node->list.count : 1); i++)
    if (!divide_axis(l, ref, axis, several ? node->list.at[i] : node, by)) return false;
  return require_division(l, ref, axis, node->span);
}

void lower_shard(Lower *l, const Node *shard, Ref *ref) {
  const Node *by[MOST_MESH_AXES] = {0};
  bool good = shard->list.count == ref->array.rank;
  l->place = IN_SHAPE;
  if (!good)
    diag_error(l->diag, shard->span, ERR_BAD_SHARD, "a sharding of %d %s for `%s`, which has %d",
               shard->list.count, shard->list.count == 1 ? "axis" : "axes", ref->name,
               ref->array.rank);
  else if (ref->prefetch)
    diag_error(l->diag, shard->span, ERR_BAD_SHARD,
               "`%s` is prefetched: every device has all of it", ref->name);
  good = good && !ref->prefetch;
  for (int i = 0; good && i < ref->array.rank; i++)
    good = lower_shard_axis(l, shard->list.at[i], ref, i, by);
  if (!good) mark_broken(l, ref);
  for (int i = 0; good && i < ref->array.rank; i++)
    ref->type.dim[i] = ref->block[i] = part_dim(l, ref, i);
}

bool same_shard(const Ref *a, const Ref *b) {
  return memcmp(a->shard, b->shard, sizeof a->shard) == 0;
}

// ---- devices

static bool in_device_place(Lower *l, const Node *node, const char *what) {
  if (l->place == IN_BODY && !l->prelude) return true;
  diag_error(l->diag, node->span, ERR_NOT_VISIBLE, "%s is allowed only in the body", what);
  return false;
}

static Instr *own_index(Lower *l, int axis, Span span) {
  Instr *v = emit(l, OP_DEVICE, type_scalar(DT_I64), span, 0, NULL);
  v->ival = axis;
  return v;
}

static bool place_on_mesh(Lower *l, const Node *keyword, Instr **index) {
  Symbol *s = find_mesh_axis(l, keyword, keyword->name, keyword->name_span, ERR_BAD_MESH);
  if (!s || s->index >= l->k->mesh.count) return false;
  const MeshAxis *axis = &l->k->mesh.at[s->index];
  if (index[s->index]) {
    diag_error(l->diag, keyword->span, ERR_DUPLICATE, "the index along `%s` is given twice",
               s->name);
    return false;
  }
  Instr *v = index[s->index] = lower_index(l, keyword->a);
  if (!v) return false;
  if (v->op != OP_CONST || (v->ival >= 0 && v->ival < axis->extent)) return true;
  diag_error(l->diag, keyword->a->span, ERR_BAD_MESH,
             "there is no device %lld along `%s`, which has %lld", (long long)v->ival, s->name,
             (long long)axis->extent);
  return false;
}

bool lower_device(Lower *l, const Node *node, Instr **index) {
  Instr *given[MOST_MESH_AXES] = {0};
  if (l->k->mesh.count == 0) {
    find_mesh_axis(l, node, NULL, node->span, ERR_BAD_MESH);
    return false;
  }
  if (node->kind != N_NAMED) {
    diag_error(l->diag, node->span, ERR_BAD_MESH,
               "a device is named by its index along axes of the mesh, (%s = ..)",
               l->k->mesh.at[0].name);
    return false;
  }
  for (int i = 0; i < node->list.count; i++)
    if (!place_on_mesh(l, node->list.at[i], given)) return false;
  for (int i = 0; i < l->k->mesh.count; i++)
    index[i] = given[i] ? given[i] : own_index(l, i, node->span);
  l->talks = true;
  return true;
}

bool check_reachable(Lower *l, const Ref *ref, Span span) {
  const char *why = NULL;
  if (ref->scope)
    why =
        "is declared in a scope: memory that other devices access must be declared for the whole "
        "kernel";
  else if (ref_is_operand(ref) && ref->space != SPACE_ANY && !ref->whole)
    why =
        "is in blocks, which the grid moves: another device writes to scratch, to an operand in "
        "HBM (`any`) or to one that is a single block";
  if (!why) return true;
  diag_error(l->diag, span, ERR_BAD_COPY, "`%s` %s", ref->name, why);
  diag_note(l->diag, ref->span, "`%s` is declared here", ref->name);
  return false;
}

void check_devices(Lower *l) {
  for (int i = 0; l->talks && i < l->k->grid.count; i++) {
    const GridAxis *axis = &l->k->grid.at[i];
    if (!axis->parallel) continue;
    diag_error(
        l->diag, axis->span, ERR_BAD_MESH,
        "the steps of a kernel whose devices communicate run in order: `%s` cannot be parallel",
        axis->name);
  }
}

// ---- functions

static Value lower_device_index(Lower *l, const Call *call) {
  Symbol *s = named_axis(l, call->arg[0], ERR_BAD_MESH);
  if (!s || !in_device_place(l, call->node, "device")) return value_error();
  return value_data(own_index(l, s->index, call->node->span));
}

static Value lower_num_devices(Lower *l, const Call *call) {
  if (!call->arg[0]) return value_int(ir_device_count(l->k));
  Symbol *s = named_axis(l, call->arg[0], ERR_BAD_MESH);
  if (!s || s->index >= l->k->mesh.count) return value_error();
  return value_int(l->k->mesh.at[s->index].extent);
}

static Ref *barrier_semaphore(Lower *l, Span span) {
  if (l->barrier) return l->barrier;
  Ref *ref = l->barrier = NEW(l->arena, Ref);
  *ref = (Ref){.name = "barrier",
               .id = l->k->refs.count,
               .role = REF_SCRATCH,
               .space = SPACE_SEM,
               .type = type_scalar(DT_I32),
               .span = span,
               .semaphore = SEM_BARRIER};
  LIST_PUSH(l->arena, &l->k->refs, ref);
  return ref;
}

// Signals every device, this one too.
static void signal_all(Lower *l, int axis, Instr **index, Span span) {
  Frame frame;
  if (axis == l->k->mesh.count) {
    Instr *args[1 + MOST_MESH_AXES] = {index_const(l, 1, span)};
    for (int i = 0; i < axis; i++) args[1 + i] = index[i];
    emit(l, OP_REMOTE_SIGNAL, no_result, span, 1 + axis, args)->semaphore = l->barrier;
    return;
  }
  Instr *from = index_const(l, 0, span), *to = index_const(l, l->k->mesh.at[axis].extent, span);
  Region *body = enter_region(l, &frame);
  index[axis] = body->arg = ir_new(l->k, OP_ARG, type_scalar(DT_I64), span, 0, NULL);
  signal_all(l, axis + 1, index, span);
  leave_region(l);
  emit2(l, OP_FOR, no_result, span, from, to)->regions[0] = body;
}

// No device leaves before all have arrived: a signal that a fast device sends for its next barrier
// shows that it has left this one, so that all have arrived here.
static Value lower_barrier(Lower *l, const Call *call) {
  Instr *index[MOST_MESH_AXES];
  Span span = call->node->span;
  if (!in_device_place(l, call->node, "barrier")) return value_error();
  if (l->k->mesh.count == 0) {
    find_mesh_axis(l, call->node, NULL, span, ERR_BAD_MESH);
    return value_error();
  }
  l->talks = true;
  barrier_semaphore(l, span);
  signal_all(l, 0, index, span);
  emit1(l, OP_SEM_WAIT, no_result, span, index_const(l, ir_device_count(l->k), span))->semaphore =
      l->barrier;
  return (Value){.kind = V_VOID};
}

const Builtin mesh_builtins[] = {
    {"device", lower_device_index, 0, "axis"},
    {"num_devices", lower_num_devices, 0, "axis?"},
    {"barrier", lower_barrier, 0, ""},
    {0},
};
