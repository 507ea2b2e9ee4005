// IDX, the format of MNIST and its family (Yann LeCun's page on MNIST): magic {0, 0, dtype, rank},
// one big-endian u32 per axis, then the data. Plain or gzipped; every header field is checked
// against the file's size, and every failure is an Error(io) with file, field, expected and got.
#pragma once
#include "ops/train/data/dataset.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace gradus::inline v1::training {

// A file of unsigned bytes.
struct Idx {
  std::vector<int64_t> sizes;
  std::string bytes;
};
Idx read_idx(const std::string& path, size_t rank);
Idx parse_idx(std::string bytes, const std::string& name, size_t rank);

// {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte in a folder, each with or without ".gz"
// (also with '.' for the last '-', as some mirrors have it). There are as many classes as the
// largest label tells. `remedy` ends the error about a folder that lacks them.
Dataset load_idx(const std::string& folder, const std::string& remedy = "");

}  // namespace gradus::training
