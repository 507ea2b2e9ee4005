// A cuBLASLt whose device is the host: products in plain loops, and it looks at all it is given.
#include "kernels/gpu/libraries/cublaslt.hpp"

#include "tests/libraries/fake.hpp"

#include <cstring>

using namespace gradus::gpu;
using namespace fake;

namespace gradus::gpu::cublaslt {
struct HandleStruct : Object {};
struct OperationStruct : Object {
  int compute, scale;
  int32_t trans_a = 0, trans_b = 0;
  uint32_t epilogue = 1;
  void* bias = nullptr;
};
struct LayoutStruct : Object {
  int type;
  int64_t rows, columns, leading, stride = 0;
  int32_t batch = 1;
};
struct PreferenceStruct : Object {
  uint64_t workspace = 0;
  uint32_t schemes = 7, alignment[4] = {256, 256, 256, 256};
};
}  // namespace gradus::gpu::cublaslt

namespace {
using namespace gradus::gpu::cublaslt;

template <class T>
int set(T& into, const void* value, size_t bytes) {
  if (bytes != sizeof into) return wrong("an attribute of another size");
  std::memcpy(&into, value, bytes);
  return 0;
}
struct Shape {
  int64_t rows, columns;
};
Shape shape(Layout l, int32_t op) {
  return op == kOpN ? Shape{l->rows, l->columns} : Shape{l->columns, l->rows};
}
// Element (i, j) of op(matrix k).
Wide element(const void* data, Layout l, int32_t op, int64_t k, int64_t i, int64_t j) {
  const Wide x =
      load(data, k * l->stride + (op == kOpN ? i + j * l->leading : j + i * l->leading), l->type);
  return op == kOpC ? std::conj(x) : x;
}
int check(Operation op, Layout a, Layout b, Layout c, Layout d) {
  if (!alive(op) || !alive(a) || !alive(b) || !alive(c) || !alive(d))
    return wrong("an object that is not alive");
  if (c != d) return wrong("c is not d");
  const Shape left = shape(a, op->trans_a), right = shape(b, op->trans_b);
  if (left.rows != d->rows || right.columns != d->columns || left.columns != right.rows)
    return wrong("sizes that don't fit");
  if (a->type != d->type || b->type != d->type) return wrong("types that differ");
  const bool wide = d->type == kC64F || d->type == kR64F;
  if (op->compute != (wide ? 70 : 68) && !(d->type == kR32F && op->compute == 77))
    return wrong("a compute type that does not fit");
  if (op->scale != (d->type == kC64F || d->type == kC32F || d->type == kR64F ? d->type : kR32F))
    return wrong("a scale type that does not fit");
  for (Layout l : {a, b, d})
    if (l->batch != d->batch || (l->batch > 1 && l->stride <= 0)) return wrong("a batch");
  if (op->epilogue != 1 && op->epilogue != 4) return wrong("an epilogue");
  if (op->epilogue == 4 && !op->bias) return wrong("no bias");
  return 0;
}
}  // namespace

EXPORTED int cublasLtCreate(Handle* h) {
  if (gradus_fake.fail_create) return gradus_fake.fail_create;
  ++gradus_fake.handles;
  *h = new HandleStruct;
  return 0;
}
EXPORTED int cublasLtMatmulDescCreate(Operation* op, int compute, int scale) {
  *op = new OperationStruct{{}, compute, scale};
  return 0;
}
EXPORTED int cublasLtMatmulDescDestroy(Operation op) { return destroy(op); }
EXPORTED int cublasLtMatmulDescSetAttribute(Operation op, int attribute, const void* value,
                                            size_t bytes) {
  if (!alive(op)) return wrong("an operation that is not alive");
  switch (attribute) {
    case 3:
      return set(op->trans_a, value, bytes);
    case 4:
      return set(op->trans_b, value, bytes);
    case 7:
      return set(op->epilogue, value, bytes);
    case 8:
      return set(op->bias, value, bytes);
    default:
      return wrong("an attribute of an operation");
  }
}
EXPORTED int cublasLtMatrixLayoutCreate(Layout* l, int type, uint64_t rows, uint64_t columns,
                                        int64_t leading) {
  if (rows < 1 || columns < 1 || leading < int64_t(rows)) return wrong("sizes of a matrix");
  *l = new LayoutStruct{{}, type, int64_t(rows), int64_t(columns), leading};
  return 0;
}
EXPORTED int cublasLtMatrixLayoutDestroy(Layout l) { return destroy(l); }
EXPORTED int cublasLtMatrixLayoutSetAttribute(Layout l, int attribute, const void* value,
                                              size_t bytes) {
  if (!alive(l)) return wrong("a layout that is not alive");
  if (attribute == 5) return set(l->batch, value, bytes);
  return attribute == 6 ? set(l->stride, value, bytes) : wrong("an attribute of a layout");
}
EXPORTED int cublasLtMatmulPreferenceCreate(Preference* p) {
  *p = new PreferenceStruct;
  return 0;
}
EXPORTED int cublasLtMatmulPreferenceDestroy(Preference p) { return destroy(p); }
EXPORTED int cublasLtMatmulPreferenceSetAttribute(Preference p, int attribute, const void* value,
                                                  size_t bytes) {
  if (!alive(p)) return wrong("a preference that is not alive");
  if (attribute == 1) return set(p->workspace, value, bytes);
  if (attribute == 3) return set(p->schemes, value, bytes);
  if (attribute < 5 || attribute > 8) return wrong("an attribute of a preference");
  return set(p->alignment[attribute - 5], value, bytes);
}
// The algorithm holds what it may rely on: alignments and the workspace.
EXPORTED int cublasLtMatmulAlgoGetHeuristic(Handle h, Operation op, Layout a, Layout b, Layout c,
                                            Layout d, Preference p, int wanted,
                                            HeuristicResult* results, int* found) {
  if (!alive(h) || !alive(p) || wanted < 1) return wrong("arguments of the heuristic");
  if (const int status = check(op, a, b, c, d)) return status;
  if (p->schemes != 2) return wrong("a reduction scheme that rounds in between");
  *found = 0;
  ++gradus_fake.plans;
  gradus_fake.compute = op->compute;
  if (gradus_fake.fail_plan) return gradus_fake.fail_plan;
  results[0] = {};
  results[0].workspace = size_t(gradus_fake.workspace_wanted);
  if (results[0].workspace > p->workspace) return 0;  // none found
  for (int k = 0; k < 4; ++k) results[0].algorithm.data[k] = p->alignment[k];
  results[0].algorithm.data[4] = results[0].workspace;
  *found = 1;
  return 0;
}
EXPORTED int cublasLtMatmul(Handle h, Operation op, const void* alpha, const void* a, Layout la,
                            const void* b, Layout lb, const void* beta, const void* c, Layout lc,
                            void* d, Layout ld, const Algorithm* algorithm, void* workspace,
                            size_t bytes, void*) {
  if (!alive(h)) return wrong("a handle that is not alive");
  if (const int status = check(op, la, lb, lc, ld)) return status;
  if (c != d) return wrong("another c");
  if (!algorithm || !aligned(a, algorithm->data[0]) || !aligned(b, algorithm->data[1]) ||
      !aligned(c, algorithm->data[2]) || !aligned(d, algorithm->data[3]))
    return wrong("a matrix that is not aligned as the plan says");
  if (bytes < algorithm->data[4]) return wrong("too small a workspace");
  if (bytes > 0) std::memset(workspace, 0x5a, bytes);
  if (gradus_fake.fail_run) return gradus_fake.fail_run;
  ++gradus_fake.runs;
  const Wide scale = load(alpha, 0, op->scale), keep = load(beta, 0, op->scale);
  const int64_t terms = shape(la, op->trans_a).columns;
  for (int64_t k = 0; k < ld->batch; ++k)
    for (int64_t j = 0; j < ld->columns; ++j)
      for (int64_t i = 0; i < ld->rows; ++i) {
        Wide sum = 0;
        for (int64_t t = 0; t < terms; ++t)
          sum += element(a, la, op->trans_a, k, i, t) * element(b, lb, op->trans_b, k, t, j);
        const int64_t at = k * ld->stride + i + j * ld->leading;
        Wide y = scale * sum;
        if (keep != 0.0) y += keep * load(c, at, lc->type);
        if (op->epilogue == 4) y += load(op->bias, i, ld->type);
        store(d, at, ld->type, y);
      }
  return 0;
}
