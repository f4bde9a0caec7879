// flags: -march=native -DPK_VEC_BYTES=32 -DPK_DOT_MR=6
/* The kernels of dot.h and pack.h at 32 bytes. */
#include "tests/unit/test_dot.c"
