/* What the machine at hand can do at best: what speeds are compared with. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

typedef struct {
  double gflops; /* f32 multiply-adds of one core, two operations each, in 1e9 a second */
  double gbytes; /* bytes read and written by one core's copies and sums of large arrays, in 1e9 a second; 0: no memory to tell */
} pk_peaks;

/* Measures for some 100 ms. The vectors are those of the compiler's flags. */
void pk_measure_peaks(pk_peaks *peaks);

#endif
