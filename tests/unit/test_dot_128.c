/* The kernels of dot.h and pack.h as on any machine. */
#include "tests/unit/test_dot.c"
