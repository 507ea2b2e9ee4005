// Parts of a step, and which of them still fail.
#include "ops/audit/judge/shrink.hpp"

#include "ops/audit/judge/audit.hpp"
#include "ops/audit/watch/run.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace gradus::inline v1::audit {

namespace {

bool has_bad(const Tensor& t, Bad bad) { return first_bad(t, bad) >= 0; }

// Does it show in a root or a gradient, without having been put in?
bool shows(const RecordedStep& s, Bad bad, const std::set<std::string>& from_outside) {
  for (const RecordedLeaf& l : s.leaves)
    if (!from_outside.contains(l.name) && has_bad(l.value, Bad::not_finite)) return false;
  for (const Tensor& seed : s.seeds)
    if (has_bad(seed, Bad::not_finite)) return false;
  for (const Source& r : s.roots)
    if (has_bad(s.nodes[size_t(r.id)].outputs[size_t(r.output)].value, bad)) return true;
  return std::any_of(s.leaves.begin(), s.leaves.end(),
                     [&](const RecordedLeaf& l) { return has_bad(l.gradient, bad); });
}

bool wrong(const RecordedStep& s, Device& device, Device* against) {
  const Watch watch;
  const LiveStep live = run(s, device);
  const Report report = audit(watch, live.roots, {.against = against});
  return std::any_of(report.lines.begin(), report.lines.end(), [&](const Line& l) {
    return against ? l.verdict == Verdict::device : l.bad();
  });
}

}  // namespace

Fails failure_named(const std::string& name, const RecordedStep& whole, Device& device) {
  const bool nan = name == "nan";
  if (nan || name == "inf") {
    std::set<std::string> outside;
    for (const RecordedLeaf& l : whole.leaves) outside.insert(l.name);
    const Bad bad = nan ? Bad::nan : Bad::not_finite;
    return {[=](const RecordedStep& s) { return shows(s, bad, outside); },
            join("no root or gradient has a", nan ? " NaN" : "n infinity or NaN",
                 " that a leaf or seed does not have")};
  }
  if (name == "mismatch")
    return {[&device](const RecordedStep& s) { return wrong(s, device, nullptr); },
            "the audit finds no wrong derivative"};
  if (const std::string prefix = "differs:"; name.rfind(prefix, 0) == 0) {
    Device& against = open_device(name.substr(prefix.size()));
    return {[&device, &against](const RecordedStep& s) { return wrong(s, device, &against); },
            join("from the same operands no node gives values or cotangents on ", against.name(),
                 " that are off by more than rounding explains (other last bits, which replay "
                 "--device counts, are no failure)")};
  }
  fail(ErrorKind::config, "--until", "expected nan, inf, mismatch or differs:DEVICE, got \"", name,
       "\"", did_you_mean(name, std::vector<std::string>{"nan", "inf", "mismatch", "differs:cpu"}));
}

RecordedStep part_of(const RecordedStep& step, const std::vector<int>& nodes) {
  RecordedStep part;
  part.title = step.title;
  part.device = step.device;
  part.arch = step.arch;
  part.build = step.build;
  std::map<int, int> node_ids, leaf_ids, constant_ids;
  std::map<std::pair<int, int>, int> frozen;
  const auto freeze = [&](const Source& s) {
    const auto [at, fresh] = frozen.try_emplace({s.id, s.output}, int(part.leaves.size()));
    if (fresh) {
      const RecordedOutput& o = step.nodes[size_t(s.id)].outputs[size_t(s.output)];
      part.leaves.push_back(
          {join("was.%", s.id, s.output > 0 ? join(".", s.output) : std::string()), o.value,
           o.cotangent});
    }
    return Source{Source::Kind::leaf, at->second, 0};
  };
  const auto source = [&](const Source& s) {
    if (s.kind == Source::Kind::node) {
      const auto kept = node_ids.find(s.id);
      return kept == node_ids.end() ? freeze(s)
                                    : Source{Source::Kind::node, kept->second, s.output};
    }
    if (s.kind == Source::Kind::leaf) {
      const auto [at, fresh] = leaf_ids.try_emplace(s.id, int(part.leaves.size()));
      if (fresh) part.leaves.push_back(step.leaves[size_t(s.id)]);
      return Source{Source::Kind::leaf, at->second, 0};
    }
    if (s.kind == Source::Kind::constant) {
      const auto [at, fresh] = constant_ids.try_emplace(s.id, int(part.constants.size()));
      if (fresh) part.constants.push_back(step.constants[size_t(s.id)]);
      return Source{Source::Kind::constant, at->second, 0};
    }
    return s;
  };
  for (const int i : nodes) {
    RecordedNode n = step.nodes[size_t(i)];
    for (Source& s : n.inputs) s = source(s);
    node_ids[i] = int(part.nodes.size());
    part.nodes.push_back(std::move(n));
  }
  std::set<std::pair<int, int>> read;
  for (const RecordedNode& n : part.nodes)
    for (const Source& s : n.inputs)
      if (s.kind == Source::Kind::node) read.insert({s.id, s.output});
  std::map<std::pair<int, int>, Tensor> seeds;  // of roots of the whole
  for (size_t k = 0; k < step.roots.size(); ++k)
    seeds[{step.roots[k].id, step.roots[k].output}] = step.seeds[k];
  for (const int i : nodes)
    for (size_t k = 0; k < step.nodes[size_t(i)].outputs.size(); ++k) {
      const RecordedOutput& o = step.nodes[size_t(i)].outputs[k];
      const int id = node_ids[i];
      if (read.contains({id, int(k)}) || !is_differentiable(o.dtype)) continue;
      part.roots.push_back({Source::Kind::node, id, int(k)});
      const auto whole = seeds.find({i, int(k)});
      // A cotangent that is not finite tells nothing of this part; ones do.
      part.seeds.push_back(whole != seeds.end()                    ? whole->second
                           : has_bad(o.cotangent, Bad::not_finite) ? Tensor()
                                                                   : o.cotangent);
    }
  return part;
}

Shrunk shrink(const RecordedStep& whole, const Fails& fails, Device& device,
              const std::function<bool()>& stop) {
  Shrunk out;
  // Values of views and their cotangents, which files leave out, are asked for like others.
  RecordedStep best = run_again(whole, device, true);
  ++out.runs;
  if (!fails.shows(best))
    fail(ErrorKind::numeric, "shrink", "there is nothing to keep on ", device.name(), ": ",
         fails.otherwise);
  std::vector<int> kept(best.nodes.size());
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = int(i);
  const RecordedStep full = best;
  const auto still_fails = [&](const std::vector<int>& nodes) {
    if (nodes.empty() || (stop && stop())) return false;
    RecordedStep part = part_of(full, nodes);
    if (part.roots.empty()) return false;
    ++out.runs;
    try {
      part = run_again(part, device, true);
    } catch (const Error&) {
      return false;  // what is left can't run, or has no gradient
    }
    if (!fails.shows(part)) return false;
    best = std::move(part);
    return true;
  };
  for (size_t pieces = 2; kept.size() > 1 && !(stop && stop());) {
    const size_t n = kept.size();
    bool smaller = false;
    for (const bool complement : {false, true}) {
      for (size_t p = 0; p < pieces && !smaller; ++p) {
        const auto from = kept.begin() + int64_t(p * n / pieces),
                   to = kept.begin() + int64_t((p + 1) * n / pieces);
        std::vector<int> tried(from, to);
        if (complement) {
          tried.assign(kept.begin(), from);
          tried.insert(tried.end(), to, kept.end());
        }
        if (!still_fails(tried)) continue;
        kept = std::move(tried);
        pieces = complement ? std::max<size_t>(pieces - 1, 2) : 2;
        smaller = true;
      }
    }
    if (smaller) continue;
    if (pieces >= n) break;
    pieces = std::min(2 * pieces, n);
  }
  out.step = std::move(best);
  return out;
}

}  // namespace gradus::audit
