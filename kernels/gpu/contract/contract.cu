// contract: the checks and the choice of a way.
#include "kernels/gpu/contract/axes.hpp"

#include <algorithm>

namespace gradus::inline v1::gpu {
namespace {

// Which of two groups' last axes has the smaller step in a view? One that doesn't move has none.
bool closer(const Contraction& c, int view, int group, int other) {
  const auto step = [&](int g) {
    const int64_t s = c.first[g] < c.first[g + 1] ? magnitude(c.axes[c.first[g]].strides[view]) : 0;
    return s == 0 ? INT64_MAX : s;
  };
  return step(group) < step(other);
}

// Do elements of an operand lie in whole, aligned runs of 16 bytes along the axis that threads
// read?
bool aligned(const Contraction& c, Part p) {
  const int group = c.along_sum[p] ? kSummed : p == kA ? kRows : kColumns;
  const int64_t run = 16 / int64_t(itemsize(DType(c.dtype)));
  const int inner = c.first[group];
  if (inner == c.first[group + 1] || c.axes[inner].strides[p] != 1 || c.axes[inner].size % run != 0)
    return false;
  for (int d = 0; d < c.first[kGroups]; ++d)
    if (d != inner && c.axes[d].strides[p] % run != 0) return false;
  return reinterpret_cast<uintptr_t>(c.data[p]) % 16 == 0;
}

// Rows and columns, a and b change places.
void swap_operands(Contraction& c) {
  const int columns = c.first[kColumns], batch = c.first[kBatch];
  std::rotate(c.axes, c.axes + columns, c.axes + batch);
  c.first[kColumns] = batch - columns;
  std::swap(c.extent[kRows], c.extent[kColumns]);
  std::swap(c.data[kA], c.data[kB]);
  for (int d = 0; d < c.first[kGroups]; ++d)
    std::swap(c.axes[d].strides[kA], c.axes[d].strides[kB]);
}

int64_t tiles_of(const Contraction& c, int64_t side) {
  return c.extent[kBatch] * ((c.extent[kRows] + side - 1) / side) *
         ((c.extent[kColumns] + side - 1) / side);
}

bool is_library(int32_t way) { return way == GD_WAY_GEMM_LIBRARY || way == GD_WAY_TENSOR_LIBRARY; }

// Of the device's own ways.
bool possible(const Run& run, const Contraction& c, int32_t algebra, int32_t way) {
  if (way == GD_WAY_DIRECT) return true;
  if (c.extent[kSummed] == 0) return false;
  const bool floats = c.dtype == GD_F32 || c.dtype == GD_F16 || c.dtype == GD_BF16;
  switch (way) {
    case GD_WAY_DOTS:
    case GD_WAY_THIN:
    case GD_WAY_SMALL:
      return true;
    case GD_WAY_SQUARE:
      return algebra == GD_STANDARD;
    case GD_WAY_LARGE:
      return algebra == GD_STANDARD && floats;
    case GD_WAY_MATRIX:
    case GD_WAY_MATRIX_LARGE:
      return algebra == GD_STANDARD && has_mma(run, c.dtype);
    default:
      return false;
  }
}

// Those of an H200, not of the device: the order of a sum does not depend on who does it.
constexpr int64_t kUnits = 132;

// There are no fewer rows than columns. By the sizes alone: the order of the sum depends on nothing
// else, unless a library makes it.
int32_t way_by_size(const Run& run, const Contraction& c, int32_t algebra) {
  const int64_t rows = c.extent[kRows], columns = c.extent[kColumns], terms = c.extent[kSummed];
  const double work = double(rows) * double(columns) * double(terms);
  // Is there work for many tiles of 64 x 64, and so many that larger ones are as good?
  const int64_t most_chunks = terms < 1024 ? 1 : terms / 512;
  const bool fills_squares =
      rows > 32 && columns > 32 && terms > 2 && tiles_of(c, 64) * most_chunks >= kUnits;
  const bool fills_large = rows >= 128 && columns >= 128 && tiles_of(c, 128) >= kUnits;

  if (fills_squares && possible(run, c, algebra, GD_WAY_MATRIX))
    return fills_large ? GD_WAY_MATRIX_LARGE : GD_WAY_MATRIX;
  // What was the fastest on an H200 (`gradus tune`): a block for each of few elements; tiles of few
  // columns, which begin at once, for sums that end soon.
  const int64_t elements = c.extent[kBatch] * rows * columns;
  if (terms <= 2 || (terms <= 16 && (columns <= 4 || work <= 8192))) return GD_WAY_DIRECT;
  if (rows <= 4 || (elements <= 1024 && elements * terms <= 1 << 19)) return GD_WAY_DOTS;
  if (columns <= 4 || (terms <= 256 && elements <= 1 << 17)) return GD_WAY_THIN;
  if (!fills_squares || !possible(run, c, algebra, GD_WAY_SQUARE)) return GD_WAY_SMALL;
  return fills_large && possible(run, c, algebra, GD_WAY_LARGE) ? GD_WAY_LARGE : GD_WAY_SQUARE;
}

// Why a library can't do it; "" if it can.
std::string why_not_by_library(const Run& run, const Contraction& c, const Scales& scales,
                               int32_t algebra, int32_t way) {
  if (algebra != GD_STANDARD) return "it knows no such algebra";
  if (c.extent[kSummed] == 0) return "there is nothing to sum";
  return library_refuses(run, c, scales, way);
}

double products_of(const Contraction& c) {
  return double(c.extent[kBatch]) * double(c.extent[kRows]) * double(c.extent[kColumns]) *
         double(c.extent[kSummed]);
}

// The library that takes it as it stands and is worth its overhead, or GD_WAY_OWN. From 2^24
// products on a GPU is busy for longer than a library takes to choose.
int32_t library_by_size(const Run& run, const Contraction& c, const Scales& scales,
                        int32_t algebra) {
  if (products_of(c) < 0x1p24 || c.extent[kRows] < 64 || c.extent[kColumns] < 64 ||
      c.extent[kSummed] < 64)
    return GD_WAY_OWN;
  for (int32_t way : {GD_WAY_GEMM_LIBRARY, GD_WAY_TENSOR_LIBRARY})
    if (why_not_by_library(run, c, scales, algebra, way).empty()) return way;
  return GD_WAY_OWN;
}

// Sets c's way, and into how many parts its sum is to be cut, by what the call's op wishes for.
void choose_way(const Run& run, Contraction& c, const Scales& scales, int32_t algebra) {
  const int32_t wish = run.call.op(), parts = wish >> 8 & 0xff;
  c.way = wish & 0xff;
  std::string why;
  if (is_library(c.way))
    why = why_not_by_library(run, c, scales, algebra, c.way);
  else if (c.way == GD_WAY_OWN || !possible(run, c, algebra, c.way))
    why = "it is not for these sizes and dtype";
  if (!why.empty()) {
    if (wish & GD_WAY_ONLY)
      run.call.refuse(GD_UNSUPPORTED, "can't be done in way %d: %s", c.way, why.c_str());
    const int32_t way = library_by_size(run, c, scales, algebra);
    c.way = way == GD_WAY_OWN ? way_by_size(run, c, algebra) : way;
  } else if (parts > 0) {
    c.parts = int64_t(1) << (parts - 1 < 20 ? parts - 1 : 20);
    if (c.parts > c.extent[kSummed]) c.parts = c.extent[kSummed];
  }
}

// Is copying those bytes worth it? On an H200 (benches/gpu/run bench: permute, gemm, tccg) copies
// moved 2.7e12 bytes a second; a library's products were 4 times as fast as our kernels, which did
// 5e12 of them in f32. On other devices the ratios are alike.
bool worth_packing(const Run& run, const Contraction& c, int64_t bytes) {
  const double products = products_of(c), rate = has_mma(run, c.dtype) ? 3e13 : 5e12;
  return products >= 0x1p24 && c.extent[kRows] >= 16 && c.extent[kColumns] >= 16 &&
         c.extent[kSummed] >= 4 && 5e-6 + double(bytes) / 2.7e12 < 0.75 * products / rate;
}

// By a library of matrix products, on operands that are copied into place. False if it is not worth
// it and not wished for, or the library refuses.
bool contract_packed(const Run& run, const Contraction& given, const Views& views,
                     const Scales& scales) {
  const bool wished = run.call.op() == GD_WAY_GEMM_LIBRARY;
  if (products_of(given) == 0) return false;
  if (!wished && (run.call.op() != GD_WAY_OWN || products_of(given) < 0x1p24)) return false;
  Packing packing(views);
  if (!wished && !worth_packing(run, given, packing.bytes())) return false;
  Contraction c = grouped(run.call, packing.views(nullptr), packing.orders());
  c.way = GD_WAY_GEMM_LIBRARY;
  if (!why_not_by_library(run, c, scales, GD_STANDARD, c.way).empty()) return false;
  Run::Scratch scratch(run, packing.scratch() + library_workspace(run, c, scales));
  const Views& packed = packing.views(scratch.take<char>(int64_t(packing.scratch())));
  c = grouped(run.call, packed, packing.orders());
  c.way = GD_WAY_GEMM_LIBRARY;
  packing.copy_in(run, views, scales.beta != c128{});
  if (!contract_by_library(run, c, scales, scratch)) return false;
  packing.copy_out(run, views);
  return true;
}

// Statement ints[4] over what out holds now.
void apply_statement(const Run& run) {
  const gd_call c = statement_call(run.call.raw());
  Call then(c, run.call.device(), "contract");
  Run again{run.device, run.stream, then};
  pointwise(again);
}

// Sums of one dtype over one algebra, for at least one element of out.
void launch(const Run& run, const Views& views, Scales scales, DType t, int32_t algebra) {
  const Scales of_views = scales;
  gd_view free_a = *views.v[kA], free_b = *views.v[kB];  // over out's axes
  free_a.rank = free_b.rank = views.n;
  Contraction c = grouped(run.call, views);
  // Over out's axes. An operand of an empty sum is not read, and may have no data.
  Elements elements = make_walk<kParts>(
      run.call, {&free_a, &free_b, views.v[kOut], views.v[kBias], views.v[kWinners]});
  if (c.extent[kRows] < c.extent[kColumns]) {
    swap_operands(c);
    std::swap(scales.conj_a, scales.conj_b);
    std::swap(elements.data[kA], elements.data[kB]);
    for (int d = 0; d < elements.rank; ++d)
      std::swap(elements.strides[kA][d], elements.strides[kB][d]);
  }
  c.along_sum[kA] = closer(c, kA, kSummed, kRows);
  c.along_sum[kB] = closer(c, kB, kSummed, kColumns);
  c.aligned[kA] = aligned(c, kA);
  c.aligned[kB] = aligned(c, kB);
  c.out_along_rows = closer(c, kOut, kRows, kColumns);
  choose_way(run, c, scales, algebra);
  bool done = false;
  while (is_library(c.way) && !done) {
    Run::Scratch scratch(run, library_workspace(run, c, scales));
    done = contract_by_library(run, c, scales, scratch);
    if (!done) choose_way(run, c, scales, algebra);  // the library refuses it from now on
  }
  if (!done && algebra == GD_STANDARD && contract_packed(run, c, views, of_views)) {
    c.way = GD_WAY_GEMM_LIBRARY;
    done = true;
  }
  if (int32_t* const way = run.call.raw().way) *way = c.way;
  if (done) {
    if (scales.ends) apply_statement(run);
    return;
  }

  if (algebra != GD_STANDARD)
    return is_integer(t) ? contract_tropical_integers(run, elements, c, algebra)
                         : contract_tropical(run, elements, c, algebra);
  switch (t) {
    case DType::f64:
      return contract_f64(run, elements, c, scales);
    case DType::c64:
      return contract_c64(run, elements, c, scales);
    case DType::c128:
      return contract_c128(run, elements, c, scales);
    case DType::i32:
    case DType::i64:
    case DType::u8:
      return contract_i64(run, elements, c, scales);
    default:
      return contract_f32(run, elements, c, scales);
  }
}

}  // namespace

void contract(Run& run) {
  Call& call = run.call;
  const ContractCall c = expect_contract(call);
  const Views views{{&c.a, &c.b, &c.out, c.bias, c.winners}, c.out_axes};
  const DType t = DType(c.out.dtype);
  // A statement that the kernels don't know is a pass of its own over out.
  const bool ends = c.statement && is_real_float(t) && call.integer(4) == def::id_of<def::Final>();
  const Scales scales{c.alpha, c.beta, c.conj_a, c.conj_b, ends};
  if (count_of(c.out) > 0) launch(run, views, scales, t, int32_t(c.algebra));
  if (c.statement && !ends) apply_statement(run);
}

}  // namespace gradus::gpu
