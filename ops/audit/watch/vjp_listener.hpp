// Listens to the calls of a vjp and writes them as formulas: the inside of vjp_text.hpp.
#pragma once
#include "ops/audit/watch/vjp_text.hpp"

#include <map>
#include <optional>

namespace gradus::inline v1::audit {

class VjpListener : public Observer {
 public:
  void name(const Tensor& t, const std::string& as);
  // What ran so far is the op itself; what it drew is saved, and no vjp draws again.
  void begin_vjp();
  // "dx = ..." for each of these, behind what they share.
  VjpText text(const std::vector<std::pair<std::string, Tensor>>& results);

 private:
  // A text and how tightly it binds.
  struct Term {
    enum Level { sum, product, atom };
    std::string text;
    Level level = atom;
    std::string within(Level least) const { return level < least ? "(" + text + ")" : text; }
  };
  struct Call {
    const OpInfo* op;
    Tensors inputs;
    Attrs attrs;
    Tensors outputs;
  };
  struct Name {
    Tensor tensor;
    std::string as;
    int drawn;  // by this call; -1: it was not
  };
  void called(const OpContext& c, GradFn*) override {  // these calls are none of the program's
    calls_.push_back({&c.op, Tensors(c.inputs.begin(), c.inputs.end()), c.attrs,
                      Tensors(c.outputs.begin(), c.outputs.end())});
  }
  static bool same(const Tensor& a, const Tensor& b);
  static bool copies(const Call& c);
  static bool random(const Call& c);
  const Name* name_of(const Tensor& t) const;
  // The last call before `end` that made this value: its number and which output; -1: none did, or
  // the value has a name.
  std::pair<int, size_t> maker(const Tensor& t, size_t end) const;
  // Does nothing that has a name go into it?
  bool constant(const Tensor& t, size_t end);
  // A constant in full; a quotient of two numbers says more as it is: g / 3.
  std::optional<Term> constant_term(const Tensor& t, size_t end, bool as_number);

  void count(const Tensor& t, size_t end);

  // as_number: a constant may stand as a number alone, the op stretches it.
  Term term(const Tensor& t, size_t end, bool as_number);
  Term named(const Name& name);
  Term call_term(const Call& c, size_t i);
  // "dim=1"; "" for a default, and for the dtype of what is made of nothing: that of the operands.
  static std::string attr_text(const Call& c, size_t a);
  // "ik,jk->ij": letters stay, labels 0, 1, ... are i, j, ..., and what else there is takes any.
  std::string equation(const Attrs& attrs);
  char letter(int64_t label);

  std::vector<Call> calls_;
  size_t begin_ = 0;  // of the vjp
  std::vector<Name> names_;
  std::map<int, int> uses_;            // of calls
  std::map<int, bool> constants_;      // calls that no name goes into
  std::map<int, std::string> shared_;  // calls with a line of their own
  int shared_terms_ = 0;
  std::map<int64_t, char> letters_;  // of labels
  std::vector<std::string> lines_;
  ObserverScope listening_{*this};
};

}  // namespace gradus::audit
