/* kernel.h: what every generated kernel includes. PK_VEC_BYTES, PK_DOT_MR and PK_DOT_NV are defined
 * before it. */
#ifndef PK_KERNEL_H
#define PK_KERNEL_H

#include <math.h>
#include <pk/dot.h>
#include <pk/dot/skinny.h>
#include <pk/dot/right.h>
#include <pk/pack.h>
#include <pk/reduce.h>
#include <pk/scalar.h>
#include <pk/step.h>

#endif
