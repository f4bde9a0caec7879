// Refs, their windows and views of them.
#ifndef CODEGEN_LOWER_REFS_H
#define CODEGEN_LOWER_REFS_H

#include "codegen/lower/internal.h"

// ---- access.c
// The part of an axis that one index element selects. `vector`: a gather by it; otherwise `size`
// elements, `stride` apart, from `start`. `length`: their number is this scalar, and size is 1.
typedef struct {
  bool whole, squeeze;
  int64_t first;
  Instr *start, *vector, *length;
  int64_t stride;
  Dim size;
} Cut;                                                  // first < 0: not constant
Instr *cut_start(Lower *l, const Cut *cut, Span span);  // as an i64 instruction
Cut whole_cut(Dim dim);
Ref *ref_of(Lower *l, const Node *node);  // the ref that a NAME names, else NULL

typedef struct {
  Ref *ref;
  Window window;
  Instr *starts[MAX_RANK];
  Instr *lengths[MAX_RANK];  // for a copy's window: the number of elements along an axis whose size
                             // here is 1
  Type type;
} View;
// The prefetched operand of that name with the caller's values, if it may be read here; otherwise
// NULL. The body may have its own copy of it.
Ref *prefetched_of(Lower *l, const Symbol *s);
// var: it may be named bare, and have any rank
bool is_var(const Ref *ref);
bool is_all_of(const Node *window);  // x[...]
// cuts: one per axis, or NULL
void view_of_cuts(Lower *l, Ref *ref, const Cut *cuts, Span span, View *view);
Instr *load_view(Lower *l, const View *view, Instr *mask, Instr *other, Span span);
View whole_view(Lower *l, Ref *ref, Span span);
// A start, clamped so that the window is in bounds. A constant may be out of bounds on an axis of
// run-time size.
Instr *moved_in(Lower *l, Span span, Instr *start, Dim size, int64_t stride, Dim dim);
void store_view(Lower *l, const View *view, Value v, Value mask, Span span);
Value load_ref(Lower *l, Ref *ref, Span span);  // the whole ref
bool is_broken(const Lower *l, const Ref *ref);
void mark_broken(Lower *l, const Ref *ref);
bool check_accessible(Lower *l, const Ref *ref, Span span);
bool check_storable(Lower *l, Ref *ref, Span span);

// ---- ref.c
Ref viewed_as_ref(const RefView *view,
                  const char *name);  // a ref with the view's type, for indexing
// The window of a view as a view; false, reported, if the window is invalid.
bool window_of_view(Lower *l, const Node *window, const RefView *view, RefView *out);
// The view, with that window as its last step.
void add_window(Lower *l, const RefView *view, const View *part, RefView *out);
// NAME[..] of a ref. `masked`: an access under a mask, whose window may exceed the ref.
bool lower_view(Lower *l, const Node *node, bool masked, View *view);
// The same for `ref`, to which the name in `node` refers here.
bool lower_window(Lower *l, const Node *node, Ref *ref, bool masked, View *view);
Value lower_ref_read(Lower *l, const Node *node, Ref *ref);              // an INDEX of a ref
Value lower_view_read(Lower *l, const Node *node, const RefView *view);  // an INDEX of a view

// ---- view.c
// A view is a window and the operations on the value read from it, in order. Each step has the type
// of its result; a window has the starts within the previous step.
typedef struct {
  ChainKind kind;
  Type type;
  int perm[MAX_RANK];
  View window;
} ViewStep;

struct RefView {
  View window;
  LIST(ViewStep) steps;
};

static inline const Type *view_type(const RefView *v) {
  return v->steps.count ? &v->steps.at[v->steps.count - 1].type : &v->window.type;
}
Ref *viewed_ref(const RefView *view);
// the view that a name refers to, else NULL
const RefView *named_view(Lower *l, const Node *node);
Value read_view(Lower *l, const RefView *view, Span span);
// With a mask (V_VOID: none), only the elements for which it is true.
void write_view(Lower *l, const RefView *view, Value value, Value mask, Span span);
bool view_window(Lower *l, const RefView *view, View *out, Span span);  // as a window of a ref
Ref *view_var(Lower *l, const Type *type, const char *name, Span span);
Value nothing_of(DType t);  // 0, or what is nearest to it

// Of both ends of a copy; false, after reporting it, if none can move it.
bool check_layouts(Lower *l, const Instr *copy, const Span *spans);

// ---- reach.c
// The view that NAME or NAME[..] is a window of; NULL if it is a window of the ref.
const RefView *folded_view(Lower *l, const Node *window);
// A part of a view that contains all of a window that is inside the view, and the window of that
// part, which may leave it.
typedef struct {
  const char *name;
  RefView part;
  bool whole;   // the window is the part
  View window;  // else: of the part; its ref has the type of the view
} Reach;
// False: reported.
bool reach_view(Lower *l, const Node *node, const RefView *view, Reach *out);
// The window, of a var that contains the part.
View loaded_reach(Lower *l, const Reach *r, Span span);
// Stores the elements for which the mask is true and which are in the part.
void store_reach(Lower *l, const Reach *r, Value v, Value mask, Span span);

// ---- chain.c
typedef LIST(Instr *) Arguments;
bool is_all_of_ref(const View *window);
void push_args(Lower *l, Arguments *args, Instr *const *values, int count);
// The chain of a view, as the IR represents it, or NULL; the starts of the chain's windows are
// appended to args. clamped: they are clamped, as those of loads and stores are.
const Chain *push_chain(Lower *l, Arguments *args, const RefView *view, bool clamped, Span span);

// ---- route.c
// A view as a window of its ref, and what becomes of the window's value on the way to the view: its
// elements are taken apart into parts, these are split into the digits of the axes, put in order,
// and joined to the view's axes and elements. On the way back each of it is inverted.
typedef struct {
  View window;
  Instr *bit;          // the first bit of the one part of each element that is seen; NULL: all are
  Type parts, split;   // the window's value in parts, and by digits
  int perm[MAX_RANK];  // of the digits, to the view's order
  Type seen, type;     // in the view's order: parts, and the view's elements
} Route;
// False: the view has none.
bool route_of_view(Lower *l, const RefView *view, Route *out, Span span);

// ---- index.c
// Distributes the elements of an index over the axes: elements[k] is the element for axis k, NULL
// for the whole axis.
bool spread_index(Lower *l, const Node *index, const Type *type, const char *what,
                  const Node **elements);
// One cut per axis. `masked`: they may be out of bounds.
bool lower_cuts(Lower *l, const Node *index, const Type *type, const char *what, bool masked,
                Cut *cuts);
// Gathers by a vector, if there is one, and gives v the shape of the index. axis_of[k]: the
// position of axis k in v.
Value finish_index(Lower *l, const Node *index, const Cut *cuts, int rank, Instr *v, int *axis_of,
                   Span span);

#endif
