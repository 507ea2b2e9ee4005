// Counts and names.
#include "ops/train/data/dataset.hpp"

#include "engine/files/file.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

namespace gradus::inline v1::training {

namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

template <class Values>
uint32_t crc_after(uint32_t before, const Values& values) {
  return std::visit(
      [before](const auto& v) {
        return crc32_of({reinterpret_cast<const char*>(v.data()), v.size() * sizeof v[0]}, before);
      },
      values);
}

}  // namespace

int64_t Samples::counted() const {
  if (!std::holds_alternative<ClassLabels>(targets)) return count;
  return int64_t(labels().size()) - std::count(labels().begin(), labels().end(), kNoLabel);
}

uint32_t Samples::crc32() const { return crc_after(crc_after(0, inputs), targets); }

int64_t Form::inputs_each() const { return product(sizes); }
int64_t Form::targets_each() const { return product(target_sizes); }

std::string Form::class_name(int64_t c) const {
  return c >= 0 && size_t(c) < class_names.size() ? class_names[size_t(c)] : std::to_string(c);
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string out;
  for (const int64_t n : sizes) out += (out.empty() ? "" : " x ") + std::to_string(n);
  return out.empty() ? "1" : out;
}

}  // namespace gradus::training
