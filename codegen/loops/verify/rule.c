// Helpers that the parts of the verifier share.
#include "codegen/loops/verify/verify.h"

void broken_rule(Verifier *x, const char *rule, const Instr *v, const char *what) {
  if (x->broken) return;
  x->broken = v ? text(x->g, "%s: line %d, %%%d %s: %s", rule, line_of(x->g, v->span), v->id,
                       op_info[v->op].name, what)
                : text(x->g, "%s: %s", rule, what);
}

bool is_around(const Verifier *x, const Region *region) {
  for (int f = x->frame; f >= 0; f = x->frames.at[f].outer)
    if (x->frames.at[f].region == region) return true;
  return false;
}
