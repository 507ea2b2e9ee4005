// Tables as people write them, what is refused of them and by which place; classes, splits,
// scaling.
#include "ops/train/data/image.hpp"
#include "ops/train/data/own.hpp"
#include "ops/train/data/table.hpp"
#include "tests/helpers/own_data_helpers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <zlib.h>

using namespace gradus;
using namespace gradus::training;
using namespace gradus::test;

namespace {

using Row = std::vector<std::string>;

Table table_of(const TempFolder& folder, const std::string& text, std::optional<bool> header = {}) {
  return read_table(folder.write("t.csv", text), header);
}

OwnData own_table(const std::string& file, const Column& target) {
  OwnData own;
  own.format = OwnData::Format::csv;
  own.all.file = file;
  own.target = target;
  return own;
}

// What loading says, without the folder's name.
std::string load_error(const TempFolder& folder, ErrorKind kind, const OwnData& own) {
  std::string text = error_text(kind, [&] { load_own(own, nullptr); });
  for (size_t at; (at = text.find(folder.path() + "/")) != std::string::npos;)
    text.erase(at, folder.path().size() + 1);
  return text;
}

// 8 bits a pixel, four of them in two rows, of this colour type, with chunks before the data.
std::string small_png(char type, const std::string& chunks, const std::string& lines) {
  const auto number = [](uint32_t n) {
    return std::string{char(n >> 24), char(n >> 16 & 255), char(n >> 8 & 255), char(n & 255)};
  };
  uLongf size = compressBound(uLong(lines.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(lines.data()), uLong(lines.size()));
  packed.resize(size);
  std::string out = "\x89PNG\r\n\x1a\n";
  const auto add = [&](const std::string& name, const std::string& data) {
    out += number(uint32_t(data.size())) + name + data + number(crc32_of(name + data));
  };
  add("IHDR", number(2) + number(2) + std::string{8, type, 0, 0, 0});
  if (!chunks.empty()) add(chunks.substr(0, 4), chunks.substr(4));
  add("IDAT", packed);
  add("IEND", "");
  return out;
}

}  // namespace

TEST_CASE("tables: separators, quotes, line ends, empty lines, a mark, with and without a header") {
  if (!reads(OwnData::Format::csv)) return;
  const TempFolder folder;
  const Table plain = table_of(folder, "a,b\n1,2\n3,4\n");
  CHECK(plain.header == Row{"a", "b"});
  CHECK(plain.rows == std::vector<Row>{{"1", "2"}, {"3", "4"}});
  CHECK(plain.lines == std::vector<int64_t>{2, 3});
  CHECK(table_of(folder, "1,2\n3,4").header.empty());
  CHECK(table_of(folder, "1,2\n3,4", true).header == Row{"1", "2"});
  CHECK(table_of(folder, "a,b\nc,d", false).rows.size() == 2);
  // One name among numbers is a class, and no header.
  CHECK(table_of(folder, "1,2,cat\n3,4,dog\n").header.empty());

  const Table quoted = table_of(
      folder, "\xef\xbb\xbf\r\n\"x; y\";z\r\n \r\n\"1\r\n2\"; \"say \"\"so\"\"\" \r\n;;\r\n3;4");
  CHECK(quoted.header == Row{"x; y", "z"});
  CHECK(quoted.rows == std::vector<Row>{{"1\\x0d\\x0a2", "say \"so\""}, {"3", "4"}});
  CHECK(quoted.lines == std::vector<int64_t>{4, 7});
  CHECK(quoted.place(1, 1) == "line 7, column 2 (\"z\")");
  CHECK(table_of(folder, "a\tb, c\td\n1\t\t3\n").rows == std::vector<Row>{{"1", "", "3"}});
  CHECK(table_of(folder, "1,2\r3,4\r").rows.size() == 2);

  const auto refuse = [&](const std::string& text) {
    return error_text(ErrorKind::io, [&] { table_of(folder, text); })
        .substr(folder.path().size() + 1);
  };
  CHECK(refuse("") == "t.csv: is empty: it holds no row");
  CHECK(refuse("\n\n") == "t.csv: is empty: it holds no row");
  CHECK(refuse("1,2\n\n3\n") == "t.csv: line 3: has 1 column, expected 2 as in the first line");
  CHECK(refuse("a,b\n1,\"2\n3,4\n")
            .starts_with("t.csv: line 2: a quote stands within a field, or is never closed"));
  CHECK(refuse("a,b\n1,x\"2\n").starts_with("t.csv: line 2: a quote stands within"));
  CHECK(refuse("a,a\n1,2\n") == "t.csv: line 1: two columns are called \"a\"");
  CHECK(refuse(std::string("\xff\xfe"
                           "a\0",
                           4)) == "t.csv: is no CSV: byte 3 is 0; it is UTF-16, save it as UTF-8");
}

TEST_CASE("tables: what is refused is told by line and column, with a remedy") {
  if (!reads(OwnData::Format::csv)) return;
  const TempFolder folder;
  const auto refuse = [&](const std::string& text, ErrorKind kind = ErrorKind::io,
                          const Column& target = {"y", 0}, const std::string& task = "") {
    OwnData own = own_table(folder.write("t.csv", text), target);
    own.task = task;
    return load_error(folder, kind, own);
  };
  const std::string head = "a,b,y\n1,2,u\n3,4,v\n";
  CHECK(refuse(head + "5,x1,u\n") == "t.csv: line 4, column 2 (\"b\"): \"x1\" is no number");
  CHECK(refuse(head + "5,,u\n") ==
        "t.csv: line 4, column 2 (\"b\"): is empty, expected a number; leave such rows out");
  CHECK(refuse(head + "nan,5,u\n") ==
        "t.csv: line 4, column 1 (\"a\"): \"nan\" is no finite number");
  CHECK(refuse(head + "5,6,\n") ==
        "t.csv: line 4, column 3 (\"y\"): is empty, but it is to be told");
  CHECK(refuse("a;b;y\n1;2,5;u\n") ==
        "t.csv: line 2, column 2 (\"b\"): \"2,5\" is no number; decimals are written with a point");
  CHECK(refuse("a,id,y\n1,p1,u\n2,p2,v\n") ==
        "t.csv: line 2, column 2 (\"id\"): \"p1\" is no number; \"ignore\": [\"id\"] leaves the "
        "column out");
  CHECK(refuse("a,7,y\n1,2,u\n", ErrorKind::io, {"", 3}) ==
        "t.csv: line 1, column 1: \"a\" is no number; \"header\": true takes the line for names");
  CHECK(refuse(head, ErrorKind::config, {"class", 0}) ==
        "t.csv: data.target: there is no column \"class\"; there are a, b, y");
  CHECK(refuse("1,2\n3,4\n", ErrorKind::config) ==
        "t.csv: data.target: the table has no header, so none of its 2 columns is called \"y\"; "
        "number them from 1, or say \"header\": true");
  CHECK(refuse("a,y\n1,2\n2,3\n4,o\n") ==
        "t.csv: line 4, column 2 (\"y\"): \"o\" is no number, as most of the column are; \"task\": "
        "\"classify\" takes all of them for names of classes");
  CHECK(refuse("a,y\n1,u\n2,u\n", ErrorKind::config) == "t.csv: all samples are of one class, u");
  CHECK(refuse("y\n1\n2\n", ErrorKind::config) ==
        "t.csv: no column comes in: all of its 1 are told or ignored");
  CHECK(refuse("a,y\n1,0.5\n2,1\n", ErrorKind::config, {"y", 0}, "classify").find("no error") ==
        0);  // "0.5" is a name then
  CHECK(
      refuse(head, ErrorKind::io, {"y", 0}, "regress") ==
      "t.csv: line 2, column 3 (\"y\"): \"u\" is no number; \"ignore\": [\"y\"] leaves the column "
      "out");
  std::string many = "a,y\n";
  for (int i = 0; i < 100; ++i) many += std::to_string(i) + "," + std::to_string(3 * i) + "\n";
  CHECK(refuse(many, ErrorKind::config) ==
        "t.csv: what is told (y) has 100 different whole numbers in 100 samples: with \"task\": "
        "\"regress\" they are numbers, with \"classify\" classes");
  CHECK(refuse("a,y\n1,u\n", ErrorKind::config).find("holds one sample, which can't be split") !=
        std::string::npos);
}

TEST_CASE("own data: a split is drawn by its seed, numbers are scaled by the training part alone") {
  if (!reads(OwnData::Format::csv)) return;
  const TempFolder folder;
  std::string text = "a,flat,y\n";
  for (int i = 0; i < 100; ++i)
    text += std::to_string(1000 + i) + ",5," + (i % 2 ? "odd" : "even") + "\n";
  OwnData own = own_table(folder.write("t.csv", text), {"y", 0});
  own.test_share = 0.3;
  const Dataset data = load_own(own, nullptr);
  CHECK(data.train.count == 70);
  CHECK(data.test.count == 30);
  CHECK(data.class_names == Row{"even", "odd"});
  CHECK(data.columns == Row{"a", "flat"});
  CHECK(data.scaling.scale[1] == 1);
  const Reals& x = std::get<Reals>(data.train.inputs);
  double sum = 0, squares = 0;
  std::vector<int> seen(100);
  const auto origin = [&](float v) { return int(std::lround(data.scaling.back(v, 0))) - 1000; };
  for (size_t i = 0; i < 70; ++i) {
    sum += x[2 * i];
    squares += x[2 * i] * x[2 * i];
    CHECK(x[2 * i + 1] == 0);
    ++seen[size_t(origin(x[2 * i]))];
    CHECK(data.train.labels()[i] == origin(x[2 * i]) % 2);
  }
  CHECK(sum / 70 == doctest::Approx(0).epsilon(1e-4));
  CHECK(squares / 70 == doctest::Approx(1).epsilon(1e-4));
  for (size_t i = 0; i < 30; ++i) ++seen[size_t(origin(std::get<Reals>(data.test.inputs)[2 * i]))];
  CHECK(seen == std::vector<int>(100, 1));
  CHECK(load_own(own, nullptr).train.crc32() == data.train.crc32());
  own.seed = 1;
  CHECK(load_own(own, nullptr).train.crc32() != data.train.crc32());

  // Samples of later are scaled as those of the run, whose classes they have.
  const Form form = data;
  const std::string later = folder.write("later.csv", "flat,a,y\n6,1000,odd\n");
  const Samples one = load_inputs(later, own, form);
  CHECK(std::get<Reals>(one.inputs)[0] == data.scaling.scaled(1000, 0));
  CHECK(std::get<Reals>(one.inputs)[1] == 1);
  own.test = OwnData::Files{folder.write("later.csv", "a,flat,y\n1000,5,none\n"), "", ""};
  own.test_only = true;
  CHECK(error_text(ErrorKind::io, [&] {
          load_own(own, &form);
        }).ends_with("later.csv: line 2: \"none\" is none of the classes: even, odd"));
}

TEST_CASE("own data: tokens, bytes and targets of several numbers from arrays") {
  const TempFolder folder;
  OwnData own;
  own.format = OwnData::Format::npy;
  own.all.file = folder / "x.npy";
  own.all.y = folder / "y.npy";
  const auto save = [&](const Tensor& x, const Tensor& y) {
    write_npy(own.all.file, x);
    write_npy(own.all.y, y);
  };
  own.inputs = "tokens";
  save(Tensor::from(std::vector<int64_t>{0, 1, 2, 3, 2, 1, 0, 5}, {4, 2}),
       Tensor::from(std::vector<int64_t>{1, -100, 3, 4, 1, 0, 1, 2}, {4, 2}));
  const Dataset sequences = load_own(own, nullptr);
  CHECK(sequences.sequences());
  CHECK(sequences.classes == 5);
  CHECK(sequences.target_sizes == std::vector<int64_t>{2});
  CHECK(sequences.train.counted() + sequences.test.counted() == 7);
  save(Tensor::from(std::vector<int64_t>{0, -1, 2, 3}, {2, 2}),
       Tensor::from(std::vector<int64_t>{1, 0}, {2}));
  CHECK(load_error(folder, ErrorKind::io, own) ==
        "x.npy: sample 0, element (1): is -1, expected a token: a whole number from 0");

  own.inputs = "";
  save(Tensor::from(std::vector<uint8_t>{0, 255, 7, 9}, {2, 2}),
       Tensor::from(std::vector<float>{1, 2, 3, 5}, {2, 2}));
  const Dataset pixels = load_own(own, nullptr);
  CHECK(pixels.kind == InputKind::pixels);
  CHECK_FALSE(pixels.classifies());
  CHECK(pixels.targets_each() == 2);
  CHECK(pixels.scaling.none());
  CHECK(pixels.target_scaling.back(std::get<Reals>(pixels.test.targets)[1], 1) >= 2);

  save(Tensor::from(std::vector<float>{1, 2, 3, 5}, {2, 2}),
       Tensor::from(std::vector<int64_t>{1, 0, 0, 1}, {2, 2}));
  CHECK(
      load_error(folder, ErrorKind::config, own) ==
      "x.npy: tells 2 whole numbers for a sample, expected one class: of one-hot rows the argmax; "
      "\"task\": \"regress\" takes them for numbers");
  save(Tensor::from(std::vector<float>{1, 2, 3, 5}, {2, 2}),
       Tensor::from(std::vector<int64_t>{1, 0, 2}, {3}));
  CHECK(load_error(folder, ErrorKind::io, own) == "y.npy: tells of 3 samples, x.npy has 2");
}

TEST_CASE("own data: PNG with a palette, transparent parts and colour as grey") {
  if (!reads(OwnData::Format::png)) return;
  const TempFolder folder;
  const auto png = [&](const std::string& bytes, int64_t colours = 0) {
    return read_png(folder.write("a.png", bytes), colours);
  };
  using namespace std::string_literals;
  const Image grey = png(small_png(0, "", "\0\x10\x20\0\x30\xff"s));
  CHECK(grey.colours == 1);
  CHECK(grey.pixels == Pixels{0x10, 0x20, 0x30, 0xff});
  CHECK(in_colour(grey).pixels.size() == 12);
  const Image palette = png(small_png(3, "PLTE\xff\0\0\0\0\xff"s, "\0\0\1\0\1\0"s));
  CHECK(palette.colours == 3);
  CHECK(palette.pixels == Pixels{255, 0, 0, 255, 0, 0, 0, 0, 0, 255, 255, 0});
  // Transparent is black.
  const Image clear = png(small_png(4, "", "\0\x80\xff\xff\0\0\x11\xff\x22\xff"s));
  CHECK(clear.pixels == Pixels{0x80, 0, 0x11, 0x22});
  const Image colour = png(small_png(2, "", "\0\x40\x40\x40\xff\xff\xff\0\0\0\0\xff\0\0"s));
  CHECK(colour.pixels == Pixels{0x40, 255, 0, 255, 0x40, 255, 0, 0, 0x40, 255, 0, 0});
  const Image less = png(read_file(folder / "a.png"), 1);
  CHECK(less.colours == 1);
  CHECK(less.pixels[0] == 0x40);
  CHECK(less.pixels[1] == 255);
  CHECK(less.pixels[2] == 0);
}

TEST_CASE("own tables: a PNG of 16 bits has the pixels that it has in 8") {
  const TempFolder folder;
  const auto number = [](uint32_t n) {
    return std::string{char(n >> 24), char(n >> 16), char(n >> 8), char(n)};
  };
  const auto chunk = [&](const std::string& what) {
    return number(uint32_t(what.size() - 4)) + what + number(crc32_of(what));
  };
  const auto png = [&](int depth, const std::string& row) {
    std::string packed(200, '\0');
    uLongf size = packed.size();
    REQUIRE(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(row.data()), row.size()) == Z_OK);
    packed.resize(size);
    return std::string("\x89PNG\r\n\x1a\n") +
           chunk("IHDR" + number(3) + number(1) + char(depth) + std::string(4, '\0')) +
           chunk("IDAT" + packed) + chunk("IEND");
  };
  folder.write("8.png", png(8, std::string("\0\x11\x80\xfe", 4)));
  folder.write("16.png", png(16, std::string("\0\x11\x11\x80\x80\xfe\xfe", 7)));
  const Pixels wanted{0x11, 0x80, 0xfe};
  CHECK(read_png(folder / "8.png", 1).pixels == wanted);
  CHECK(read_png(folder / "16.png", 1).pixels == wanted);
}
