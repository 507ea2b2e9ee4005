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
// What svd gives: three factors, in this order, and what was cut.
struct Svd {
  BlockFactors of;
};
}  // namespace

void add_factors(nb::module_& m, BlockType& type) {
  nb::class_<Svd>(m, "SVD", "u, s, vh = x.svd(): also by name, with what was cut.")
      .def(
          "__iter__",
          [](const Svd& f) { return nb::iter(nb::make_tuple(f.of.left, f.of.values, f.of.right)); })
      .def_prop_ro("u", [](const Svd& f) { return f.of.left; })
      .def_prop_ro("s", [](const Svd& f) { return f.of.values; })
      .def_prop_ro("vh", [](const Svd& f) { return f.of.right; })
      .def_prop_ro(
          "bond", [](const Svd& f) { return f.of.bond; }, "The new leg, as vh has it.")
      .def_prop_ro(
          "discarded", [](const Svd& f) { return f.of.discarded; },
          "The sum of squares of the values left out.");
  const auto rows = nb::arg("rows") = nb::none();
  type.def(
          "svd",
          [](const BlockTensor& x, nb::handle left, int64_t rank, double atol, double rtol,
             int64_t least, const std::string& ties, nb::handle sizes, nb::handle charge,
             const std::string& degenerate) {
            Truncation cut;
            cut.rank = rank;
            cut.atol = atol;
            cut.rtol = rtol;
            cut.least = least;
            for (const int64_t n : {rank, least})
              if (n < 0) fail(ErrorKind::value, "svd", "rank and least are 0 or more, got ", n);
            for (const double limit : {atol, rtol})
              if (!(limit >= 0))
                fail(ErrorKind::value, "svd", "atol and rtol are 0 or more, got ", limit);
            cut.whole_multiplets =
                one_of<bool>("svd", "ties", ties, {{"widen", true}, {"index", false}});
            if (!sizes.is_none()) cut.sizes = sectors_at(sizes, "svd: sizes");
            return Svd{
                run([&, l = rows_at(left, "svd", x), takes = taker("svd", charge),
                     d = degenerate_of("svd", degenerate)] { return svd(x, l, cut, takes, d); })};
          },
          rows, nb::kw_only(), nb::arg("rank") = 0, nb::arg("atol") = 0.0, nb::arg("rtol") = 0.0,
          nb::arg("least") = 0, nb::arg("ties") = "widen", nb::arg("sizes") = nb::none(),
          nb::arg("charge") = nb::none(), nb::arg("degenerate") = "exact",
          "u, s, vh with x = u diag(s) vh, by sector, cut over all of them: at most rank values, "
          "none up to max(atol, rtol * largest), of each sector at least `least`. ties: those at "
          "the cut stay (\"widen\"), or the lower sectors' (\"index\"). sizes: how many of each "
          "charge, whatever the numbers are. charge: which factor has that of x. rows: the legs "
          "that are; of a matrix the first.")
      .def(
          "qr",
          [](const BlockTensor& x, nb::handle left, bool positive, nb::handle charge) {
            BlockFactors f = run([&, l = rows_at(left, "qr", x), takes = taker("qr", charge)] {
              return qr(x, l, positive, takes);
            });
            return nb::make_tuple(std::move(f.left), std::move(f.right));
          },
          rows, nb::kw_only(), nb::arg("positive") = true, nb::arg("charge") = nb::none(),
          "q, r with x = q r; the diagonal of r is not negative.")
      .def(
          "eigh",
          [](const BlockTensor& x, nb::handle left, const std::string& degenerate) {
            BlockFactors f = run([&, l = rows_at(left, "eigh", x),
                                  d = degenerate_of("eigh", degenerate)] { return eigh(x, l, d); });
            return nb::make_tuple(f.values, std::move(f.left));
          },
          rows, nb::kw_only(), nb::arg("degenerate") = "exact",
          "w, v of a Hermitian map: x = v diag(w) v.adjoint(rows); w ascends in each sector.")
      .def(
          "adjoint",
          [](const BlockTensor& x, nb::handle left) {
            return run([&, l = rows_at(left, "adjoint", x)] { return adjoint(x, l); });
          },
          rows, "The map back: u.adjoint() u is the identity, of fermions too.")
      .def(
          "inv",
          [](const BlockTensor& x, nb::handle left) {
            return run([&, l = rows_at(left, "inv", x)] { return inv(x, l); });
          },
          rows)
      .def(
          "det",
          [](const BlockTensor& x, nb::handle left) {
            return run([&, l = rows_at(left, "det", x)] { return det(x, l); });
          },
          rows)
      .def(
          "solve",
          [](const BlockTensor& x, const BlockTensor& b, nb::handle left) {
            return run([&, l = rows_at(left, "solve", x)] { return solve(x, l, b); });
          },
          nb::arg("b"), rows, "inv(x) b");
}

}  // namespace gradus::py
