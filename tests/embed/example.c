/* Calls the kernel of kernels/add.pk, of which `pkc kernels/add.pk` makes add.c and add.h. C11, and
 * C++. */
#include "add.h"

#include <stdio.h>

int main(void) {
  float x[6] = {0, 1, 2, 3, 4, 5}, y[3] = {10, 20, 30}, o[6];
  int64_t shape[2] = {2, 3}, one_row[2] = {0, 1}; /* y is one row, repeated by a stride of 0 */
  DLTensor tx = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  DLTensor ty = {y, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, one_row, 0};
  DLTensor to = {o, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  if (add(NULL, &tx, &ty, &to) != PK_OK) return fprintf(stderr, "%s\n", pk_message(NULL)), 1;
  for (int i = 0; i < 6; ++i) printf("%g ", o[i]);
  return 0;
}
