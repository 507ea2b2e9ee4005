/* The step of an 8-16-16-1 network, batch 32, mean squared error, adam, written by hand in plain C:
 * what a programmer who needs just this step would write. A peer of the benches. */
#ifndef GRADUS_BENCHES_MLP_STEP_H
#define GRADUS_BENCHES_MLP_STEP_H

#ifdef __cplusplus
extern "C" {
#endif

enum { MLP_BATCH = 32, MLP_IN = 8, MLP_HIDDEN = 16 };

/* Weights are (in, out). */
typedef struct mlp_numbers {
  float w1[MLP_IN][MLP_HIDDEN], b1[MLP_HIDDEN];
  float w2[MLP_HIDDEN][MLP_HIDDEN], b2[MLP_HIDDEN];
  float w3[MLP_HIDDEN], b3;
} mlp_numbers;

typedef struct mlp {
  mlp_numbers parameter, m, v;
  float x[MLP_BATCH][MLP_IN], y[MLP_BATCH];
  int steps;
} mlp;

/* One step on x and y; returns the loss before it. */
float mlp_step(mlp* net, float lr);

#ifdef __cplusplus
}
#endif
#endif
