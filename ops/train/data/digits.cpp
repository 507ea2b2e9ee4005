// A digit is a few strokes in the square [-1, 1] x [-1, 1] (x to the right, y down). A sample bends
// and moves them, measures each pixel's distance to the nearest stroke, and turns that into ink.
#include "ops/train/data/digits.hpp"

#include "engine/base/error.hpp"
#include "engine/abi/philox.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace gradus::inline v1::training {
namespace {

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

constexpr int kSide = int(kDigitSide);
constexpr int kPixels = kSide * kSide;

// ---- the glyphs

// Points on an ellipse from turn a to turn b (1 is a full turn; 0 points right, 0.25 down).
Stroke arc(double cx, double cy, double rx, double ry, double a, double b, int n = 14) {
  Stroke s;
  for (int i = 0; i <= n; ++i) {
    double t = a + (b - a) * double(i) / double(n);
    t -= double(int64_t(t)) - (t < 0 ? 1.0 : 0.0);
    if (t >= 1.0) t -= 1.0;
    double u = t - 0.25;
    if (u < 0) u += 1.0;
    s.push_back({cx + rx * detail::cos_turn(t), cy + ry * detail::cos_turn(u)});
  }
  return s;
}

// A line through points, cut into short pieces so that bending shows.
Stroke line(std::initializer_list<Point> corners) {
  Stroke s;
  const Point* before = nullptr;
  for (const Point& p : corners) {
    for (int i = 1; before && i < 5; ++i) {
      const double t = double(i) / 5.0;
      s.push_back({before->x + (p.x - before->x) * t, before->y + (p.y - before->y) * t});
    }
    s.push_back(p);
    before = &p;
  }
  return s;
}

Stroke joined(Stroke a, const Stroke& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Every digit in one or two ways of writing it.
std::array<std::vector<Glyph>, 10> make_glyphs() {
  std::array<std::vector<Glyph>, 10> g;
  g[0] = {{arc(0, 0, 0.62, 0.95, 0, 1, 24)}, {arc(0, 0, 0.78, 0.95, 0, 1, 24)}};
  g[1] = {{line({{0.08, -0.95}, {0.0, 0.95}})},
          {line({{-0.38, -0.55}, {0.08, -0.95}, {0.05, 0.95}})}};
  g[2] = {
      {joined(arc(0, -0.45, 0.6, 0.5, 0.52, 1.1), line({{0.42, -0.05}, {-0.65, 0.9}, {0.7, 0.9}}))},
      {joined(arc(-0.02, -0.42, 0.55, 0.53, 0.55, 1.12),
              joined(line({{0.3, 0.0}, {-0.35, 0.78}}),
                     joined(arc(-0.45, 0.72, 0.16, 0.16, 0.15, 0.85, 8),
                            line({{-0.3, 0.66}, {0.7, 0.92}}))))}};
  g[3] = {{joined(arc(-0.05, -0.47, 0.55, 0.48, 0.56, 1.22),
                  arc(-0.08, 0.45, 0.65, 0.52, -0.24, 0.42))}};
  g[4] = {{line({{0.1, -0.95}, {-0.65, 0.25}, {0.75, 0.25}}), line({{0.35, -0.35}, {0.3, 0.95}})},
          {line({{-0.5, -0.9}, {-0.55, 0.1}, {0.55, 0.05}}), line({{0.5, -0.9}, {0.45, 0.95}})}};
  g[5] = {{joined(line({{0.6, -0.92}, {-0.45, -0.92}, {-0.5, -0.12}}),
                  arc(-0.02, 0.35, 0.62, 0.58, -0.36, 0.4))}};
  g[6] = {{joined(line({{0.35, -0.95}, {-0.15, -0.5}}),
                  joined(arc(0.02, 0.4, 0.6, 0.75, 0.62, 0.5, 5),
                         arc(0.02, 0.42, 0.58, 0.52, 0.5, -0.52, 20)))}};
  g[7] = {{line({{-0.65, -0.88}, {0.65, -0.88}, {-0.15, 0.95}})},
          {line({{-0.65, -0.88}, {0.65, -0.88}, {-0.1, 0.95}}), line({{-0.3, 0.02}, {0.5, 0.02}})}};
  g[8] = {{arc(0, -0.48, 0.48, 0.46, 0, 1, 20), arc(0, 0.47, 0.58, 0.49, 0, 1, 20)}};
  g[9] = {{arc(-0.03, -0.42, 0.55, 0.5, 0, 1, 20), line({{0.52, -0.45}, {0.4, 0.2}, {0.15, 0.95}})},
          {arc(-0.03, -0.42, 0.55, 0.5, 0, 1, 20),
           joined(line({{0.52, -0.45}, {0.5, 0.3}}), arc(0, 0.35, 0.5, 0.58, 0.02, 0.42))}};
  return g;
}

// ---- the random numbers of one sample

constexpr uint64_t kDrawing = 0, kShuffle = 1, kNoise = 2;

// Philox blocks keyed by (seed, split, index, what they are for).
PhiloxWords words(uint64_t seed, Split split, uint64_t index, uint64_t purpose, uint64_t n) {
  return philox(seed, n | purpose << 60, index | uint64_t(split) << 62);
}

class Draws {
 public:
  Draws(uint64_t seed, Split split, uint64_t index, uint64_t purpose)
      : seed_(seed), split_(split), index_(index), purpose_(purpose) {}
  // Uniform on [low, high).
  double uniform(double low, double high) {
    if (next_ % 4 == 0) block_ = words(seed_, split_, index_, purpose_, next_ / 4);
    return low + (high - low) * (double(block_.w[next_++ % 4]) * 0x1p-32);
  }
  // Bell-shaped on (-x, x), standard deviation x / 3.
  double bell(double x) {
    const double a = uniform(-1, 1), b = uniform(-1, 1), c = uniform(-1, 1);
    return x * (a + b + c) / 3.0;
  }

 private:
  uint64_t seed_;
  Split split_;
  uint64_t index_, purpose_, next_ = 0;
  PhiloxWords block_{};
};

// ---- one sample

// How a sample's strokes go from the glyph's square to pixels.
struct Warp {
  double xx, xy, yx, yy, dx, dy;        // affine part, in pixels
  double bend_x, bend_y, twist, curve;  // smooth bending before it

  explicit Warp(Draws& draws) {
    // A rotation without sine: t is the tangent of half the angle.
    const double t = draws.bell(0.2), c = (1 - t * t) / (1 + t * t), s = 2 * t / (1 + t * t);
    const double sx = 7.2 * draws.uniform(0.78, 1.12), sy = 9.2 * draws.uniform(0.85, 1.08);
    const double shear = draws.bell(0.4) - 0.08;
    xx = c * sx;
    xy = c * sx * shear - s * sy;
    yx = s * sx;
    yy = s * sx * shear + c * sy;
    dx = 13.5 + draws.bell(2.6);
    dy = 13.5 + draws.bell(2.2);
    bend_x = draws.bell(0.28);
    bend_y = draws.bell(0.22);
    twist = draws.bell(0.25);
    curve = draws.bell(0.2);
  }
  Point operator()(Point p) const {
    const double x = p.x + bend_x * (p.y * p.y - 0.4) + twist * p.x * p.y;
    const double y = p.y + bend_y * (p.x * p.x - 0.3) + curve * p.x * p.y;
    return {dx + xx * x + xy * y, dy + yx * x + yy * y};
  }
};

using Field = std::array<double, kPixels>;

double square_distance(Point p, Point a, Point b) {
  const double ux = b.x - a.x, uy = b.y - a.y, vx = p.x - a.x, vy = p.y - a.y;
  const double length = ux * ux + uy * uy;
  double t = length > 0 ? (vx * ux + vy * uy) / length : 0.0;
  t = t < 0 ? 0.0 : t > 1 ? 1.0 : t;
  const double x = vx - t * ux, y = vy - t * uy;
  return x * x + y * y;
}

// Lowers `field` to the squared distance from segment a-b, for pixels nearer than `reach`.
void mark(Field& field, Point a, Point b, double reach) {
  const auto clamped = [](double x) { return int(x < 0 ? 0 : x > kSide - 1 ? kSide - 1 : x); };
  const int x0 = clamped(std::min(a.x, b.x) - reach), x1 = clamped(std::max(a.x, b.x) + reach + 1);
  const int y0 = clamped(std::min(a.y, b.y) - reach), y1 = clamped(std::max(a.y, b.y) + reach + 1);
  for (int y = y0; y <= y1; ++y)
    for (int x = x0; x <= x1; ++x) {
      double& nearest = field[size_t(y * kSide + x)];
      nearest = std::min(nearest, square_distance({double(x), double(y)}, a, b));
    }
}

// Three-point blur along rows, then columns: weights {w, 1 - 2w, w}.
void blur(Field& field, double w) {
  for (const int step : {1, kSide}) {
    const Field before = field;
    for (int i = 0; i < kPixels; ++i) {
      const int place = step == 1 ? i % kSide : i / kSide;
      const double left = place > 0 ? before[size_t(i - step)] : 0.0;
      const double right = place < kSide - 1 ? before[size_t(i + step)] : 0.0;
      field[size_t(i)] = before[size_t(i)] * (1 - 2 * w) + w * (left + right);
    }
  }
}

void draw(const std::vector<Glyph>& ways, Draws& draws, Field& ink) {
  const Glyph& glyph = ways[size_t(draws.uniform(0, double(ways.size())))];
  const Warp warp(draws);
  const double radius = draws.uniform(0.75, 1.65), soft = draws.uniform(0.45, 0.7);
  const double reach = radius + soft + 0.5;
  Field nearest;
  nearest.fill(1e6);
  for (const Stroke& stroke : glyph) {
    const double shift_x = draws.bell(0.09), shift_y = draws.bell(0.09);
    Point before{};
    for (size_t i = 0; i < stroke.size(); ++i) {
      const Point p = warp({stroke[i].x + shift_x, stroke[i].y + shift_y});
      if (i > 0) mark(nearest, before, p, reach);
      before = p;
    }
  }
  for (size_t i = 0; i < size_t(kPixels); ++i) {
    const double full = 0.5 + (radius - detail::square_root(nearest[i])) / (2 * soft);
    ink[i] = full < 0 ? 0.0 : full > 1 ? 1.0 : full;
  }
  blur(ink, draws.uniform(0.0, 0.14));
  const double strength = draws.uniform(0.82, 1.0);
  for (double& x : ink) x *= strength;
}

}  // namespace

int32_t digit_label(uint64_t seed, Split split, uint64_t index) {
  std::array<int32_t, 10> order{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  Draws draws(seed, split, index / 10, kShuffle);
  for (size_t i = 9; i > 0; --i)
    std::swap(order[i], order[size_t(draws.uniform(0, double(i + 1)))]);
  return order[index % 10];
}

void draw_digit(uint64_t seed, Split split, uint64_t index, uint8_t* pixels) {
  static const std::array<std::vector<Glyph>, 10> glyphs = make_glyphs();
  Draws draws(seed, split, index, kDrawing), noise(seed, split, index, kNoise);
  Field ink;
  draw(glyphs[size_t(digit_label(seed, split, index))], draws, ink);
  for (size_t i = 0; i < size_t(kPixels); ++i) {
    // Grain: a little on the paper, more in the ink.
    const double x = 255.0 * ink[i] + noise.uniform(-1, 1) * (3.0 + 18.0 * ink[i]);
    pixels[i] = uint8_t(x < 0 ? 0.0 : x > 255 ? 255.0 : x);
  }
}

Dataset make_digits(int64_t train, int64_t test, uint64_t seed) {
  if (train < 0 || test < 0)
    fail(ErrorKind::config, "digits", "sizes are ", train, " and ", test, ", expected 0 or more");
  Dataset data;
  data.name = "digits";
  data.sizes = {kDigitSide, kDigitSide};
  data.classes = 10;
  const auto fill = [&](Samples& set, Split split, int64_t count) {
    set.count = count;
    Pixels& pixels = set.inputs.emplace<Pixels>(size_t(count) * kPixels);
    ClassLabels& labels = set.targets.emplace<ClassLabels>();
    for (uint64_t i = 0; i < uint64_t(count); ++i) {
      labels.push_back(digit_label(seed, split, i));
      draw_digit(seed, split, i, pixels.data() + i * kPixels);
    }
  };
  fill(data.train, Split::train, train);
  fill(data.test, Split::test, test);
  return data;
}

}  // namespace gradus::training
