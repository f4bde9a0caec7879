// Explicit memory: scoped scratch, semaphores, async_copy, remote_copy.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

// A copy as described by async_copy(from -> to, s[k]); starting it and waiting for it are up to the
// kernel.
struct Copy {
  View from, to, semaphore;
  Span spans[2];                       // of the two windows
  const RefView *from_view, *to_view;  // what the windows are of; NULL: refs
  bool remote;
  View receive;                   // the semaphore of the other device
  Instr *device[MOST_MESH_AXES];  // its index along each mesh axis
};

static bool in_step(Lower *l, const Node *node, const char *what) {
  if (l->place == IN_BODY && !l->prelude) return true;
  diag_error(l->diag, node->span, ERR_NOT_VISIBLE, "%s is allowed only in the body", what);
  return false;
}

// ---- semaphores

// A semaphore, or an element of one.
static bool lower_semaphore(Lower *l, const Node *node, View *out) {
  Ref *ref = ref_of(l, node->kind == N_INDEX ? node->a : node);
  if (ref && is_broken(l, ref)) return false;
  if (!ref || ref->space != SPACE_SEM) {
    if (!ref && is_error(lower_expr(l, node))) return false;
    diag_error(l->diag, node->span, ERR_BAD_SEMAPHORE,
               "expected a semaphore, declared by `scratch s: sem dma[2];`");
    if (ref) diag_note(l->diag, ref->span, "`%s` is declared here%s", ref->name, axes_text(l, ref));
    return false;
  }
  if (node->kind == N_NAME && ref->type.rank > 0) {
    diag_error(l->diag, node->span, ERR_BAD_SEMAPHORE,
               "`%s` is an array of semaphores: name one, as in `%s[0]`", ref->name, ref->name);
    diag_note(l->diag, ref->span, "`%s` is declared here%s", ref->name, axes_text(l, ref));
    return false;
  }
  if (!lower_view(l, node, false, out)) return false;
  if (out->type.rank == 0) return true;
  diag_error(l->diag, node->span, ERR_BAD_SEMAPHORE, "this names %s semaphores; expected one",
             shape_text(l, &out->type));
  return false;
}

static bool check_kind(Lower *l, const View *s, bool dma, Span span, const char *what) {
  if ((s->ref->semaphore == SEM_DMA) == dma) return true;
  diag_error(l->diag, span, ERR_BAD_SEMAPHORE, "%s a %s semaphore, and `%s` is a %s one%s", what,
             dma ? "dma" : "regular", s->ref->name, semaphore_names[s->ref->semaphore],
             dma ? "" : "; a copy is awaited by its .wait()");
  diag_note(l->diag, s->ref->span, "`%s` is declared here", s->ref->name);
  return false;
}

// A copy on a regular semaphore signals it once, so waiting for it is waiting for one signal.
static bool check_copy_kind(Lower *l, const View *s, Op op, Span span) {
  if (op == OP_COPY_START && s->ref->semaphore == SEM_REGULAR) return true;
  if (s->ref->semaphore != SEM_REGULAR) return check_kind(l, s, true, span, "a copy takes");
  diag_error(l->diag, span, ERR_BAD_SEMAPHORE,
             "wait for a copy on the regular semaphore `%s` with wait(%s)", s->ref->name,
             s->ref->name);
  diag_note(l->diag, s->ref->span, "`%s` is declared here", s->ref->name);
  return false;
}

// A signal to a semaphore, a wait for it, or a read of it.
static Value lower_semaphore_op(Lower *l, const Call *call) {
  View s;
  Op op = (Op)call->builtin->op;
  if (!in_step(l, call->node, call->builtin->name) || !lower_semaphore(l, call->arg[0], &s))
    return value_error();
  bool reads = op == OP_SEM_READ, remote = !reads && call->arg[2];
  const char *what = arena_printf(l->arena, "%s takes", call->builtin->name);
  if (!reads && !check_kind(l, &s, false, call->arg[0]->span, what)) return value_error();
  Instr *args[MAX_RANK + 1 + MOST_MESH_AXES];
  int count = s.ref->type.rank;
  for (int i = 0; i < count; i++) args[i] = s.starts[i];
  if (!reads) {
    Instr *amount = call->arg[1]
                        ? lower_index(l, call->arg[1])
                        : ir_const_int(l->k, l->frame->region, DT_I64, 1, call->node->span);
    if (!amount) return value_error();
    args[count++] = amount;
  }
  if (remote && (!lower_device(l, call->arg[2], args + count) ||
                 !check_reachable(l, s.ref, call->arg[0]->span)))
    return value_error();
  if (remote) op = OP_REMOTE_SIGNAL, count += l->k->mesh.count;
  Instr *instr =
      emit(l, op, reads ? type_scalar(DT_I32) : no_result, call->node->span, count, args);
  instr->semaphore = s.ref;
  return reads ? value_data(instr) : (Value){.kind = V_VOID};
}

// ---- copies

static bool check_ends(Lower *l, const Copy *copy, Span span) {
  const View *ends[] = {&copy->from, &copy->to};
  for (int i = 0; i < 2; i++)
    if (ends[i]->ref->space == SPACE_SEM || ends[i]->ref->role == REF_VAR) {
      diag_error(l->diag, span, ERR_BAD_COPY,
                 "`%s` is %s: copies move data between operands and scratch", ends[i]->ref->name,
                 ends[i]->ref->role == REF_VAR ? "a var" : "a semaphore");
      return false;
    }
  const Type *from = &copy->from.type, *to = &copy->to.type;
  if (from->dtype == to->dtype && type_same_shape(from, to)) return true;
  diag_error(l->diag, span, ERR_BAD_COPY,
             "a copy does not convert elements: from %s to %s is not possible", type_text(l, from),
             type_text(l, to));
  return false;
}

static const Type *seen_type(const View *window, const RefView *view) {
  return view ? view_type(view) : &window->ref->type;
}

// The text of the length of a window along axis `axis`; NULL if it is not a run-time length.
static const char *length_text(Lower *l, const Node *window, const View *view, const Type *seen,
                               int axis) {
  const Node *elements[MAX_RANK];
  if (!view->lengths[axis]) return NULL;
  REQUIRE(spread_index(l, window, seen, "", elements));
  Span span = elements[axis]->list.at[1]->span;
  return intern_n(diag_source(l->diag)->text + span.start, span.end - span.start);
}

static int next_axis(const View *view, const Type *seen, int axis) {
  while (axis < seen->rank && view->window.squeeze[axis]) axis++;
  return axis;
}

// Run-time lengths are equal if they are the same expression.
static bool check_lengths(Lower *l, const Node *arrow, const Copy *copy) {
  const Type *source = seen_type(&copy->from, copy->from_view),
             *target = seen_type(&copy->to, copy->to_view);
  for (int i = 0, from = 0, to = 0; i < copy->from.type.rank; i++, from++, to++) {
    from = next_axis(&copy->from, source, from);
    to = next_axis(&copy->to, target, to);
    if (length_text(l, arrow->a, &copy->from, source, from) ==
        length_text(l, arrow->b, &copy->to, target, to))
      continue;
    diag_error(l->diag, arrow->span, ERR_BAD_COPY,
               "a run-time length must be the same expression in both windows of a copy");
    return false;
  }
  return true;
}

// One end of a copy: a window of a ref or of a view.
static bool lower_end(Lower *l, const Node *node, View *window, const RefView **view) {
  *view = folded_view(l, node);
  if (!*view) return lower_view(l, node, false, window);
  Ref *seen = NEW(l->arena, Ref);
  *seen = viewed_as_ref(*view, node->kind == N_INDEX ? node->a->name : node->name);
  if (node->kind != N_INDEX)
    *window = whole_view(l, seen, node->span);
  else if (!lower_window(l, node, seen, false, window))
    return false;
  window->ref = viewed_ref(*view);
  return true;
}

static bool lower_ends(Lower *l, const Node *arrow, Copy *copy) {
  l->lengths = true;
  copy->spans[0] = arrow->a->span, copy->spans[1] = arrow->b->span;
  bool good = lower_end(l, arrow->a, &copy->from, &copy->from_view);
  good = lower_end(l, arrow->b, &copy->to, &copy->to_view) && good;
  l->lengths = false;
  return good;
}

// The windows and the (first) semaphore of a copy. example: how it is written.
static bool lower_windows(Lower *l, const Call *call, const char *example, Copy *copy) {
  const Node *arrow = call->arg[0];
  if (!in_step(l, call->node, call->builtin->name)) return false;
  if (arrow->kind != N_ARROW) {
    diag_error(l->diag, arrow->span, ERR_BAD_COPY, "write a copy as %s", example);
    return false;
  }
  bool good = lower_ends(l, arrow, copy);
  good = lower_semaphore(l, call->arg[1], &copy->semaphore) && good;
  return good && check_ends(l, copy, arrow->span) && check_lengths(l, arrow, copy) &&
         check_storable(l, copy->to.ref, arrow->b->span);
}

static Value lower_async_copy(Lower *l, const Call *call) {
  Copy *copy = NEW(l->arena, Copy);
  if (!lower_windows(l, call, "async_copy(from[..] -> to[..], s)", copy) ||
      !check_copy_kind(l, &copy->semaphore, OP_COPY_START, call->arg[1]->span))
    return value_error();
  return (Value){.kind = V_COPY, .copy = copy};
}

static Value lower_remote_copy(Lower *l, const Call *call) {
  static const char example[] =
      "remote_copy(from[..] -> to[..], send = s, recv = r, device = (dx = ..))";
  Copy *copy = NEW(l->arena, Copy);
  copy->remote = true;
  if (!lower_windows(l, call, example, copy) ||
      !check_kind(l, &copy->semaphore, true, call->arg[1]->span, "a remote copy takes") ||
      !lower_semaphore(l, call->arg[2], &copy->receive) ||
      !check_kind(l, &copy->receive, true, call->arg[2]->span, "a remote copy takes") ||
      !lower_device(l, call->arg[3], copy->device) ||
      !check_reachable(l, copy->to.ref, call->arg[0]->b->span) ||
      !check_reachable(l, copy->receive.ref, call->arg[2]->span))
    return value_error();
  return (Value){.kind = V_COPY, .copy = copy};
}

// Both windows of a copy list their lengths in the same order, since lengths come in pairs.
static int list_lengths(Lower *l, Copy *copy, Instr **args, Span span) {
  const int from = seen_type(&copy->from, copy->from_view)->rank,
            to = seen_type(&copy->to, copy->to_view)->rank;
  int count = 0;
  for (int i = 0; i < from; i++) {
    Instr *length = copy->from.lengths[i];
    copy->from.window.length[i] = length != NULL;
    if (length) args[count++] = index_op(l, OP_MAX, length, index_const(l, 0, span), span);
  }
  for (int i = 0; i < to; i++) copy->to.window.length[i] = copy->to.lengths[i] != NULL;
  return count;
}

// Emits the start of a copy or the wait for it.
static void emit_copy(Lower *l, Op op, const Copy *described, int64_t priority, Span span) {
  Instr *lengths[MAX_RANK];
  Arguments args = {0};
  Copy copy = *described;
  int length_count = list_lengths(l, &copy, lengths, span);
  bool sends = op == OP_REMOTE_START;
  push_args(l, &args, copy.from.starts, seen_type(&copy.from, copy.from_view)->rank);
  push_args(l, &args, copy.to.starts, seen_type(&copy.to, copy.to_view)->rank);
  push_args(l, &args, copy.semaphore.starts, copy.semaphore.ref->type.rank);
  if (sends) push_args(l, &args, copy.receive.starts, copy.receive.ref->type.rank);
  if (sends) push_args(l, &args, copy.device, l->k->mesh.count);
  const Chain *chain = copy.from_view ? push_chain(l, &args, copy.from_view, false, span) : NULL,
              *target_chain = copy.to_view ? push_chain(l, &args, copy.to_view, false, span) : NULL;
  push_args(l, &args, lengths, length_count);
  Instr *instr = emit(l, op, no_result, span, args.count, args.at);
  instr->ref = copy.from.ref;
  instr->window = copy.from.window;
  instr->chain = chain;
  instr->target = copy.to.ref;
  instr->target_window = copy.to.window;
  instr->target_chain = target_chain;
  instr->semaphore = copy.semaphore.ref;
  instr->receive = sends ? copy.receive.ref : NULL;
  instr->ival = priority;
  check_layouts(l, instr, copy.spans);
}

static bool lower_priority(Lower *l, const Node *node, int64_t *priority) {
  *priority = 0;
  for (int i = 0; i < node->list2.count; i++) {
    const Node *keyword = node->list2.at[i];
    if (strcmp(keyword->name, "priority") != 0) {
      diag_error(l->diag, keyword->name_span, ERR_UNKNOWN_KEYWORD, "start has no argument `%s`",
                 keyword->name);
      return false;
    }
    if (!lower_static_int(l, keyword->a, "a priority", priority)) return false;
    if (*priority < 0 || *priority > 1) {
      diag_error(l->diag, keyword->a->span, ERR_BAD_COPY, "a priority must be 0 or 1, not %lld",
                 (long long)*priority);
      return false;
    }
  }
  return true;
}

// What a method of a copy does: start it, or wait at an end of it.
typedef struct {
  const char *name;
  bool starts, sent, received;
} Method;

static const Method *find_method(const char *name, bool remote) {
  static const Method methods[] = {{"start", true, false, false},
                                   {"wait", false, true, true},
                                   {"wait_send", false, true, false},
                                   {"wait_recv", false, false, true}};
  for (size_t i = 0; i < (remote ? 4 : 2); i++)
    if (strcmp(methods[i].name, name) == 0) return &methods[i];
  return NULL;
}

static void emit_remote(Lower *l, const Method *method, const Copy *copy, Span span) {
  Copy received = *copy;
  received.semaphore = copy->receive;
  if (method->starts) emit_copy(l, OP_REMOTE_START, copy, 0, span);
  if (method->sent) emit_copy(l, OP_COPY_WAIT, copy, 0, span);
  if (method->received) emit_copy(l, OP_COPY_WAIT, &received, 0, span);
}

// A method of a copy: start, wait and the like.
Value lower_method(Lower *l, const Node *node) {
  int64_t priority = 0;
  Value v = lower_expr(l, node->a);
  if (is_error(v)) return v;
  bool remote = v.kind == V_COPY && v.copy->remote;
  const Method *method = v.kind == V_COPY ? find_method(node->name, remote) : NULL;
  if (!method) {
    diag_error(
        l->diag, node->name_span, ERR_UNKNOWN_MEMBER,
        remote
            ? "a remote copy has the methods .start(), .wait(), .wait_send() and .wait_recv(), not "
              "`%s`"
        : v.kind == V_COPY ? "a copy has the methods .start() and .wait(), not `%s`"
                           : "values have no method `%s`",
        node->name);
    return value_error();
  }
  bool takes_priority = method->starts && !remote;
  if (node->list.count > 0 || (!takes_priority && node->list2.count > 0)) {
    diag_error(l->diag, node->span, ERR_ARGUMENT_COUNT, "`.%s()` takes no argument%s", node->name,
               takes_priority ? " except `priority =`" : "");
    return value_error();
  }
  if (remote) {
    emit_remote(l, method, v.copy, node->span);
    return (Value){.kind = V_VOID};
  }
  Op op = method->starts ? OP_COPY_START : OP_COPY_WAIT;
  if (!lower_priority(l, node, &priority) ||
      !check_copy_kind(l, &v.copy->semaphore, op, node->name_span))
    return value_error();
  emit_copy(l, op, v.copy, priority, node->span);
  return (Value){.kind = V_VOID};
}

// ---- scoped

void lower_scoped(Lower *l, const Node *node) {
  Symbol *scope = l->scope;
  ExprContext place = l->place;
  Instr *scoped = ir_new(l->k, OP_SCOPED, no_result, node->span, 0, NULL);
  for (int i = 0; i < node->list.count; i++) lower_scratch(l, node->list.at[i], scoped);
  l->place = place;
  scoped->regions[0] = lower_arm(l, node->b);
  l->scope = scope;
  ir_append(l->k, l->frame->region, scoped);
}

const Builtin memory_builtins[] = {
    {"async_copy", lower_async_copy, 0, "copy semaphore"},
    {"remote_copy", lower_remote_copy, 0, "copy send recv device"},
    {"signal", lower_semaphore_op, OP_SEM_SIGNAL, "semaphore amount? device?"},
    {"wait", lower_semaphore_op, OP_SEM_WAIT, "semaphore amount?"},
    {"read", lower_semaphore_op, OP_SEM_READ, "semaphore"},
    {0},
};
