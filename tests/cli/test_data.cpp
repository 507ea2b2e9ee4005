// Data sets: IDX files good and bad, plain and gzipped, and the drawn digits.
#include "gradus_paths.hpp"
#include "ops/train/data/digits.hpp"
#include "ops/train/data/idx.hpp"
#include "engine/files/file.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <zlib.h>

using namespace gradus;
using namespace gradus::training;
using gradus::test::error_text;
using gradus::test::TempFolder;

namespace {

std::string u32(uint32_t n) { return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)}; }
std::string images(uint32_t n, uint32_t rows, uint32_t cols) {
  return u32(0x803) + u32(n) + u32(rows) + u32(cols) + std::string(size_t(n) * rows * cols, '\7');
}
std::string labels(const std::string& values) {
  return u32(0x801) + u32(uint32_t(values.size())) + values;
}
std::string gzip(const std::string& bytes) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, bytes.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = uInt(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = uInt(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}
std::string refusal(const std::string& bytes, size_t rank = 3) {
  return error_text(ErrorKind::io, [&] { parse_idx(bytes, "f", rank); });
}
uint64_t fnv(const std::vector<uint8_t>& bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const uint8_t b : bytes) h = (h ^ b) * 0x100000001b3u;
  return h;
}

}  // namespace

TEST_CASE("idx: bad headers name the field, what was expected and what came") {
  const std::string good = images(2, 3, 4);
  CHECK(refusal(good) == "no error");
  CHECK(refusal("") == "f: header: expected 16 bytes, got 0");
  CHECK(refusal(good.substr(0, 15)) == "f: header: expected 16 bytes, got 15");
  CHECK(refusal(good.substr(0, 39)) ==
        "f: truncated: its header says 2 x 3 x 4 = 24 bytes of data, got 23");
  CHECK(refusal(good + "x") == "f: too long: its header says 2 x 3 x 4 = 24 bytes of data, got 25");
  CHECK(refusal("\1" + good.substr(1)) == "f: magic: expected 0x00000803, got 0x01000803");
  CHECK(refusal(u32(0xd03) + good.substr(4)) ==
        "f: dtype: expected 8 (unsigned byte), got 13 (float)");
  CHECK(refusal(labels("\1\2")) == "f: rank: expected 3 axes, got 1; is this the file of labels?");
  CHECK(refusal(good, 1) == "f: rank: expected 1 axes, got 3; is this the file of images?");
  CHECK(refusal(u32(0x803) + std::string(12, '\xff')).find("more than 2^64 bytes of data, got 0") !=
        std::string::npos);
  CHECK(refusal("<!DOCTYPE html>").find("it looks like a web page: the download went wrong") !=
        std::string::npos);
}

TEST_CASE("gzip: truncated, corrupt, trailed and too large data are told apart") {
  const TempFolder folder;
  const std::string text(100000, 'a'), packed = gzip(text);
  const auto refuse = [&](const std::string& bytes, uint64_t limit = 1 << 20) {
    const std::string file = folder.write("x.gz", bytes);
    const std::string e = error_text(ErrorKind::io, [&] { read_gz(file, limit); });
    return e == "no error" ? e : e.substr(file.size() + 2);
  };
  CHECK(read_gz(folder.write("a.gz", packed), 1 << 20) == text);
  CHECK(read_gz(folder.write("b.gz", packed + gzip("b")), 1 << 20) == text + "b");
  CHECK(read_gz(folder.write("plain", text), 1 << 20) == text);
  CHECK(refuse(packed, 100000) == "no error");
  CHECK(refuse(packed, 99999) == "unpacks to more than the expected 99999 bytes");
  for (size_t n = 2; n < packed.size(); n += 7)
    CHECK(refuse(packed.substr(0, n)).find("truncated gzip") == 0);
  CHECK(refuse(packed + "tail") == "4 bytes of something else follow the end of the gzip data");
  std::string bad = packed;
  bad[packed.size() - 6] = char(bad[packed.size() - 6] ^ 1);
  CHECK(refuse(bad).find("corrupt gzip at byte ") == 0);
}

TEST_CASE("idx: a folder of four files, plain and gzipped mixed") {
  const TempFolder folder;
  folder.write("train-images-idx3-ubyte.gz", gzip(images(3, 2, 2)));
  folder.write("train-labels-idx1-ubyte", labels(std::string("\0\1\2", 3)));
  folder.write("t10k-images.idx3-ubyte", images(1, 2, 2));
  const auto refuse = [&] { return error_text(ErrorKind::io, [&] { load_idx(folder.path()); }); };
  CHECK(refuse() ==
        folder.path() +
            ": none of these files is here: t10k-labels-idx1-ubyte, "
            "t10k-labels-idx1-ubyte.gz, t10k-labels.idx1-ubyte, t10k-labels.idx1-ubyte.gz");
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(labels("\2")));
  const Dataset data = load_idx(folder.path());
  CHECK(data.rows() == 2);
  CHECK(data.train.count == 3);
  CHECK(data.train.labels() == std::vector<int32_t>{0, 1, 2});
  CHECK(data.test.pixels() == std::vector<uint8_t>(4, 7));
  CHECK(data.classes == 3);
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(labels("\3")));
  CHECK(load_idx(folder.path()).classes == 4);
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(labels("\1\1")));
  CHECK(refuse().find("count: expected 1 labels, one for each image of ") != std::string::npos);
  folder.write("t10k-labels-idx1-ubyte.gz", "<html>404</html>");
  CHECK(refuse().find("magic: expected 0x00000801, got 0x3c68746d; it looks like a web page") !=
        std::string::npos);
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(labels("\1")).substr(0, 20));
  CHECK(refuse().find("truncated gzip") != std::string::npos);
  CHECK(error_text(ErrorKind::io, [] {
          load_idx("/no/such");
        }).find("/no/such: no such folder; looked there for train-images-idx3-ubyte, ") == 0);
}

TEST_CASE("idx: a name is looked for in the working folder, then in GRADUS_DATA") {
  const TempFolder folder;
  folder.write("c.json",
               R"({"experiment": "mlp", "data": {"idx": "tiny"}, "epochs": 1, "batch_size": 2,
      "model": {"layers": [{"linear": 3}]}})");
  const auto train = [&](const std::string& variable) {
    return gradus::test::run(folder, "train c.json --device cpu --out out --set report=false",
                             variable);
  };
  const auto add = [&](const std::string& to) {
    for (const std::string part : {"train", "t10k"}) {
      folder.write(to + "/" + part + "-images-idx3-ubyte", images(2, 2, 2));
      folder.write(to + "/" + part + "-labels-idx1-ubyte", labels("\1\2"));
    }
  };
  const auto said = [](const gradus::test::ProgramRun& r, const std::string& what) {
    CAPTURE(r.err);
    CHECK(r.code == 3);
    CHECK(r.err.find(what) != std::string::npos);
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  };
  said(train("-u GRADUS_DATA"), "tiny: no such folder; looked there for train-images-idx3-ubyte, ");
  said(train("-u GRADUS_DATA"),
       "; nor is there data/tiny, in the folder of data sets (GRADUS_DATA, or data); name the "
       "folder that has them with --set data.idx=DIR");
  said(train("GRADUS_DATA=sets"), "nor is there sets/tiny, ");
  add("sets/tiny");
  const gradus::test::ProgramRun found = train("GRADUS_DATA=sets");
  CAPTURE(found.err);
  CHECK(found.code == 0);
  std::filesystem::remove_all(folder / "out");
  said(train("GRADUS_DATA=elsewhere"), "nor is there elsewhere/tiny, ");
  add("data/tiny");
  CHECK(train("-u GRADUS_DATA").code == 0);
  std::filesystem::remove_all(folder / "out");
  add("tiny");
  CHECK(train("GRADUS_DATA=elsewhere").code == 0);
  // A sandbox ends at its folders, wherever a name leads.
  folder.write("s/s.lua", "gradus.data{idx = 'tiny'}");
  const gradus::test::ProgramRun script = gradus::test::run(
      folder, "script --device cpu s.lua", "--chdir=s GRADUS_DATA='" + (folder / "sets") + "'");
  CAPTURE(script.err);
  CHECK(script.code == 3);
  CHECK(script.err.find("--allow-read") != std::string::npos);
}

TEST_CASE("idx: the real MNIST") {
  const std::string folder = std::string(GRADUS_SOURCE_DIR) + "/../shared/data/mnist";
  if (!std::filesystem::exists(folder)) {
    MESSAGE("skipped: " << folder << " is not here");
    return;
  }
  const Dataset data = load_idx(folder);
  CHECK(data.train.count == 60000);
  CHECK(data.test.count == 10000);
  CHECK(data.rows() == 28);
  CHECK(data.cols() == 28);
  // Published facts: the first labels, and how often each digit occurs.
  CHECK(std::vector<int32_t>(data.train.labels().begin(), data.train.labels().begin() + 5) ==
        std::vector<int32_t>{5, 0, 4, 1, 9});
  CHECK(std::count(data.train.labels().begin(), data.train.labels().end(), 1) == 6742);
  CHECK(std::count(data.test.labels().begin(), data.test.labels().end(), 0) == 980);
}

TEST_CASE("digits: a smaller set is the beginning of a larger one") {
  const Dataset small = make_digits(25, 5, 7), large = make_digits(60, 12, 7);
  CHECK(std::equal(small.train.pixels().begin(), small.train.pixels().end(),
                   large.train.pixels().begin()));
  CHECK(std::equal(small.train.labels().begin(), small.train.labels().end(),
                   large.train.labels().begin()));
  CHECK(std::equal(small.test.pixels().begin(), small.test.pixels().end(),
                   large.test.pixels().begin()));
  CHECK(large.train.pixels().size() == 60 * 28 * 28);
  std::vector<uint8_t> one(28 * 28);
  draw_digit(7, Split::train, 59, one.data());
  CHECK(std::equal(one.begin(), one.end(), large.train.pixels().end() - 28 * 28));
}

TEST_CASE("digits: classes are balanced; seeds and splits differ; ink stays inside") {
  const Dataset a = make_digits(200, 200, 1), b = make_digits(200, 0, 2);
  for (int32_t digit = 0; digit < 10; ++digit)
    CHECK(std::count(a.train.labels().begin(), a.train.labels().end(), digit) == 20);
  CHECK(a.train.labels() != a.test.labels());
  CHECK(a.train.labels() != b.train.labels());
  CHECK(a.train.pixels() != a.test.pixels());
  for (int64_t i = 0; i < a.train.count; ++i) {
    const uint8_t* p = a.train.pixels().data() + i * 784;
    const auto ink = std::count_if(p, p + 784, [](uint8_t x) { return x > 128; });
    CHECK(ink > 15);
    CHECK(ink < 350);
    const auto edge = std::count_if(p, p + 28, [](uint8_t x) { return x > 128; });
    CHECK(edge <= 8);
  }
  CHECK(make_digits(0, 0, 1).train.pixels().empty());
  CHECK(error_text(ErrorKind::config, [] { make_digits(-1, 0, 1); }) ==
        "digits: sizes are -1 and 0, expected 0 or more");
}

TEST_CASE("digits: the bytes are the same on every machine") {
  const Dataset data = make_digits(100, 0, 1);
  CHECK(fnv(data.train.pixels()) == 3448580421647198240u);
}
