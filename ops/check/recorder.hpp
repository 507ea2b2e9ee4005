// Runs an op once and keeps what it gives in the form that record.hpp describes. Which calls are
// recorded is said in record.cpp (drawn from the op table) and record_calls.cpp (given in a file).
#pragma once
#include "ops/check/record.hpp"
#include "ops/check/rows.hpp"

#include "engine/config/options.hpp"

#include <nlohmann/json.hpp>

namespace gradus::inline v1::rows {

// One call of an op, and what to keep of it.
struct Recorded {
  const OpInfo& op;
  const Attrs& attrs;
  const Tensors& in;
  const char* kind;
  bool slopes = false;               // first derivatives
  bool higher = true;                // with them second order and jvp
  bool refusals = false;             // keep the message of an op that refuses
  std::vector<bool> constants = {};  // operands that derivatives leave out; none if empty
  int64_t largest = INT64_MAX;       // elements of an output worth keeping
};

class CaseRecorder {
 public:
  explicit CaseRecorder(Device& device) : device_(device) {}

  // False: the op refused, and nothing was kept unless `refusals`.
  bool run(const Recorded& call);
  // A call that was refused before the op could see it.
  void refuse(const OpInfo& op, const Tensors& in, const char* kind, const char* message);
  Recording finish(const Json& ops);

 private:
  void slopes_of(Json& c, const Recorded& call);
  void jvp_of(Json& c, const Recorded& call);
  std::string name(const char* what, size_t k) const { return join(id_, ".", what, int64_t(k)); }
  Json keep(const char* what, size_t k, const Tensor& t);
  Json keep_all(const char* what, const Tensors& tensors);
  // Uniform in [-1, 1]; where values are special, ones.
  Tensor direction(const Tensor& like, bool ones);

  Device& device_;
  NamedTensors tensors_;
  Json cases_ = Json::array();
  int64_t id_ = 0;
  uint64_t stream_ = 0;
};

}  // namespace gradus::rows
