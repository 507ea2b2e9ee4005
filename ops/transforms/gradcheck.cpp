// Derivatives of a function against central differences. Complex numbers count as two real ones:
// every real and imaginary part of an input is moved, and every one of an output watched.
#include "ops/transforms/func.hpp"

#include <cmath>
#include <cstring>

namespace gradus::inline v1::func {

namespace {

// The numbers of a tensor row-major, of a complex one real part, imaginary part, ...
using Parts = std::vector<double>;

Parts parts_of(const Tensor& t) {
  if (!is_complex(t.dtype())) return t.to_vector<double>();
  Parts out;
  for (const c128& z : t.to_vector<c128>()) {
    out.push_back(z.re);
    out.push_back(z.im);
  }
  return out;
}
Parts parts_of(const Tensors& tensors) {
  Parts all;
  for (const Tensor& t : tensors) {
    const Parts one = parts_of(t);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}
Tensor of_parts(const Parts& parts, const Tensor& like) {
  if (!is_complex(like.dtype())) return Tensor::from(parts, like.sizes(), like.device());
  std::vector<c128> z;
  for (size_t i = 0; i < parts.size(); i += 2) z.push_back({parts[i], parts[i + 1]});
  return Tensor::from(z, like.sizes(), like.device());
}
size_t count_parts(const Tensor& t) { return size_t(t.numel()) * (is_complex(t.dtype()) ? 2 : 1); }
// 1 at part p, 0 elsewhere.
Tensor unit(const Tensor& like, size_t p) {
  Parts parts(count_parts(like));
  parts[p] = 1;
  return of_parts(parts, like);
}

struct Named {
  Tensors tensors;
  std::vector<std::string> names;
  void add(const Tensor& t, std::string name) {
    tensors.push_back(t);
    names.push_back(std::move(name));
  }
  // The name of the tensor that holds the p-th of all parts, and where in it.
  std::string place(size_t p, std::string& element) const {
    size_t k = 0;
    for (; p >= count_parts(tensors[k]); ++k) p -= count_parts(tensors[k]);
    const Tensor& t = tensors[k];
    const bool complex = is_complex(t.dtype());
    int64_t rest = int64_t(complex ? p / 2 : p);
    Shape index = t.sizes();
    for (size_t d = index.size(); d-- > 0;) {
      index[d] = rest % t.sizes()[d];
      rest /= t.sizes()[d];
    }
    element = join(!complex ? ""
                   : p % 2  ? "imaginary part of "
                            : "real part of ",
                   "element ", index);
    return names[k];
  }
};

// A column for each part of the inputs, of a number for each part of the outputs.
using Columns = std::vector<Parts>;

class Check {
 public:
  Check(const char* op, Function f, Named inputs, std::vector<std::string> output_names,
        const GradcheckOptions& o)
      : op_(op), f_(std::move(f)), in_(std::move(inputs)), o_(o) {
    out_.tensors = values(in_.tensors);
    out_.names = std::move(output_names);
    if (out_.tensors.empty()) fail(ErrorKind::dtype, op_, "no output is real or complex");
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      if (out_.names.size() == i) out_.names.push_back(join("output ", int64_t(i)));
      require_double(op_, out_.names[i], out_.tensors[i]);
    }
    if (!same_bits(parts_of(out_.tensors), parts_of(values(in_.tensors))))
      fail(ErrorKind::value, op_, "the function gave other values when it ran again");
    f_ = [f = std::move(f_), op, n = out_.tensors.size()](const Tensors& in) {
      Tensors out = f(in);
      if (out.size() != n)
        fail(ErrorKind::value, op, "the function gave ", int64_t(out.size()), " outputs, before ",
             int64_t(n));
      return out;
    };
  }

  void run() const {
    const Columns numerical = by_differences();
    if (o_.mode != Mode::forward) {
      const Columns reverse = by_reverse();
      compare(numerical, reverse, "reverse");
      const Columns again = by_reverse();
      for (size_t p = 0; p < again.size(); ++p)
        if (!same_bits(reverse[p], again[p]))
          fail(ErrorKind::numeric, op_, "backward gave other bits when it ran again");
    }
    if (o_.mode != Mode::reverse) compare(numerical, by_forward(), "forward");
  }

  static void require_double(const char* op, const std::string& name, const Tensor& t) {
    if (t.dtype() == DType::f64 || t.dtype() == DType::c128) return;
    fail(ErrorKind::dtype, op, name, " is ", t.dtype(),
         ", whose rounding hides what differences should show; cast to f64 or c128");
  }

 private:
  static bool same_bits(const Parts& a, const Parts& b) {
    return a.size() == b.size() &&
           (a.empty() || !std::memcmp(a.data(), b.data(), a.size() * sizeof(double)));
  }
  Tensors values(const Tensors& in) const {
    const NoGrad off;
    return f_(in);
  }

  Columns by_differences() const {
    Columns columns;
    for (size_t k = 0; k < in_.tensors.size(); ++k) {
      const Parts x = parts_of(in_.tensors[k]);
      for (size_t p = 0; p < x.size(); ++p) {
        const auto moved = [&](double step) {
          Parts there = x;
          there[p] += step;
          Tensors in = in_.tensors;
          in[k] = of_parts(there, in[k]);
          return parts_of(values(in));
        };
        Parts column = moved(o_.eps);
        const Parts back = moved(-o_.eps);
        for (size_t q = 0; q < column.size(); ++q) column[q] = (column[q] - back[q]) / (2 * o_.eps);
        columns.push_back(column);
      }
    }
    return columns;
  }

  Columns by_forward() const {
    Columns columns;
    for (size_t k = 0; k < in_.tensors.size(); ++k)
      for (size_t p = 0; p < count_parts(in_.tensors[k]); ++p) {
        Tensors v;
        for (const Tensor& x : in_.tensors)
          v.push_back(Tensor::zeros(x.sizes(), x.dtype(), x.device()));
        v[k] = unit(in_.tensors[k], p);
        columns.push_back(parts_of(jvp(f_, in_.tensors, v).tangents));
      }
    return columns;
  }

  // <w, J v> = <J^H w, v>: real and imaginary part of a gradient are entries of J's row.
  Columns by_reverse() const {
    size_t inputs = 0;
    for (const Tensor& x : in_.tensors) inputs += count_parts(x);
    Columns columns(inputs);
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const Vjp r = vjp([&](const Tensors& in) { return Tensors{f_(in)[i]}; }, in_.tensors);
      for (size_t q = 0; q < count_parts(out_.tensors[i]); ++q) {
        const Parts row = parts_of(r.pullback({unit(out_.tensors[i], q)}));
        for (size_t p = 0; p < inputs; ++p) columns[p].push_back(row[p]);
      }
    }
    return columns;
  }

  void compare(const Columns& numerical, const Columns& analytical, const char* mode) const {
    double worst = 1;
    size_t at_p = 0, at_q = 0;
    bool wrong = false;
    for (size_t p = 0; p < numerical.size(); ++p)
      for (size_t q = 0; q < numerical[p].size(); ++q) {
        const double n = numerical[p][q], a = analytical[p][q];
        double share = std::abs(a - n) / (o_.atol + o_.rtol * std::abs(n));
        if (std::isnan(share)) share = INFINITY;
        if (share <= worst) continue;
        worst = share;
        at_p = p;
        at_q = q;
        wrong = true;
      }
    if (!wrong) return;
    std::string x, y;
    const std::string in = in_.place(at_p, x), out = out_.place(at_q, y);
    fail(ErrorKind::numeric, op_, "Jacobian mismatch for ", out, " with respect to ", in, " in ",
         mode, " mode: numerical ", numerical[at_p][at_q], ", analytical ", analytical[at_p][at_q],
         ", for ", y, " by ", x);
  }

  const char* op_;
  Function f_;
  Named in_, out_;
  GradcheckOptions o_;
};

// f of its real and complex inputs alone, to its real and complex outputs.
struct Moving {
  Function f;
  Named inputs;
};
Moving moving(const char* op, const Function& f, const Tensors& inputs) {
  Moving m;
  std::vector<size_t> which;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined()) fail(ErrorKind::value, op, "input ", int64_t(k), " is undefined");
    if (!is_floating(inputs[k].dtype())) continue;
    m.inputs.add(inputs[k].detach(), join("input ", int64_t(k)));
    Check::require_double(op, m.inputs.names.back(), inputs[k]);
    which.push_back(k);
  }
  if (which.empty()) fail(ErrorKind::dtype, op, "no input is real or complex");
  m.f = [=](const Tensors& x) {
    Tensors all = inputs, y;
    for (size_t n = 0; n < x.size(); ++n) all[which[n]] = x[n];
    for (const Tensor& t : f(all))
      if (t.defined() && is_floating(t.dtype())) y.push_back(t);
    return y;
  };
  return m;
}

}  // namespace

void gradcheck(const Function& f, const Tensors& inputs, const GradcheckOptions& o) {
  const Moving m = moving("gradcheck", f, inputs);
  Check("gradcheck", m.f, m.inputs, {}, o).run();
}

// Of (x, w) -> J(x)^H w: its derivatives hold all second ones.
void gradgradcheck(const Function& f, const Tensors& inputs, const GradcheckOptions& o) {
  const char* op = "gradgradcheck";
  Moving m = moving(op, f, inputs);
  const size_t n = m.inputs.tensors.size();
  std::vector<std::string> names;
  for (const std::string& name : m.inputs.names) names.push_back("the gradient of " + name);
  Tensors outputs;
  {
    const NoGrad off;
    outputs = m.f(m.inputs.tensors);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = join("output ", int64_t(i));
    Check::require_double(op, name, outputs[i]);
    Parts w(count_parts(outputs[i]));
    for (size_t p = 0; p < w.size(); ++p) w[p] = 0.5 + std::cos(double(p + 1));
    m.inputs.add(of_parts(w, outputs[i]), "the cotangent of " + name);
  }
  const Function slope = [&](const Tensors& in) {
    const Tensors x(in.begin(), in.begin() + int64_t(n)), w(in.begin() + int64_t(n), in.end());
    return vjp(m.f, x).pullback(w);
  };
  Check(op, slope, m.inputs, names, o).run();
}

}  // namespace gradus::func
