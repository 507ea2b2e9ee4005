/* What the slot GD_NORMALIZE is asked for, in gd_call.op.
 *
 * x brought to mean 0 and variance 1 over the axes where mean's size is 1 and x's may be
 * anything; equal rank; n = elements of one mean; h = (x - mean) / sqrt(var + eps). doubles =
 * {eps}, ints = {1: mean is taken as 0}; op = gd_normalization. value: in = {x, weight, bias},
 * out = {y, mean, var (biased)}, y = h weight + bias. given: in = {x, weight, bias, mean, var},
 * out = {y}. vjp: in = {x, weight, g, mean, var} as value found them, out = {the cotangent of x
 * from y's g alone}. weight, bias may be NULL. x, weight, bias, g, out[0] have x's sizes and f32
 * f64 f16 or bf16; mean and var are f32, with f64 f64; out[0] may have their dtype. Of nothing,
 * mean and var are NaN. Outputs overlap nothing. Sums in one fixed order of the n elements.
 */
#ifndef GRADUS_NORMALIZE_H
#define GRADUS_NORMALIZE_H

typedef enum gd_normalization { GD_NORM_VALUE = 0, GD_NORM_GIVEN, GD_NORM_VJP } gd_normalization;

#endif
