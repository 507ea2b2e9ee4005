// .npy files: round trips of every dtype, files as NumPy writes them byte for byte, and everything
// that can be wrong with one.
#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <cstring>
#include <doctest/doctest.h>

using namespace gradus;
using gradus::test::error_text;
using gradus::test::TempFolder;

namespace {

// A file of version 1, 2 or 3 with this header text and data.
std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string s = "\x93NUMPY";
  s += {char(version), '\0', char(header.size() & 255), char(header.size() >> 8)};
  if (version > 1) s += std::string(2, '\0');
  return s + header + data;
}
std::string head(const std::string& descr, const std::string& shape, const char* order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}
template <class T>
std::string raw(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}
std::string refusal(const std::string& bytes) {
  return error_text(ErrorKind::io, [&] { parse_npy(bytes, "a.npy"); });
}

template <class T>
void round_trip(const std::vector<T>& values) {
  const TempFolder folder;
  for (const Shape& sizes : {Shape{int64_t(values.size())}, Shape{1, int64_t(values.size()), 1}}) {
    const Tensor t = Tensor::from(values, sizes);
    write_npy(folder / "t.npy", t);
    const Tensor back = read_npy(folder / "t.npy");
    CHECK(back.dtype() == t.dtype());
    CHECK(back.sizes() == sizes);
    const auto got = back.to_vector<T>();
    CHECK(std::memcmp(got.data(), values.data(), values.size() * sizeof(T)) == 0);
  }
}

}  // namespace

TEST_CASE("npy: every dtype survives a round trip bit for bit") {
  round_trip<float>({1.5f, -0.0f, 1e-42f, 3e38f});
  round_trip<double>({0.1, -0.0, 5e-324, 1e308});
  round_trip<c64>({{1, 2}, {-3, 4}});
  round_trip<c128>({{1, 2}, {-3, 4}});
  round_trip<int32_t>({0, -1, INT32_MIN, INT32_MAX});
  round_trip<int64_t>({0, -1, INT64_MIN, INT64_MAX});
  round_trip<uint8_t>({0, 1, 255});
  round_trip<Half>({Half(1.5f), Half(-2.0f)});
  const Tensor flags = parse_npy(npy(head("|b1", "(3,)"), std::string("\1\0\1", 3)), "b");
  CHECK(flags.dtype() == DType::bool_);
  CHECK(flags.to_vector<bool>() == std::vector<bool>{true, false, true});
}

TEST_CASE("npy: the bytes written are NumPy's") {
  const std::string bytes = npy_bytes(Tensor::from(std::vector<int32_t>{1, 2}, {2}));
  CHECK(bytes.size() == 128 + 8);
  CHECK(bytes.substr(0, 10) == std::string("\x93NUMPY\1\0v\0", 10));
  CHECK(bytes.substr(10, 56) == "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), ");
  CHECK(bytes[127] == '\n');
  CHECK(bytes.substr(128) == raw<int32_t>({1, 2}));
}

TEST_CASE("npy: 0-d and empty arrays") {
  const Tensor scalar = parse_npy(npy(head("<f8", "()"), raw<double>({2.5})), "s");
  CHECK(scalar.rank() == 0);
  CHECK(scalar.item() == 2.5);
  CHECK(parse_npy(npy_bytes(scalar), "s").rank() == 0);
  const Tensor none = parse_npy(npy(head("<f4", "(3, 0, 2)"), ""), "e");
  CHECK(none.sizes() == Shape{3, 0, 2});
  CHECK(parse_npy(npy_bytes(none), "e").sizes() == Shape{3, 0, 2});
}

TEST_CASE("npy: versions 2 and 3, double quotes, another order of keys") {
  for (const int version : {2, 3})
    CHECK(parse_npy(npy(head("<i8", "(1,)"), raw<int64_t>({7}), version), "v").item_integer() == 7);
  const std::string odd = "{\"shape\":(2L,),\"descr\":\"<f4\",\"fortran_order\":False}";
  CHECK(parse_npy(npy(odd, raw<float>({1, 2})), "o").to_vector<float>() ==
        std::vector<float>{1, 2});
}

TEST_CASE("npy: big-endian files, complex ones by parts") {
  CHECK(parse_npy(npy(head(">i4", "(1,)"), std::string("\0\0\1\2", 4)), "b").item_integer() == 258);
  const std::string one("\x3f\x80\0\0", 4), two("\x40\0\0\0", 4);
  const auto z = parse_npy(npy(head(">c8", "(1,)"), one + two), "z").to_vector<c64>();
  CHECK(z[0] == c64(1, 2));
}

TEST_CASE("npy: Fortran order is a view of the same numbers") {
  const Tensor t =
      parse_npy(npy(head("<i4", "(2, 3)", "True"), raw<int32_t>({1, 4, 2, 5, 3, 6})), "f");
  CHECK(t.sizes() == Shape{2, 3});
  CHECK(t.strides() == Shape{1, 2});
  CHECK(t.to_vector<int32_t>() == std::vector<int32_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("npy: what is not an array is refused with file, expected and got") {
  const std::string good = npy(head("<f4", "(2, 3)"), raw<float>({1, 2, 3, 4, 5, 6}));
  CHECK(refusal(good) == "no error");
  CHECK(refusal(good.substr(0, good.size() - 1)) ==
        "a.npy: truncated: shape (2, 3) of dtype f32 needs 24 bytes of data, got 23");
  CHECK(refusal(good + "x") ==
        "a.npy: too long: shape (2, 3) of dtype f32 needs 24 bytes of data, got 25");
  CHECK(refusal("") ==
        "a.npy: not a .npy file: it does not begin with \\x93NUMPY (it has only 0 "
        "bytes)");
  CHECK(refusal("PK\3\4xxxx").find("zip") != std::string::npos);
  CHECK(refusal("\x93NUMPY\1") == "a.npy: truncated: expected at least 10 bytes, got 7");
  CHECK(refusal(npy(head("<f4", "(1,)"), "abcd", 4)) ==
        "a.npy: format version 4.0 is unknown; expected 1.0, 2.0 or 3.0");
  CHECK(refusal(good.substr(0, 40)) ==
        "a.npy: truncated in the header: expected 60 bytes of it, got 30");
}

TEST_CASE("npy: no truncation and no flipped header bit goes unnoticed") {
  const std::string good = npy_bytes(Tensor::from(std::vector<int32_t>{1, 2, 3}, {3}));
  for (size_t n = 0; n < good.size(); ++n) CHECK(refusal(good.substr(0, n)) != "no error");
  // A flip may also give another valid file, but never a crash or an array of another byte count.
  for (size_t i = 0; i < 128; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = char(bad[i] ^ (1 << bit));
      size_t bytes = 12;
      const std::string said =
          error_text(ErrorKind::io, [&] { bytes = parse_npy(bad, "flipped").bytes(); });
      CHECK(said.find("error of another kind") == std::string::npos);
      CHECK(bytes == 12);
    }
}

TEST_CASE("npy: bad headers") {
  const auto says = [](const std::string& header, const char* text) {
    INFO(header);
    CHECK(refusal(npy(header, "")).find(text) != std::string::npos);
  };
  says("{'descr': '<f4', 'fortran_order': False, }", "key 'shape' is missing");
  says("{'descr': '<f4', 'shape': (0,), }", "key 'fortran_order' is missing");
  says("{'fortran_order': False, 'shape': (0,), }", "key 'descr' is missing");
  says("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", "occurs twice");
  says("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), 'more': 1}", "unknown key 'more'");
  says(head("<f4", "(-1,)"), "expected a size");
  says(head("<f4", "(3)"), "expected ','");
  says(head("<f4", "(99999999999999999999,)"), "above 2^63 - 1");
  says(head("<f4", "(4294967296, 4294967296, 0)"), "overflows 2^63 bytes");
  says(head("<f4", "(0,)", "Maybe"), "neither True nor False");
  says(head("<f4", "(0,)") + "x", "something follows");
  says("[1]", "expected '{'");
  says("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (0,)}", "structured dtypes");
  for (const char* dtype : {"<u2", "|O", "<U3", "<f16", "<m8[s]", "f4", "|f4", ""})
    says(head(dtype, "(0,)"), "is not supported; gradus reads bool, u1, i4");
  CHECK(refusal(npy(head("|b1", "(2,)"), std::string("\1\2", 2))) ==
        "a.npy: element 1 of a bool array is the byte 2, expected 0 or 1");
}

TEST_CASE("npy: bf16 is refused on writing, with a hint") {
  const Tensor t = Tensor::from(std::vector<BFloat16>{BFloat16(1.0f)}, {1});
  CHECK(error_text(ErrorKind::io, [&] { npy_bytes(t, "b.npy"); }) ==
        "b.npy: .npy has no dtype bf16; cast to f32 first (exact), or write .safetensors");
}

TEST_CASE("files: a failed write leaves the old file and nothing else") {
  const TempFolder folder;
  write_file_atomically(folder / "x", "old");
  write_file_atomically(folder / "x", "newer");
  CHECK(read_file(folder / "x") == "newer");
  CHECK(error_text(ErrorKind::io, [&] { write_file_atomically(folder / "no/x", "a"); }) ==
        folder / "no/x" +
            ": cannot create a file beside it: No such file or directory; make its folder first: "
            "mkdir -p " +
            folder / "no");
  std::filesystem::create_directories(folder / "d");
  CHECK(error_text(ErrorKind::io, [&] { write_file_atomically(folder / "d", "a"); }) ==
        folder / "d" + ": is a folder, expected a file");
  std::filesystem::create_symlink("x", folder / "link");
  write_file_atomically(folder / "link", "through");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(read_file(folder / "x") == "through");
  write_file_atomically("/dev/null", "gone");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += !entry.path().empty();
  CHECK(files == 3);
}

TEST_CASE("files: reading what is not there") {
  const TempFolder folder;
  CHECK(error_text(ErrorKind::io, [&] { read_file(folder / "no"); }) ==
        folder / "no" + ": cannot open: No such file or directory");
  CHECK(error_text(ErrorKind::io, [&] { read_file(folder.path()); }) ==
        folder.path() + ": is a folder, expected a file");
  folder.write("five", "12345");
  CHECK(error_text(ErrorKind::io, [&] { read_file(folder / "five", 4); }) ==
        folder / "five" + ": has 5 bytes, at most 4 expected");
}

TEST_CASE("npy: exchange with NumPy in both directions") {
  const TempFolder folder;
  const auto python = [&](const std::string& code) {
    const std::string file = folder.write("run.py", "import numpy as np\n" + code);
    return std::system(
        ("cd " + folder.path() + " && /usr/bin/python3 " + file + " 2>/dev/null").c_str());
  };
  if (python("") != 0) {
    MESSAGE("skipped: /usr/bin/python3 has no numpy here");
    return;
  }
  REQUIRE(
      python(
          "a = np.arange(24).reshape(2, 3, 4)\n"
          "np.save('i8', a)\nnp.save('f4', np.asfortranarray(a.astype('>f4')))\n"
          "np.save('c16', a[:, ::-2] * 1j)\nnp.save('b1', a > 3)\nnp.save('0', np.float16(3))\n") ==
      0);
  std::vector<float> count(24);
  for (size_t i = 0; i < 24; ++i) count[i] = float(i);
  CHECK(read_npy(folder / "i8.npy").to_vector<int64_t>()[23] == 23);
  CHECK(read_npy(folder / "f4.npy").to_vector<float>() == count);
  CHECK(read_npy(folder / "c16.npy").to_vector<c128>()[1] == c128(0, 9));
  CHECK(read_npy(folder / "b1.npy").to_vector<bool>()[4]);
  CHECK(read_npy(folder / "0.npy").item() == 3);
  write_npy(folder / "back.npy", read_npy(folder / "f4.npy"));
  CHECK(python("b = np.load('back.npy')\nassert b.dtype == np.float32\n"
               "assert (b == np.load('f4.npy')).all() and b.flags.c_contiguous\n") == 0);
}
