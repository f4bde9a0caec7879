// FILE.pk.tuning: the block sizes that `pkc tune` found for a kernel, a line for each class of
// sizes on a processor:
//
//     KERNEL text=HASH cpu=NAME target=NAME threads=N sizes=M:1024,.. statics=T:f32,..
//         blocks=BM:64,.. times=1.31
//
// Everything before `blocks=` is the key. A size counts by the power of two that is nearest to it.
// Names and values have no blanks.
#ifndef CODEGEN_RUN_TUNING_H
#define CODEGEN_RUN_TUNING_H

#include "codegen/run/run.h"

enum { MOST_BLOCK_STATICS = 8 };

typedef struct {
  int count;
  const char *name[MOST_BLOCK_STATICS];
  int64_t value[MOST_BLOCK_STATICS];
} BlockSizes;

typedef struct {
  const char *key;  // whole, as in the file
  BlockSizes blocks;
  double times;  // as fast as the defaults
} TuningEntry;

const char *tuning_path(Arena *arena, const char *path);
// The key of a bound kernel; it does not contain the statics of `blocks`.
const char *tuning_key(Arena *arena, const Binding *binding, const Options *options, int threads,
                       const BlockSizes *blocks);
// In place of the line of the same key. NULL or what is wrong.
const char *tuning_write(Arena *arena, const char *path, const TuningEntry *entry);
void put_blocks(const BlockSizes *blocks, char equals, const char *between, Buf *out);
bool read_blocks(Arena *arena, const char *text, BlockSizes *blocks);
// A text with blanks in place of control characters.
const char *one_line(Arena *arena, const char *text);
uint64_t text_hash(const char *text, size_t length);

// Does the command line set the static or size of this name?
bool is_given(const Options *options, const char *name);
// Does changing its statics leave operands and reference as they are? Then it means the same.
bool same_meaning(const Kernel *a, const Kernel *b);
// .. and are the blocks of operands, or the grid, others?
bool other_blocks(const Binding *a, const Binding *b);
// The kernel with other blocks: NULL, or why it cannot be run like that. `options` becomes those
// that it is bound by.
const char *bind_blocks(Arena *arena, const Options *options, const BlockSizes *blocks,
                        Options *with, Binding *binding);

// Before binding for run, bench and explain: puts what the file says for the arguments into
// options->settings. A file that is damaged, is of another text of the kernel, or names what is not
// a block size gives a warning and changes nothing. NULL: the defaults stay.
const TuningEntry *tuning_apply(Options *options, int threads);

#endif
