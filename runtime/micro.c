/* The micro-kernels of <pk/micro.h> for the target PK_MICRO_TARGET, compiled into libpkrt_TARGET.a
 * with the flags that `pkc --targets` prints. */
#include <pk/dot.h>
#include <pk/dot/bf16.h>
#include <pk/dot/skinny.h>
#include <pk/dot/i16.h>
#include <pk/dot/i8.h>
#include <pk/dot/fields.h>
#include <pk/micro.h>
#include <pk/pack.h>

#define DEFINE(name, parameters, arguments)             \
  void PK_MICRO_NAME(name, PK_MICRO_TARGET) parameters; \
  void PK_MICRO_NAME(name, PK_MICRO_TARGET) parameters { name arguments; }
PK_MICRO_KERNELS(DEFINE)
#define DEFINE_PACKS(kind, dtype, source, to, lanes) PK_MICRO_PACKS(DEFINE, dtype, source, to)
PK_PACK_DTYPES(DEFINE_PACKS)
