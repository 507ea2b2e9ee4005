// From what files give to what a network learns from: classes, split, scaling.
#include "ops/train/data/own.hpp"

#include "engine/base/error.hpp"
#include "engine/abi/philox.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace gradus::inline v1::training {

namespace {

constexpr uint64_t kSplit = 0x5b117ull << 32;  // apart from the other users of a seed

std::string words(const std::vector<int64_t>& sizes) {
  std::string out;
  for (const int64_t n : sizes) out += (out.empty() ? "" : " x ") + std::to_string(n);
  return out.empty() ? "1" : out;
}

// ---- classes

// Whole numbers that came as floating ones.
std::vector<int64_t> whole_of(const Raw& raw) {
  if (const auto* whole = std::get_if<std::vector<int64_t>>(&raw.targets)) return *whole;
  const auto& numbers = std::get<std::vector<double>>(raw.targets);
  std::vector<int64_t> out;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != std::trunc(numbers[i]) || std::abs(numbers[i]) > 1e15)
      fail(ErrorKind::config, raw.name, raw.place(int64_t(i)), ": ", numbers[i],
           " is no class: with \"task\": \"classify\" targets are whole numbers, or names");
    out.push_back(int64_t(numbers[i]));
  }
  return out;
}

bool named(const Raw& raw) { return std::holds_alternative<std::vector<std::string>>(raw.targets); }

// Names of the classes of samples, in the order of `which` targets; "" for one that does not count.
std::vector<std::string> names_of(const Raw& raw) {
  if (named(raw)) return std::get<std::vector<std::string>>(raw.targets);
  std::vector<std::string> out;
  const bool tokens = raw.kind() == InputKind::tokens;
  for (const int64_t v : whole_of(raw))
    out.push_back(tokens && v == kNoLabel ? "" : std::to_string(v));
  return out;
}

bool classifies(const Raw& raw, const std::string& task) {
  if (task == "regress" && named(raw))
    fail(ErrorKind::config, raw.name,
         "\"task\": \"regress\" needs numbers, the targets are names: \"",
         std::get<std::vector<std::string>>(raw.targets)[0], "\", ...");
  return task.empty() ? !std::holds_alternative<std::vector<double>>(raw.targets)
                      : task == "classify";
}

// Whole numbers may be meant as numbers: where hardly two are the same, nobody means classes.
void check_few(const Raw& raw, size_t classes, const std::string& task) {
  if (!task.empty() || named(raw) || raw.kind() == InputKind::tokens) return;
  if (classes <= 50 || int64_t(classes) * 4 <= raw.count) return;
  fail(ErrorKind::config, raw.name, "what is told",
       raw.target.empty() ? "" : " (" + raw.target + ")", " has ", classes,
       " different whole numbers in ", raw.count,
       " samples: with \"task\": \"regress\" they are numbers, with \"classify\" classes");
}

void add_classes(Form& form, const Raw& train, const Raw* test, const std::string& task) {
  if (!form.target_sizes.empty() && train.kind() != InputKind::tokens)
    fail(ErrorKind::config, train.name, "tells ", words(form.target_sizes),
         " whole numbers for a sample, expected one class: of one-hot rows the argmax; \"task\": "
         "\"regress\" takes them for numbers");
  if (!form.target_sizes.empty() && form.target_sizes != form.sizes)
    fail(ErrorKind::config, train.name, "tells ", words(form.target_sizes),
         " labels for a sequence of ", words(form.sizes), ", expected as many, or one");
  std::set<int64_t> numbers;
  std::set<std::string> names;
  for (const Raw* raw : {&train, test}) {
    if (!raw) continue;
    if (named(train) || named(*raw)) {
      const auto more = names_of(*raw);
      names.insert(more.begin(), more.end());
    } else {
      const auto more = whole_of(*raw);
      numbers.insert(more.begin(), more.end());
    }
  }
  if (train.kind() == InputKind::tokens) numbers.erase(kNoLabel);
  if (!names.empty()) {
    for (const int64_t n : numbers) names.insert(std::to_string(n));
    form.class_names.assign(names.begin(), names.end());
    form.classes = int64_t(names.size());
  } else {
    if (numbers.empty()) fail(ErrorKind::io, train.name, "tells nothing that counts");
    const bool plain = *numbers.begin() == 0 && *numbers.rbegin() == int64_t(numbers.size()) - 1;
    form.classes = int64_t(numbers.size());
    // What comes next in a sequence is a token like those that come in.
    if (train.kind() == InputKind::tokens && !form.target_sizes.empty()) {
      if (*numbers.begin() < 0 || *numbers.rbegin() > INT32_MAX - 1)
        fail(ErrorKind::io, train.name, "tells a token ", *numbers.begin(),
             ", expected tokens from 0, or ", kNoLabel, " for one that does not count");
      constexpr int64_t kMost = 1 << 24;
      if (*numbers.rbegin() >= kMost)
        fail(ErrorKind::io, train.name, "tells a token ", *numbers.rbegin(),
             ", expected one below ", kMost);
      form.classes = *numbers.rbegin() + 1;
    } else if (!plain) {
      for (const int64_t n : numbers) form.class_names.push_back(std::to_string(n));
    }
  }
  check_few(train, size_t(form.classes), task);
  if (form.classes < 2)
    fail(ErrorKind::config, train.name, "all samples are of one class, ", form.class_name(0));
}

ClassLabels labels_of(const Raw& raw, const Form& form, const std::vector<int64_t>& which) {
  std::map<std::string, int32_t> numbers;
  for (int64_t c = 0; c < form.classes; ++c) numbers[form.class_name(c)] = int32_t(c);
  const std::vector<std::string> names = names_of(raw);
  const int64_t each = form.targets_each();
  ClassLabels out;
  for (const int64_t i : which)
    for (int64_t k = 0; k < each; ++k) {
      const std::string& name = names[size_t(i * each + k)];
      const auto at = numbers.find(name);
      if (at == numbers.end() && !name.empty()) {
        std::string all;
        for (int64_t c = 0; c < std::min<int64_t>(form.classes, 10); ++c)
          all += (c ? ", " : "") + form.class_name(c);
        fail(ErrorKind::io, raw.name, raw.place(i), ": \"", name,
             "\" is none of the classes: ", all, form.classes > 10 ? ", ..." : "");
      }
      out.push_back(name.empty() ? kNoLabel : at->second);
    }
  return out;
}

// ---- numbers

std::vector<double> numbers_of(const Raw& raw) {
  if (const auto* whole = std::get_if<std::vector<int64_t>>(&raw.targets))
    return {whole->begin(), whole->end()};
  return std::get<std::vector<double>>(raw.targets);
}

// Mean and deviation of each of the numbers of a sample; 1 for one that never changes.
Scaling scaling_of(const std::vector<double>& all, int64_t each,
                   const std::vector<int64_t>& which) {
  Scaling s{std::vector<double>(size_t(each)), std::vector<double>(size_t(each))};
  const auto n = double(which.size());
  for (size_t k = 0; k < size_t(each); ++k) {
    const auto at = [&](int64_t i) { return all[size_t(i * each) + k]; };
    double sum = 0, squares = 0;
    bool same = true;
    for (const int64_t i : which) {
      sum += at(i);
      same = same && at(i) == at(which[0]);
    }
    s.mean[k] = same ? at(which[0]) : sum / n;  // exact, so that nothing but 0 is left of it
    for (const int64_t i : which) squares += (at(i) - s.mean[k]) * (at(i) - s.mean[k]) / n;
    s.scale[k] = squares > 0 && std::isfinite(squares) ? std::sqrt(squares) : 1;
  }
  return s;
}

Reals scaled(const std::vector<double>& all, const Scaling& scaling, int64_t each,
             const std::vector<int64_t>& which, const Raw& raw) {
  Reals out;
  out.reserve(which.size() * size_t(each));
  for (const int64_t i : which)
    for (size_t k = 0; k < size_t(each); ++k) {
      out.push_back(scaling.scaled(all[size_t(i * each) + k], k));
      if (!std::isfinite(out.back()))
        fail(ErrorKind::io, raw.name, raw.place(i), ": ", all[size_t(i * each) + k],
             " is too large a number");
    }
  return out;
}

// ---- the parts

struct Parts {
  std::vector<int64_t> train, test;
};

std::vector<int64_t> all_of(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), int64_t(0));
  return out;
}

// A share for the test, drawn by the seed; both parts keep the order of the file.
Parts split(const Raw& raw, double share, uint64_t seed) {
  if (raw.count < 2)
    fail(ErrorKind::config, raw.name,
         "holds one sample, which can't be split; name another file "
         "as data.test");
  std::vector<int64_t> order = all_of(raw.count);
  for (int64_t i = raw.count - 1; i > 0; --i) {
    const PhiloxWords p = philox(seed, uint64_t(i), kSplit);
    const uint64_t bits = uint64_t(p.w[1]) << 32 | p.w[0];
    std::swap(order[size_t(i)], order[size_t(bits % uint64_t(i + 1))]);
  }
  const auto wanted = int64_t(std::llround(double(raw.count) * share));
  const int64_t n = std::clamp<int64_t>(wanted, 1, raw.count - 1);
  Parts parts{{order.begin() + n, order.end()}, {order.begin(), order.begin() + n}};
  std::sort(parts.train.begin(), parts.train.end());
  std::sort(parts.test.begin(), parts.test.end());
  return parts;
}

Raw read_files(const OwnData& config, const OwnData::Files& files, const Form* like) {
  switch (config.format) {
    case OwnData::Format::csv:
      return read_csv(config, files.file, like);
    case OwnData::Format::png:
      return read_images(files.file, like);
    default:
      return read_arrays(config, files, like);
  }
}

// What the samples of another file have to look like.
Form outline(const Raw& raw, const OwnData& config) {
  Form form;
  form.name = raw.name;
  form.kind = raw.kind();
  form.sizes = raw.sizes;
  form.columns = raw.columns;
  form.target = raw.target;
  form.target_sizes = raw.target_sizes;
  form.classes = classifies(raw, config.task) ? 1 : 0;
  return form;
}

}  // namespace

Form form_of(const Raw& train, const Raw* test, const std::vector<int64_t>& trained_on,
             const OwnData& config) {
  Form form = outline(train, config);
  if (form.classifies()) {
    add_classes(form, train, test, config.task);
  } else if (config.standardize) {
    form.target_scaling = scaling_of(numbers_of(train), form.targets_each(), trained_on);
  }
  if (form.kind == InputKind::numbers && config.standardize)
    form.scaling =
        scaling_of(std::get<std::vector<double>>(train.inputs), form.inputs_each(), trained_on);
  return form;
}

Samples samples_of(const Raw& raw, const Form& form, const std::vector<int64_t>& which) {
  constexpr const char* kinds[] = {"pixels", "numbers", "tokens"};
  if (raw.sizes != form.sizes || raw.kind() != form.kind)
    fail(ErrorKind::io, raw.name, "holds ", words(raw.sizes), " ", kinds[int(raw.kind())],
         " for a sample, the network takes ", words(form.sizes), " ", kinds[int(form.kind)]);
  Samples out;
  out.count = int64_t(which.size());
  const int64_t each = form.inputs_each();
  const auto rows = [&](const auto& from, auto& to) {
    for (const int64_t i : which)
      to.insert(to.end(), from.begin() + i * each, from.begin() + (i + 1) * each);
  };
  if (const auto* numbers = std::get_if<std::vector<double>>(&raw.inputs))
    out.inputs = scaled(*numbers, form.scaling, each, which, raw);
  else if (const auto* pixels = std::get_if<Pixels>(&raw.inputs))
    rows(*pixels, out.inputs.emplace<Pixels>());
  else
    rows(std::get<Tokens>(raw.inputs), out.inputs.emplace<Tokens>());

  const auto told = size_t(form.targets_each()) * which.size();
  if (!raw.told()) {
    if (form.classifies())
      out.targets = ClassLabels(told, kNoLabel);
    else
      out.targets = Reals(told);
    return out;
  }
  if (raw.target_sizes != form.target_sizes)
    fail(ErrorKind::io, raw.name, "tells ", words(raw.target_sizes), " for a sample, expected ",
         words(form.target_sizes));
  if (form.classifies())
    out.targets = labels_of(raw, form, which);
  else if (named(raw))
    fail(ErrorKind::io, raw.name, raw.place(which[0]), ": \"", names_of(raw)[size_t(which[0])],
         "\" is no number, which is told here");
  else
    out.targets = scaled(numbers_of(raw), form.target_scaling, form.targets_each(), which, raw);
  return out;
}

Dataset load_own(const OwnData& config, const Form* kept) {
  Dataset data;
  if (config.test_only) {
    const Raw test = read_files(config, *config.test, kept);
    static_cast<Form&>(data) = *kept;
    data.name = test.name;
    data.test = samples_of(test, *kept, all_of(test.count));
    data.train = samples_of(test, *kept, {});
    return data;
  }
  const Raw all = read_files(config, config.all, kept);
  std::optional<Raw> other;
  if (config.test) {
    const Form form = kept ? *kept : outline(all, config);
    other = read_files(config, *config.test, &form);
  }
  const Parts parts = other ? Parts{all_of(all.count), all_of(other->count)}
                            : split(all, config.test_share, config.seed);
  static_cast<Form&>(data) =
      kept ? *kept : form_of(all, other ? &*other : nullptr, parts.train, config);
  data.train = samples_of(all, data, parts.train);
  data.test = samples_of(other ? *other : all, data, parts.test);
  return data;
}

std::vector<std::string> files_of(const OwnData& config) {
  std::vector<std::string> out;
  for (const OwnData::Files* p : {&config.all, config.test ? &*config.test : nullptr}) {
    if (!p || !config.any() || config.format == OwnData::Format::png) continue;
    out.push_back(p->file);
    if (config.format == OwnData::Format::npy) out.push_back(p->y);
  }
  return out;
}

std::vector<std::string> folders_of(const OwnData& config) {
  std::vector<std::string> out;
  if (config.format != OwnData::Format::png) return out;
  for (const OwnData::Files* p : {&config.all, config.test ? &*config.test : nullptr})
    if (p) out.push_back(p->file);
  return out;
}

}  // namespace gradus::training
