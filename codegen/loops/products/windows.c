// Left operands of dots that are windows of an image: reshape(image[a:a + H, b:b + W, :]) has a
// row for each pixel of the window. The pixels of one line have a constant stride, so strips that
// end where a line ends read them in place.
#include "codegen/ir/axes.h"
#include "codegen/loops/loops.h"

#include <string.h>

enum { SHORT_LINE = 8 };  // pixels: with fewer, a register tile is half empty

// The value in memory whose rows form a window, or NULL.
static const Instr *image_of(Gen *g, const Instr *window) {
  const Instr *v = window->args[0];
  if (v->op == OP_SLICE && is_transparent(v)) v = v->args[0];
  if (v->op == OP_PAD) return val(v)->region == val(window)->region ? v : NULL;
  const bool direct = v->op == OP_LOAD && is_transparent(v) && v->ref->role == REF_INPUT &&
                      !shares_memory(g, v->ref) && g->refs[v->ref->id].form == FORM_DIRECT;
  return direct ? v : NULL;
}

// The number of pixels of a line; 0: it is not a window.
static int64_t line_of_window(Gen *g, const Instr *dot) {
  const DotShape s = dot_shape(dot);
  const Instr *a = s.a;
  if (a->op != OP_RESHAPE || s.a_transposed || val(a)->users.count != 1 || val(a)->group == NULL ||
      val(a)->region != val(dot)->region)
    return 0;
  const Type *from = &a->args[0]->type;
  const int last = from->rank - 1;
  for (int i = 0; i < from->rank; i++)
    if (!dim_is_const(from->dim[i])) return 0;
  if (last < 2 || from->dim[last] != a->type.dim[1] || from->dim[last - 1] < SHORT_LINE) return 0;
  const Instr *image = image_of(g, a);
  const bool plain = image && image->type.dtype == DT_F32 && val(dot)->dot.kind->id == DOT_F32;
  return plain ? from->dim[last - 1] : 0;
}

// The loops that copy it may be another group's, if the right operand is computed between the two.
static bool take_window(Step *step) {
  Instr *a = dot_shape(step->product.dot).a;
  const bool snapshot = val(a)->snapshot;
  val(a)->snapshot = false;
  step->product.window = is_transparent(a);
  val(a)->snapshot = snapshot && !step->product.window;
  if (step->product.window) take_out(val(a)->group, a), val(a)->group = NULL;
  return step->product.window;
}

static void read_group(Gen *g, Group *group) {
  int64_t line = 0;
  if (group->kind != GROUP_ROWS || !group->has_dot || group->leads != 1) return;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (!is_dot(step)) continue;
    const int64_t pixels = line_of_window(g, step->product.dot);
    if (pixels == 0 || (line && pixels != line) || step->product.right ||
        is_skinny(group->lead[0]) || group->lead_demand[0] != DEMAND_FULL)
      return;
    line = pixels;
  }
  for (int s = 0; s < group->steps.count; s++)
    if (is_dot(&group->steps.at[s]) && take_window(&group->steps.at[s]))
      group->strips.line = (int)line;
}

void read_windows(Gen *g, Schedule *s) {
  for (int i = 0; !g->batch && i < s->groups.count; i++) read_group(g, s->groups.at[i]);
  drop_empty(s);
}

// The offset of row `row` of a window, and the distance between rows of a line, in elements.
void place_of_window(Gen *g, const Instr *window, const Expr *row, Place *p) {
  const Expr *at[MAX_RANK] = {row, number(g, 0)}, *from[MAX_RANK];
  AxisMap map;
  const Instr *v = window->args[0];
  const int lines = v->type.rank - 2;
  int64_t step = 1;
  REQUIRE(ir_axis_map(window, &map));
  operand_index(g, window, &map, at, from);
  if (v->op == OP_SLICE) {
    REQUIRE(ir_axis_map(v, &map));
    memcpy(at, from, sizeof at);
    operand_index(g, v, &map, at, from);
    step = v->ints2[lines];
    v = v->args[0];
  }
  REQUIRE(place_of(g, v, p));
  for (int i = 0; i < v->type.rank; i++)
    p->offset = expr_add(&g->exprs, p->offset, expr_mul(&g->exprs, from[i], p->stride[i]));
  p->stride[0] = expr_mul(&g->exprs, p->stride[lines], number(g, step));
}

// Does each row of window b begin where that of window a ends?
bool window_follows(const Instr *a, const Instr *b) {
  const Instr *x = a->args[0], *y = b->args[0];
  int64_t distance = 0, stride;
  if (x->op != OP_SLICE || y->op != OP_SLICE || x->args[0] != y->args[0]) return false;
  const Buffer *image = val(x->args[0])->buffer;
  for (int i = 0; i < x->type.rank; i++) {
    if (!image || !expr_is_const(image->stride[i], &stride) || x->ints2[i] != y->ints2[i])
      return false;
    distance += (y->ints[i] - x->ints[i]) * stride;
  }
  return distance == a->type.dim[1];
}
