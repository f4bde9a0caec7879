// The verifier of the loop IR, in parts.
#ifndef CODEGEN_LOOPS_VERIFY_H
#define CODEGEN_LOOPS_VERIFY_H

#include "codegen/loops/loops.h"

// An open or completed region in the walk over the tree.
typedef struct {
  const Region *region;
  int outer;  // index of the frame around it, or -1
  bool loop;
  int last;  // a time after its last instruction, if the walk has reached it
} Frame;

// A read or write of a ref. Times are those of the walk; positions those of the program.
typedef struct {
  const Instr *access;  // LOAD, STORE, COPY_START
  const Instr *user;    // what reads or writes
  const Group *group;
  int position, time;
  bool writes;
  bool aligned;  // row r of the loop touches row r of the ref
} Access;
typedef LIST(Access) AccessList;

typedef struct Verifier Verifier;
typedef void (*Visit)(Verifier *x, const Instr *v, const Group *group, int step);

struct Verifier {
  Gen *g;
  const char *broken;  // the first violated rule, or NULL
  int clock;           // time of the instruction being checked
  int begun;           // position before the first instruction of its group
  bool packs;          // its reads are packed before the group
  LIST(Frame) frames;  // in the order of the walk
  int frame, opened;   // the innermost open one; how many the walk has seen
  void (*begin)(Verifier *x, const Schedule *s);  // at the beginning of a region, or NULL
  int *at, *last_use;  // by Instr.id: time of its place, 0: none; .. of the last that reads it
  LIST(const Instr *) placed;  // in order
  const Region **fetched;      // by Ref.id: where it was made present, or NULL
  AccessList *accesses;        // by Ref.id
};

// rule.c
// `v` may be NULL.
void broken_rule(Verifier *x, const char *rule, const Instr *v, const char *what);
bool is_around(const Verifier *x, const Region *region);  // the instruction being checked

// columns.c
void check_columns(Verifier *x, const Group *group);

// hazard.c
void note_read(Verifier *x, const Instr *load, const Instr *user, const Group *group, bool aligned);
void note_accesses(Verifier *x, const Instr *v, const Group *group, int step);  // of v itself
void check_hazards(Verifier *x);

// memory.c
void check_buffers(Verifier *x, const Instr *v, const Group *group);  // of what v computes
void check_refs(Verifier *x);

// split.c
void check_split(Verifier *x);

#endif
