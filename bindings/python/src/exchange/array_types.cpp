// DLPack's words for dtypes, devices and places in memory, and ours.
#include "bindings/python/src/exchange/exchange.hpp"

namespace gradus::inline v1::py {

dl::DataType type_of(DType t) {
  const auto bits = uint8_t(8 * itemsize(t));
  if (t == DType::bool_) return {dl::kBool, 8, 1};
  if (t == DType::bf16) return {dl::kBfloat, 16, 1};
  if (t == DType::u8) return {dl::kUInt, 8, 1};
  return {is_complex(t) ? dl::kComplex : is_integer(t) ? dl::kInt : dl::kFloat, bits, 1};
}

DType dtype_of_array(dl::DataType t) {
  if (t.lanes == 1)
    for (int i = 0; i < GD_DTYPE_COUNT; ++i)
      if (const dl::DataType own = type_of(DType(i)); own.code == t.code && own.bits == t.bits)
        return DType(i);
  fail(ErrorKind::dtype, "from_dlpack", "an array of code ", int(t.code), " with ", int(t.bits),
       " bits has no dtype here; convert it to one of float16/32/64, bfloat16, int32/64, uint8, "
       "bool, "
       "complex64/128 first");
}
Device& device_of(dl::Device d) {
  static Device& cpu = open_device("cpu");
  if (d.type == dl::kCpu || d.type == dl::kCudaHost) return cpu;
  const char* const kind = d.type == dl::kCuda ? "cuda:" : d.type == dl::kRocm ? "hip:" : nullptr;
  if (!kind)
    fail(ErrorKind::device, "from_dlpack", "an array on a device of DLPack's type ", d.type,
         "; expected 1 (CPU), 2 (CUDA) or 10 (ROCm)");
  return device_named(kind + std::to_string(d.id));
}
dl::Device device_of(Device& d) {
  if (d.host_memory()) return {dl::kCpu, 0};
  const std::string& kind = d.kind();
  if (kind == "cuda") return {dl::kCuda, d.index()};
  if (kind == "hip") return {dl::kRocm, d.index()};
  fail(ErrorKind::device, "dlpack", "memory of ", d.name(), " can't be shared; copy it: x.cpu()");
}

void* address(const Tensor& t) {
  auto* const first = static_cast<char*>(t.storage().data());
  return first ? first + t.offset() * int64_t(itemsize(t.dtype())) : first;
}

}  // namespace gradus::py
