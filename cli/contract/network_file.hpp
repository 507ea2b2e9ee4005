// A tensor network from a JSON file, for `gradus contract --network FILE[#NAME]`.
#pragma once
#include "ops/contract/equation.hpp"

#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct NetworkFile {
  std::vector<Labels> terms;  // one number for each axis
  Labels output;
  std::vector<Shape> shapes;
  std::vector<std::string> names;  // of the tensors; empty where the file names none
};

// {"labels": [[0, 1], [1, 2]], "sizes": {"0": 3, "1": 4, "2": 5}, "output": [0, 2]}; "sizes" may be
// a list, by label, "inputs" may stand for "labels", and "names" may name the tensors. A file
// {"instances": [...]} has several of them, each with its "name": FILE#NAME takes one, by its name
// or what follows its last "/". Error(io) for a file that can't be read; Error(config), with file
// and key, for one that is no network; Error(value) for a name that it has not.
NetworkFile read_network(const std::string& where);

}  // namespace gradus::cli
