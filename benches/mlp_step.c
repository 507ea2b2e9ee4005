/* Plain C. Every inner loop runs over the 16 hidden numbers of a row, and the compiler makes it a
 * vector (with -O2 -ftree-vectorize; g++ 12's -O3 unrolls first and is four times slower). */
#include "benches/mlp_step.h"

#include <math.h>
#include <string.h>

enum { B = MLP_BATCH, I = MLP_IN, H = MLP_HIDDEN };

static void adam(mlp* net, const mlp_numbers* gradient, float lr) {
  const float beta1 = 0.9F, beta2 = 0.999F, eps = 1e-8F;
  net->steps += 1;
  const float c1 = lr / (1 - powf(beta1, (float)net->steps));
  const float c2 = 1 / (1 - powf(beta2, (float)net->steps));
  const float* restrict g = (const float*)gradient;
  float* restrict p = (float*)&net->parameter;
  float* restrict m = (float*)&net->m;
  float* restrict v = (float*)&net->v;
  for (int i = 0; i < (int)(sizeof(mlp_numbers) / sizeof(float)); ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    p[i] -= c1 * m[i] / (sqrtf(v[i] * c2) + eps);
  }
}

/* In a tree, which can be vectors. */
static inline float sum(const float* x) {
  float t[8];
  for (int i = 0; i < 8; ++i) t[i] = x[i] + x[i + 8];
  for (int i = 0; i < 4; ++i) t[i] += t[i + 4];
  return (t[0] + t[2]) + (t[1] + t[3]);
}
static inline void add_scaled(float* restrict y, float s, const float* restrict x) {
  for (int o = 0; o < H; ++o) y[o] += s * x[o];
}

float mlp_step(mlp* net, float lr) {
  const mlp_numbers p = net->parameter;
  mlp_numbers g;
  float across[H][H]; /* w2 the other way round */
  float loss = 0;
  memset(&g, 0, sizeof g);
  for (int i = 0; i < H; ++i)
    for (int o = 0; o < H; ++o) across[o][i] = p.w2[i][o];
  for (int b = 0; b < B; ++b) {
    const float* x = net->x[b];
    float h1[H], h2[H], d1[H], d2[H], t[H];
    for (int o = 0; o < H; ++o) h1[o] = p.b1[o];
    for (int i = 0; i < I; ++i) add_scaled(h1, x[i], p.w1[i]);
    for (int o = 0; o < H; ++o) h1[o] = h1[o] > 0 ? h1[o] : 0;
    for (int o = 0; o < H; ++o) h2[o] = p.b2[o];
    for (int i = 0; i < H; ++i) add_scaled(h2, h1[i], p.w2[i]);
    for (int o = 0; o < H; ++o) h2[o] = h2[o] > 0 ? h2[o] : 0;
    for (int o = 0; o < H; ++o) t[o] = h2[o] * p.w3[o];
    const float error = sum(t) + p.b3 - net->y[b];
    loss += error * error / B;

    const float d3 = 2 * error / B;
    g.b3 += d3;
    add_scaled(g.w3, d3, h2);
    for (int o = 0; o < H; ++o) d2[o] = h2[o] > 0 ? d3 * p.w3[o] : 0;
    for (int o = 0; o < H; ++o) g.b2[o] += d2[o];
    for (int i = 0; i < H; ++i) add_scaled(g.w2[i], h1[i], d2);
    for (int i = 0; i < H; ++i) d1[i] = 0;
    for (int o = 0; o < H; ++o) add_scaled(d1, d2[o], across[o]);
    for (int i = 0; i < H; ++i) d1[i] = h1[i] > 0 ? d1[i] : 0;
    for (int o = 0; o < H; ++o) g.b1[o] += d1[o];
    for (int i = 0; i < I; ++i) add_scaled(g.w1[i], x[i], d1);
  }
  adam(net, &g, lr);
  return loss;
}
