/* The kernels of dot.h and pack.h as any machine has them. */
#include "tests/unit/test_dot.c"
