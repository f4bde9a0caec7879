// A grid step's body as segments between which control flow decides, and the run of one step.
#include "codegen/tpu/internal.h"

#include <math.h>
#include <string.h>

static const int64_t most_iterations = 1 << 20;  // of loops whose iterations differ, in a step

typedef struct {
  const CostModel *m;
  Body *body;
  bool *decides, *decidable;  // by instruction id: control flow depends on it; it depends only on
                              // the grid
  const char *name;
  bool seen_product;
  bool *signalled;   // by ref id: a regular semaphore that copies signal
  bool *holds_data;  // by ref id: a variable to which an undecidable value is stored
  // by instruction id and by ref id: the phase of a value within the segment that computes it, and
  // which segment that is
  struct {
    int phase, segment;
  } * value, *stored;
} Builder;

// ---- values that decide control flow

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

// A copy to another device, or a wait for one.
static bool is_talk(const Builder *b, const Instr *instr) {
  return b->m->k->mesh.count && (instr->op == OP_REMOTE_START || instr->op == OP_REMOTE_SIGNAL ||
                                 instr->op == OP_SEM_SIGNAL || instr->op == OP_SEM_WAIT);
}

// A start, or a wait for one.
static bool is_copy(const Builder *b, const Instr *instr) {
  return is_talk(b, instr) || instr->op == OP_COPY_START || instr->op == OP_COPY_WAIT ||
         (instr->op == OP_SEM_WAIT && b->signalled[instr->semaphore->id]);
}

static void note_signalled(Instr *instr, void *context) {
  Builder *b = context;
  if (instr->op == OP_COPY_START && instr->semaphore->semaphore == SEM_REGULAR)
    b->signalled[instr->semaphore->id] = true;
}

// The semaphore, the device and the amount.
static void mark_talk(Builder *b, const Instr *instr) {
  bool copies = instr->op == OP_REMOTE_START, edge = (instr->flags & INSTR_EDGE) != 0;
  int starts = (int)(ir_semaphore_index(instr) - instr->args);
  b->body->copies = b->body->talks = true;
  for (int i = copies && !edge ? starts : 0; i < instr->nargs; i++) decide(b, instr->args[i]);
}

static void mark_copy(Builder *b, const Instr *copy) {
  for (int i = copy->nargs - ir_length_count(copy); i < copy->nargs; i++) decide(b, copy->args[i]);
  bool edge = (copy->flags & INSTR_EDGE) != 0;
  int starts = (int)(ir_semaphore_index(copy) - copy->args);
  b->body->copies = true;
  for (int i = 0; i < starts + copy->semaphore->type.rank; i++) {
    if (i >= starts)
      decide(b, copy->args[i]);
    else if (edge)
      mark(b, copy->args[i]);
    // The start of a copy at an edge determines how much it moves, so it must repeat.
    if (i < starts && edge)
      LIST_PUSH(b->m->arena, &b->body->decisions, (const Instr *)copy->args[i]);
  }
}

static void mark_control(Instr *instr, void *context) {
  Builder *b = context;
  if (is_talk(b, instr))
    mark_talk(b, instr);
  else if (is_copy(b, instr))
    mark_copy(b, instr);
  if (instr->op == OP_IF || instr->op == OP_FOR)
    for (int i = 0; i < instr->nargs; i++) decide(b, instr->args[i]);
  if (instr->op == OP_WHILE) decide(b, ir_yielded(instr->regions[0], 0));
  if (instr->op == OP_STORE && is_variable_access(instr)) {
    b->decides[instr->id] = true;
    decide(b, ir_store_value(instr));
  }
}

// Scalars whose values follow from the grid's indices, in program order.
static void find_decidable(Builder *b, const Region *region) {
  if (region->arg) b->decidable[region->arg->id] = true;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    bool known = is_index_scalar(instr);
    for (int a = 0; a < instr->nargs; a++) known &= b->decidable[instr->args[a]->id];
    if (instr->op == OP_LOAD && is_variable_access(instr)) known &= !b->holds_data[instr->ref->id];
    for (int r = 0; r < 2; r++)
      if (instr->regions[r]) find_decidable(b, instr->regions[r]);
    for (int r = 0; r < 2 && known && instr->op == OP_IF; r++)
      known = b->decidable[ir_yielded(instr->regions[r], 0)->id];
    b->decidable[instr->id] = known;
  }
}

typedef struct {
  Builder *b;
  bool more;
} DataStores;

static void note_stored_data(Instr *instr, void *context) {
  DataStores *stores = context;
  if (instr->op != OP_STORE || !is_variable_access(instr)) return;
  if (stores->b->decidable[ir_store_value(instr)->id] || stores->b->holds_data[instr->ref->id])
    return;
  stores->more = stores->b->holds_data[instr->ref->id] = true;
}

// A variable may be read before the store of data in the text, so this repeats until nothing
// changes.
static void find_all_decidable(Builder *b) {
  DataStores stores = {b, true};
  while (stores.more) {
    stores.more = false;
    find_decidable(b, b->m->k->body);
    ir_walk(b->m->k->body, note_stored_data, &stores);
  }
}

static void list_scalar(Instr *instr, void *context) {
  Builder *b = context;
  b->body->asks |= b->decides[instr->id] && instr->op == OP_DEVICE;
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

// The cost of a grid step was measured with one product of one fold, so it includes the first fold.
static void forget_first_fold(Builder *b, Cost *cost) {
  if (b->seen_product || cost->mxu_latency <= 0) return;
  b->seen_product = true;
  cost->mxu_in_step = fmin(cost->mxu_padding, cost->mxu_latency / 2);
  cost->busy[UNIT_MXU] -= cost->mxu_in_step;
  cost->mxu_latency = 0;
}

// ---- phases

enum { MOST_PHASES = 32 };

// The first phase contains the operations that need no value of this segment.
static int phase_of(const Builder *b, const Instr *instr, int segment) {
  int phase = -1;
  for (int i = 0; i < instr->nargs; i++)
    if (b->value[instr->args[i]->id].segment == segment + 1 &&
        b->value[instr->args[i]->id].phase > phase)
      phase = b->value[instr->args[i]->id].phase;
  if (instr->op == OP_LOAD && b->stored[instr->ref->id].segment == segment + 1 &&
      b->stored[instr->ref->id].phase > phase)
    phase = b->stored[instr->ref->id].phase;
  // Loads, and operations on loads only, run together with their users.
  if (needs_rows(instr) || (instr->op == OP_TRANSPOSE && crosses_lanes(b->m, instr))) phase++;
  return phase < MOST_PHASES - 1 ? phase : MOST_PHASES - 1;
}

static void add_phase(Builder *b, int index, const Instr *instr, const Cost *cost) {
  Segment *segment = &b->body->segments.at[index];
  int phase = phase_of(b, instr, index);
  b->value[instr->id].phase = phase;
  b->value[instr->id].segment = index + 1;
  if (instr->op == OP_STORE) {
    b->stored[instr->ref->id].phase = phase;
    b->stored[instr->ref->id].segment = index + 1;
  }
  if (phase < 0) phase = 0;
  while (segment->phases.count <= phase) LIST_PUSH(b->m->arena, &segment->phases, (Cost){0});
  cost_add(&segment->phases.at[phase], cost);
  segment->phases.at[phase].mxu_latency += cost->mxu_latency;
  // A transpose of a value that no phase computes reads blocks of rows as they arrive.
  if (cost->row_blocks <= 0 || (instr->op == OP_TRANSPOSE && phase == 0)) return;
  if (segment->row_blocks <= 0 || cost->row_blocks < segment->row_blocks)
    segment->row_blocks = cost->row_blocks;
  if (phase > 0) segment->waits = instr;
}

static Block *build_block(Builder *b, const Region *region);

static void note_start(Instr *instr, void *context) {
  if (instr->op == OP_COPY_START) *(bool *)context = true;
}

static bool starts_copies(const Instr *loop) {
  bool starts = false;
  for (int r = 0; r < 2; r++)
    if (loop->regions[r]) ir_walk(loop->regions[r], note_start, &starts);
  return starts;
}

static bool holds_break(const Block *block) {
  for (int i = 0; i < block->items.count; i++) {
    const Item *item = &block->items.at[i];
    if (item->instr && item->instr->op == OP_BREAK) return true;
    for (int k = 0; k < 2; k++)
      if (item->inner[k] && item->instr->op == OP_IF && holds_break(item->inner[k])) return true;
  }
  return false;
}

static void add_control(Builder *b, Block *block, const Instr *instr) {
  const char *outer = b->name;
  if (instr->op == OP_NAMED) b->name = instr->text;
  Item item = {.instr = instr, .segment = -1};
  item.pipelined = (instr->op == OP_FOR || instr->op == OP_WHILE) && starts_copies(instr);
  for (int r = 0; r < 2; r++)
    if (instr->regions[r]) item.inner[r] = build_block(b, instr->regions[r]);
  b->name = outer;
  item.leaves = instr->op == OP_IF && item.inner[0] && holds_break(item.inner[0]);
  if (depends_on_data(b, instr))
    LIST_PUSH(b->m->arena, &b->body->assumed, ((Assumption){instr, item.leaves}));
  LIST_PUSH(b->m->arena, &block->items, item);
  block->plain = false;
}

// Divides a region into segments and control flow.
static Block *build_block(Builder *b, const Region *region) {
  Block *block = NEW(b->m->arena, Block);
  block->plain = true;
  int open = -1;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (instr->regions[0] || instr->op == OP_BREAK || is_copy(b, instr)) {
      add_control(b, block, instr);
      open = -1;
      continue;
    }
    Cost cost;
    if (!op_cost(b->m, instr, &cost)) LIST_PUSH(b->m->arena, &b->body->unmodelled, instr);
    forget_first_fold(b, &cost);
    for (int u = 0; u < UNITS; u++)
      if (cost.busy[u] > 0) {
        add_cost(open_segment(b, block, &open, instr->span), instr, &cost);
        break;
      }
    if (open >= 0) {
      Work work = {.instr = instr, .segment = open};
      memcpy(work.busy, cost.busy, sizeof work.busy);
      work.busy[UNIT_MXU] += cost.mxu_in_step;
      LIST_PUSH(b->m->arena, &b->body->work, work);
      add_phase(b, open, instr, &cost);
    }
    if (b->decides[instr->id]) {
      LIST_PUSH(b->m->arena, &block->items, ((Item){.instr = instr, .segment = -1}));
      if (op_info[instr->op].class != OPC_LEAF)
        block->plain = false;  // it may change between iterations
    }
  }
  return block;
}

static void close_segment(const Builder *b, Segment *s) {
  s->bound = UNIT_SCALAR;
  for (int u = 0; u < UNITS; u++)
    if (s->cost.busy[u] > s->cost.busy[s->bound]) s->bound = (Unit)u;
  s->ps = ps_of(s->cost.busy[s->bound]);
  if (s->row_blocks <= 0) return;
  double through = 0, exposed = b->m->chip->value[CHIP_EXPOSED];
  for (int i = 0; i < s->phases.count; i++) {
    const Cost *phase = &s->phases.at[i];
    double busiest = phase->busy[UNIT_MXU] + phase->mxu_latency;
    for (int u = 0; u < UNITS; u++) busiest = fmax(busiest, phase->busy[u]);
    through += busiest;
  }
  double excess = fmax(0, through - s->cost.busy[s->bound]);
  s->exposed_ps = ps_of(exposed * excess);
  s->fill_ps = ps_of((1 - exposed) * excess / s->row_blocks);
}

int64_t ps_of(double seconds) {
  double ps = seconds * 1e12;
  return ps < 4e18 ? llround(ps) : (int64_t)4e18;
}

Body *body_new(const CostModel *m) {
  Builder b = {
      .m = m, .body = NEW(m->arena, Body), .decides = NEW_ARRAY(m->arena, bool, m->k->next_id + 1)};
  b.decidable = NEW_ARRAY(m->arena, bool, m->k->next_id + 1);
  b.holds_data = NEW_ARRAY(m->arena, bool, m->k->refs.count + 1);
  b.value = arena_alloc(m->arena, sizeof *b.value * (size_t)(m->k->next_id + 1));
  b.stored = arena_alloc(m->arena, sizeof *b.stored * (size_t)(m->k->refs.count + 1));
  b.signalled = NEW_ARRAY(m->arena, bool, m->k->refs.count + 1);
  ir_walk(m->k->body, note_signalled, &b);
  ir_walk(m->k->body, mark_control, &b);
  find_all_decidable(&b);
  ir_walk(m->k->body, list_scalar, &b);
  b.body->top = build_block(&b, m->k->body);
  for (int i = 0; i < b.body->segments.count; i++) close_segment(&b, &b.body->segments.at[i]);
  return b.body;
}

// ---- one step

typedef struct {
  const Body *body;
  GridEval *e;
  int64_t *counts, ps, iterations;
  const BodyVisitor *visitor;
  void *context;
  bool breaking, by_data;  // by_data: this iteration may have been the last one
} StepRun;

// `fills`: the number of the `times` runs that do not overlap the previous one.
static void run_block(StepRun *r, const Block *block, int64_t times, int64_t fills);

// A condition on data: the first branch is taken, unless it leaves a loop.
static void run_if(StepRun *r, const Item *item, int64_t times, int64_t fills) {
  const Instr *condition = item->instr->args[0];
  bool known = r->e->known[condition->id];
  bool taken = known ? r->e->value[condition->id] != 0 : !item->leaves;
  r->by_data |= !known && item->leaves;
  const Block *inner = item->inner[taken ? 0 : 1];
  if (!inner) return;
  run_block(r, inner, times, fills);
  if (has_result(item->instr) && !r->breaking)
    grid_take_result(r->e, item->instr, item->instr->regions[taken ? 0 : 1]);
}

// An iteration of a pipeline in the body is a step like the grid's.
static void begin_iteration(const StepRun *r, const Item *item) {
  if (item->pipelined && r->visitor && r->visitor->iteration) r->visitor->iteration(r->context);
}

static bool is_unrolled(const Instr *loop) {
  return loop->args[0]->op == OP_CONST && loop->args[1]->op == OP_CONST;
}

// Adds the cost of a loop, iteration by iteration unless its body has no control flow.
static void run_for(StepRun *r, const Item *item, int64_t times, int64_t fills) {
  const Instr *from = item->instr->args[0], *to = item->instr->args[1],
              *variable = item->instr->regions[0]->arg;
  if (!r->e->known[from->id] || !r->e->known[to->id])
    return run_block(r, item->inner[0], times, fills);
  int64_t low = r->e->value[from->id], high = r->e->value[to->id];
  if (high <= low) return;
  if (item->inner[0]->plain) {
    int64_t runs = saturating_mul(times, high - low);
    return run_block(r, item->inner[0], runs, is_unrolled(item->instr) ? fills : runs);
  }
  r->e->known[variable->id] = true;
  bool outer = r->by_data;
  for (int64_t t = low; t < high && !r->breaking; t++) {
    if (r->iterations++ >= most_iterations) {  // the remaining iterations cost as much as this one
      int64_t runs = saturating_mul(times, high - t);
      run_block(r, item->inner[0], runs, runs);
      break;
    }
    r->e->value[variable->id] = t;
    begin_iteration(r, item);
    run_block(r, item->inner[0], times, fills);
  }
  r->breaking = false;
  r->by_data = outer;
}

// A single run if the condition, or one that leaves the loop, depends on data.
static void run_while(StepRun *r, const Item *item, int64_t times, int64_t fills) {
  const Instr *condition = ir_yielded(item->instr->regions[0], 0);
  bool outer = r->by_data;
  r->by_data = false;
  do {
    run_block(r, item->inner[0], times, fills);
    if (r->e->known[condition->id] && !r->e->value[condition->id]) break;
    begin_iteration(r, item);
    run_block(r, item->inner[1], times, fills);
  } while (r->e->known[condition->id] && !r->breaking && !r->by_data &&
           r->iterations++ < most_iterations);
  r->breaking = false;
  r->by_data = outer;
}

static void run_segment(StepRun *r, int segment, int64_t times, int64_t fills) {
  const Segment *s = &r->body->segments.at[segment];
  int64_t ps = saturating_add(saturating_mul(s->ps + s->exposed_ps, times),
                              saturating_mul(s->fill_ps, fills));
  r->counts[segment] = saturating_add(r->counts[segment], times);
  r->ps = saturating_add(r->ps, ps);
  if (r->visitor) r->visitor->segment(r->context, segment, times, ps);
}

// Adds the cost of a block's segments and control flow.
static void run_block(StepRun *r, const Block *block, int64_t times, int64_t fills) {
  for (int i = 0; i < block->items.count && !r->breaking; i++) {
    const Item *item = &block->items.at[i];
    if (!item->instr) {
      run_segment(r, item->segment, times, fills);
      continue;
    }
    switch (item->instr->op) {
      case OP_IF:
        run_if(r, item, times, fills);
        break;
      case OP_FOR:
        run_for(r, item, times, fills);
        break;
      case OP_WHILE:
        run_while(r, item, times, fills);
        break;
      case OP_NAMED:
      case OP_SCOPED:
        run_block(r, item->inner[0], times, fills);
        break;
      case OP_BREAK:
        r->breaking = true;
        break;
      case OP_COPY_START:
      case OP_COPY_WAIT:
      case OP_REMOTE_START:
      case OP_SEM_SIGNAL:
      case OP_REMOTE_SIGNAL:
      case OP_SEM_WAIT:
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
  run_block(&r, body->top, 1, 1);
  return r.ps;
}
