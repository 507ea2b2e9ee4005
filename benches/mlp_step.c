/* Loops over the 16 hidden numbers are innermost, so that the compiler makes them vectors. */
#include "benches/mlp_step.h"

#include <math.h>
#include <string.h>

enum { B = MLP_BATCH, I = MLP_IN, H = MLP_HIDDEN };

static void adam(mlp* net, float lr) {
  const float beta1 = 0.9F, beta2 = 0.999F, eps = 1e-8F;
  net->steps += 1;
  const float c1 = 1 / (1 - powf(beta1, (float)net->steps));
  const float c2 = 1 / (1 - powf(beta2, (float)net->steps));
  float* p = (float*)&net->parameter;
  float *m = (float*)&net->m, *v = (float*)&net->v;
  const float* g = (const float*)&net->gradient;
  for (int i = 0; i < (int)(sizeof(mlp_numbers) / sizeof(float)); ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    p[i] -= lr * (m[i] * c1) / (sqrtf(v[i] * c2) + eps);
  }
}

float mlp_step(mlp* net, float lr) {
  const mlp_numbers* p = &net->parameter;
  mlp_numbers* g = &net->gradient;
  float across[H][H]; /* w2 the other way round */
  float loss = 0;
  memset(g, 0, sizeof *g);
  for (int i = 0; i < H; ++i)
    for (int o = 0; o < H; ++o) across[o][i] = p->w2[i][o];
  for (int b = 0; b < B; ++b) {
    float *h1 = net->h1[b], *h2 = net->h2[b];
    float z[H], d1[H], d2[H];
    for (int o = 0; o < H; ++o) z[o] = p->b1[o];
    for (int i = 0; i < I; ++i)
      for (int o = 0; o < H; ++o) z[o] += net->x[b][i] * p->w1[i][o];
    for (int o = 0; o < H; ++o) h1[o] = z[o] > 0 ? z[o] : 0;
    for (int o = 0; o < H; ++o) z[o] = p->b2[o];
    for (int i = 0; i < H; ++i)
      for (int o = 0; o < H; ++o) z[o] += h1[i] * p->w2[i][o];
    for (int o = 0; o < H; ++o) h2[o] = z[o] > 0 ? z[o] : 0;
    float out = p->b3;
    for (int i = 0; i < H; ++i) out += h2[i] * p->w3[i];
    const float error = out - net->y[b];
    loss += error * error / B;

    const float d3 = 2 * error / B;
    g->b3 += d3;
    for (int o = 0; o < H; ++o) g->w3[o] += d3 * h2[o];
    for (int o = 0; o < H; ++o) d2[o] = h2[o] > 0 ? d3 * p->w3[o] : 0;
    for (int o = 0; o < H; ++o) g->b2[o] += d2[o];
    for (int i = 0; i < H; ++i)
      for (int o = 0; o < H; ++o) g->w2[i][o] += h1[i] * d2[o];
    for (int i = 0; i < H; ++i) d1[i] = 0;
    for (int o = 0; o < H; ++o)
      for (int i = 0; i < H; ++i) d1[i] += d2[o] * across[o][i];
    for (int i = 0; i < H; ++i) d1[i] = h1[i] > 0 ? d1[i] : 0;
    for (int o = 0; o < H; ++o) g->b1[o] += d1[o];
    for (int i = 0; i < I; ++i)
      for (int o = 0; o < H; ++o) g->w1[i][o] += net->x[b][i] * d1[o];
  }
  adam(net, lr);
  return loss;
}
