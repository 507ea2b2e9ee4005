// Each network is checked label by label, so that a wrong file is told with the place in it.
#include "cli/contract/network_file.hpp"

#include "engine/config/options.hpp"
#include "engine/files/file.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gradus::inline v1::cli {

namespace {

class NetworkReader {
 public:
  NetworkReader(std::string file, const Json& network) : file_(std::move(file)), network_(network) {
    const auto sizes = network.find("sizes");
    if (sizes == network.end()) return;
    for (size_t l = 0; l < sizes->size() && sizes->is_array(); ++l)
      sizes_.emplace(int64_t(l), &(*sizes)[l]);
    if (sizes->is_object())
      for (const auto& [key, size] : sizes->items())
        if (const auto label = number_of(key)) sizes_.emplace(*label, &size);
  }

  NetworkFile read() const {
    NetworkFile out;
    const char* const labels = network_.contains("inputs") ? "inputs" : "labels";
    const Json& terms = list(network_, labels);
    for (size_t k = 0; k < terms.size(); ++k) {
      const std::string place = join(labels, "[", int64_t(k), "]");
      out.terms.push_back(labels_of(terms[k], place));
      Shape& shape = out.shapes.emplace_back();
      for (const int64_t label : out.terms.back()) shape.push_back(extent(label, place));
    }
    if (network_.contains("names")) {
      for (const Json& name : network_["names"]) {
        if (!name.is_string()) wrong("names: expected a list of texts, got ", shown(name));
        out.names.push_back(name);
      }
      if (out.names.size() != out.terms.size())
        wrong("names: ", out.names.size(), " for ", out.terms.size(), " tensors");
    }
    if (network_.contains("output")) out.output = labels_of(network_["output"], "output");
    return out;
  }

 private:
  template <class... P>
  [[noreturn]] void wrong(const P&... parts) const {
    fail(ErrorKind::config, file_, parts...);
  }
  const Json& list(const Json& in, const char* key) const {
    if (!in.is_object() || !in.contains(key) || !in[key].is_array() || in[key].empty())
      wrong("expected \"", key, "\": one list of labels for each tensor");
    return in[key];
  }
  Labels labels_of(const Json& list, const std::string& place) const {
    if (!list.is_array()) wrong(place, ": expected a list of labels, got ", shown(list));
    Labels out;
    for (const Json& label : list) {
      if (!label.is_number_integer() || label < INT32_MIN || label > INT32_MAX)
        wrong(place, ": ", shown(label), " is no label; labels are whole numbers of 32 bits");
      out.push_back(label.get<int64_t>());
    }
    return out;
  }
  int64_t extent(int64_t label, const std::string& place) const {
    const auto at = sizes_.find(label);
    if (at == sizes_.end()) wrong(place, ": label ", label, " has no extent in \"sizes\"");
    const Json& size = *at->second;
    if (!size.is_number_integer() || size < 0)
      wrong("sizes: the extent of label ", label, " is ", shown(size),
            "; expected a whole number from 0");
    return size.get<int64_t>();
  }
  // Of a key that is written as labels are.
  static std::optional<int64_t> number_of(const std::string& key) {
    int64_t label = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), label);
    if (read.ec != std::errc() || std::to_string(label) != key) return std::nullopt;
    return label;
  }

  const std::string file_;
  const Json& network_;
  std::unordered_map<int64_t, const Json*> sizes_;  // by label
};

}  // namespace

NetworkFile read_network(const std::string& where) {
  const size_t hash = where.rfind('#');
  const std::string file = where.substr(0, hash),
                    name = hash == std::string::npos ? "" : where.substr(hash + 1);
  const Json all = parse_json(read_file(file), file);
  if (!all.is_object() || !all.contains("instances")) {
    if (!name.empty())
      fail(ErrorKind::value, file, "has no \"instances\" to take \"", name,
           "\" from; write the file alone");
    return NetworkReader(file, all).read();
  }
  std::vector<std::string> names;
  for (const Json& instance : all["instances"]) {
    const std::string full = instance.is_object() ? instance.value("name", "") : "";
    if (!name.empty() && (full == name || full.substr(full.rfind('/') + 1) == name))
      return NetworkReader(file + "#" + name, instance).read();
    names.push_back(full.substr(full.rfind('/') + 1));
  }
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  fail(ErrorKind::value, file,
       name.empty() ? "has several networks; write " + file + "#NAME with one of "
                    : "has no network \"" + name + "\", only ",
       list, did_you_mean(name, names));
}

}  // namespace gradus::cli
