// .safetensors: byte-reproducible writing, and a reader that trusts nothing.
#include "engine/files/file.hpp"
#include "engine/files/safetensors.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <cstring>
#include <doctest/doctest.h>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::TempFolder;

namespace {

std::string file(const std::string& header, const std::string& data) {
  const uint64_t n = header.size();
  std::string s(8, '\0');
  std::memcpy(s.data(), &n, 8);
  return s + header + data;
}
std::string entry(const char* name, const char* dtype, const char* shape, const char* offsets) {
  return join("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
              ",\"data_offsets\":", offsets, "}");
}
std::string refusal(const std::string& bytes) {
  return error_text(ErrorKind::io, [&] { parse_safetensors(bytes, "m.st"); });
}
void says(const std::string& header, size_t data, const char* text) {
  INFO(header);
  CHECK(refusal(file(header, std::string(data, '\0'))) == std::string("m.st: ") + text);
}

}  // namespace

TEST_CASE("safetensors: tensors and metadata survive a round trip") {
  const TempFolder folder;
  const NamedTensors tensors = {
      {"flags", Tensor::from(std::vector<uint8_t>{1, 2, 3}, {3})},
      {"w", Tensor::from(std::vector<double>{1, 2, 3, 4}, {2, 2})},
      {"b", Tensor::from(std::vector<float>{5, 6}, {2})},
      {"half", Tensor::from(std::vector<BFloat16>{BFloat16(1.5f)}, {1})},
      {"scalar", Tensor::from(std::vector<int64_t>{-7}, {})},
      {"none", Tensor::empty({0, 4}, DType::c64)},
  };
  write_safetensors(folder / "m.safetensors", tensors, {{"epoch", "3"}, {"note", "a \"quote\""}});
  const Safetensors back = read_safetensors(folder / "m.safetensors");
  CHECK(back.metadata == Metadata{{"epoch", "3"}, {"note", "a \"quote\""}});
  std::string names;
  for (const auto& [name, t] : back.tensors) names += name + " ";
  CHECK(names == "none scalar w b half flags ");
  CHECK(back.tensors[0].second.sizes() == Shape{0, 4});
  CHECK(back.tensors[1].second.item_integer() == -7);
  CHECK(back.tensors[2].second.to_vector<double>() == std::vector<double>{1, 2, 3, 4});
  CHECK(float(back.tensors[4].second.to_vector<BFloat16>()[0]) == 1.5f);
}

TEST_CASE("safetensors: the bytes do not depend on the order of the tensors") {
  const Tensor x = Tensor::from(std::vector<float>{1}, {1}),
               y = Tensor::from(std::vector<float>{2}, {1});
  const std::string a = safetensors_bytes({{"x", x}, {"y", y}}, {}, "a");
  CHECK(a == safetensors_bytes({{"y", y}, {"x", x}}, {}, "a"));
  const std::string sum = a.substr(a.find("crc32\":\"") + 8, 8);
  const std::string header = "{\"__metadata__\":{\"gradus.crc32\":\"" + sum + "\"}," +
                             entry("x", "F32", "[1]", "[0,4]") + "," +
                             entry("y", "F32", "[1]", "[4,8]") + "}";
  CHECK(a.substr(8, header.size()) == header);
  CHECK((a.size() - 8) % 8 == 0);
}

TEST_CASE("safetensors: what cannot be written") {
  const Tensor z = Tensor::empty({1}, DType::c128), x = Tensor::zeros({1}, DType::f32);
  const auto refuse = [](const NamedTensors& t) {
    return error_text(ErrorKind::io, [&] { safetensors_bytes(t, {}, "m.st"); });
  };
  CHECK(refuse({{"z", z}}) ==
        "m.st: tensor \"z\": .safetensors has no dtype c128; write its real "
        "and imaginary parts as two f64 tensors");
  CHECK(refuse({{"x", x}, {"x", x}}) == "m.st: two tensors are called \"x\"");
  CHECK(refuse({{"__metadata__", x}}) == "m.st: two tensors are called \"__metadata__\"");
  CHECK(refuse({{"\xff", x}}) == "m.st: a tensor name or metadata text is not valid UTF-8");
}

TEST_CASE("safetensors: every lie in a file is found") {
  CHECK(refusal("") == "m.st: truncated: expected at least 8 bytes, got 0");
  CHECK(refusal(std::string(8, '\xff')).find("above the format's limit") != std::string::npos);
  CHECK(refusal(file("{}", "").substr(0, 9)) ==
        "m.st: truncated in the header: expected 2 bytes of it, got 1");
  says("", 0, "the header does not begin with '{'; is this a .safetensors file?");
  says(" {}", 0, "the header does not begin with '{'; is this a .safetensors file?");
  says("{} x", 0, "line 1, column 4: invalid literal; last read: '{} x'; expected end of input");
  says("{" + entry("a", "F32", "[1]", "[0,4]") + "}", 3,
       "truncated: the tensors need 4 bytes of data, got 3");
  says("{" + entry("a", "F32", "[1]", "[0,4]") + "}", 5,
       "too long: the tensors need 4 bytes of data, got 5");
  says("{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]") + "}", 8,
       "a: duplicate key");
  says("{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[4]", "[2,6]") + "}", 6,
       "tensor \"b\" begins at byte 2, inside the tensor before it, which ends at 4");
  says("{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[4,6]") + "}", 6,
       "tensor \"b\" begins at byte 4, leaving a hole after byte 2");
  says("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4,
       "tensor \"a\": shape (2,) of dtype f32 needs 8 bytes, its data_offsets give 4");
  says("{" + entry("a", "F32", "[1]", "[4,0]") + "}", 4,
       "tensor \"a\": data_offsets run backwards: 4 to 0");
  says("{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", 0,
       "tensor \"a\": shape (4294967296, 4294967296) of dtype f32 overflows 2^63 bytes");
  says("{" + entry("a", "F32", "[-1]", "[0,4]") + "}", 4,
       "tensor \"a\": shape: expected a whole number from 0 to 2^63 - 1, got -1");
  says("{" + entry("a", "F8_E4M3", "[1]", "[0,1]") + "}", 1,
       "tensor \"a\": dtype \"F8_E4M3\" is not supported; gradus reads BOOL, U8, I32, I64, F16, "
       "BF16, F32, F64 and C64");
  says("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"offsets\":[0,1]}}", 1,
       "tensor \"a\": unknown key \"offsets\"; expected dtype, shape and data_offsets");
  says("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1,
       "tensor \"a\": key \"data_offsets\" is missing");
  says("{\"a\":[]}", 0, "tensor \"a\": expected an object, got an empty array");
  says("{\"__metadata__\":{\"n\":1}}", 0, "__metadata__.n: expected a string, got 1");
  CHECK(refusal(file("{" + entry("a", "BOOL", "[1]", "[0,1]") + "}", "\2")) ==
        "m.st: tensor \"a\": element 0 of a bool tensor is the byte 2, expected 0 or 1");
}
