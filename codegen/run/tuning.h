// FILE.pk.tuning: the block sizes that `pkc tune` found for a kernel, a line for each class of
// sizes on a processor:
//
//     KERNEL text=HASH cpu=NAME target=NAME threads=N sizes=M:1024,.. statics=T:f32,..
//         blocks=BM:64,.. times=1.31
//
// Everything before `blocks=` is the key. Sizes are rounded to the nearest power of two. Names and
// values contain no blanks.
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
  const char *key;  // the whole key, as in the file
  BlockSizes blocks;
  double times;  // speed relative to the defaults
} TuningEntry;

const char *tuning_path(Arena *arena, const char *path);
// The key of a bound kernel, without the statics of `blocks`.
const char *tuning_key(Arena *arena, const Binding *binding, const Options *options, int threads,
                       const BlockSizes *blocks);
// Replaces the line with the same key. Returns NULL, or an error message.
const char *tuning_write(Arena *arena, const char *path, const TuningEntry *entry);
void put_blocks(const BlockSizes *blocks, char equals, const char *between, Buf *out);
bool read_blocks(Arena *arena, const char *text, BlockSizes *blocks);
// The text with blanks instead of control characters.
const char *one_line(Arena *arena, const char *text);
uint64_t text_hash(const char *text, size_t length);

// Does the command line set the static or size with this name?
bool is_given(const Options *options, const char *name);
// Do its statics leave operands and reference unchanged? Then the meaning is the same.
bool same_meaning(const Kernel *a, const Kernel *b);
// The same, and do they change the blocks of operands, or the grid?
bool other_blocks(const Binding *a, const Binding *b);
// Binds the kernel with other blocks: NULL, or why that is refused. `options` receives the
// settings.
const char *bind_blocks(Arena *arena, const Options *options, const BlockSizes *blocks,
                        Options *with, Binding *binding);

// Before binding for run, bench and explain: adds the file's blocks for the arguments to
// options->settings. If the file is damaged, belongs to another text of the kernel, or names a
// static that is not a block size, there is a warning and no change. NULL: the defaults remain.
const TuningEntry *tuning_apply(Options *options, int threads);

#endif
