// Samples as files give them, before they are split and scaled and their classes are numbered.
#pragma once
#include "ops/train/data/dataset.hpp"

#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace gradus::inline v1::training {

struct Raw {
  std::string name;  // of the file or folder
  int64_t count = 0;
  std::vector<int64_t> sizes;        // of a sample
  std::vector<std::string> columns;  // names of its numbers, or none
  std::variant<Pixels, std::vector<double>, Tokens> inputs;
  std::string target;  // what is told, or ""
  std::vector<int64_t> target_sizes;
  // Nothing, names of classes, whole numbers, or others.
  std::variant<std::monostate, std::vector<std::string>, std::vector<int64_t>, std::vector<double>>
      targets;
  std::function<std::string(int64_t sample)> place;  // for messages: "line 7", "cats/3.png"

  InputKind kind() const { return InputKind(inputs.index()); }
  bool told() const { return targets.index() > 0; }
};

}  // namespace gradus::training
