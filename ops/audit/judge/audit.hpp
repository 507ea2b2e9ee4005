// Audit: is the derivative of every node right, here, with these numbers? For each node of a live
// graph that was recorded under a Watch:
//
//   differences  its vjp against differences of its forward, in f64 (c128), with an estimate of how
//                wrong the differences are; on a mismatch the worst element of the worst operand. A
//                vjp that is infinite or NaN where they give a number is wrong
//   dot          <w, J v> == <J^H w, v> by its own jvp and vjp, in f64
//   saved        the vjp of the node itself, from what it saved, against the same in f64: finds
//                kernels, and saved values that are not what they were
//   stale        a saved tensor was written after it was saved
//   shape        the cotangent has the operand's dtype and shape (summed over broadcast axes)
//   repeat       its forward and its vjp give the same bits again
//   device       with `against`: values and cotangents from the same operands on another device
//
// Every node is judged from its own operands, so one wrong node accuses no other.
#pragma once
#include "ops/audit/watch/watch.hpp"

#include <functional>

namespace gradus::inline v1::audit {

class Stepper;

enum class Verdict {
  ok,
  kink,     // nothing could be compared: a kink, or the edge of its domain, everywhere
  unknown,  // it could not be run in f64; the text says why
  // from here on it is bad
  differences,
  dot,
  saved,
  stale,
  shape,
  repeat,
  device,
  error,  // the vjp throws
};
const char* to_text(Verdict v);

struct Line {
  const Call* call;
  size_t index;  // the n-th recorded call of the watch
  Verdict verdict = Verdict::ok;
  double error = 0;      // the worst relative error ...
  double tolerance = 0;  // ... and what it may be, from the estimated error of both sides
  // How many times a relative change of its operands, cotangents and saved tensors, each up or down
  // at random, grows on its way to the cotangents that the vjp gives, at its worst operand: 1 for a
  // sum, up to 3 for a product. 0: not looked at.
  double condition = 0;
  std::string text{};    // what is wrong, with element, analytic and numeric value
  std::string remark{};  // of linear algebra: the nearest gap, or a condition
  bool bad() const { return verdict >= Verdict::differences; }
};
struct Report {
  std::vector<Line> lines;  // worst first
  size_t bad = 0;
};
struct Options {
  Device* against = nullptr;
  uint64_t seed = 1;                                     // of directions and cotangents
  std::function<void(int64_t done, int64_t of)> each{};  // after each node
};
// The nodes below these roots; without roots, all that the watch saw. No gradient is accumulated,
// and the graph stays as it is; a node that backward has freed is judged by a new run of its op.
Report audit(const Watch& watch, const Tensors& roots = {}, const Options& options = {});

// Where a NaN (or, by the switch, an infinity) came from: the first call whose outputs are not
// finite though its operands are, or that takes one from outside.
struct Birth {
  const Call* call;
  bool from_outside;     // the operand itself is not finite, and no call made it
  int64_t operand = -1;  // then, and in backward: which
  Shape element;         // of the output, or of that operand
  double value = 0;      // there
  std::string text{};    // in words, with the operands at that element
};
std::optional<Birth> birth(const Watch& watch, bool infinities = false);
// The same of cotangents, as backward from the roots makes them (undefined or missing seeds are
// ones): the first vjp that is not finite though its cotangents are; `operand` is whose. Nothing is
// accumulated.
std::optional<Birth> birth_in_backward(const Watch& watch, const Tensors& roots,
                                       bool infinities = false, const Tensors& seeds = {});

// A parameter that the roots do not depend on, and why: the call that cut the way.
struct Unreached {
  size_t which;
  std::string why;
};
std::vector<Unreached> unreached(const Watch& watch, const Tensors& roots,
                                 const Tensors& parameters);
// Leaves that are reached, by zeros alone: `which` counts stepper.leaves(), `why` names the vjps
// that make the zeros. The stepper is at the end.
std::vector<Unreached> zero_gradients(const Watch& watch, const Stepper& stepper);

}  // namespace gradus::audit
