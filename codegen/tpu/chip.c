// Chips: the table, files that add to it, and quantities that depend on the chip alone.
#define _POSIX_C_SOURCE 200809L
#include "codegen/tpu/tpu.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
#define CHIP(id, name) INDEX_##id,
#include "codegen/tpu/chips.def"
  KNOWN_CHIPS
};
enum { MOST_CHIPS = KNOWN_CHIPS + 16 };

typedef enum {
#define SOURCE(id, text) SOURCE_##id,
#include "codegen/tpu/chips.def"
  SOURCES
} SourceId;

static const char *const source_texts[SOURCES] = {
#define SOURCE(id, text) text,
#include "codegen/tpu/chips.def"
};

typedef enum { NEED_POSITIVE, NEED_COUNT, NEED_NUMBER, NEED_OPTIONAL } Need;

static const struct {
  const char *name, *unit;
  Need need;
  const char *meaning;
} fields[CHIP_FIELDS] = {
#define FIELD(id, name, unit, need, meaning) {name, unit, NEED_##need, meaning},
#include "codegen/tpu/chips.def"
};

typedef struct {
  int chip;
  ChipField field;
  double value;
  SourceId source;
  bool used;
} Fact;

static const Fact facts[] = {
#define FACT(chip, field, value, source) {INDEX_##chip, CHIP_##field, value, SOURCE_##source, true},
#define ALSO(chip, field, value, source) \
  {INDEX_##chip, CHIP_##field, value, SOURCE_##source, false},
#include "codegen/tpu/chips.def"
};
enum { FACTS = sizeof facts / sizeof *facts };

static Chip chips[MOST_CHIPS] = {
#define CHIP(id, name) {name, {0}},
#include "codegen/tpu/chips.def"
};
static int chips_known;

// Quantities by which the model divides, or which bound its loops.
static const char *check_values(Arena *arena, const Chip *chip) {
  for (int i = 0; i < CHIP_FIELDS; i++) {
    const double value = chip->value[i];
    const bool whole = value >= 1 && value <= 4096 && value == floor(value);
    if (fields[i].need == NEED_POSITIVE && !(value > 0))
      return arena_printf(arena, "%s must be positive", fields[i].name);
    if (fields[i].need == NEED_COUNT && !whole)
      return arena_printf(arena, "%s must be a whole number from 1 to 4096", fields[i].name);
  }
  return NULL;
}

static int count_facts(int chip, int field) {
  int count = 0;
  for (int i = 0; i < FACTS; i++)
    count += facts[i].chip == chip && (int)facts[i].field == field && facts[i].used;
  return count;
}

// All fields of a chip that have another number of facts than one, so that a new chip is completed
// in one step.
static const char *check_facts(Arena *arena, int chip) {
  const char *none = "", *several = "";
  for (int f = 0; f < CHIP_FIELDS; f++) {
    const int count = count_facts(chip, f);
    if (count > 1)
      several = arena_printf(arena, "%s%s%s", several, *several ? ", " : "", fields[f].name);
    if (count == 0 && fields[f].need != NEED_OPTIONAL)
      none = arena_printf(arena, "%s%s%s", none, *none ? ", " : "", fields[f].name);
  }
  if (*several) return arena_printf(arena, "more than one FACT for %s", several);
  return *none ? arena_printf(arena, "no FACT for %s", none) : NULL;
}

const char *chip_table_problem(Arena *arena) {
  for (int c = 0; c < KNOWN_CHIPS; c++) {
    const char *wrong = check_facts(arena, c);
    if (!wrong) wrong = check_values(arena, &chips[c]);
    if (wrong) return arena_printf(arena, "%s: %s", chips[c].name, wrong);
  }
  return NULL;
}

int chip_count(void) {
  if (chips_known) return chips_known;
  for (int i = 0; i < FACTS; i++)
    if (facts[i].used) chips[facts[i].chip].value[facts[i].field] = facts[i].value;
  Arena *arena = arena_new();
  const char *wrong = chip_table_problem(arena);
  if (wrong) INTERNAL("codegen/tpu/chips.def: %s", wrong);
  arena_free(arena);
  return chips_known = KNOWN_CHIPS;
}

const Chip *chip_at(int index) {
  REQUIRE(index >= 0 && index < chip_count());
  return &chips[index];
}

static const struct {
  const char *name;
  int chip;
} aliases[] = {
#define ALIAS(chip, name) {name, INDEX_##chip},
#include "codegen/tpu/chips.def"
};

const Chip *chip_find(const char *name) {
  for (int i = 0; i < chip_count(); i++)
    if (strcasecmp(chips[i].name, name) == 0) return &chips[i];
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcasecmp(aliases[i].name, name) == 0) return &chips[aliases[i].chip];
  return NULL;
}

// ---- chip files

static int find_field(const char *name) {
  for (int i = 0; i < CHIP_FIELDS; i++)
    if (strcmp(fields[i].name, name) == 0) return i;
  return -1;
}

// Reads one line of a chip file.
static const char *read_setting(Arena *arena, Chip *chip, const char *name, const char *value) {
  if (strcmp(name, "name") == 0) {
    if (chip_find(value)) return arena_printf(arena, "there is a chip %s already", value);
    chip->name = intern(value);
    return NULL;
  }
  if (strcmp(name, "like") == 0) {
    const Chip *like = chip_find(value);
    if (!like) return arena_printf(arena, "there is no chip %s to be like", value);
    memcpy(chip->value, like->value, sizeof chip->value);
    return NULL;
  }
  int field = find_field(name);
  if (field < 0)
    return arena_printf(arena, "%s is not a constant of a chip; `pkc tpu --sources` lists them",
                        name);
  char *end;
  double number = strtod(value, &end);
  if (!*value || *end || !(number >= 0 && number < 1e30))
    return arena_printf(arena, "%s requires a number, not %s", name, value);
  chip->value[field] = number;
  return NULL;
}

static const char *check_chip(Arena *arena, const Chip *chip) {
  return chip->name ? check_values(arena, chip) : "a line `name NAME` is missing";
}

static const char *read_chip(Arena *arena, char *text, Chip *chip) {
  int number = 0;
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = '\0';
    number++;
    line[strcspn(line, "#\r")] = '\0';
    char *save, *name = strtok_r(line, " \t", &save),
                *value = name ? strtok_r(NULL, " \t", &save) : NULL;
    if (!name) continue;
    const char *wrong = !value || strtok_r(NULL, " \t", &save)
                            ? "expected `NAME VALUE`"
                            : read_setting(arena, chip, name, value);
    if (wrong) return arena_printf(arena, "line %d: %s", number, wrong);
  }
  return check_chip(arena, chip);
}

const char *chip_file(Arena *arena, const char *path, const Chip **added) {
  size_t length;
  char *text = read_file(arena, path, &length);
  if (!text) return read_problem();
  if (chip_count() == MOST_CHIPS) return "there are too many chips";
  Chip chip = {0};
  const char *wrong = read_chip(arena, text, &chip);
  if (wrong) return wrong;
  chips[chips_known] = chip;
  *added = &chips[chips_known++];
  return NULL;
}

// ---- lists

// Prints the table of chips.
void chip_list(Buf *out) {
  buf_printf(out, "%-6s %9s %9s %9s %9s %6s %10s %9s %6s %6s %12s\n", "chip", "HBM", "bytes/s",
             "bf16/s", "int8/s", "cores", "MXUs", "VMEM", "from", "from", "torus, pod");
  buf_printf(out, "%-6s %9s %9s %9s %9s %6s %10s %9s %6s %6s\n", "", "GB", "", "", "", "", "a core",
             "MiB/core", "HBM", "VMEM");
  for (int i = 0; i < chip_count(); i++) {
    const double *v = chips[i].value;
    double intensity = v[CHIP_BF16] / v[CHIP_HBM_BANDWIDTH];
    buf_printf(out, "%-6s %9.4g %9.3g %9.3g %9.3g %6.0f %3.0f x %3.0f^2 %9.4g %6.0f %6.1f",
               chips[i].name, v[CHIP_HBM_BYTES] / 1e9, v[CHIP_HBM_BANDWIDTH], v[CHIP_BF16],
               v[CHIP_INT8], v[CHIP_CORES], v[CHIP_MXUS], v[CHIP_MXU_SIZE],
               v[CHIP_VMEM_BYTES] / 1048576, intensity, intensity / v[CHIP_VMEM_RATIO]);
    if (v[CHIP_TORUS] > 0)
      buf_printf(out, "  %.0fD %.0fx%.0f", v[CHIP_TORUS], v[CHIP_POD_X], v[CHIP_POD_Y]);
    if (v[CHIP_POD_Z] > 0) buf_printf(out, "x%.0f", v[CHIP_POD_Z]);
    buf_printf(out, "%s\n", v[CHIP_MEGACORE] > 0 ? ", megacore" : "");
  }
  buf_puts(out,
           "\nThe columns `from HBM` and `from VMEM`: FLOP/B from which bf16 work is bound by "
           "compute, not by that memory.\n");
}

void chip_list_sources(Buf *out) {
  for (int c = 0; c < KNOWN_CHIPS; c++) {
    buf_puts(out, chip_at(c)->name);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
      if (aliases[i].chip == c) buf_printf(out, ", %s", aliases[i].name);
    buf_putc(out, '\n');
    for (int i = 0; i < FACTS; i++) {
      const Fact *f = &facts[i];
      if (f->chip != c) continue;
      buf_printf(out, "  %-14s %12.6g %-7s %-50s %s%s\n", fields[f->field].name, f->value,
                 fields[f->field].unit, fields[f->field].meaning, f->used ? "" : "(not used) ",
                 source_texts[f->source]);
    }
    const double *v = chips[c].value;
    double peak =
        v[CHIP_CORES] * v[CHIP_MXUS] * 2 * v[CHIP_MXU_SIZE] * v[CHIP_MXU_SIZE] * v[CHIP_CLOCK];
    buf_printf(out, "  cores x MXUs x 2 x array x clock: %.4g FLOP/s, published %.4g\n", peak,
               v[CHIP_BF16]);
  }
}

// ---- rates

int chip_cores(const Chip *chip) {
  return chip->value[CHIP_MEGACORE] > 0 ? (int)chip->value[CHIP_CORES] : 1;
}

const char *chip_exceeded(Arena *arena, const Chip *chip, double bytes) {
  double capacity = chip->value[CHIP_HBM_BYTES] * chip_cores(chip) / chip->value[CHIP_CORES];
  if (!(capacity > 0) || bytes <= capacity) return NULL;
  return arena_printf(arena, "its operands take %.4g bytes, and the HBM of %s%s has %.4g", bytes,
                      chip_cores(chip) < chip->value[CHIP_CORES] ? "a core of " : "", chip->name,
                      capacity);
}

double chip_hbm_bandwidth(const Chip *chip, int cores) {
  // A core of a megacore may use the bandwidth that the other core does not use; on other chips the
  // cores are separate devices.
  const double *v = chip->value;
  return v[CHIP_MEGACORE] > 0 ? v[CHIP_HBM_BANDWIDTH]
                              : v[CHIP_HBM_BANDWIDTH] * cores / v[CHIP_CORES];
}

double chip_hbm_sustained(const Chip *chip, int cores) {
  return chip_hbm_bandwidth(chip, cores) * chip->value[CHIP_SUSTAINED];
}

double chip_peak(const Chip *chip, DType operands, int cores) {
  const double *v = chip->value;
  double peak = v[CHIP_BF16];
  if (dtype_info[operands].bits <= 8)
    peak = !is_float(operands) ? v[CHIP_INT8] : v[CHIP_FP8] > 0 ? v[CHIP_FP8] : peak;
  if (dtype_info[operands].bits == 4 && v[CHIP_INT4] > 0) peak = v[CHIP_INT4];
  if (operands == DT_F32) peak /= v[CHIP_F32_PASSES];
  return peak * cores / v[CHIP_CORES];
}

double chip_vmem_bandwidth(const Chip *chip) {
  return chip->value[CHIP_VMEM_RATIO] * chip->value[CHIP_HBM_BANDWIDTH] / chip->value[CHIP_CORES];
}

// ---- tiles

int64_t tpu_bytes(DType dtype, int64_t elements) {
  int64_t bits;
  return mul_i64(elements, dtype_info[dtype].bits, &bits) && bits <= INT64_MAX - 7 ? (bits + 7) / 8
                                                                                   : INT64_MAX;
}

// 16-bit values are in tiles of 8 rows before generation 7, and of 16 rows from generation 7 on.
int64_t tpu_tile_sublanes(const Chip *chip, DType dtype) {
  int64_t sublanes = (int64_t)chip->value[CHIP_SUBLANES];
  int bits = dtype_info[dtype].bits;
  if (bits == 16) return chip->value[CHIP_GENERATION] >= 7 ? 2 * sublanes : sublanes;
  return bits < 16 ? 32 / bits * sublanes : sublanes;
}

int64_t tpu_whole_lanes(const Chip *chip, int64_t length) {
  int64_t lanes = (int64_t)chip->value[CHIP_LANES], over = length % lanes;
  return over > 0 && length <= INT64_MAX - lanes ? length - over + lanes : length;
}

int64_t tpu_padded_bytes(const Chip *chip, DType dtype, int rank, const int64_t *dim,
                         int64_t *padded) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) {
    int64_t tile = i == rank - 2 ? tpu_tile_sublanes(chip, dtype) : 1;
    int64_t whole = i == rank - 1 ? tpu_whole_lanes(chip, dim[i])
                                  : dim[i] / tile * tile + (dim[i] % tile ? tile : 0);
    if (padded) padded[i] = whole;
    if (!mul_i64(count, whole, &count)) count = INT64_MAX;
  }
  return tpu_bytes(dtype, count);
}

double mxu_fold_cycles(double array_rows, double array_columns, double rows) {
  return 2 * array_rows + array_columns + rows - 2;
}

double mxu_serial_cycles(double array_rows, double array_columns, double m, double k, double n) {
  return ceil(k / array_rows) * ceil(n / array_columns) *
         mxu_fold_cycles(array_rows, array_columns, m);
}
