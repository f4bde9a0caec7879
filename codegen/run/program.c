// From a file's name to a kernel, its IR after the passes, and its C.
#include "codegen/run/program.h"
#include "codegen/emit/emit.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/pass.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const Node *find_kernel_node(const Node *file, const char *name) {
  if (!name) return default_kernel(file);
  for (int i = 0; i < file->list.count; i++)
    if (is_entry(file->list.at[i]) && file->list.at[i]->name == name) return file->list.at[i];
  return NULL;
}

bool program_read(Program *program, const Options *options, Arena *arena, const char *path) {
  *program = (Program){.arena = arena};
  program->source.path = path;
  program->source.text = read_file(arena, path, &program->source.length);
  if (!program->source.text) return false;
  source_index_lines(arena, &program->source);
  program->diag = diag_new(arena, &program->source);
  program->file = parse(arena, &program->source, program->diag);
  program->kernel_node = find_kernel_node(program->file, options->kernel);
  return true;
}

// ---- the mesh that the command line asks for

static const Node *mesh_node(const Program *program) {
  const Node *items = program->kernel_node ? program->kernel_node->a : NULL;
  for (int i = 0; items && i < items->list.count; i++)
    if (items->list.at[i]->kind == N_MESH) return items->list.at[i];
  return NULL;
}

// Of a slice "4x8" along the axes "y": 8, or "2x8" on two slices. One axis of a mesh has all chips.
static const char *slice_text(const Program *program, const Options *options, int axes) {
  Buf text = {0};
  const char *at = options->mesh;
  int64_t chips = options->slices ? options->slices : 1, extent;
  if (chips > 1) buf_printf(&text, "%lldx", (long long)chips);
  for (int axis = 'x'; *at; axis++) {
    size_t length = strcspn(at, "x");
    const char *digits = arena_strndup(program->arena, at, length);
    bool used = !options->over || strchr(options->over, axis);
    if (used) buf_printf(&text, "%sx", digits);
    if (used && (!parse_int(digits, &extent) || !mul_i64(chips, extent, &chips))) chips = INT64_MAX;
    at += length + (at[length] == 'x');
  }
  const char *kept = axes == 1     ? arena_printf(program->arena, "%lld", (long long)chips)
                     : text.length ? arena_strndup(program->arena, text.text, text.length - 1)
                                   : options->mesh;
  buf_free(&text);
  return kept;
}

// Its extents, "4x2"; those of --devices where there is one axis.
static const char *mesh_text(const Program *program, const Options *options) {
  const Node *mesh = mesh_node(program);
  if (options->mesh && options->on_slice && mesh)
    return slice_text(program, options, mesh->list.count);
  if (options->mesh) return options->mesh;
  if (!options->devices || !mesh || mesh->list.count != 1) return NULL;
  return arena_printf(program->arena, "%lld", (long long)options->devices);
}

// Extent number `axis` of such a text; false where there is none.
static bool mesh_extent(const Program *program, const char *text, int axis, const char **extent) {
  for (; axis > 0 && text; axis--) {
    text = strchr(text, 'x');
    text = text ? text + 1 : NULL;
  }
  if (text) *extent = arena_strndup(program->arena, text, strcspn(text, "x"));
  return text != NULL;
}

typedef LIST(StaticSetting) Settings;

static void add_mesh_settings(const Program *program, const Options *options, Settings *settings) {
  const Node *mesh = mesh_node(program);
  const char *text = mesh_text(program, options), *extent;
  for (int i = 0; mesh && text && i < mesh->list.count; i++) {
    const Node *by = mesh->list.at[i]->a;
    if (by->kind != N_NAME || !program_has_static(program, by->name) ||
        !mesh_extent(program, text, i, &extent))
      continue;
    LIST_PUSH(program->arena, settings, ((StaticSetting){.name = by->name, .value = extent}));
  }
}

static void no_mesh(const Program *program, const Options *options) {
  const Kernel *k = program->kernel;
  const char *asked =
      options->mesh ? arena_printf(program->arena, "a mesh of %s", options->mesh)
                    : arena_printf(program->arena, "%lld devices", (long long)options->devices);
  diag_error(program->diag, k->span, ERR_BAD_MESH,
             "`%s` has no mesh and runs on one device, not on %s: `mesh (dx: 4);` declares one",
             k->name, asked);
}

static void off_slice(const Program *program, const Options *options, const char *have) {
  const Kernel *k = program->kernel;
  diag_error(
      program->diag, k->mesh.at[0].span, ERR_BAD_MESH,
      "the mesh %s does not fit a slice of %s: it needs one axis with all chips, or the extents of "
      "the slice's axes; --over selects these, and --slices adds an axis before them",
      have, options->mesh);
}

// A static that the command line sets to another extent than the mesh has; NULL: none does.
static const char *other_extent(const Program *program, const Options *options) {
  const Node *mesh = mesh_node(program);
  const Kernel *k = program->kernel;
  for (int i = 0; mesh && i < k->mesh.count; i++) {
    const Node *by = mesh->list.at[i]->a;
    for (int j = 0; by->kind == N_NAME && j < options->settings.count; j++) {
      const StaticSetting *s = &options->settings.at[j];
      int64_t extent;
      if (strcmp(s->name, by->name) == 0 && parse_int(s->value, &extent) &&
          extent != k->mesh.at[i].extent)
        return arena_printf(program->arena, "%s = %lld", s->name, (long long)extent);
    }
  }
  return NULL;
}

// Is it the mesh that was asked for?
static bool check_mesh(const Program *program, const Options *options) {
  const Kernel *k = program->kernel;
  Buf text = {0};
  for (int i = 0; i < k->mesh.count; i++)
    buf_printf(&text, "%s%lld", i ? "x" : "", (long long)k->mesh.at[i].extent);
  const char *have = text.text ? arena_strndup(program->arena, text.text, text.length) : "none";
  buf_free(&text);
  const char *asked = options->mesh ? mesh_text(program, options) : NULL;
  bool other = asked && strcmp(asked, have) != 0,
       more = options->devices && options->devices != ir_device_count(k);
  Span span = k->mesh.count ? k->mesh.at[0].span : k->span;
  const char *extent = other_extent(program, options);
  if (extent)
    diag_error(program->diag, span, ERR_BAD_MESH,
               "the mesh is %s, not of %s: --mesh or --devices sets this static too", have, extent);
  else if (!k->mesh.count && (other || more))
    no_mesh(program, options);
  else if (options->on_slice && other)
    off_slice(program, options, have);
  else if (other || more)
    diag_error(program->diag, span, ERR_BAD_MESH,
               "the mesh is %s, not %s: --mesh gives its extents if they are statics, --devices "
               "if it has one axis",
               have,
               other
                   ? asked
                   : arena_printf(program->arena, "of %lld devices", (long long)options->devices));
  else
    return true;
  return false;
}

bool program_lower(Program *program, const Options *options, const LowerOptions *lower_options) {
  if (diag_error_count(program->diag) > 0) return false;
  program->kernel = lower(program->arena, &program->source, program->file, options->kernel,
                          lower_options, program->diag);
  if (!program->kernel || diag_error_count(program->diag) > 0) return false;
  const char *broken = ir_verify(program->kernel);
  if (broken) INTERNAL("the lowered kernel breaks a rule: %s", broken);
  return check_mesh(program, options);
}

void program_report(const Program *program, const Options *options) {
  Buf text = {0};
  diag_print(program->diag, &text, options->diagnostics);
  if (text.length) fwrite(text.text, 1, text.length, stderr);
  buf_free(&text);
}

bool program_has_static(const Program *program, const char *name) {
  enum { MOST = 256 };
  const char *names[MOST];
  if (!program->kernel_node) return false;
  int count = static_names(program->file, program->kernel_node->name, names, MOST);
  for (int i = 0; i < count && i < MOST; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static bool names_a_size(const Program *program, const char *name) {
  const Kernel *k = program->kernel;
  for (int i = 0; i < k->sizes.count; i++)
    if (strcmp(k->sizes.at[i].name, name) == 0) return true;
  for (int i = 0; i < k->inputs; i++)
    if (strcmp(k->refs.at[i]->name, name) == 0) return true;
  return false;
}

const char *program_check_names(const Program *program, const Options *options, bool sizes) {
  for (int i = 0; i < options->arguments.count; i++) {
    const char *name = options->arguments.at[i].name;
    if (program_has_static(program, name) || (sizes && names_a_size(program, name))) continue;
    return arena_printf(program->arena, "%s is not a static%s of %s", name,
                        sizes ? ", size or input" : "", program->kernel->name);
  }
  return NULL;
}

const StaticSetting *program_settings(const Program *program, const Options *options, int *count) {
  Settings settings = {0};
  for (int i = 0; i < options->settings.count; i++)
    LIST_PUSH(program->arena, &settings, options->settings.at[i]);
  for (int i = 0; i < options->arguments.count; i++) {
    const Argument *a = &options->arguments.at[i];
    if (program_has_static(program, a->name))
      LIST_PUSH(program->arena, &settings, ((StaticSetting){.name = a->name, .value = a->value}));
  }
  add_mesh_settings(program, options, &settings);
  *count = settings.count;
  return settings.at;
}

int program_load(Program *program, const Options *options, const char *path) {
  if (!program_read(program, options, options->arena, path))
    return user_error("cannot read %s: %s", path, read_problem());
  LowerOptions lower_options = {.numerics = options->numerics};
  lower_options.settings = program_settings(program, options, &lower_options.setting_count);
  bool ok = program_lower(program, options, &lower_options);
  program_report(program, options);
  return ok ? DONE : USER_ERROR;
}

static void dump_after(const Pass *pass, Kernel *k, bool changed, void *context) {
  const Options *options = context;
  (void)changed;
  if (!strchr(options->dumps, pass->letter)) return;
  Buf text = {0};
  ir_print(k, &text);
  fwrite(text.text, 1, text.length, stdout);
  buf_free(&text);
}

void program_optimise(Program *program, const Options *options, Buf *notes) {
  Buf unused = {0};
  Options copy = *options;
  AfterPass *after = options->dumps ? dump_after : NULL;
  if (!notes) notes = &unused;
  program->kernel->keep_blocks = options->literal_dma;
  if (!program->kernel->flow) run_passes(program->kernel, notes, after, &copy);
  for (int i = 0; program->kernel->flow && i < program->kernel->flow->callees.count; i++) {
    Kernel *callee = program->kernel->flow->callees.at[i].kernel;
    callee->keep_blocks = options->literal_dma;
    run_passes(callee, notes, after, &copy);
  }
  buf_free(&unused);
}

static EmitOptions emit_options(const Options *options, const Target *target) {
  return (EmitOptions){
      .target = target, .literal_dma = options->literal_dma, .long_cell = options->long_cell};
}

void program_emit(Program *program, const Options *options, Buf *c, Buf *h, Buf *loops,
                  Buf *explain) {
  EmitOptions emit = emit_options(options, options->target);
  emit.profile = options->profile;
  Buf header = {0};
  emit_kernel(program->kernel, &emit, c, h ? h : &header, loops, explain);
  buf_free(&header);
}

// Emission takes a kernel apart: each variant is lowered anew. What is wrong with it was reported.
static void emit_again(const Program *program, const Options *options, const EmitOptions *emit,
                       Buf *c, Buf *h) {
  Program copy = *program;
  LowerOptions lower_options = {.numerics = options->numerics};
  lower_options.settings = program_settings(program, options, &lower_options.setting_count);
  copy.diag = diag_new(program->arena, &copy.source);
  bool good = program_lower(&copy, options, &lower_options);
  REQUIRE(good);
  program_optimise(&copy, options, NULL);
  emit_kernel(copy.kernel, emit, c, h, NULL, NULL);
}

void program_emit_variants(const Program *program, const Options *options, Buf *c, Buf *h) {
  for (int i = 0; i < options->variants.count; i++) {
    const Target *target = options->variants.at[i];
    EmitOptions emit = emit_options(options, target);
    emit.variant = true;
    buf_printf(c, "#%sif defined PK_TARGET_%s\n\n", i ? "el" : "",
               target_symbol(program->arena, target->name));
    emit_again(program, options, &emit, c, NULL);
    buf_puts(c, "\n");
  }
  buf_puts(c, "#else\n\n");
  EmitOptions emit = emit_options(options, options->target);
  emit.choice = options->variants.at;
  emit.choices = options->variants.count;
  emit_again(program, options, &emit, c, h);
  buf_puts(c, "\n#endif\n");
}
