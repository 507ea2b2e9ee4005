// Derivatives as formulas: read off what runs, for every op that is no statement.
#include "ops/audit/vjp_text.hpp"

#include "engine/random.hpp"
#include "ops/audit/watch.hpp"
#include "ops/ops.hpp"
#include "ops/sampling.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <set>

using namespace gradus;
using Lines = std::vector<std::string>;

namespace {

Lines text_of(const char* name) { return audit::derivatives_of(get_op(name)); }

// Of an op that is no statement: every name is an op that is called, an operand, the result, its
// cotangent, or has a line above; and every operand's line stands there once.
void check_names(const OpInfo& op, const Lines& lines) {
  if (op.statement >= 0) return;
  const std::regex word("\\b[A-Za-z_][A-Za-z_0-9]*(\\()?");
  const std::regex given("(y|g)[0-9]*|constant|none|inf");
  std::set<std::string> known;
  for (const OperandSpec& o : op.operands)
    for (int k = -1; k < 5; ++k)
      if (k < 0 || o.variadic) known.insert(k < 0 ? o.name : join(o.name, k));
  for (const std::string& line : lines) {
    CAPTURE(line);
    const size_t at = line.find(" = ");
    REQUIRE(at != std::string::npos);
    const std::string to = line.substr(0, at), text = line.substr(at + 3);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), word);
         it != std::sregex_iterator(); ++it) {
      const std::string name = it->str();
      if (name.back() == '(')
        CHECK(find_op(name.substr(0, name.size() - 1)));
      else
        CHECK((known.contains(name) || std::regex_match(name, given)));
    }
    if (to[0] == 'd') CHECK(known.contains(to.substr(1)));
    CHECK(known.insert(to).second);
  }
}

}  // namespace

TEST_CASE("vjp text: statements as they are written, others as they run") {
  CHECK(text_of("sigmoid") == Lines{"dy/dx = y * (1 - y)"});
  CHECK(text_of("matmul") == Lines{"da = contract(g, b)", "db = contract(a, g)"});
  CHECK(text_of("softmax") == Lines{"dx = y * (g - sum(g * y))"});
  CHECK(text_of("transpose") == Lines{"dx = permute(g)"});
  CHECK(text_of("cat") ==
        Lines{"dtensors0 = slice(g)", "dtensors1 = slice(g)", "dtensors2 = slice(g)"});
  CHECK(text_of("sort") == Lines{"dx = scatter_add(0, y1, g)"});  // a part of several results
  CHECK(text_of("lerp") == Lines{"t1 = g * weight", "dstart = g + t1 * -1", "dend = t1",
                                 "dweight = g * (end - start)"});
  CHECK(text_of("argmax").empty());
}

TEST_CASE("vjp text: nearly every op with a derivative has one, and nobody notices") {
  manual_seed(5);
  const double first = uniform({1}).item();
  manual_seed(5);
  const audit::Watch watch;
  std::string without;
  for (const OpInfo& op : all_ops()) {
    if (op.user) continue;  // of other tests
    CAPTURE(op.name);
    const Lines lines = audit::derivatives_of(op);
    check_names(op, lines);
    if (!op.differentiable) CHECK(lines.empty());
    if (op.differentiable && lines.empty()) without += op.name + " ";
  }
  // Longer than anybody would read.
  // Zero where it is real, and longer than anybody would read.
  CHECK(without == "sgn cosine_embedding_loss triplet_margin_loss logcumsumexp cosine_similarity ");
  CHECK(watch.calls().empty());
  CHECK(uniform({1}).item() == first);
}
