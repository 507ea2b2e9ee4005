// Decompositions of block tensors, by sector.
#include "bindings/python/src/blocks/blocks.hpp"
#include "ops/blocks/factors.hpp"

namespace gradus::inline v1::py {

namespace {

template <class T>
T one_of(const char* who, const char* name, const std::string& said,
         std::initializer_list<std::pair<const char*, T>> words) {
  std::string known;
  for (const auto& [word, value] : words) {
    if (said == word) return value;
    known += join(known.empty() ? "" : " or ", "\"", word, "\"");
  }
  fail(ErrorKind::value, who, name, ": expected ", known, ", got \"", said.substr(0, 100), "\"");
}
TakesCharge taker(const char* who, nb::handle charge) {
  if (charge.is_none()) return TakesCharge::none;
  return one_of<TakesCharge>(who, "charge", nb::cast<std::string>(nb::str(charge)),
                             {{"left", TakesCharge::left}, {"right", TakesCharge::right}});
}
Degenerate degenerate_of(const char* who, const std::string& said) {
  return one_of<Degenerate>(who, "degenerate", said,
                            {{"exact", Degenerate::exact}, {"safe", Degenerate::safe}});
}

// The axes that are rows; of a matrix they need not be said.
Ints rows_at(nb::handle o, const char* who, const BlockTensor& x) {
  if (!o.is_none()) return axes_at(o, who);
  if (x.rank() == 2) return {0};
  fail(ErrorKind::value, who, "which axes are the rows? Of ", x.rank(),
       " legs the first argument says that, such as (0, 1)");
}

Truncation cut_of(int64_t rank, double atol, double rtol, int64_t least, const std::string& ties,
                  nb::handle sizes) {
  Truncation cut;
  cut.rank = rank;
  cut.atol = atol;
  cut.rtol = rtol;
  cut.least = least;
  for (const int64_t n : {rank, least})
    if (n < 0) fail(ErrorKind::value, "svd", "rank and least are 0 or more, got ", n);
  for (const double limit : {atol, rtol})
    if (!(limit >= 0)) fail(ErrorKind::value, "svd", "atol and rtol are 0 or more, got ", limit);
  cut.whole_multiplets = one_of<bool>("svd", "ties", ties, {{"widen", true}, {"index", false}});
  if (sizes.is_none()) return cut;
  cut.sizes = sectors_at(sizes, "svd: sizes");
  if (cut.sizes.empty())
    fail(ErrorKind::value, "svd", "sizes names no sector; {charge: 0} keeps none of one");
  return cut;
}

template <BlockTensor (*Map)(const BlockTensor&, const Ints&)>
void map_of(nb::module_& m, const char* who) {
  m.def(
      who,
      [who](nb::handle x, nb::handle rows) {
        const BlockTensor b = blocks_in(x, who);
        return run_blocks(who, [&, left = rows_at(rows, who, b)] { return Map(b, left); });
      },
      nb::arg(), nb::arg().none());
}

}  // namespace

void add_factors(nb::module_& m) {
  // u, s, vh, bond, discarded
  m.def(
      "svd",
      [](nb::handle x, nb::handle rows, int64_t rank, double atol, double rtol, int64_t least,
         const std::string& ties, nb::handle sizes, nb::handle charge,
         const std::string& degenerate) {
        const BlockTensor b = blocks_in(x, "svd");
        const Truncation cut = cut_of(rank, atol, rtol, least, ties, sizes);
        BlockFactors f =
            run("svd", [&, left = rows_at(rows, "svd", b), to = taker("svd", charge),
                        d = degenerate_of("svd", degenerate)] { return svd(b, left, cut, to, d); });
        return nb::make_tuple(given(std::move(f.left)), f.values, given(std::move(f.right)), f.bond,
                              f.discarded);
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
      nb::arg().none(), nb::arg().none(), nb::arg());
  m.def(
      "qr",
      [](nb::handle x, nb::handle rows, bool positive, nb::handle charge) {
        const BlockTensor b = blocks_in(x, "qr");
        BlockFactors f = run("qr", [&, left = rows_at(rows, "qr", b), to = taker("qr", charge)] {
          return qr(b, left, positive, to);
        });
        return nb::make_tuple(given(std::move(f.left)), given(std::move(f.right)));
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none());
  m.def(
      "eigh",
      [](nb::handle x, nb::handle rows, const std::string& degenerate) {
        const BlockTensor b = blocks_in(x, "eigh");
        BlockFactors f =
            run("eigh", [&, left = rows_at(rows, "eigh", b),
                         d = degenerate_of("eigh", degenerate)] { return eigh(b, left, d); });
        return nb::make_tuple(f.values, given(std::move(f.left)));
      },
      nb::arg(), nb::arg().none(), nb::arg());
  map_of<adjoint>(m, "adjoint");
  map_of<inv>(m, "inv");
  m.def(
      "det",
      [](nb::handle x, nb::handle rows) {
        const BlockTensor b = blocks_in(x, "det");
        return run("det", [&, left = rows_at(rows, "det", b)] { return det(b, left); });
      },
      nb::arg(), nb::arg().none());
  m.def(
      "solve",
      [](nb::handle x, nb::handle y, nb::handle rows) {
        const BlockTensor a = blocks_in(x, "solve"), b = blocks_in(y, "solve", "right side");
        return run_blocks("solve",
                          [&, left = rows_at(rows, "solve", a)] { return solve(a, left, b); });
      },
      nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace gradus::py
