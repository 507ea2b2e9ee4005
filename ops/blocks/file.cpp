#include "ops/blocks/file.hpp"

#include "engine/abi/complex.hpp"
#include "engine/files/json_text.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/memory.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradus::inline v1 {

namespace {

constexpr const char* kFormat = "gradus.block";
constexpr int64_t kVersion = 1;
constexpr int kDeepest = 16;  // legs fused of fused ones

template <class List>
Json list_json(const List& list) {
  return Json(std::vector<int64_t>(list.begin(), list.end()));
}
Json leg_json(const Leg& leg) {
  Json sectors = Json::array();
  for (const Sector& s : leg.sectors()) {
    sectors.push_back(list_json(s.charge));
    sectors.back().push_back(s.size);
  }
  Json j{{"arrow", leg.arrow()}, {"sectors", sectors}};
  for (const Leg& part : leg.parts()) j["parts"].push_back(leg_json(part));
  return j;
}
int depth(const Leg& leg) {  // how often it was fused of fused ones
  int most = 0;
  for (const Leg& part : leg.parts()) most = std::max(most, 1 + depth(part));
  return most;
}

// What stands in a file under one name, checked.
class BlockReader {
 public:
  BlockReader(const Safetensors& file, const std::string& path, std::string name, const Json& json)
      : file_(file), path_(path), name_(std::move(name)), json_(json) {}

  NamedBlocks read() const try {
    const Json version = json_.value("version", Json(nullptr));
    if (!version.is_number_integer() || version.get<int64_t>() != kVersion)
      wrong("is of version ", shown(version), ", this program reads ", kVersion);
    const Symmetry g{integers<Ints>(json_, "mods"), integers<Ints>(json_, "parity")};
    const Ints arrows = integers<Ints>(json_, "arrows");
    Legs legs;
    for (size_t k = 0; k < arrows.size(); ++k) legs.push_back(leg(g, k, arrows[k]));
    const std::vector<int64_t> rows = table(".blocks", int64_t(legs.size()) + 1);
    const BlockStructure s(g, legs, integers<Charge>(json_, "charge"), "safetensors",
                           rows.size() / (legs.size() + 1));
    check_blocks(s, rows);
    const Tensor data = buffer();
    if (data.rank() != 1 || data.numel() != s.elements())
      wrong("has a buffer of shape ", data.sizes(), ", its legs and charge allow ", s.elements(),
            " elements");
    return {name_, {data, s}};
  } catch (const nlohmann::json::exception& e) {
    wrong("has metadata that can't be read: ", e.what());
  } catch (const Error& e) {
    if (e.op() != "safetensors") throw;
    wrong("can't be: ", e.message());
  }

 private:
  template <class... A>
  [[noreturn]] void wrong(const A&... words) const {
    fail(ErrorKind::io, path_, "block tensor \"", name_, "\" ", words...);
  }
  template <class List>
  List integers(const Json& json, const char* key) const {
    List list;
    if (!json.at(key).is_array())
      wrong("has \"", key, "\": ", shown(json.at(key)), ", expected a list");
    for (const Json& x : json.at(key)) list.push_back(whole(x, key));
    return list;
  }
  int64_t whole(const Json& x, const char* key) const {
    if (!x.is_number_integer() || x.get<double>() > 9e18)
      wrong("has ", shown(x), " in \"", key, "\", expected a whole number");
    return x.get<int64_t>();
  }
  int arrow_at(const Json& j) const {
    const int64_t arrow = whole(j.at("arrow"), "arrow");
    if (arrow != 1 && arrow != -1) wrong("has the arrow ", arrow, ", expected 1 or -1");
    return int(arrow);
  }
  const Tensor* entry(const std::string& suffix) const {
    for (const auto& [name, tensor] : file_.tensors)
      if (name == name_ + suffix) return &tensor;
    return nullptr;
  }
  // A table of whole numbers, row by row.
  std::vector<int64_t> table(const std::string& suffix, int64_t columns) const {
    const Tensor* const t = entry(suffix);
    if (!t) wrong("lacks \"", name_, suffix, "\"");
    if (t->dtype() != DType::i64 || t->rank() != 2 || t->size(1) != columns)
      wrong("has \"", name_, suffix, "\" of ", t->dtype(), " and shape ", t->sizes(),
            ", expected i64 with ", columns, " columns");
    return t->to_vector<int64_t>();
  }
  Leg leg(const Symmetry& g, size_t k, int64_t arrow) const {
    const size_t each = g.mods.size() + 1;
    const std::vector<int64_t> rows = table(join(".leg.", k), int64_t(each));
    std::vector<Sector> sectors;
    for (size_t i = 0; i < rows.size(); i += each)
      sectors.push_back({Charge(rows.begin() + int64_t(i), rows.begin() + int64_t(i + each - 1)),
                         rows[i + each - 1]});
    if (arrow != 1 && arrow != -1) wrong("has the arrow ", arrow, ", expected 1 or -1");
    const Leg leg(g, int(arrow), sectors, "safetensors");
    const Json parts = json_.value("parts", Json::object()).value(std::to_string(k), Json::array());
    if (parts.empty()) return leg;
    const Leg fused = fused_of(g, parts, int(arrow), kDeepest);
    if (!fused.has_sectors_of(leg)) wrong("has leg ", k, " whose parts do not make its sectors");
    return fused;
  }
  Leg part_of(const Symmetry& g, const Json& j, int deepest) const {
    if (j.contains("parts")) return fused_of(g, j["parts"], arrow_at(j), deepest - 1);
    std::vector<Sector> sectors;
    for (const Json& row : j.at("sectors")) {
      Sector s{{}, 0};
      for (const Json& x : row) s.charge.push_back(whole(x, "sectors"));
      if (s.charge.empty()) wrong("has a sector without a size");
      s.size = s.charge.back();
      s.charge.pop_back();
      sectors.push_back(s);
    }
    return Leg(g, arrow_at(j), sectors, "safetensors");
  }
  Leg fused_of(const Symmetry& g, const Json& parts, int arrow, int deepest) const {
    if (deepest == 0) wrong("has legs fused of fused ones more than ", kDeepest, " times");
    Legs legs;
    for (const Json& p : parts) legs.push_back(part_of(g, p, deepest));
    return Leg::fused(legs, arrow, "safetensors");
  }
  // The list of blocks is what the legs and the charge allow, in this order.
  void check_blocks(const BlockStructure& s, const std::vector<int64_t>& rows) const {
    const size_t each = s.rank() + 1;
    if (rows.size() != s.count() * each)
      wrong("lists ", rows.size() / each, " blocks, its legs and charge allow ", s.count());
    for (size_t b = 0; b < s.count(); ++b) {
      const int64_t* const row = rows.data() + b * each;
      for (size_t i = 0; i < s.rank(); ++i)
        if (row[i] != s.at(b)[i])
          wrong("has sector ", row[i], " of leg ", i, " in block ", b, ", expected ", s.at(b)[i]);
      if (row[s.rank()] != s.offset(b))
        wrong("has block ", b, " at ", row[s.rank()], ", expected ", s.offset(b));
    }
  }
  Tensor buffer() const {
    if (const Tensor* const data = entry("")) return *data;
    const Tensor *const re = entry(".re"), *const im = entry(".im");
    if (!re || !im) wrong("has no buffer \"", name_, "\"");
    if (re->dtype() != DType::f64 || im->dtype() != DType::f64 || !(re->sizes() == im->sizes()))
      wrong("has parts of different shape or not of f64");
    const std::vector<double> a = re->to_vector<double>(), b = im->to_vector<double>();
    std::vector<c128> both;
    for (size_t i = 0; i < a.size(); ++i) both.push_back({a[i], b[i]});
    return Tensor::from(both, re->sizes(), re->device());
  }

  const Safetensors& file_;
  const std::string& path_;
  const std::string name_;
  const Json& json_;
};

// The metadata of a block tensor; null for anything else. What is nested deeper than legs can be is
// left out: numbers of levels that a file chooses would be calls within calls.
Json block_metadata(const std::string& text) {
  constexpr int kDeepestJson = 2 * kDeepest + 8;
  if (text.empty() || text[0] != '{') return nullptr;
  Json j = Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepestJson; }, false);
  if (!j.is_object() || j.value("format", Json()) != kFormat) return nullptr;
  return j;
}

}  // namespace

void to_entries(const NamedBlocks& x, NamedTensors& tensors, Metadata& metadata) {
  NoGrad off;
  const BlockStructure& s = x.tensor.structure;
  check_buffer("safetensors", x.tensor);
  for (size_t k = 0; k < s.rank(); ++k)
    if (depth(s.legs()[k]) > kDeepest)
      fail(ErrorKind::value, "safetensors", "block tensor \"", x.name, "\" has a leg, axis ", k,
           ", fused of fused ones more than ", kDeepest, " times, which no file holds; split it");
  const Tensor data = contiguous(x.tensor.data.detach());
  if (data.dtype() == DType::c128) {
    tensors.emplace_back(x.name + ".re", contiguous(real(data)));
    tensors.emplace_back(x.name + ".im", contiguous(imag(data)));
  } else {
    tensors.emplace_back(x.name, data);
  }
  std::vector<int64_t> blocks;
  for (size_t b = 0; b < s.count(); ++b) {
    blocks.insert(blocks.end(), s.at(b).begin(), s.at(b).end());
    blocks.push_back(s.offset(b));
  }
  Device& device = data.device();
  tensors.emplace_back(x.name + ".blocks",
                       Tensor::from(blocks, {int64_t(s.count()), int64_t(s.rank()) + 1}, device));
  Json j{{"format", kFormat},
         {"version", kVersion},
         {"charge", list_json(s.charge())},
         {"mods", list_json(s.symmetry().mods)},
         {"parity", list_json(s.symmetry().parity)},
         {"arrows", Json::array()}};
  for (size_t k = 0; k < s.rank(); ++k) {
    const Leg& leg = s.legs()[k];
    j["arrows"].push_back(leg.arrow());
    std::vector<int64_t> rows;
    for (const Sector& sector : leg.sectors()) {
      rows.insert(rows.end(), sector.charge.begin(), sector.charge.end());
      rows.push_back(sector.size);
    }
    tensors.emplace_back(
        join(x.name, ".leg.", k),
        Tensor::from(rows, {int64_t(leg.count()), int64_t(s.symmetry().mods.size()) + 1}, device));
    for (const Leg& part : leg.parts()) j["parts"][std::to_string(k)].push_back(leg_json(part));
  }
  metadata[x.name] = j.dump();
}

void write_blocks(const std::string& path, const std::vector<NamedBlocks>& all) {
  NamedTensors tensors;
  Metadata metadata;
  for (const NamedBlocks& x : all) to_entries(x, tensors, metadata);
  write_safetensors(path, tensors, metadata);
}

bool has_blocks(const Metadata& metadata) {
  return std::any_of(metadata.begin(), metadata.end(),
                     [](const auto& entry) { return !block_metadata(entry.second).is_null(); });
}

std::vector<NamedBlocks> blocks_of(const Safetensors& file, const std::string& path) {
  std::vector<NamedBlocks> all;
  for (const auto& [name, text] : file.metadata)
    if (const Json j = block_metadata(text); !j.is_null())
      all.push_back(BlockReader(file, path, name, j).read());
  return all;
}

std::vector<NamedBlocks> read_blocks(const std::string& path, Device& device) {
  std::vector<NamedBlocks> all = blocks_of(read_safetensors(path, device), path);
  if (all.empty())
    fail(ErrorKind::io, path, "holds no block tensor (no metadata of format \"", kFormat, "\")");
  return all;
}

}  // namespace gradus
