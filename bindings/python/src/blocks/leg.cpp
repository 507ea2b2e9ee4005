// Legs and structures; charges, sectors, axes and block tensors as Python has them.
#include "bindings/python/src/blocks/blocks.hpp"

namespace gradus::inline v1::py {

namespace {

std::string shown(nb::handle o) { return nb::cast<std::string>(nb::repr(o)).substr(0, 100); }
bool is_list(nb::handle o) {
  return PySequence_Check(o.ptr()) && !PyUnicode_Check(o.ptr()) && !PyBytes_Check(o.ptr());
}
// Of gradus/blocks.py, for ever.
nb::handle block_type() {
  static PyObject* const type =
      nb::object(nb::module_::import_("gradus.blocks").attr("BlockTensor")).release().ptr();
  return type;
}

}  // namespace

BlockTensor blocks_in(nb::handle o, const char* who, const std::string& what) {
  if (!nb::isinstance(o, block_type()))
    fail(ErrorKind::dtype, who, what, " is no block tensor but ", Py_TYPE(o.ptr())->tp_name,
         is_tensor(o.ptr()) ? "; gradus.blocks.from_dense(x, legs) gives it legs" : "");
  const nb::object data = o.attr("_data"), structure = o.attr("_structure");
  if (!is_tensor(data.ptr()) || !nb::isinstance<BlockStructure>(structure))
    fail(ErrorKind::dtype, who, what, " is a block tensor whose parts were replaced");
  return {tensor_in(data.ptr()), nb::cast<const BlockStructure&>(structure)};
}
nb::object given(BlockTensor x) {
  if (x.rank() == 0) return nb::steal(wrap(to_dense(x)));
  return block_type()(nb::steal(wrap(std::move(x.data))), std::move(x.structure));
}

Charge charge_at(nb::handle o, const char* who) {
  Charge q;
  if (!is_integer_like(o.ptr()) && is_list(o))
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

std::vector<Sector> sectors_at(nb::handle o, const char* who) {
  if (nb::isinstance<Leg>(o)) return nb::cast<const Leg&>(o).sectors();
  const nb::object pairs = nb::isinstance<nb::dict>(o) ? o.attr("items")() : nb::borrow(o);
  if (PyUnicode_Check(o.ptr()) || !nb::hasattr(pairs, "__iter__"))
    fail(ErrorKind::value, who, "expected sectors {charge: size, ...}, got ", shown(o));
  std::vector<Sector> sectors;
  for (nb::handle one : pairs) {
    if (!is_list(one) || nb::len(one) != 2)
      fail(ErrorKind::value, who, "expected sectors {charge: size, ...} or (charge, size), got ",
           shown(one));
    sectors.push_back({charge_at(one[0], who), integer_at(nb::object(one[1]).ptr(), who)});
  }
  return sectors;
}

Ints axes_at(nb::handle o, const char* who) {
  if (is_integer_like(o.ptr())) return {integer_at(o.ptr(), who)};
  if (!is_list(o)) fail(ErrorKind::value, who, "expected whole numbers, got ", shown(o));
  Ints axes;
  for (nb::handle n : o) axes.push_back(integer_at(n.ptr(), who));
  return axes;
}
int arrow_at(int64_t arrow, const char* who) {
  if (arrow != 1 && arrow != -1)
    fail(ErrorKind::value, who, "an arrow is 1 (charges count as they are) or -1, got ", arrow);
  return int(arrow);
}

namespace {

Leg made(int64_t arrow, nb::handle sectors, const std::string& symmetry) {
  const Symmetry g = symmetry_called("leg", symmetry);
  return Leg(g, arrow_at(arrow, "leg"), sectors_at(sectors, "leg"), "leg");
}
nb::list sectors_of(const Leg& leg) {
  nb::list all;
  for (const Sector& s : leg.sectors()) all.append(nb::make_tuple(to_python(s.charge), s.size));
  return all;
}

void add_leg(nb::module_& m) {
  nb::class_<Leg>(m, "Leg",
                  "An axis with a symmetry: an arrow, 1 or -1, and sectors {charge: size} in the "
                  "order in which they lie along it. Charges of a product of groups are tuples. "
                  "symmetry: \"U(1)\", \"Z2\", \"U(1) x Z2\", \"fU(1)\" and \"fZ2\" of fermions. "
                  "Legs do not change; equal ones are the same.",
                  nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Leg* self, int64_t arrow, nb::handle sectors, const std::string& symmetry) {
            new (self) Leg(made(arrow, sectors, symmetry));
          },
          nb::arg("arrow"), nb::arg("sectors"), nb::arg("symmetry") = "U(1)")
      .def_static(
          "fused",
          [](const Legs& parts, int64_t arrow) {
            return Leg::fused(parts, arrow_at(arrow, "fused"), "fused");
          },
          nb::arg("parts"), nb::arg("arrow"), "Two or more legs as one, as x.fuse() makes it.")
      .def_prop_ro("arrow", &Leg::arrow, "1: charges count as they are; -1: turned.")
      .def_prop_ro("sectors", sectors_of, "[(charge, size), ...] in the order in which they lie.")
      .def_prop_ro("size", &Leg::size, "Of all sectors.")
      .def_prop_ro("count", &Leg::count, "How many sectors.")
      .def_prop_ro("parts", &Leg::parts, "Of a fused leg those that it was made of.")
      .def_prop_ro("neutral", &Leg::is_neutral, "All charges are 0.")
      .def_prop_ro(
          "symmetry", [](const Leg& leg) { return leg.symmetry().text(); }, "Its text, \"U(1)\".")
      .def("reversed", &Leg::reversed, "With the other arrow.")
      .def(
          "__eq__",
          [](const Leg& a, nb::handle other) {
            return nb::isinstance<Leg>(other) && a == nb::cast<const Leg&>(other);
          },
          nb::arg().none())
      .def("__hash__", [](const Leg& leg) { return leg.id(); })
      .def("__reduce__",
           [](nb::handle self) {
             const Leg& leg = nb::cast<const Leg&>(self);
             const nb::handle type = self.type();
             if (!leg.parts().empty())
               return nb::make_tuple(nb::module_::import_("gradus.blocks").attr("_fused"),
                                     nb::make_tuple(leg.parts(), leg.arrow()));
             return nb::make_tuple(
                 type, nb::make_tuple(leg.arrow(), sectors_of(leg), leg.symmetry().text()));
           })
      .def("__repr__", [](const Leg& leg) {
        return join("<Leg ", leg.text(), ", ", leg.symmetry().text(), ">");
      });
}

void add_structure(nb::module_& m) {
  nb::class_<BlockStructure>(m, "Structure", "Which blocks a tensor has.")
      .def(
          "__init__",
          [](BlockStructure* self, const char* who, const Legs& legs, nb::handle charge) {
            if (legs.empty()) fail(ErrorKind::value, who, "a block tensor has one leg or more");
            const Charge q =
                charge.is_none() ? legs[0].symmetry().neutral() : charge_at(charge, who);
            new (self) BlockStructure(legs, q, who);
          },
          nb::arg(), nb::arg(), nb::arg().none())
      .def_prop_ro("legs", &BlockStructure::legs)
      .def_prop_ro("charge", [](const BlockStructure& s) { return to_python(s.charge()); })
      .def_prop_ro("symmetry", [](const BlockStructure& s) { return s.symmetry().text(); })
      .def_prop_ro("blocks",
                   [](const BlockStructure& s) {
                     nb::list all;
                     for (size_t b = 0; b < s.count(); ++b) {
                       nb::list at;
                       for (const int32_t k : s.at(b)) at.append(k);
                       all.append(nb::tuple(at));
                     }
                     return all;
                   })
      .def_prop_ro("count", &BlockStructure::count)
      .def_prop_ro("elements", &BlockStructure::elements)
      .def_prop_ro("rank", &BlockStructure::rank)
      .def_prop_ro("shape", &BlockStructure::dense_sizes)
      .def(
          "__eq__",
          [](const BlockStructure& a, nb::handle other) {
            return nb::isinstance<BlockStructure>(other) &&
                   a == nb::cast<const BlockStructure&>(other);
          },
          nb::arg().none())
      .def("__hash__", [](const BlockStructure& s) { return s.id(); })
      .def("__repr__", [](const BlockStructure& s) { return s.text(); });
}

}  // namespace

void add_legs(nb::module_& m) {
  add_leg(m);
  add_structure(m);
}

}  // namespace gradus::py
