// Statics from settings and from arrays, and the messages for settings that do not fit.
#include "codegen/lower/lower.h"
#include "check.h"

#include <stdio.h>
#include <string.h>

static const char text[] =
    "kernel k(x: T[M, D], y: f32[D]) -> (o: f32[M, D]) {\n"
    "  static T: dtype = f32, D = 8, HALF = D / 2, F: f32 = 1, ON = true, SMALL: i8 = 3;\n"
    "  o[...] = cast(x[...], f32) * F + HALF + SMALL;\n"
    "}\n"
    "kernel other(x: f32[M]) -> (o: f32[M]) { static ONLY = 1; o[...] = x[...] * ONLY; }\n";

// Lowers kernel k; the message of the first error, or the statics as text, in `out`.
static void statics_text(Arena *arena, const StaticSetting *settings, int count,
                         const OperandHint *hints, int hint_count, Buf *out) {
  Source *source = NEW(arena, Source);
  *source = (Source){.path = "test.pk", .text = text, .length = sizeof text - 1};
  Diag *diag = diag_new(arena, source);
  LowerOptions options = {.settings = settings,
                          .setting_count = count,
                          .hints = hints,
                          .hint_count = hint_count,
                          .numerics = NUMERICS_F32};
  Kernel *k = lower(arena, source, parse(arena, source, diag), "k", &options, diag);
  if (!k) diag_print(diag, out, DIAG_TEXT);
  for (int i = 0; k && i < k->statics.count; i++)
    buf_printf(out, "%s%s=%s", i ? " " : "", k->statics.at[i].name, k->statics.at[i].value);
}

static void expect(const StaticSetting *settings, int count, const OperandHint *hints,
                   int hint_count, const char *wanted) {
  Arena *arena = arena_new();
  Buf out = {0};
  statics_text(arena, settings, count, hints, hint_count, &out);
  check(out.text && strstr(out.text, wanted), wanted, "got %s", out.text ? out.text : "nothing");
  buf_free(&out);
  arena_free(arena);
}

static void set(const char *kernel, const char *name, const char *value, const char *wanted) {
  StaticSetting setting = {.kernel = kernel, .name = name, .value = value};
  expect(&setting, 1, NULL, 0, wanted);
}

static void check_settings(void) {
  expect(NULL, 0, NULL, 0, "T=f32 D=8 HALF=4 F=1.0 ON=true SMALL=3");
  set(NULL, "T", "bf16", "T=bf16 D=8");
  set("k", "D", "4 * 3", "D=12 HALF=6");
  set("other", "D", "3", "D=8");
  set(NULL, "ONLY", "2", "D=8");
  set(NULL, "F", "3", "F=3.0");
  set(NULL, "ON", "1 > 2", "ON=false");
  set(NULL, "SMALL", "-128", "SMALL=-128");
  set(NULL, "SMALL", "128", "E0503");
  set(NULL, "D", "bf16", "`D` is an integer, and the dtype bf16 is not valid for it");
  set(NULL, "D", "1.5", "E0503");
  set(NULL, "T", "f23", "E0506");
  set(NULL, "D", "", "E0506");
  set(NULL, "D", "1; fn g() = 2", "E0506");
  set(NULL, "D", "iota([4])", "E0506");
  set(NULL, "D", "-3", "E0307");
  set(NULL, "DD", "3", "E0502");
  set("k", "ONLY", "3", "the kernel `k` has no static of that name");
}

static void check_hints(void) {
  OperandHint hints[] = {{"x", DT_BF16, 2, {5, 16}}, {"y", DT_F32, 1, {7}}};
  expect(NULL, 0, hints, 1, "T=bf16 D=16 HALF=8");
  expect(NULL, 0, hints, 2, "D=16");
  expect(NULL, 0, hints + 1, 1, "T=f32 D=7 HALF=3");
  StaticSetting setting = {.name = "D", .value = "4"};
  expect(&setting, 1, hints, 1, "T=bf16 D=4 HALF=2");
  hints[0].rank = 3;
  expect(NULL, 0, hints, 1, "T=bf16 D=8");
}

int main(void) {
  check_settings();
  check_hints();
  return check_end();
}
