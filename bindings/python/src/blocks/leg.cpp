// gradus.blocks.Leg, and charges, sectors, axes as Python has them.
#include "bindings/python/src/blocks/blocks.hpp"

namespace gradus::inline v1::py {

// 1, or (1, 0) of a product of groups
Charge charge_at(nb::handle o, const char* who) {
  Charge q;
  if (!is_integer_like(o.ptr()) && PySequence_Check(o.ptr()) && !PyUnicode_Check(o.ptr()))
    for (nb::handle n : o) q.push_back(integer_at(n.ptr(), who));
  else
    q.push_back(integer_at(o.ptr(), who));
  return q;
}
nb::object to_python(const Charge& q) {
  if (q.size() == 1) return nb::int_(q[0]);
  nb::list all;
  for (const int64_t n : q) all.append(n);
  return nb::tuple(all);
}
// {charge: size}, or (charge, size), ... in the order in which they lie
std::vector<Sector> sectors_at(nb::handle o, const char* who) {
  std::vector<Sector> sectors;
  const nb::object pairs = nb::isinstance<nb::dict>(o) ? o.attr("items")() : nb::borrow(o);
  if (PyUnicode_Check(o.ptr()) || !nb::hasattr(pairs, "__iter__"))
    fail(ErrorKind::value, who, "expected sectors {charge: size, ...}, got ",
         nb::cast<std::string>(nb::repr(o)).substr(0, 100));
  for (nb::handle one : pairs) {
    if (!PySequence_Check(one.ptr()) || nb::len(one) != 2)
      fail(ErrorKind::value, who, "expected sectors {charge: size, ...} or (charge, size), got ",
           nb::cast<std::string>(nb::repr(one)).substr(0, 100));
    sectors.push_back({charge_at(one[0], who), integer_at(nb::object(one[1]).ptr(), who)});
  }
  return sectors;
}
// (0, 1), [0, 1] or 0, 1; no argument is no axis
Ints axes_at(nb::handle o, const char* who) {
  if (nb::isinstance<nb::tuple>(o) && nb::len(o) == 1 && !is_integer_like(nb::object(o[0]).ptr()))
    return axes_at(o[0], who);
  Ints axes;
  if (is_integer_like(o.ptr())) return {integer_at(o.ptr(), who)};
  for (nb::handle n : o) axes.push_back(integer_at(n.ptr(), who));
  return axes;
}
int arrow_at(int64_t arrow, const char* who) {
  if (arrow != 1 && arrow != -1)
    fail(ErrorKind::value, who, "an arrow is 1 (charges count as they are) or -1, got ", arrow);
  return int(arrow);
}
void add_leg(nb::module_& m) {
  nb::class_<Leg>(m, "Leg",
                  "An axis with a symmetry: an arrow, 1 or -1, and sectors {charge: size} in the "
                  "order in which they lie along it. Charges of a product of groups are tuples. "
                  "symmetry: \"U(1)\", \"Z2\", \"U(1) x Z2\", \"fU(1)\" and \"fZ2\" of fermions.")
      .def(
          "__init__",
          [](Leg* self, int64_t arrow, nb::handle sectors, const std::string& symmetry) {
            const Symmetry g = symmetry_called("leg", symmetry);
            new (self) Leg(g, arrow_at(arrow, "leg"), sectors_at(sectors, "leg"), "leg");
          },
          nb::arg("arrow"), nb::arg("sectors"), nb::arg("symmetry") = "U(1)")
      .def_prop_ro("arrow", &Leg::arrow)
      .def_prop_ro("sectors",
                   [](const Leg& leg) {
                     nb::list all;
                     for (const Sector& s : leg.sectors())
                       all.append(nb::make_tuple(to_python(s.charge), s.size));
                     return all;
                   })
      .def_prop_ro("size", &Leg::size, "Of all sectors.")
      .def_prop_ro("count", &Leg::count, "How many sectors.")
      .def_prop_ro("parts", &Leg::parts, "Of a fused leg those that it was made of.")
      .def_prop_ro("neutral", &Leg::is_neutral, "All charges are 0.")
      .def_prop_ro("symmetry", [](const Leg& leg) { return leg.symmetry().text(); })
      .def("reversed", &Leg::reversed, "With the other arrow.")
      .def(
          "__eq__",
          [](const Leg& a, nb::handle other) {
            return nb::isinstance<Leg>(other) && a == nb::cast<const Leg&>(other);
          },
          nb::arg().none())
      .def("__hash__", [](const Leg& leg) { return leg.id(); })
      .def("__repr__", [](const Leg& leg) {
        return join("<Leg ", leg.text(), ", ", leg.symmetry().text(), ">");
      });
}

}  // namespace gradus::py
