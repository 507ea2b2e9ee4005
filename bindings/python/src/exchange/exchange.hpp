// What the ways out (out.cpp) and in (in.cpp) share, which are DLPack's and the
// buffer protocol's (buffers.cpp), and the words of both sides (array_types.cpp).
#pragma once
#include "bindings/python/src/exchange/dlpack.hpp"
#include "bindings/python/src/python.hpp"

namespace gradus::inline v1::py {

dl::DataType type_of(DType t);
DType dtype_of_array(dl::DataType t);  // Error(dtype) for what has none here
Device& device_of(dl::Device d);       // opens it; Error(device) for what is none of ours
dl::Device device_of(Device& d);       // Error(device) for memory that can't be shared
inline dl::Device device_of(const Tensor& t) { return device_of(t.device()); }
void* address(const Tensor& t);  // of the first element
// From here on others see the memory, which stays where it is. May they write to it? `for_reading`:
// rather not than that a clone is parted from it.
bool show_as(const Tensor& t, bool for_reading = false);
// Foreign memory as a tensor. `release` is called once, also if this throws.
Tensor lent(const dl::Array& a, const std::function<void()>& release);
bool import_buffer(PyObject* o, Tensor& out);
// An array that came by a table: it is given back in the order of the giver's `stream`, or at once.
Tensor taken(dl::ManagedVersioned* m, void* stream = nullptr, bool in_order = false);
const dl::ExchangeTable* table_of(PyTypeObject* type);    // null: it has none
const dl::ExchangeTable& foreign_table(nb::handle type);  // Error(dtype): arrays can't be made
// Where the other library works now, on a GPU.
void* working_stream(const dl::ExchangeTable& table, dl::Device d);
// t's values as an array of the other library, which still has to wait for t's device. They are in
// memory of their own or, `shared`, in t's, if t is all of it and nothing else lies there: the
// array keeps that memory, and the next write to t's storage leaves it. Until then t may show what
// others write there.
nb::object values_out(const Tensor& t, const dl::ExchangeTable& to, bool shared);
// Where an array of another library begins. And to.copy_(from), zeros where that is None, of `to`
// alone the caller knows.
void* place_of(nb::handle array);
void copy_into(nb::handle to, nb::handle from);
void open_exchange_in(nb::module_& m);

}  // namespace gradus::py
