// The header of a .npy is a Python literal: it is read by a small recursive-descent reader, not by
// searching for words, so that nothing in it goes unnoticed.
#include "engine/files/npy.hpp"

#include "engine/files/file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace gradus::inline v1 {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxRank = 64;  // NumPy 2's; NumPy 1 stops at 32

struct Header {
  std::string descr;
  bool fortran = false;
  Shape sizes;
};

// Reads the Python literal that is the header, e.g.
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header read() {
    Header header;
    bool seen[3] = {};
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0) bad("unknown key '" + key + "', expected descr, fortran_order and shape");
      if (std::exchange(seen[which], true)) bad("key '" + key + "' occurs twice");
      if (which == 0) header.descr = descr();
      if (which == 1) header.fortran = truth();
      if (which == 2) header.sizes = shape();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    blanks();
    if (at_ != text_.size()) bad("something follows the closing brace");
    if (!seen[0]) bad("key 'descr' is missing");
    if (!seen[1]) bad("key 'fortran_order' is missing");
    if (!seen[2]) bad("key 'shape' is missing");
    return header;
  }

 private:
  [[noreturn]] void bad(const std::string& why) const {
    std::string shown(text_.substr(0, 120));
    for (char& c : shown)
      if (uint8_t(c) < 32 || uint8_t(c) > 126) c = '?';
    while (!shown.empty() && (shown.back() == ' ' || shown.back() == '?')) shown.pop_back();
    fail(ErrorKind::io, name_, "bad .npy header at character ", at_, ": ", why, "; header is ",
         shown);
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) bad(std::string("expected '") + c + "'");
  }
  bool take_word(std::string_view word) {
    blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string quoted() {
    blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') bad("expected a quoted name");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) bad("a quoted name does not end");
    std::string s(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return s;
  }
  std::string descr() {
    blanks();
    if (at_ < text_.size() && text_[at_] == '[') bad("structured dtypes are not supported");
    return quoted();
  }
  bool truth() {
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    bad("fortran_order is neither True nor False");
  }
  int64_t number() {
    blanks();
    const size_t begin = at_;
    int64_t n = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const int digit = text_[at_] - '0';
      if (n > (std::numeric_limits<int64_t>::max() - digit) / 10)
        bad("a size of the shape is above 2^63 - 1");
      n = 10 * n + digit;
    }
    if (at_ == begin) bad("expected a size (a whole number from 0 up)");
    take('L');  // Python 2 wrote long integers so
    return n;
  }
  Shape shape() {
    Shape sizes;
    expect('(');
    while (!take(')')) {
      sizes.push_back(number());
      if (sizes.size() > kMaxRank) bad("the shape has more than 64 axes");
      if (!take(',')) {
        // (3) is a number in Python, not a shape.
        if (sizes.size() == 1) bad("expected ',' after the only size of the shape");
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

struct NumpyType {
  const char* code;
  DType dtype;
};
constexpr NumpyType kTypes[] = {
    {"b1", DType::bool_}, {"u1", DType::u8},  {"i4", DType::i32},
    {"i8", DType::i64},   {"f2", DType::f16}, {"f4", DType::f32},
    {"f8", DType::f64},   {"c8", DType::c64}, {"c16", DType::c128},
};

DType dtype_from(const std::string& descr, const std::string& name, bool& swap) {
  const char order = descr.empty() ? '\0' : descr[0];
  for (const NumpyType& t : kTypes)
    if ((order == '<' || order == '>' || order == '|' || order == '=') &&
        descr.substr(1) == t.code) {
      if (order == '|' && itemsize(t.dtype) > 1) break;
      swap = order == '>';
      return t.dtype;
    }
  fail(ErrorKind::io, name, "dtype '", descr,
       "' is not supported; gradus reads bool, u1, i4, i8, f2, f4, f8, c8 and c16: convert with "
       "a.astype(...)");
}

const char* descr_of(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::bool_:
      return "|b1";
    case DType::u8:
      return "|u1";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::f16:
      return "<f2";
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::c64:
      return "<c8";
    case DType::c128:
      return "<c16";
    default:
      break;
  }
  fail(ErrorKind::io, name, ".npy has no dtype ", dtype,
       dtype == DType::bf16 ? "; cast to f32 first (exact), or write .safetensors" : "");
}

// Bytes of the array, or an error if they don't fit 63 bits. A size of 0 counts only after the
// others were looked at: (2^62, 2^62, 0) is no shape that any array has.
uint64_t checked_bytes(const Header& header, DType dtype, const std::string& name) {
  uint64_t n = itemsize(dtype);
  bool empty = false;
  for (const int64_t size : header.sizes) {
    empty = empty || size == 0;
    if (size > 0 && __builtin_mul_overflow(n, uint64_t(size), &n)) n = UINT64_MAX;
    if (n > uint64_t(std::numeric_limits<int64_t>::max()))
      fail(ErrorKind::io, name, "shape ", header.sizes, " of dtype ", dtype,
           " overflows 2^63 bytes");
  }
  return empty ? 0 : n;
}

void swap_bytes(std::string& data, size_t word) {
  for (size_t i = 0; i + word <= data.size(); i += word)
    std::reverse(data.begin() + std::ptrdiff_t(i), data.begin() + std::ptrdiff_t(i + word));
}

Tensor build(const Header& header, DType dtype, const void* data, Device& device) {
  if (!header.fortran || header.sizes.size() < 2)
    return Tensor::from_host(data, header.sizes, dtype, device);
  Shape sizes = header.sizes;
  std::reverse(sizes.begin(), sizes.end());
  const Tensor packed = Tensor::from_host(data, sizes, dtype, device);
  Shape strides = contiguous_strides(sizes);
  std::reverse(strides.begin(), strides.end());
  return packed.alias(header.sizes, strides, 0);
}

// Where the header and the data of a file begin that has `size` bytes and begins with `bytes`,
// after checking magic, version and lengths.
struct Parts {
  size_t header, data;
};
Parts split(std::string_view bytes, uint64_t size, const std::string& name) {
  if (bytes.substr(0, kMagic.size()) != kMagic)
    fail(ErrorKind::io, name, "not a .npy file: it does not begin with \\x93NUMPY",
         bytes.substr(0, 2) == "PK" ? " (this is a zip, perhaps a .npz: unpack it)"
         : bytes.size() < kMagic.size()
             ? " (it has only " + std::to_string(bytes.size()) + " bytes)"
             : "");
  const auto byte = [&](size_t i) { return uint64_t(uint8_t(bytes[i])); };
  if (bytes.size() < 10)
    fail(ErrorKind::io, name, "truncated: expected at least 10 bytes, got ", bytes.size());
  const uint64_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    fail(ErrorKind::io, name, "format version ", major, ".", minor,
         " is unknown; expected 1.0, 2.0 or 3.0");
  const size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start)
    fail(ErrorKind::io, name, "truncated: expected at least ", start, " bytes, got ", bytes.size());
  uint64_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > size - start)
    fail(ErrorKind::io, name, "truncated in the header: expected ", length, " bytes of it, got ",
         size - start);
  return {start, start + size_t(length)};
}

struct Array {
  Header header{};
  DType dtype = DType::f32;
  bool swap = false;
};
// What the header says, if the data are as long as that.
Array array_of(std::string_view text, uint64_t data, const std::string& name) {
  Array a;
  a.header = HeaderReader(text, name).read();
  a.dtype = dtype_from(a.header.descr, name, a.swap);
  const uint64_t expected = checked_bytes(a.header, a.dtype, name);
  if (data != expected)
    fail(ErrorKind::io, name, data < expected ? "truncated" : "too long", ": shape ",
         a.header.sizes, " of dtype ", a.dtype, " needs ", expected, " bytes of data, got ", data);
  return a;
}

}  // namespace

Tensor parse_npy(std::string_view bytes, const std::string& name, Device& device) {
  const Parts at = split(bytes, bytes.size(), name);
  const std::string_view data = bytes.substr(at.data);
  const auto [header, dtype, swap] =
      array_of(bytes.substr(at.header, at.data - at.header), data.size(), name);
  if (dtype == DType::bool_)
    for (size_t i = 0; i < data.size(); ++i)
      if (uint8_t(data[i]) > 1)
        fail(ErrorKind::io, name, "element ", i, " of a bool array is the byte ",
             unsigned(uint8_t(data[i])), ", expected 0 or 1");
  const size_t word = itemsize(real_dtype(dtype));
  if (!swap || word == 1) return build(header, dtype, data.data(), device);
  std::string swapped(data);
  swap_bytes(swapped, word);
  return build(header, dtype, swapped.data(), device);
}

Tensor read_npy(const std::string& path, Device& device) {
  const auto look = [&](std::string_view head, uint64_t size) {
    const Parts at = split(head, size, path);
    if (size < UINT64_MAX && head.size() >= at.data)
      array_of(head.substr(at.header, at.data - at.header), size - at.data, path);
  };
  return parse_npy(read_file(path, UINT64_MAX, look), path, device);
}

std::string npy_bytes(const Tensor& tensor, const std::string& name) {
  std::string header = join("{'descr': '", descr_of(tensor.dtype(), name),
                            "', 'fortran_order': False, 'shape': ", tensor.sizes(), ", }");
  const size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.append(total - 10 - header.size() - 1, ' ');
  header += '\n';
  std::string out(kMagic);
  out += {'\1', '\0', char(header.size() & 0xff), char(header.size() >> 8)};
  out += header;
  out.resize(total + tensor.bytes());
  if (tensor.numel() > 0) tensor.copy_to_host(out.data() + total);
  return out;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  write_file_atomically(path, npy_bytes(tensor, path));
}

}  // namespace gradus
