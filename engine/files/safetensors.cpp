// The layout, from the format's own README: u64 header size, JSON header padded with spaces to 8
// bytes, then the tensors' packed bytes. Offsets in the header are relative to the end of the
// header.
#include "engine/files/safetensors.hpp"

#include "engine/files/file.hpp"
#include "engine/files/json_text.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace gradus::inline v1 {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "gradus.crc32";
constexpr size_t kDigits = 8;

struct FormatType {
  const char* name;
  DType dtype;
};
constexpr FormatType kTypes[] = {
    {"F32", DType::f32},    {"F64", DType::f64}, {"C64", DType::c64},
    {"I32", DType::i32},    {"I64", DType::i64}, {"U8", DType::u8},
    {"BOOL", DType::bool_}, {"F16", DType::f16}, {"BF16", DType::bf16},
};

const char* format_name(DType dtype, const std::string& file, const std::string& tensor) {
  for (const FormatType& t : kTypes)
    if (t.dtype == dtype) return t.name;
  fail(ErrorKind::io, file, "tensor \"", tensor, "\": .safetensors has no dtype ", dtype,
       dtype == DType::c128 ? "; write its real and imaginary parts as two f64 tensors" : "");
}

std::string quoted(const std::string& text, const std::string& file) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail(ErrorKind::io, file, "a tensor name or metadata text is not valid UTF-8");
  }
}

// One tensor of the header, checked.
struct Entry {
  std::string name;
  DType dtype;
  Shape sizes;
  uint64_t begin, end;
};

class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name, const Json& v)
      : file_(file), name_(name), v_(v) {}

  Entry read() const {
    if (!v_.is_object()) bad("expected an object, got ", shown(v_));
    for (const auto& [key, value] : v_.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        bad("unknown key \"", key, "\"; expected dtype, shape and data_offsets");
    Entry e{name_, dtype(), {}, 0, 0};
    for (const Json& size : list("shape")) e.sizes.push_back(int64_t(whole(size, "shape")));
    const Json& offsets = list("data_offsets");
    if (offsets.size() != 2) bad("data_offsets needs 2 numbers, got ", offsets.size());
    e.begin = whole(offsets[0], "data_offsets");
    e.end = whole(offsets[1], "data_offsets");
    if (e.end < e.begin) bad("data_offsets run backwards: ", e.begin, " to ", e.end);
    if (e.end - e.begin != bytes(e))
      bad("shape ", e.sizes, " of dtype ", e.dtype, " needs ", bytes(e),
          " bytes, its data_offsets give ", e.end - e.begin);
    return e;
  }

 private:
  template <class... P>
  [[noreturn]] void bad(const P&... parts) const {
    fail(ErrorKind::io, file_, "tensor \"", name_, "\": ", parts...);
  }
  const Json& at(const char* key) const {
    if (!v_.contains(key)) bad("key \"", key, "\" is missing");
    return v_[key];
  }
  const Json& list(const char* key) const {
    if (!at(key).is_array()) bad(key, ": expected an array, got ", shown(at(key)));
    return at(key);
  }
  uint64_t whole(const Json& v, const char* key) const {
    if (!v.is_number_unsigned() ||
        v.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
      bad(key, ": expected a whole number from 0 to 2^63 - 1, got ", shown(v));
    return v.get<uint64_t>();
  }
  DType dtype() const {
    const Json& v = at("dtype");
    for (const FormatType& t : kTypes)
      if (v == t.name) return t.dtype;
    bad("dtype ", shown(v),
        " is not supported; gradus reads BOOL, U8, I32, I64, F16, BF16, F32, F64 and C64");
  }
  uint64_t bytes(const Entry& e) const {
    uint64_t n = itemsize(e.dtype);
    bool empty = false;
    for (const int64_t size : e.sizes) {
      empty = empty || size == 0;
      if (size > 0 && (__builtin_mul_overflow(n, uint64_t(size), &n) || n > INT64_MAX))
        bad("shape ", e.sizes, " of dtype ", e.dtype, " overflows 2^63 bytes");
    }
    return empty ? 0 : n;
  }

  const std::string& file_;
  const std::string& name_;
  const Json& v_;
};

Metadata read_metadata(const Json& v, const std::string& file) {
  Metadata out;
  if (!v.is_object()) fail(ErrorKind::io, file, kMetadata, ": expected an object, got ", shown(v));
  for (const auto& [key, text] : v.items()) {
    if (!text.is_string())
      fail(ErrorKind::io, file, kMetadata, ".", key, ": expected a string, got ", shown(text));
    out[key] = text.get<std::string>();
  }
  return out;
}

// Sorts by place and makes sure that the tensors cover the data from its first byte to its last.
void check_cover(std::vector<Entry>& entries, uint64_t size, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t reached = 0;
  for (const Entry& e : entries) {
    if (e.begin != reached)
      fail(ErrorKind::io, file, "tensor \"", e.name, "\" begins at byte ", e.begin,
           e.begin < reached ? ", inside the tensor before it, which ends at "
                             : ", leaving a hole after byte ",
           reached);
    reached = e.end;
  }
  if (reached != size)
    fail(ErrorKind::io, file, reached > size ? "truncated" : "too long", ": the tensors need ",
         reached, " bytes of data, got ", size);
}

// The length of the header of a file that begins with `head` and has `size` bytes.
uint64_t header_length(std::string_view head, uint64_t size, const std::string& file) {
  if (head.size() < 8)
    fail(ErrorKind::io, file, "truncated: expected at least 8 bytes, got ", head.size());
  uint64_t length;
  std::memcpy(&length, head.data(), 8);
  if (length > kMaxHeader)
    fail(ErrorKind::io, file, "header size ", std::to_string(length),
         " is above the format's limit of ", kMaxHeader, "; is this a .safetensors file?");
  if (length > size - 8)
    fail(ErrorKind::io, file, "truncated in the header: expected ", length, " bytes of it, got ",
         size - 8);
  if (length == 0 || head.size() < 9 || head[8] != '{')
    fail(ErrorKind::io, file, "the header does not begin with '{'; is this a .safetensors file?");
  return length;
}

struct Layout {
  std::vector<Entry> entries{};  // in the order of their data
  Metadata metadata{};
};
Layout layout_of(std::string_view text, uint64_t data, const std::string& file) {
  const Json header = parse_json(text, file, false, ErrorKind::io);
  Layout out;
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadata)
      out.metadata = read_metadata(value, file);
    else
      out.entries.push_back(EntryReader(file, key, value).read());
  }
  check_cover(out.entries, data, file);
  return out;
}

// ---- the checksum

// Where its digits stand in a file with this header. As JSON, no other text can hold its key with
// bare quotes.
size_t digits_at(std::string_view bytes, uint64_t header) {
  const std::string key = join("\"", kChecksum, "\":\"");
  const size_t at = bytes.substr(0, 8 + header).find(key);
  return at == std::string_view::npos ? at : at + key.size();
}

uint32_t crc_of(std::string_view bytes, size_t digits) {
  const uint32_t before = crc32_of(std::string(kDigits, '0'), crc32_of(bytes.substr(0, digits)));
  return crc32_of(bytes.substr(digits + kDigits), before);
}

// False if there is none.
bool check_sum(std::string_view bytes, uint64_t header, const std::string& file) {
  const size_t at = digits_at(bytes, header);
  if (at == std::string_view::npos || at + kDigits > 8 + header) return false;
  const std::string is = crc32_text(crc_of(bytes, at));
  if (bytes.substr(at, kDigits) != is)
    fail(ErrorKind::io, file, "damaged: it is no longer as it was written: its CRC-32 is ", is,
         ", ", kChecksum, " says ", bytes.substr(at, kDigits),
         "; a program that writes it anew must leave that key out");
  return true;
}

}  // namespace

Safetensors parse_safetensors(std::string_view bytes, const std::string& name, Device& device) {
  const uint64_t header = header_length(bytes, bytes.size(), name);
  Safetensors out;
  out.checked = check_sum(bytes, header, name);
  const std::string_view all = bytes.substr(8 + header);
  Layout layout = layout_of(bytes.substr(8, header), all.size(), name);
  if (layout.metadata.erase(kChecksum) > 0 && !out.checked)
    fail(ErrorKind::io, name, kChecksum, " is not as gradus writes it; a program that writes a ",
         "file anew must leave that key out");
  out.metadata = std::move(layout.metadata);
  for (const Entry& e : layout.entries) {
    const std::string_view data = all.substr(e.begin, e.end - e.begin);
    if (e.dtype == DType::bool_)
      for (size_t i = 0; i < data.size(); ++i)
        if (uint8_t(data[i]) > 1)
          fail(ErrorKind::io, name, "tensor \"", e.name, "\": element ", i,
               " of a bool tensor is the byte ", unsigned(uint8_t(data[i])), ", expected 0 or 1");
    out.tensors.emplace_back(e.name, Tensor::from_host(data.data(), e.sizes, e.dtype, device));
  }
  return out;
}

Safetensors read_safetensors(const std::string& path, Device& device) {
  const auto look = [&](std::string_view head, uint64_t size) {
    const uint64_t n = header_length(head, size, path);
    if (size < UINT64_MAX && head.size() - 8 >= n) layout_of(head.substr(8, n), size - 8 - n, path);
  };
  return parse_safetensors(read_file(path, UINT64_MAX, look), path, device);
}

Metadata read_safetensors_metadata(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) fail_errno(path, "open", errno);
  const auto size = uint64_t(std::max<std::streamoff>(in.tellg(), 0));
  std::string head(size_t(std::min<uint64_t>(size, 9)), '\0');
  in.seekg(0);
  in.read(head.data(), std::streamsize(head.size()));
  const uint64_t n = header_length(head, size, path);
  std::string text(n, '\0');
  in.seekg(8);
  if (!in.read(text.data(), std::streamsize(n))) fail_errno(path, "read", errno);
  Metadata out = layout_of(text, size - 8 - n, path).metadata;
  out.erase(kChecksum);
  return out;
}

std::string safetensors_bytes(const NamedTensors& tensors, const Metadata& metadata,
                              const std::string& name) {
  std::vector<const std::pair<std::string, Tensor>*> order;
  std::set<std::string> names{kMetadata};
  for (const auto& entry : tensors) {
    if (!names.insert(entry.first).second)
      fail(ErrorKind::io, name, "two tensors are called \"", entry.first, "\"");
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const size_t x = itemsize(a->second.dtype()), y = itemsize(b->second.dtype());
    return x != y ? x > y : a->first < b->first;
  });

  Metadata all = metadata;
  all[kChecksum] = std::string(kDigits, '0');
  std::string header = join("{\"", kMetadata, "\":{");
  for (const auto& [key, text] : all) header += quoted(key, name) + ":" + quoted(text, name) + ",";
  header.back() = '}';
  header += ',';
  uint64_t at = 0;
  for (const auto* entry : order) {
    const auto& [key, tensor] = *entry;
    header += join(quoted(key, name), ":{\"dtype\":\"", format_name(tensor.dtype(), name, key),
                   "\",\"shape\":[");
    for (size_t i = 0; i < tensor.sizes().size(); ++i)
      header += join(i ? "," : "", tensor.sizes()[i]);
    header += join("],\"data_offsets\":[", at, ",", at + tensor.bytes(), "]},");
    at += tensor.bytes();
  }
  if (header.back() == ',') header.pop_back();
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMaxHeader)
    fail(ErrorKind::io, name, "the header would have ", header.size(),
         " bytes, above the format's limit of ", kMaxHeader);

  std::string out(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  out += header;
  size_t place = out.size();
  out.resize(place + at);
  for (const auto* entry : order) {
    if (entry->second.numel() > 0) entry->second.copy_to_host(out.data() + place);
    place += entry->second.bytes();
  }
  const size_t digits = digits_at(out, length);
  out.replace(digits, kDigits, crc32_text(crc_of(out, digits)));
  return out;
}

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const Metadata& metadata) {
  write_file_atomically(path, safetensors_bytes(tensors, metadata, path));
}

NamedTensors with_prefix(const NamedTensors& all, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, tensor] : all)
    if (name.compare(0, prefix.size(), prefix) == 0)
      out.emplace_back(name.substr(prefix.size()), tensor);
  return out;
}

}  // namespace gradus
