// Fewer calls and less memory for a replay.
#include "engine/capture/fuse.hpp"

#include <algorithm>
#include <map>

namespace gradus::inline v1::wrap {

namespace {

constexpr size_t kSmallConstant = 64 << 10;  // bytes worth keeping beside the arena
constexpr int64_t kAlone = 4096;             // elements from which a chain of one gains nothing
constexpr size_t kLookBack = 64;             // chains that a call may join
constexpr size_t kMost = GD_CHAIN_MOST;

bool pointwise(const RecordedCall& c) {
  return c.slot == GD_POINTWISE || c.slot == GD_POINTWISE_VJP || c.slot == GD_COPY;
}
bool rounds_between(const RecordedView& v) {
  return v.dtype == GD_F16 || v.dtype == GD_BF16 || v.dtype >= GD_DTYPE_COUNT;
}
bool dense(const RecordedView& v) {
  int64_t expect = 1;
  for (size_t i = v.sizes.size(); i-- > 0;) {
    if (v.sizes[i] == 1) continue;
    if (v.strides[i] != expect) return false;
    expect *= v.sizes[i];
  }
  return true;
}
bool one_value(const RecordedView& v) {
  for (size_t i = 0; i < v.sizes.size(); ++i)
    if (v.sizes[i] != 1 && v.strides[i] != 0) return false;
  return true;
}
// Read row by row, rather than across: the last axis that is not 1 is stepped by one or not at all.
bool along_rows(const RecordedView& v) {
  for (size_t i = v.sizes.size(); i-- > 0;)
    if (v.sizes[i] != 1) return v.strides[i] == 0 || v.strides[i] == 1;
  return true;
}

// May this call be a step of a chain?
bool chains(const RecordedCall& c) {
  if (!pointwise(c) || c.out.size() != 1 || !dense(c.out[0]) || rounds_between(c.out[0]))
    return false;
  if (numel_of(c.out[0].sizes) == 0 || c.in.empty() || c.in.size() > 5) return false;
  for (const RecordedView& v : c.in)
    if (v.buffer != 0 && (rounds_between(v) || !along_rows(v) || !(v.sizes == c.out[0].sizes)))
      return false;
  return true;
}

bool same_place(const RecordedView& a, const RecordedView& b) {
  return a.buffer == b.buffer && a.dtype == b.dtype && a.offset == b.offset && a.sizes == b.sizes &&
         a.strides == b.strides;
}
// The same elements in the same order, whatever the shape.
bool same_line(const RecordedView& a, const RecordedView& b) {
  return a.buffer == b.buffer && a.dtype == b.dtype && a.offset == b.offset && dense(a) &&
         dense(b) && numel_of(a.sizes) == numel_of(b.sizes);
}

// v over `sizes` of as many elements; only for views that are dense or hold one value.
RecordedView reshaped(RecordedView v, const Shape& sizes) {
  if (v.buffer == 0 || v.sizes == sizes) return v;
  v.strides = one_value(v) ? Shape(sizes.size(), 0) : contiguous_strides(sizes);
  v.sizes = sizes;
  return v;
}
bool can_reshape(const RecordedCall& c) {
  return std::all_of(c.in.begin(), c.in.end(), [](const RecordedView& v) {
    return v.buffer == 0 || dense(v) || one_value(v);
  });
}

// Calls that will run in one go: a chain, or a single call of another kind.
struct Group {
  bool chain;
  std::vector<RecordedCall> calls;
  size_t views = calls[0].in.size() + 1;

  bool reads(uint64_t buffer) const {
    for (const RecordedCall& c : calls)
      for (const RecordedView& v : c.in)
        if (v.buffer == buffer) return true;
    return false;
  }
  bool writes(uint64_t buffer) const {
    for (const RecordedCall& c : calls)
      for (const RecordedView& v : c.out)
        if (v.buffer == buffer) return true;
    return false;
  }
  // Must c stay behind this?
  bool holds_back(const RecordedCall& c) const {
    for (const RecordedView& v : c.in)
      if (v.buffer != 0 && writes(v.buffer)) return true;
    for (const RecordedView& v : c.out)
      if (v.buffer != 0 && (writes(v.buffer) || reads(v.buffer))) return true;
    return false;
  }
  // Views of memory that c would bring.
  size_t views_of(const RecordedCall& c) const {
    size_t n = 1;
    for (const RecordedView& v : c.in) n += v.buffer != 0 && !writes(v.buffer);
    return n;
  }

  // c as a step of this chain, if it can be one.
  bool join(RecordedCall c) {
    if (!chain || calls.size() >= kMost || views + views_of(c) > kMost) return false;
    const Shape mine = calls[0].out[0].sizes, its = c.out[0].sizes;
    if (!(mine == its)) {
      if (numel_of(mine) != numel_of(its)) return false;
      const bool its_shape = !can_reshape(c);
      if (its_shape && !std::all_of(calls.begin(), calls.end(), can_reshape)) return false;
      const Shape& joint = its_shape ? its : mine;
      if (!same_lines(c)) return false;
      for (RecordedView& v : c.in) v = reshaped(v, joint);
      c.out[0] = reshaped(c.out[0], joint);
      for (RecordedCall& own : calls) {
        for (RecordedView& v : own.in) v = reshaped(v, joint);
        own.out[0] = reshaped(own.out[0], joint);
      }
    } else if (!same_lines(c)) {
      return false;
    }
    views += views_of(c);
    calls.push_back(std::move(c));
    return true;
  }

 private:
  // Does c read what this writes, and write what this reads or writes, element by element only?
  bool same_lines(const RecordedCall& c) const {
    for (const RecordedCall& own : calls) {
      for (const RecordedView& v : c.in)
        if (v.buffer != 0 && v.buffer == own.out[0].buffer && !same_line(v, own.out[0]))
          return false;
      for (const RecordedView& v : own.in)
        if (v.buffer != 0 && v.buffer == c.out[0].buffer && !same_line(v, c.out[0])) return false;
      if (own.out[0].buffer == c.out[0].buffer && !same_line(own.out[0], c.out[0])) return false;
    }
    return true;
  }
};

// A group's calls as one GD_CHAIN call. `kept(buffer)`: is it needed outside of the chain?
template <class Kept>
RecordedCall chain_call(const std::vector<RecordedCall>& calls, const Kept& kept) {
  RecordedCall chain{GD_CHAIN};
  std::vector<size_t> last_writer(calls.size());
  std::map<uint64_t, size_t> result;  // the step that wrote a buffer last
  for (size_t k = 0; k < calls.size(); ++k) result[calls[k].out[0].buffer] = k;
  for (size_t k = 0; k < calls.size(); ++k) last_writer[k] = result[calls[k].out[0].buffer];
  result.clear();

  // Inputs first, since their number is part of the numbering.
  std::vector<std::vector<int64_t>> operands(calls.size());
  constexpr int64_t kResult = 1000;
  for (size_t k = 0; k < calls.size(); ++k) {
    for (const RecordedView& v : calls[k].in) {
      int64_t operand = -1;
      if (const auto it = result.find(v.buffer); v.buffer != 0 && it != result.end()) {
        operand = kResult + int64_t(it->second);
      } else if (v.buffer != 0) {
        const auto at = std::find_if(chain.in.begin(), chain.in.end(),
                                     [&](const RecordedView& in) { return same_place(in, v); });
        operand = at - chain.in.begin();
        if (at == chain.in.end()) chain.in.push_back(v);
      }
      operands[k].push_back(operand);
    }
    result[calls[k].out[0].buffer] = k;
  }
  chain.ints = {int64_t(calls.size())};
  for (size_t k = 0; k < calls.size(); ++k) {
    const RecordedCall& c = calls[k];
    const bool vjp = c.slot == GD_POINTWISE_VJP;
    chain.ints.insert(chain.ints.end(), {c.slot, c.op, vjp ? c.ints[0] : 0,
                                         int64_t(c.doubles.size()), int64_t(c.in.size())});
    for (const int64_t o : operands[k])
      chain.ints.push_back(o < kResult ? o : o - kResult + int64_t(chain.in.size()));
    int64_t out = -1;
    if (last_writer[k] == k && kept(c.out[0].buffer)) {
      out = int64_t(chain.out.size());
      chain.out.push_back(c.out[0]);
    }
    chain.ints.insert(chain.ints.end(), {c.out[0].dtype, out});
    chain.doubles.insert(chain.doubles.end(), c.doubles.begin(), c.doubles.end());
    if (chain.name.find(c.name) == std::string::npos)
      chain.name += (chain.name.empty() ? "" : ", ") + c.name;
  }
  return chain;
}

}  // namespace

std::vector<RecordedCall> take_constant_calls(std::vector<RecordedCall>& calls,
                                              std::unordered_set<uint64_t>& constants,
                                              const Outlives& outlives,
                                              const std::unordered_map<uint64_t, size_t>& bytes) {
  std::unordered_map<uint64_t, int> writers;
  for (const RecordedCall& c : calls)
    for (const RecordedView& v : c.out) ++writers[v.buffer];
  std::vector<RecordedCall> taken;
  std::erase_if(calls, [&](RecordedCall& c) {
    if (c.slot == GD_RANDOM || c.slot == GD_OPTIMIZER_STEP) return false;
    for (const RecordedView& v : c.in)
      if (v.buffer != 0 && !constants.contains(v.buffer)) return false;
    for (const RecordedView& v : c.out)
      if (v.buffer != 0 &&
          (outlives(v.buffer) || writers[v.buffer] != 1 || bytes.at(v.buffer) > kSmallConstant))
        return false;
    for (const RecordedView& v : c.out) constants.insert(v.buffer);
    taken.push_back(std::move(c));
    return true;
  });
  return taken;
}

std::vector<RecordedCall> chained(std::vector<RecordedCall> calls, const Outlives& outlives) {
  std::vector<Group> groups;
  for (RecordedCall& c : calls) {
    bool joined = false;
    if (chains(c))
      for (size_t back = 0; back < std::min(groups.size(), kLookBack) && !joined; ++back) {
        Group& g = groups[groups.size() - 1 - back];
        joined = g.join(c);
        if (!joined && g.holds_back(c)) break;
      }
    if (!joined) groups.push_back({chains(c), {std::move(c)}});
  }
  // In how many groups does a buffer occur?
  std::unordered_map<uint64_t, std::unordered_set<size_t>> where;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const RecordedCall& c : groups[g].calls)
      for (const auto* side : {&c.in, &c.out})
        for (const RecordedView& v : *side) where[v.buffer].insert(g);
  std::vector<RecordedCall> out;
  for (Group& g : groups) {
    const bool alone = g.calls.size() == 1 && (!g.chain || g.calls[0].slot == GD_COPY ||
                                               numel_of(g.calls[0].out[0].sizes) > kAlone);
    // Read before it is written here: then it comes from outside, if only from the step before.
    const auto read_first = [&](uint64_t buffer) {
      for (const RecordedCall& c : g.calls) {
        for (const RecordedView& v : c.in)
          if (v.buffer == buffer) return true;
        if (c.out[0].buffer == buffer) return false;
      }
      return false;
    };
    const auto kept = [&](uint64_t buffer) {
      return outlives(buffer) || where[buffer].size() > 1 || read_first(buffer);
    };
    if (!alone && g.chain) {
      RecordedCall chain = chain_call(g.calls, kept);
      if (!chain.out.empty()) out.push_back(std::move(chain));
    } else {
      out.push_back(std::move(g.calls[0]));
    }
  }
  return out;
}

namespace {
// The statement of a call, or of a chain, that is T -> T alone; -1: it is something else.
int32_t lone_statement(const RecordedCall& c) {
  if (c.in.size() != 1 || c.out.size() != 1 || c.in[0].dtype != c.out[0].dtype ||
      (c.in[0].dtype != GD_F32 && c.in[0].dtype != GD_F64))
    return -1;
  if (c.slot == GD_POINTWISE) return c.op;
  const bool one_step =
      c.slot == GD_CHAIN && c.ints[0] == 1 && c.ints[1] == GD_POINTWISE && c.ints[5] == 1;
  return one_step ? int32_t(c.ints[2]) : -1;
}
}  // namespace

std::vector<RecordedCall> with_epilogues(std::vector<RecordedCall> calls,
                                         const Outlives& outlives) {
  std::unordered_map<uint64_t, int> seen;     // in how many views
  std::unordered_map<uint64_t, size_t> last;  // the last call so far that reads or writes a buffer
  std::unordered_map<uint64_t, size_t> made;  // the contraction that wrote a buffer
  for (const RecordedCall& c : calls)
    for (const auto* side : {&c.in, &c.out})
      for (const RecordedView& v : *side) ++seen[v.buffer];
  std::vector<RecordedCall> out;
  for (RecordedCall& c : calls) {
    const int32_t statement = lone_statement(c);
    const auto from = statement < 0 ? made.end() : made.find(c.in[0].buffer);
    if (from != made.end() && seen[c.in[0].buffer] == 2 && !outlives(c.in[0].buffer)) {
      RecordedCall& product = out[from->second];
      const auto touched = last.find(c.out[0].buffer);
      if (same_place(product.out[0], c.in[0]) && c.in[0].strides == c.out[0].strides &&
          (touched == last.end() || touched->second < from->second)) {
        product.out[0] = c.out[0];
        product.ints.push_back(statement);
        product.doubles.insert(product.doubles.end(), c.doubles.begin(), c.doubles.end());
        product.name += ", " + c.name;
        last[c.out[0].buffer] = from->second;
        continue;
      }
    }
    for (const auto* side : {&c.in, &c.out})
      for (const RecordedView& v : *side) last[v.buffer] = out.size();
    const bool adds_to_out = c.slot == GD_CONTRACT && (c.doubles[2] != 0 || c.doubles[3] != 0);
    if (c.slot == GD_CONTRACT && c.ints[1] == GD_STANDARD && c.ints.size() == 4 && !adds_to_out)
      made[c.out[0].buffer] = out.size();
    out.push_back(std::move(c));
  }
  return out;
}

namespace {
// May out view k of c stand where its in view v stands? What the slots say of aliasing.
bool may_replace(const RecordedCall& c, size_t k, size_t v) {
  if (c.slot == GD_POINTWISE) return true;
  if (c.slot == GD_POINTWISE_VJP) return v == 0;
  if (c.slot != GD_CHAIN) return false;
  bool written = false;  // no step after the one that writes k may read v
  for (size_t at = 1, step = 0; step < size_t(c.ints[0]); ++step) {
    const size_t operands = size_t(c.ints[at + 4]);
    at += 5;
    for (size_t o = 0; o < operands; ++o)
      if (written && c.ints[at + o] == int64_t(v)) return false;
    at += operands + 2;
    written |= c.ints[at - 1] == int64_t(k);
  }
  return true;
}
}  // namespace

void reuse_operands(std::vector<RecordedCall>& calls, const Outlives& outlives,
                    const std::unordered_map<uint64_t, size_t>& bytes) {
  std::unordered_map<uint64_t, size_t> last;
  std::unordered_set<uint64_t> born;
  std::unordered_map<uint64_t, uint64_t> place;  // the buffer whose place another one has taken
  for (size_t i = 0; i < calls.size(); ++i)
    for (const auto* side : {&calls[i].in, &calls[i].out})
      for (const RecordedView& v : *side) last[v.buffer] = i;
  for (size_t i = 0; i < calls.size(); ++i) {
    RecordedCall& c = calls[i];
    for (auto* side : {&c.in, &c.out})
      for (RecordedView& v : *side)
        if (const auto it = place.find(v.buffer); it != place.end()) v.buffer = it->second;
    for (size_t k = 0; k < c.out.size(); ++k) {
      const uint64_t out = c.out[k].buffer;
      if (out == 0 || !born.insert(out).second || outlives(out)) continue;
      for (size_t v = 0; v < c.in.size() && c.out[k].buffer == out; ++v) {
        const uint64_t in = c.in[v].buffer;
        if (in == 0 || outlives(in) || last.at(in) != i || bytes.at(in) != bytes.at(out)) continue;
        RecordedView moved = c.out[k];
        moved.buffer = in;
        const auto another = [&](const RecordedView& other) {
          return other.buffer == in && &other != &c.in[v];
        };
        if (!same_place(c.in[v], moved) || !may_replace(c, k, v) ||
            std::any_of(c.in.begin(), c.in.end(), another) ||
            std::any_of(c.out.begin(), c.out.end(), another))
          continue;
        c.out[k] = moved;
        place[out] = in;
        last[in] = last.at(out);
      }
    }
  }
}

std::vector<RecordedCall> joined_updates(std::vector<RecordedCall> calls) {
  std::vector<RecordedCall> out;
  for (RecordedCall& c : calls) {
    RecordedCall* before = out.empty() ? nullptr : &out.back();
    if (!before || c.slot != GD_OPTIMIZER_STEP || before->slot != c.slot || before->op != c.op ||
        before->doubles != c.doubles || before->ints != c.ints) {
      out.push_back(std::move(c));
      continue;
    }
    before->in.insert(before->in.end(), c.in.begin(), c.in.end());
    before->out.insert(before->out.end(), c.out.begin(), c.out.end());
  }
  return out;
}

}  // namespace gradus::wrap
