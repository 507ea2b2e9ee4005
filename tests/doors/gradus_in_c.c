/* gradus.h from C: the example at its head, compiled as C99 and as C11, warnings being errors. */
#include "bindings/c/gradus.h"

#if __STDC_VERSION__ < 201112L
int gradus_header_in_c99(void);
int gradus_header_in_c99(void) { return GRADUS_ABI_VERSION; }
#else
gradus_status gradus_example_in_c(double slope_of[3]);
gradus_status gradus_example_in_c(double slope_of[3]) {
  gradus_tensor x = 0, y = 0, loss = 0, slope = 0;
  const double numbers[3] = {0.5, -1, 2};
  const int64_t shape[1] = {3};
  gradus_status status = gradus_from_data(numbers, GRADUS_F64, shape, 1, &x);
  if (!status) status = gradus_set_requires_grad(x, 1);
  if (!status) status = gradus_sigmoid(x, &y);
  if (!status) status = gradus_sum(y, NULL, 0, 0, &loss);
  if (!status) status = gradus_backward(&loss, NULL, 1, 0);
  if (!status) status = gradus_grad(x, &slope);
  if (!status) status = gradus_to_data(slope, slope_of, 3 * sizeof(double));
  gradus_free(x);
  gradus_free(y);
  gradus_free(loss);
  gradus_free(slope);
  return status;
}
#endif
