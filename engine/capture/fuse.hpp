// What a recorded step can do with fewer calls, less memory and the same bits: calls that only
// depend on constants run once, pointwise calls become chains or the end of a contraction, updates
// by one rule become one call.
#pragma once
#include "engine/capture/recording.hpp"

#include <functional>
#include <unordered_set>

namespace gradus::inline v1::wrap {

// Does a buffer live longer than the step? (Then it is read or seen from outside.)
using Outlives = std::function<bool(uint64_t buffer)>;

// Takes out of `calls`, and returns, those whose results are the same in every step and small: they
// read nothing but `constants`, which grow by what they write.
std::vector<RecordedCall> take_constant_calls(std::vector<RecordedCall>& calls,
                                              std::unordered_set<uint64_t>& constants,
                                              const Outlives& outlives,
                                              const std::unordered_map<uint64_t, size_t>& bytes);

// Pointwise calls over the same elements as GD_CHAIN calls. A call moves up to an earlier chain if
// nothing in between stands against it; what lives in one chain only needs no memory any more.
std::vector<RecordedCall> chained(std::vector<RecordedCall> calls, const Outlives& outlives);

// A statement that is alone over the whole result of a contraction, which nothing else reads, is
// applied by the contraction to what it has finished.
std::vector<RecordedCall> with_epilogues(std::vector<RecordedCall> calls, const Outlives& outlives);

// Results of pointwise calls and chains take the place of an operand of their dtype and sizes that
// dies there, as far as the slots allow it: the two become one buffer.
void reuse_operands(std::vector<RecordedCall>& calls, const Outlives& outlives,
                    const std::unordered_map<uint64_t, size_t>& bytes);

// Neighbouring GD_OPTIMIZER_STEP calls of one rule as one.
std::vector<RecordedCall> joined_updates(std::vector<RecordedCall> calls);

}  // namespace gradus::wrap
