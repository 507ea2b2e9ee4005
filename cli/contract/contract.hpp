// `gradus contract`: one einsum from the command line or from an experiment "contraction": its
// plan, its value, its gradients, its speed, and a check of both. Knows options, files and words
// for people; what a contraction is, only ops/contract/ knows.
#pragma once
#include "engine/config/options.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1 {
class Device;
}

namespace gradus::inline v1::cli {

// What the command line says; whatever is left out comes from the config, or is the default.
struct ContractOptions {
  std::string config;                 // file; "" for none
  std::optional<std::string> einsum;  // --einsum
  std::string network;                // --network: FILE or FILE#NAME
  std::string sizes;                  // --sizes: "a=3,b=4"
  std::vector<std::string> in;        // --in: one .npy per operand
  std::string tensors;                // --tensors: a .safetensors file instead, by name
  std::string dtype, algebra;
  std::string out;                 // --out: the value
  std::string winners;             // --winners: of a tropical algebra
  std::string cotangent;           // --cotangent: of the value
  std::vector<std::string> grads;  // --grads: one file per operand, "-" for none
  std::string path;                // --path: a name of path_kind_names(), or [[i, j], ...]
  std::optional<double> budget;    // --budget: work of the search for an order
  std::optional<double> timeout;   // --timeout: most seconds of it
  std::string cost;                // --cost: file of what a step costs
  std::string plan_in, plan_out;   // --plan-in, --plan-out: the order as a file
  std::string plan_cache;          // --plan-cache: a folder of orders that were found
  std::string svg, html;           // --svg, --html: the order as a picture, as a page
  std::string memory;              // --memory: "1GiB"
  bool plan_only = false, verify = false;
  std::optional<int64_t> repeat, seed;
  std::string device;
  bool ledger = false;  // print what every op cost
  bool json = false;
};

// The option table of the experiment "contraction".
Spec contraction_spec();

struct Contraction;
// The contraction that a config describes, with its operands drawn. Error(config, value).
Contraction drawn_contraction(const std::string& config, Device& device);

// The exit code. Throws Error: config or value for wrong use, io for files, device, memory when the
// operands and intermediates exceed the limit (before the contraction), numeric when --verify fails
// (after the result was printed).
int run_contract(const ContractOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
