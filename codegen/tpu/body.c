// A grid step's body as segments between which control flow decides, and the run of one step.
#include "codegen/tpu/internal.h"

#include <math.h>

static const int64_t most_iterations = 1 << 20;  // of loops whose iterations differ, in a step

typedef struct {
  const CostModel *m;
  Body *body;
  bool *decides, *decidable;  // by instruction id: control flow depends on it; it depends on
                              // nothing but the grid
  const char *name;
  bool seen_product;
} Builder;

// ---- what decides

static void mark(Builder *b, const Instr *instr) {
  if (b->decides[instr->id] || !is_index_scalar(instr)) return;
  b->decides[instr->id] = true;
  for (int i = 0; i < instr->nargs; i++) mark(b, instr->args[i]);
  for (int r = 0; r < 2 && instr->op == OP_IF; r++) mark(b, ir_yielded(instr->regions[r], 0));
}

static void decide(Builder *b, const Instr *instr) {
  mark(b, instr);
  LIST_PUSH(b->m->arena, &b->body->decisions, instr);
}

static bool is_copy(const Instr *instr) {
  return instr->op == OP_COPY_START || instr->op == OP_COPY_WAIT;
}

static void mark_copy(Builder *b, const Instr *copy) {
  bool edge = (copy->flags & INSTR_EDGE) != 0;
  int starts = (int)(ir_semaphore_index(copy) - copy->args);
  b->body->copies = true;
  for (int i = 0; i < starts + copy->semaphore->type.rank; i++) {
    if (i >= starts)
      decide(b, copy->args[i]);
    else if (edge)
      mark(b, copy->args[i]);
    // Where a copy at an edge starts says how much it moves, so that must repeat.
    if (i < starts && edge)
      LIST_PUSH(b->m->arena, &b->body->decisions, (const Instr *)copy->args[i]);
  }
}

static void mark_control(Instr *instr, void *context) {
  Builder *b = context;
  if (is_copy(instr)) mark_copy(b, instr);
  if (instr->op == OP_IF || instr->op == OP_FOR)
    for (int i = 0; i < instr->nargs; i++) decide(b, instr->args[i]);
  if (instr->op == OP_WHILE) decide(b, ir_yielded(instr->regions[0], 0));
  if (instr->op == OP_STORE && is_variable_access(instr)) {
    b->decides[instr->id] = true;
    decide(b, ir_store_value(instr));
  }
}

// Scalars whose values are known once the grid's indices are, in the order of the program.
static void find_decidable(Builder *b, const Region *region) {
  if (region->arg) b->decidable[region->arg->id] = true;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    bool known = is_index_scalar(instr);
    for (int a = 0; a < instr->nargs; a++) known &= b->decidable[instr->args[a]->id];
    for (int r = 0; r < 2; r++)
      if (instr->regions[r]) find_decidable(b, instr->regions[r]);
    for (int r = 0; r < 2 && known && instr->op == OP_IF; r++)
      known = b->decidable[ir_yielded(instr->regions[r], 0)->id];
    b->decidable[instr->id] = known;
  }
}

static void list_scalar(Instr *instr, void *context) {
  Builder *b = context;
  if (b->decides[instr->id]) LIST_PUSH(b->m->arena, &b->body->scalars, (const Instr *)instr);
  for (int r = 0; r < 2; r++)
    if (instr->regions[r] && instr->regions[r]->arg)
      LIST_PUSH(b->m->arena, &b->body->scalars, (const Instr *)instr->regions[r]->arg);
}

static bool depends_on_data(const Builder *b, const Instr *instr) {
  if (instr->op == OP_WHILE) return !b->decidable[ir_yielded(instr->regions[0], 0)->id];
  if (instr->op != OP_IF && instr->op != OP_FOR) return false;
  for (int i = 0; i < instr->nargs; i++)
    if (!b->decidable[instr->args[i]->id]) return true;
  return false;
}

// ---- segments

static Segment *open_segment(Builder *b, Block *block, int *open, Span span) {
  Arena *arena = b->m->arena;
  if (*open < 0) {
    *open = b->body->segments.count;
    LIST_PUSH(arena, &b->body->segments, ((Segment){.span = span, .name = b->name}));
    LIST_PUSH(arena, &block->items, ((Item){.segment = *open}));
  }
  return &b->body->segments.at[*open];
}

static void add_cost(Segment *segment, const Instr *instr, const Cost *cost) {
  cost_add(&segment->cost, cost);
  for (int u = 0; u < UNITS; u++) {
    if (cost->busy[u] <= segment->costliest_busy[u]) continue;
    segment->costliest_busy[u] = cost->busy[u];
    segment->costliest[u] = instr;
  }
}

// The cost of a grid step was measured on steps with one product: it holds the bubble of the first
// one.
static void forget_first_bubble(Builder *b, Cost *cost) {
  if (b->seen_product || cost->mxu_bubble <= 0) return;
  b->seen_product = true;
  cost->busy[UNIT_MXU] -= cost->mxu_bubble;
  cost->mxu_bubble = 0;
}

static Block *build_block(Builder *b, const Region *region);

static void add_control(Builder *b, Block *block, const Instr *instr) {
  const char *outer = b->name;
  if (instr->op == OP_NAMED) b->name = instr->text;
  Item item = {.instr = instr, .segment = -1};
  for (int r = 0; r < 2; r++)
    if (instr->regions[r]) item.inner[r] = build_block(b, instr->regions[r]);
  b->name = outer;
  if (depends_on_data(b, instr)) LIST_PUSH(b->m->arena, &b->body->assumed, instr);
  LIST_PUSH(b->m->arena, &block->items, item);
  block->plain = false;
}

static Block *build_block(Builder *b, const Region *region) {
  Block *block = NEW(b->m->arena, Block);
  block->plain = true;
  int open = -1;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (instr->regions[0] || instr->op == OP_BREAK || is_copy(instr)) {
      add_control(b, block, instr);
      open = -1;
      continue;
    }
    Cost cost;
    if (!op_cost(b->m, instr, &cost)) LIST_PUSH(b->m->arena, &b->body->unmodelled, instr);
    forget_first_bubble(b, &cost);
    for (int u = 0; u < UNITS; u++)
      if (cost.busy[u] > 0) {
        add_cost(open_segment(b, block, &open, instr->span), instr, &cost);
        break;
      }
    if (b->decides[instr->id]) {
      LIST_PUSH(b->m->arena, &block->items, ((Item){.instr = instr, .segment = -1}));
      if (op_info[instr->op].class != OPC_LEAF)
        block->plain = false;  // it may change from one iteration to the next
    }
  }
  return block;
}

static void close_segment(Segment *s) {
  s->bound = UNIT_SCALAR;
  for (int u = 0; u < UNITS; u++)
    if (s->cost.busy[u] > s->cost.busy[s->bound]) s->bound = (Unit)u;
  s->ps = ps_of(s->cost.busy[s->bound]);
}

int64_t ps_of(double seconds) {
  double ps = seconds * 1e12;
  return ps < 4e18 ? llround(ps) : (int64_t)4e18;
}

Body *body_new(const CostModel *m) {
  Builder b = {
      .m = m, .body = NEW(m->arena, Body), .decides = NEW_ARRAY(m->arena, bool, m->k->next_id + 1)};
  b.decidable = NEW_ARRAY(m->arena, bool, m->k->next_id + 1);
  ir_walk(m->k->body, mark_control, &b);
  find_decidable(&b, m->k->body);
  ir_walk(m->k->body, list_scalar, &b);
  b.body->top = build_block(&b, m->k->body);
  for (int i = 0; i < b.body->segments.count; i++) close_segment(&b.body->segments.at[i]);
  return b.body;
}

// ---- one step

typedef struct {
  const Body *body;
  GridEval *e;
  int64_t *counts, ps, iterations;
  const BodyVisitor *visitor;
  void *context;
  bool breaking;
} StepRun;

static void run_block(StepRun *r, const Block *block, int64_t times);

static bool holds_break(const Block *block) {
  for (int i = 0; i < block->items.count; i++) {
    const Item *item = &block->items.at[i];
    if (item->instr && item->instr->op == OP_BREAK) return true;
    for (int k = 0; k < 2; k++)
      if (item->inner[k] && item->instr->op == OP_IF && holds_break(item->inner[k])) return true;
  }
  return false;
}

// A condition on data: the first branch is taken, unless it leaves a loop.
static void run_if(StepRun *r, const Item *item, int64_t times) {
  const Instr *condition = item->instr->args[0];
  bool taken = r->e->known[condition->id] ? r->e->value[condition->id] != 0
                                          : !item->inner[0] || !holds_break(item->inner[0]);
  const Block *inner = item->inner[taken ? 0 : 1];
  if (!inner) return;
  run_block(r, inner, times);
  if (has_result(item->instr) && !r->breaking)
    grid_take_result(r->e, item->instr, item->instr->regions[taken ? 0 : 1]);
}

static void run_for(StepRun *r, const Item *item, int64_t times) {
  const Instr *from = item->instr->args[0], *to = item->instr->args[1],
              *variable = item->instr->regions[0]->arg;
  if (!r->e->known[from->id] || !r->e->known[to->id]) return run_block(r, item->inner[0], times);
  int64_t low = r->e->value[from->id], high = r->e->value[to->id];
  if (high <= low) return;
  if (item->inner[0]->plain) return run_block(r, item->inner[0], saturating_mul(times, high - low));
  r->e->known[variable->id] = true;
  for (int64_t t = low; t < high && !r->breaking; t++) {
    if (r->iterations++ >= most_iterations) {  // the rest as this one
      run_block(r, item->inner[0], saturating_mul(times, high - t));
      break;
    }
    r->e->value[variable->id] = t;
    run_block(r, item->inner[0], times);
  }
  r->breaking = false;
}

// Once where the condition depends on data.
static void run_while(StepRun *r, const Item *item, int64_t times) {
  const Instr *condition = ir_yielded(item->instr->regions[0], 0);
  do {
    run_block(r, item->inner[0], times);
    if (r->e->known[condition->id] && !r->e->value[condition->id]) break;
    run_block(r, item->inner[1], times);
  } while (r->e->known[condition->id] && !r->breaking && r->iterations++ < most_iterations);
  r->breaking = false;
}

static void run_segment(StepRun *r, int segment, int64_t times) {
  r->counts[segment] = saturating_add(r->counts[segment], times);
  r->ps = saturating_add(r->ps, saturating_mul(r->body->segments.at[segment].ps, times));
  if (r->visitor) r->visitor->segment(r->context, segment, times);
}

static void run_block(StepRun *r, const Block *block, int64_t times) {
  for (int i = 0; i < block->items.count && !r->breaking; i++) {
    const Item *item = &block->items.at[i];
    if (!item->instr) {
      run_segment(r, item->segment, times);
      continue;
    }
    switch (item->instr->op) {
      case OP_IF:
        run_if(r, item, times);
        break;
      case OP_FOR:
        run_for(r, item, times);
        break;
      case OP_WHILE:
        run_while(r, item, times);
        break;
      case OP_NAMED:
      case OP_SCOPED:
        run_block(r, item->inner[0], times);
        break;
      case OP_BREAK:
        r->breaking = true;
        break;
      case OP_COPY_START:
      case OP_COPY_WAIT:
        if (r->visitor && r->visitor->copy) r->visitor->copy(r->context, r->e, item->instr);
        break;
      default:
        grid_eval(r->e, item->instr);
    }
  }
}

int64_t body_run(const Body *body, GridEval *e, int64_t *counts, const BodyVisitor *visitor,
                 void *context) {
  StepRun r = {.body = body, .e = e, .counts = counts, .visitor = visitor, .context = context};
  for (int i = 0; i < e->k->refs.count; i++) e->variable_known[i] = false;
  run_block(&r, body->top, 1);
  return r.ps;
}
