#include "cli/ops/check_exact.hpp"
#include "cli/frame/events.hpp"

#include "kernels/reference/exact.hpp"
#include "ops/check/exact.hpp"

#include "engine/device/device.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

using Json = nlohmann::json;
using rows::ExactResult;

struct Field {
  DType dtype;
  int64_t denominator;
  int proven = 0, wrong = 0, not_read = 0;
};

const char* verdict_name(ExactResult::Verdict v) {
  return v == ExactResult::Verdict::proven  ? "exact"
         : v == ExactResult::Verdict::wrong ? "WRONG"
                                            : "not read";
}

void print(const OpInfo& op, const Field& field, const ExactResult& r, std::ostream& out) {
  const auto padded = [](std::string text, size_t width) {
    return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
  };
  out << padded(verdict_name(r.verdict), 10) << padded(op.name, 20)
      << padded(dtype_name(field.dtype), 10);
  if (r.verdict == ExactResult::Verdict::proven)
    out << r.cases << " cases, " << r.second_order << " to second order"
        << (r.refused ? join(", ", r.refused, " not read") : "") << "\n";
  else
    out << r.words << "\n";
}

}  // namespace

int run_check_exact(const CheckOptions& options, std::ostream& out, std::ostream&) {
  if (!options.op.empty()) get_op(options.op);  // the error names the nearest
  Device& device = open_device("reference");
  Field fields[] = {{register_scalar<ModInt<2147483647>>("modint"), 1},
                    {register_scalar<Rational>("rational"), 2}};
  int either = 0;
  for (const OpInfo& op : all_ops()) {
    if (!options.op.empty() && op.name != options.op) continue;
    bool proven = false;
    for (Field& field : fields) {
      const ExactResult r = rows::check_exact(op, field.dtype, device, field.denominator);
      proven |= r.verdict == ExactResult::Verdict::proven;
      field.proven += r.verdict == ExactResult::Verdict::proven;
      field.wrong += r.verdict == ExactResult::Verdict::wrong;
      field.not_read += r.verdict == ExactResult::Verdict::not_read;
      if (options.json)
        emit(out, Json{{"event", "exact"},
                       {"op", op.name},
                       {"dtype", dtype_name(field.dtype)},
                       {"verdict", verdict_name(r.verdict)},
                       {"cases", r.cases},
                       {"second_order", r.second_order},
                       {"refused", r.refused},
                       {"words", r.words}});
      else if (r.verdict != ExactResult::Verdict::not_read || !options.op.empty())
        print(op, field, r, out);
    }
    either += proven;
  }
  const int wrong = fields[0].wrong + fields[1].wrong;
  if (options.json) {
    Json result{{"event", "result"}, {"proven", either}, {"wrong", wrong}};
    for (const Field& f : fields)
      result[dtype_name(f.dtype)] = {
          {"proven", f.proven}, {"wrong", f.wrong}, {"not_read", f.not_read}};
    out << result.dump() << "\n";
  } else {
    out << "\n" << either << " ops proven exactly";
    for (const Field& f : fields)
      out << "; " << dtype_name(f.dtype) << ": " << f.proven << " proven, " << f.wrong << " wrong, "
          << f.not_read << " not read";
    out << "\n";
  }
  return wrong == 0 ? 0 : kFailed;
}

}  // namespace gradus::cli
