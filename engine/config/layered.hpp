// A config put together from layers, later ones winning key by key: default < files < environment <
// --set. Remembers for every leaf which layer it came from, so that messages and `gradus config
// show` can say so.
#pragma once
#include "engine/config/options.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gradus::inline v1 {

class Layered {
 public:
  explicit Layered(Spec spec);
  ~Layered();
  Layered(Layered&&) noexcept;
  Layered& operator=(Layered&&) noexcept;

  // Objects merge, everything else is replaced. Where a union of objects changes its alternative
  // (data.idx over {"name": "digits", "train": 6000}), keys that the new one lacks are dropped.
  void add_file(const std::string& path);
  void add_value(const Json& value, const std::string& origin);
  // For each key of the spec the variable PREFIX + path in capitals, "__" between levels:
  // GRADUS_OPTIMIZER__LR. Root keys named in `skip` are left alone; of
  // those in `inner` their own keys are read, but not the key itself.
  void add_environment(const std::string& prefix, const std::vector<std::string>& skip = {},
                       const std::vector<std::string>& inner = {});
  // "optimizer.lr=0.1", "model.layers[0].linear=256" (also layers.0.linear), "sizes={\"a\": 3}".
  // The value is JSON, or else a string; it is also a string where the key takes nothing else.
  void set(const std::string& assignment, const std::string& origin = "--set");

  // What the layers say, without defaults.
  const Json& merged() const;
  // The checked config with defaults. Throws Error(config) that begins with the culprit's origin.
  Json resolve() const;

  struct Leaf {
    std::string path;
    std::string value;   // JSON text
    std::string origin;  // "default", a file, a variable, "--set"
  };
  // Every leaf of resolve().
  std::vector<Leaf> leaves() const;
  // Where the value at a path came from; "default" if no layer names it.
  std::string origin(const std::string& path) const;

 private:
  struct Step;
  void assign(const std::string& path, const std::string& text, const std::string& origin);
  void assign_at(const Spec* spec, Json& into, const std::vector<Step>& steps, size_t i,
                 const Json& value, const std::string& path, const std::string& origin);
  void merge(const Spec* spec, Json& into, const Json& patch, const std::string& path,
             const std::string& origin);
  void replace(Json& into, const Json& value, const std::string& path, const std::string& origin);
  void forget(const std::string& path);
  std::string blame(const std::string& path) const;

  Spec spec_;
  std::unique_ptr<Json> value_;
  std::map<std::string, std::string> origins_;  // leaf path -> origin
  std::string first_origin_ = "config";
};

// The path and the JSON text of every leaf of a value; what is empty is a leaf too.
std::vector<std::pair<std::string, std::string>> leaves_of(const Json& value);

}  // namespace gradus
