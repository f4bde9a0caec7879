// The targets, and the detection of the machine's own.
#define _DEFAULT_SOURCE  // syscall, of <pk/cpu.h>
#include "codegen/loops/target.h"

#include "codegen/loops/machine.h"

#include <pk/cpu.h>
#include <string.h>

enum { KIB = 1024, MIB = 1024 * KIB };

#define X86 "x86_64-linux-gnu-"
#define ZEN_FLAGS "-march=x86-64-v4 -mavx512vnni -mavx512bf16"
#define ARM "aarch64-linux-gnu-"

// Notes on products of bf16. A feature bit says that the instruction exists, not that it is fast:
// on Intel's cores (Cooper Lake to Granite Rapids) vdpbf16ps has half the rate of a multiply-add of
// f32, on AMD's twice that rate.
static const char no_bf16[] = "this target has no instruction that multiplies bf16";
static const char slow_bf16[] =
    "vdpbf16ps is missing here or, on Intel's cores, has half the rate of f32";
static const char tiles[] =
    "tiles of 16 x 64 bytes on the matrix unit, by vectors where the system does not give it";
static const char pairs_bf16[] = "four times the multiply-adds of an instruction of f32";
static const char fast_bf16[] = "twice the rate of f32 on AMD's cores from Zen 4 on";

// ---- cores, with the measurements that set what differs from include/pk/machine.h

#define REGIME(name) (1LL << PK_REGIME_##name)
#define ZEN_REGIMES                                                                            \
  (REGIME(brought) | REGIME(filling) | REGIME(tiled) | REGIME(streamed) | REGIME(restarting) | \
   REGIME(long_row) | REGIME(squares))

// Zen 4's prefetchers begin again in each page and follow few pages at a time: blocks of 512
// columns of 4096 x 4096 arrive at 19 GB/s with several rows at a time, at 11 by strips; 1, 4 and
// 16 rows by 2048 x 2048 take 0.30, 0.55 and 1.6 ms, by strips 0.45, 1.3 and 2.1. A Xeon reads
// strips at 28 GB/s, which is all it has. What they prefetch of a page after a piece of a row is
// lost: 1, 2, 4 and 8 rows by 4096 x 4096 take 2.44, 2.92, 3.29 and 3.93 ms by pieces of 2
// KiB, 1.84, 2.21, 2.75 and 3.54 by pieces of 4 KiB, 1.70, 2.08, 2.62 and 3.47 by 8 KiB, which
// leave half the cells to share out to threads.
//
// The bytes of a call's arrays from which non-temporal stores pay: Zen 4 has 32 MiB of fast L3.
// rmsnorm of 1024 x 1024 (8 MiB) takes 0.130 ms with temporal and 0.157 with non-temporal stores,
// of 1000 x 777 0.115 and 0.174. At 16 MiB it is 0.262 and 0.315, but a transpose of 2048 x 1024
// takes 1.3 and 0.58; add of 2048 x 1024 (24 MiB) 0.56 and 0.33. Large products are computed panel
// by panel, 256 rows at a time: on Zen 5 f32 of 512, 1024 and 2048 cubed take 1.06, 8.97 and 71.6
// ms for 1.075, 9.08 and 73.6, bf16 and i8 of 1024 cubed 4.60 and 2.36 for 4.67 and 2.40, 256 x
// 1024 x 4096 with silu 18.9 for 19.7. Not timed on Zen 4, which loses more time to the costs that
// this hides: copying left rows 3.6 % of 1024 cubed, results 3.8, panels and filling them 3.9.
#define ZEN                                                                 \
  .sums = 4, .l2_bytes = 1024 * KIB, .kept_bytes = 32 * MIB, .piece = 4096, \
  .stream_all = 16 * MIB, .block = 256
// A call that reads little finds most of its earlier output in L3, and temporal stores are faster
// also where the output exceeds it: the gradient of a mean, of 18 MiB, takes 0.68 ms with
// non-temporal and 0.28 with temporal stores, of 31 MiB 1.15 and 0.70, of 49 MiB 1.84 and 1.27, of
// 98 MiB 3.7 and 3.2, of 196 MiB as long. `pkc calibrate` chose the rest: three runs agree.
static const Core zen4 = {ZEN, .regimes = ZEN_REGIMES | REGIME(along), .lines_followed = 4,
                          .thin = 10, .stream_lone = 64 * MIB};

// Zen 5's prefetchers follow eight rows at once, fast enough for up to 6 rows of a product: 1,
// 3 and 6 rows by 2048 x 2048 take 0.156, 0.170 and 0.223 ms, prefetched 0.167, 0.220 and 0.280; 1,
// 4 and 6 by 4096 x 4096 1.23, 1.94 and 2.46, prefetched 1.78, 2.42 and 2.54. 8 and 16 rows by 4096
// x 4096 would take 3.0 and 3.7 for 2.4 and 2.8; narrower elements up to 1.9 times as long (i8, one
// row by 8192 x 8192). For a transposed operand, and for a few columns with exchanged operands,
// they suffice for 1 to 3 rows: see PK_DOT_LINES_FOLLOWED. With blocks of 512 steps one row by 4096
// x 4096 takes 1.5 ms by hand, by whole rows 1.25; prefetched 2.0. A call that reads little finds
// its earlier output in the 32 MiB of L3: the gradient of a mean, of 25 MB, takes 0.60 ms with
// non-temporal and 0.42 with temporal stores, of 29 MB 0.68 and 0.59. If as much is read,
// non-temporal stores are better, as on a Zen 4: add of 24 MiB in all takes 0.22 and 0.28 ms,
// rmsnorm of 32 0.45 and 0.53, a transpose of 32 0.76 and 1.85. Fourteen rows 8 KB apart map to one
// set of its 12-way L1, so some are always evicted: 2048 rows of as many steps by 16 columns take
// 0.65 ms in tiles of 10 rows, in tiles of 7, 8, 12 and 14 0.72, 0.70, 0.72 and 0.77, copied first
// 0.84.
static const Core zen5 = {ZEN,
                          .regimes = ZEN_REGIMES | REGIME(along) | REGIME(shifted),
                          .rows_followed = 6,
                          .lines_followed = 3,
                          .thin = 10,
                          .stream_lone = 32 * MIB};

// Intel's with AVX-512 have 1 MiB or more; those with AVX2, from Haswell to Alder Lake, 256 KiB to
// 1.25 MiB, a Zen to Zen 3 512 KiB; older ones 256 KiB; Arm's server cores 512 KiB to 2 MiB.
static const Core xeon = {.sums = 4, .l2_bytes = 1024 * KIB, .kept_bytes = 32 * MIB};
static const Core medium = {.sums = 4, .l2_bytes = 512 * KIB, .kept_bytes = 32 * MIB};
static const Core small = {.sums = 4, .l2_bytes = 256 * KIB, .kept_bytes = 32 * MIB};

// Name, features, vector width, register tile, core, flags, products of bytes and of bf16.
const Target targets[] = {
    {"x86-64-v4-amx", PK_CPU_V4 | PK_CPU_AVX512_VNNI | PK_CPU_AMX, 64, 14, 2, &xeon,
     "-march=x86-64-v4 -mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16", X86, "tdpbsud",
     "tdpbf16ps", tiles,
     "AVX-512 with a matrix unit for bytes and bf16: Intel Xeons from the fourth generation on"},
    {"zen5", PK_CPU_V4 | PK_CPU_AVX512_VNNI | PK_CPU_FAST_BF16 | PK_CPU_AVX_VNNI, 64, 14, 2, &zen5,
     ZEN_FLAGS, X86, "vpdpbusd", "vdpbf16ps", fast_bf16,
     "as zen4, whose prefetchers follow several rows of a product: AMD Zen 5 and later"},
    {"zen4", PK_CPU_V4 | PK_CPU_AVX512_VNNI | PK_CPU_FAST_BF16, 64, 14, 2, &zen4, ZEN_FLAGS, X86,
     "vpdpbusd", "vdpbf16ps", fast_bf16,
     "AVX-512 with products of bytes and fast ones of bf16: AMD Zen 4"},
    {"x86-64-v4-vnni", PK_CPU_V4 | PK_CPU_AVX512_VNNI, 64, 14, 2, &xeon,
     "-march=x86-64-v4 -mavx512vnni", X86, "vpdpbusd", NULL, slow_bf16,
     "AVX-512 with products of bytes: Intel Ice Lake and later"},
    {"x86-64-v4", PK_CPU_V4, 64, 14, 2, &xeon, "-march=x86-64-v4", X86, NULL, NULL, slow_bf16,
     "AVX-512: 32 registers of 64 bytes"},
    {"x86-64-v3-vnni", PK_CPU_V3 | PK_CPU_AVX_VNNI, 32, 6, 2, &medium, "-march=x86-64-v3 -mavxvnni",
     X86, "vpdpbusd", NULL, no_bf16, "AVX2 with products of bytes: Intel Alder Lake and later"},
    {"x86-64-v3", PK_CPU_V3, 32, 6, 2, &medium, "-march=x86-64-v3", X86, NULL, NULL, no_bf16,
     "AVX2 and FMA: 16 registers of 32 bytes"},
    {"x86-64-v2", PK_CPU_V2, 16, 6, 2, &small, "-march=x86-64-v2", X86, NULL, NULL, no_bf16,
     "SSE4.2: 16 registers of 16 bytes"},
    {"aarch64-i8mm", PK_CPU_AARCH64 | PK_CPU_DOTPROD | PK_CPU_MMLA, 16, 8, 2, &medium,
     "-march=armv8.2-a+dotprod+i8mm+bf16", ARM, "smmla", "bfmmla", pairs_bf16,
     "NEON with products of pairs of rows, of bytes and of bf16: Neoverse V1, N2 and later"},
    {"aarch64-dotprod", PK_CPU_AARCH64 | PK_CPU_DOTPROD, 16, 8, 2, &medium,
     "-march=armv8.2-a+dotprod", ARM, "sdot", NULL, no_bf16,
     "NEON with products of bytes: 32 registers of 16 bytes"},
    {"aarch64", PK_CPU_AARCH64, 16, 8, 2, &medium, "-march=armv8-a", ARM, NULL, NULL, no_bf16,
     "NEON: 32 registers of 16 bytes"},
    {"riscv64", PK_CPU_RISCV64, 16, 8, 2, &medium, "-march=rv64gc", "riscv64-linux-gnu-", NULL,
     NULL, no_bf16, "RISC-V without vectors"},
    {"generic", 0, 16, 4, 2, &small, "", "", NULL, NULL, no_bf16, "any machine with a C compiler"},
};
const int target_count = sizeof targets / sizeof *targets;

// ---- the numbers of a core by name

enum { ALL = false, SOME = true };

static const struct {
  const char *name;
  bool optional;
} regimes[PK_REGIME_COUNT] = {
#define ROW(name, of, core, ...) [PK_REGIME_##name] = {#name, core},
    PK_DOT_REGIMES(ROW)
#undef ROW
};

int regime_count(void) { return PK_REGIME_COUNT; }
const char *regime_name(int regime) { return regimes[regime].name; }
bool regime_is_optional(int regime) { return regimes[regime].optional; }

const CalibratedRow calibrated_rows[CALIBRATED_COUNT] = {
#define MEASURED(name, low, high, unit, meaning) {#name, low, high, unit, meaning, 0},
#define CUT_OFF(name, low, high, meaning) {#name, low, high, NULL, meaning, offsetof(Core, name)},
#include "codegen/loops/calibration.def"
};

int64_t *core_number(Core *core, Calibrated cut_off) {
  return (int64_t *)(void *)((char *)core + calibrated_rows[cut_off].number);
}

static void put_number(const char *name, int64_t value, Buf *out) {
  if (value) buf_printf(out, ", .%s = %lld", name, (long long)value);
}

void core_write(const Core *core, const char *name, Buf *out) {
  Core copy = *core;
  buf_printf(out, "static const Core %s = {.sums = %d", name, core->sums);
  put_number("l2_bytes", core->l2_bytes, out);
  put_number("kept_bytes", core->kept_bytes, out);
  put_number("piece", core->piece, out);
  put_number("steps", core->steps, out);
  for (int i = 0; i < CALIBRATED_COUNT; i++)
    if (!calibrated_rows[i].unit)
      put_number(calibrated_rows[i].name, *core_number(&copy, (Calibrated)i), out);
  const char *between = ", .regimes = ";
  for (int i = 0; i < PK_REGIME_COUNT; i++) {
    if (!(core->regimes >> i & 1)) continue;
    buf_printf(out, "%sREGIME(%s)", between, regime_name(i));
    between = " | ";
  }
  buf_puts(out, "};\n");
}

Core core_calibrated(const Core *table, const Calibration *calibration) {
  Core core = *table;
  for (int i = 0; i < CALIBRATED_COUNT; i++)
    if (calibration->known[i] && !calibrated_rows[i].unit)
      *core_number(&core, (Calibrated)i) = calibration->value[i];
  core.regimes = (core.regimes & ~calibration->decided) | calibration->regimes;
  return core;
}

bool calibration_moves(const Calibration *calibration) {
  bool moves = calibration->decided;
  for (int i = 0; i < CALIBRATED_COUNT; i++)
    moves |= calibration->known[i] && !calibrated_rows[i].unit;
  return moves;
}

// ---- targets by name

bool target_is_here(const Target *target) { return !(target->needs & ~pk_cpu_features()); }

// The first row that runs here: rows of one architecture are in the order of their speed.
static const Target *best_target(void) {
  const Target *t = targets;
  while (!target_is_here(t)) t++;
  return t;
}

// The row of this machine, compiled for exactly this machine.
static Target *native_target(void) {
  static Target native;
  if (!native.name) {
    native = *best_target();
    native.cc_prefix = "";
#if defined(__x86_64__)
    native.cc_flags = "-march=native";
#elif defined(__aarch64__)
    native.cc_flags = "-mcpu=native";
#endif
  }
  return &native;
}

void target_calibrate(const Calibration *calibration) {
  static Core core;
  Target *native = native_target();
  native->core = best_target()->core;
  if (!calibration) return;
  core = core_calibrated(native->core, calibration);
  core.calibration = calibration;
  native->core = &core;
}

bool target_has_fma(const Target *target) { return target->needs & (PK_CPU_V3 | PK_CPU_AARCH64); }

const Target *target_find(const char *name) {
  if (strcmp(name, "native") == 0) return native_target();
  for (int i = 0; i < target_count; i++)
    if (strcmp(name, targets[i].name) == 0) return &targets[i];
  return NULL;
}

const char *target_tiles(const Target *t) { return t->needs & PK_CPU_AMX ? tiles : NULL; }

// The macros that a generated file defines for its target: the columns of its core that are not 0.
int target_macros(const Target *t, TargetMacro *macros) {
  const Core *c = t->core;
  const TargetMacro all[MOST_TARGET_MACROS] = {
      {"PK_VEC_BYTES", t->vector_bytes},
      {"PK_DOT_MR", t->dot_rows},
      {"PK_DOT_NV", t->dot_vectors},
      {"PK_REGIMES", c->regimes},
      {"PK_STREAM_BYTES", c->stream_bytes},
      {"PK_STREAM_ALL", c->stream_all},
      {"PK_STREAM_LONE", c->stream_lone},
      {"PK_DOT_NEAR", c->near},
      {"PK_DOT_LONG", c->steps},
      {"PK_DOT_BLOCK", c->block},
      {"PK_DOT_THIN", c->thin},
      {"PK_DOT_SKINNY_AHEAD", c->skinny_ahead},
      {"PK_DOT_ROWS_FOLLOWED", c->rows_followed},
      {"PK_DOT_LINES_FOLLOWED", c->lines_followed},
  };
  int count = 0;
  for (int i = 0; i < MOST_TARGET_MACROS; i++)
    if (all[i].value) macros[count++] = all[i];
  return count;
}

const char *target_symbol(Arena *arena, const char *name) {
  char *symbol = arena_printf(arena, "%s", name);
  for (char *c = symbol; *c; c++)
    if (*c == '-') *c = '_';
  return symbol;
}
