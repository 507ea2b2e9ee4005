// data.json of a run folder: the form of the data that the run learns from (classes, scaling,
// sizes), and checksums of its samples. With it a run predicts and is tested without what it was
// trained on.
#pragma once
#include "ops/train/data/dataset.hpp"

#include <optional>

namespace gradus::inline v1::cli {

using namespace training;

constexpr const char* kFormFile = "data.json";

struct KeptForm {
  Form form;
  struct Part {
    int64_t samples = 0;
    std::string crc32;
  };
  Part train, test;
};

void write_form(const std::string& run_dir, const Dataset& data);
// None for a run of before there was such a file. Error(io) for one that is damaged.
std::optional<KeptForm> read_form(const std::string& run_dir);
// Error(io) if these are not the samples that the run learns from, with a remedy.
void check_samples(const KeptForm& kept, const Dataset& data, const std::string& remedy);

}  // namespace gradus::cli
