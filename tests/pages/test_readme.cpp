// The C++ example of README.md: what stands between the markers is compiled, run, and must be what
// the page shows.
#include "gradus_paths.hpp"
#include "tests/helpers/helpers.hpp"

#include <fstream>
#include <sstream>

namespace {
std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}
std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}
}  // namespace

TEST_CASE("the example of the README runs, and prints what the README says") {
  using namespace gradus;
  // begin
  Tensor x = Tensor::from(std::vector{0.5, -1.0, 2.0}, {3});
  x.set_requires_grad();
  Tensor y = sum(x * sigmoid(x));
  Tensor dx = grad({y}, {x}, {}, {.create_graph = true})[0];
  Tensor ddx = grad({sum(dx)}, {x})[0];
  // end
  const std::string readme = text_of(GRADUS_SOURCE_DIR "/README.md");
  std::istringstream lines(text_of(GRADUS_SOURCE_DIR "/tests/pages/test_readme.cpp"));
  bool inside = false;
  int checked = 0;
  for (std::string line; std::getline(lines, line);) {
    if (trimmed(line) == "// end") break;
    if (inside) {
      CHECK_MESSAGE(readme.find(trimmed(line)) != std::string::npos, line);
      ++checked;
    }
    inside |= trimmed(line) == "// begin";
  }
  CHECK(checked == 5);
  CHECK(readme.find("// " + dx.detach().to_string()) != std::string::npos);
  CHECK(readme.find("// " + ddx.to_string()) != std::string::npos);
}
