// Inputs in the form that the run learnt from, outputs as people and programs read them.
#include "cli/frame/terminal.hpp"
#include "cli/train/predict.hpp"

#include "cli/frame/events.hpp"
#include "cli/runs/form_file.hpp"
#include "cli/frame/literal.hpp"
#include "cli/frame/parse.hpp"
#include "ops/train/outputs.hpp"
#include "cli/frame/session.hpp"
#include "cli/runs/run_files.hpp"
#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"
#include "engine/base/text.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

constexpr int64_t kMostColumns = 10;  // of probabilities that a table shows side by side

std::string format(const char* how, double x) {
  char text[40];
  snprintf(text, sizeof text, how, x);
  return text;
}

// Letters, not bytes.
size_t width(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// Columns side by side; numbers end at the same place, texts begin there.
class Columns {
 public:
  void add(const std::string& title, bool text = false) { columns_.push_back({{title}, text}); }
  void put(size_t column, const std::string& cell) { columns_[column].cells.push_back(cell); }
  void print(std::ostream& out) const {
    for (size_t row = 0; row < columns_[0].cells.size(); ++row) {
      std::string line;
      for (const Column& c : columns_) {
        size_t widest = 0;
        for (const std::string& cell : c.cells) widest = std::max(widest, width(cell));
        const std::string room(widest - width(c.cells[row]), ' ');
        line += (line.empty() ? "" : "  ") + (c.text ? c.cells[row] + room : room + c.cells[row]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      if (row == 0)
        out << heading(line) << "\n";
      else
        out << line << "\n";
    }
  }

 private:
  struct Column {
    std::vector<std::string> cells;
    bool text;
  };
  std::vector<Column> columns_;
};

// Without the blank that parsing puts before "[".
std::string trimmed_input(const std::string& typed) {
  return typed.substr(std::min(typed.find_first_not_of(' '), typed.size()));
}

Samples read_input(const std::string& text, const OwnData& own, const Form& form) {
  if (!is_literal(text)) {
    if (text.find_first_not_of("0123456789.,+-e ") == std::string::npos &&
        ::access(text.c_str(), F_OK) != 0)
      fail(ErrorKind::value, text, "is no file; numbers are typed in brackets: \"[", text, "]\"");
    return load_inputs(text, own, form);
  }
  Tensor x = parse_literal(text, open_device("cpu"));
  if (x.rank() == 0) x = x.alias({1}, {1}, 0);
  return samples_of(raw_of_tensor(x, "the numbers typed", form), form);
}

// What is said of one target: a class with a number for each of them, or a number.
struct Said {
  std::string input;
  int64_t sample = 0;
  std::vector<int64_t> classes;  // one, of sequences one a token
  std::vector<double> values;    // a row for each of `classes`, or the numbers that are told
};

class Predictor {
 public:
  Predictor(const PredictOptions& o, std::ostream& err)
      : experiment_(experiment_of(o.run_dir, "", config_)),
        session_(o.device, false, err, device_of(config_), path_in(o.run_dir, "config.json")) {
    if (auto kept = read_form(o.run_dir))
      form_ = std::move(kept->form);
    else
      form_ = load_data(experiment_.data);  // of a run from before data.json
    probable_ = form_.classifies() && knows_probabilities(experiment_.loss);
  }
  const Form& form() const { return form_; }
  bool probable() const { return probable_; }
  Device& device() const { return session_.device(); }

  std::vector<Said> predict(const PredictOptions& o, Reporter& reporter) {
    std::vector<Samples> inputs;
    for (const std::string& typed : o.inputs)
      inputs.push_back(read_input(trimmed_input(typed), experiment_.data.own, form_));
    nn::Sequential network = load_network(experiment_, form_, o.run_dir, device(), reporter);
    std::vector<Said> out;
    for (size_t i = 0; i < inputs.size(); ++i)
      each_output(network, form_, inputs[i], device(),
                  [&](int64_t first, int64_t n, std::span<const float> y) {
                    const size_t each = y.size() / size_t(n);
                    for (int64_t s = 0; s < n; ++s)
                      out.push_back(said(trimmed_input(o.inputs[i]), first + s,
                                         y.subspan(size_t(s) * each, each)));
                  });
    return out;
  }

 private:
  Said said(const std::string& input, int64_t sample, std::span<const float> y) const {
    Said out{input, sample, {}, {}};
    if (!form_.classifies()) {
      for (size_t k = 0; k < y.size(); ++k)
        out.values.push_back(form_.target_scaling.back(y[k], k));
      return out;
    }
    const size_t columns = y.size() / size_t(form_.targets_each());
    for (size_t at = 0; at < y.size(); at += columns) {
      const std::span<const float> row = y.subspan(at, columns);
      out.classes.push_back(std::max_element(row.begin(), row.end()) - row.begin());
      const std::vector<double> p =
          probable_ ? probabilities(row) : std::vector<double>(row.begin(), row.end());
      out.values.insert(out.values.end(), p.begin(), p.end());
    }
    return out;
  }

  Json config_;
  Experiment experiment_;
  Session session_;
  Form form_;
  bool probable_ = false;
};

Event json_of(const Said& s, const Form& form, bool probable) {
  Event e{{"event", "prediction"}, {"input", s.input}, {"sample", s.sample}};
  Event values = Event::array();
  for (const double v : s.values) values.push_back(number_event(v));
  if (!form.classifies()) {
    e["values"] = values;
    return e;
  }
  Event classes = Event::array(), names = Event::array(), rows = Event::array();
  const size_t each = s.values.size() / s.classes.size();
  for (size_t k = 0; k < s.classes.size(); ++k) {
    classes.push_back(s.classes[k]);
    names.push_back(form.class_name(s.classes[k]));
    rows.push_back(Event(std::vector<Event>(values.begin() + int64_t(k * each),
                                            values.begin() + int64_t((k + 1) * each))));
  }
  const bool one = form.target_sizes.empty();
  e[one ? "class" : "classes"] = one ? classes[0] : classes;
  e[one ? "name" : "names"] = one ? names[0] : names;
  e[probable ? "probabilities" : "outputs"] = one ? rows[0] : rows;
  return e;
}

std::string shown_value(double v, bool probable) {
  return probable ? format("%.2f %%", 100 * v) : format("%.6g", v);
}

// The likeliest, of many classes.
std::string best_of(const Said& s, const Form& form, bool probable) {
  std::vector<size_t> order(s.values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  const size_t n = std::min<size_t>(3, order.size());
  std::partial_sort(order.begin(), order.begin() + int64_t(n), order.end(),
                    [&](size_t a, size_t b) { return s.values[a] > s.values[b]; });
  std::string out;
  for (size_t k = 0; k < n; ++k)
    out += join(k ? ", " : "", printable(form.class_name(int64_t(order[k])), ""), " ",
                shown_value(s.values[order[k]], probable));
  return out;
}

void print(const std::vector<Said>& all, const Predictor& p, bool many_inputs, std::ostream& out) {
  const Form& form = p.form();
  const bool sequence = form.classifies() && !form.target_sizes.empty();
  const auto columns = int64_t(all[0].values.size());
  const bool wide = form.classifies() && columns > kMostColumns;
  Columns t;
  if (many_inputs) t.add("input", true);
  t.add("sample");
  if (sequence) {
    t.add("classes", true);
  } else if (form.classifies()) {
    t.add("class");
    if (!form.class_names.empty()) t.add("name", true);
    if (wide) t.add(p.probable() ? "probabilities" : "outputs", true);
    for (int64_t c = 0; !wide && c < columns; ++c) t.add(printable(form.class_name(c), ""));
  } else {
    const std::string name = printable(form.target.empty() ? "value" : form.target, "");
    for (int64_t k = 0; k < columns; ++k) t.add(columns > 1 ? join(name, " ", k + 1) : name);
  }
  for (const Said& s : all) {
    size_t at = 0;
    if (many_inputs) t.put(at++, printable(s.input, ""));
    t.put(at++, join(s.sample));
    if (sequence) {
      std::string names;
      for (const int64_t c : s.classes)
        names += (names.empty() ? "" : " ") + printable(form.class_name(c), "");
      t.put(at, names);
      continue;
    }
    if (form.classifies()) {
      t.put(at++, join(s.classes[0]));
      if (!form.class_names.empty()) t.put(at++, printable(form.class_name(s.classes[0]), ""));
      if (wide) t.put(at++, best_of(s, form, p.probable()));
    }
    for (const double v : s.values)
      if (!wide) t.put(at++, shown_value(v, p.probable()));
  }
  t.print(out);
}

// (samples, classes), (samples, length, classes), or numbers (samples,) or (samples, each).
Tensor tensor_of(const std::vector<Said>& all, const Form& form) {
  std::vector<double> values;
  for (const Said& s : all) values.insert(values.end(), s.values.begin(), s.values.end());
  Shape sizes{int64_t(all.size())};
  for (const int64_t n : form.target_sizes) sizes.push_back(n);
  if (form.classifies()) sizes.push_back(int64_t(all[0].values.size() / all[0].classes.size()));
  return Tensor::from(values, sizes, open_device("cpu"));
}

}  // namespace

int run_predict(const PredictOptions& o, std::ostream& out, std::ostream& err) {
  if (o.inputs.empty())
    fail(ErrorKind::config, "predict",
         "needs an INPUT: a .npy, .csv or .png file, or numbers such as \"[5.1,3.5]\"");
  check_endings({o.out}, ".npy");
  Reporter reporter(out, err, o.json);
  Predictor predictor(o, err);
  const std::vector<Said> all = predictor.predict(o, reporter);
  if (!o.out.empty()) write_npy(o.out, tensor_of(all, predictor.form()));
  if (o.json) {
    for (const Said& s : all) emit(out, json_of(s, predictor.form(), predictor.probable()));
    Event result{{"event", "result"},
                 {"samples", all.size()},
                 {"device", predictor.device().name()},
                 {"run_dir", o.run_dir}};
    if (!o.out.empty()) result["out"] = o.out;
    emit(out, result);
  } else if (o.out.empty()) {
    print(all, predictor, o.inputs.size() > 1, out);
  } else {
    out << "wrote " << printable(o.out) << ": " << all.size()
        << (all.size() == 1 ? " sample" : " samples") << "\n";
  }
  return 0;
}

}  // namespace gradus::cli
