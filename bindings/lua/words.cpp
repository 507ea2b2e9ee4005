// Three tables of words, and where to look in them.
#include "bindings/lua/words.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>

namespace gradus::inline v1::lua {

namespace {

struct Word {
  std::string_view owner, name, write;
};
constexpr Word kWords[] = {
    {"tensor", "numpy", "x:totable(), or gradus.save(\"x.npy\", x) for a file"},
    {"tensor", "repeat_", "x:repeats(2, 3); repeat is a word of Lua"},
    {"tensor", "data_ptr", "x:totable(); scripts see no memory"},
    {"tensor", "short", "x:int(); integers are u8, i32 and i64"},
    {"tensor", "char", "x:int(); integers are u8, i32 and i64"},
    {"tensor", "length", "#x, x:size(1) or x:numel()"},
    {"tensor", "len", "#x, x:size(1) or x:numel()"},
    {"tensor", "nDimension", "x.rank"},
    {"tensor", "nElement", "x:numel()"},
    {"tensor", "resize_", "x = x:reshape(...)"},
    {"tensor", "apply_", "ops over the whole tensor: x:copy_(x:exp())"},
    {"tensor", "index", "x[i], x[{i, j}] or x[mask]"},
    {"tensor", "H", "x.mT:conj()"},
    {"gradus", "Tensor", "gradus.tensor{1.0, 2.0} for numbers, gradus.zeros(2, 3) for a shape"},
    {"gradus", "FloatTensor", "gradus.tensor({1, 2}, {dtype = \"f32\"})"},
    {"gradus", "DoubleTensor", "gradus.tensor({1, 2}, {dtype = \"f64\"})"},
    {"gradus", "LongTensor", "gradus.tensor({1, 2}, {dtype = \"i64\"})"},
    {"gradus", "IntTensor", "gradus.tensor({1, 2}, {dtype = \"i32\"})"},
    {"gradus", "ByteTensor", "gradus.tensor({1, 2}, {dtype = \"u8\"})"},
    {"gradus", "from_numpy", "gradus.load(\"x.npy\")"},
    {"gradus", "numpy", "gradus.load(\"x.npy\")"},
    {"gradus", "cuda", "gradus.available(\"cuda\"), gradus.synchronize(), x:to(\"cuda:0\")"},
    {"gradus", "autograd", "gradus.grad(y, x), gradus.func.jacobian(f)"},
    {"gradus", "set_grad_enabled", "gradus.no_grad(function() ... end)"},
    {"gradus", "inference_mode", "gradus.no_grad(function() ... end)"},
    {"gradus", "setdefaulttensortype", "{dtype = \"f64\"} as the last argument"},
    {"gradus", "set_default_dtype", "{dtype = \"f64\"} as the last argument"},
    {"gradus", "set_printoptions", "print(x), which shows the ends of long axes"},
    {"gradus", "DataLoader", "gradus.data{name = \"digits\"} and rows of it: x[{{1, 64}}]"},
    {"gradus", "utils", "gradus.data{name = \"digits\"} and rows of it: x[{{1, 64}}]"},
    {"gradus", "vision", "gradus.data{name = \"digits\"}"},
    {"gradus", "Adam", "gradus.optim.adam(parameters, {lr = 1e-3})"},
    {"gradus", "SGD", "gradus.optim.sgd(parameters, {lr = 0.1})"},
    {"gradus", "Linear", "gradus.nn.Linear(features_in, features_out)"},
    {"gradus", "Sequential", "gradus.nn.Sequential(...)"},
    {"gradus", "compile", "gradus.capture(f)"},
    {"gradus", "jit", "gradus.capture(f)"},
    {"gradus", "vmap", "gradus.func.vmap(f)"},
    {"gradus", "jacobian", "gradus.func.jacobian(f)"},
    {"gradus", "hessian", "gradus.func.hessian(f)"},
    {"gradus", "gradcheck", "gradus.func.gradcheck(f, x)"},
    {"gradus", "repeat_", "gradus.repeats(x, {2, 3}); repeat is a word of Lua"},
    {"gradus.optim", "lr_scheduler", "opt.lr = ..., which may be set between steps"},
    {"gradus.optim", "RMSprop", "gradus.optim.adam"},
    {"gradus.nn", "Module", "a function of tensors, or gradus.nn.Sequential(...)"},
    {"gradus.nn", "ModuleList", "a table of layers, or gradus.nn.Sequential(...)"},
    {"gradus.nn", "Parameter", "gradus.randn(2, 3, {requires_grad = true})"},
    {"gradus.nn", "init", "gradus.no_grad(function() w:normal_(0, 0.1) end)"},
    {"gradus.nn", "utils", "opt:step{clip = 1} for clip_grad_norm_"},
    {"gradus.nn", "MultiheadAttention",
     "gradus.nn({{multi_head_attention = {num_heads = 4}}}, {1, 10, 64})"},
    {"gradus.nn", "MultiHeadAttention",
     "gradus.nn({{multi_head_attention = {num_heads = 4}}}, {1, 10, 64})"},
    {"gradus.nn", "Unflatten", "gradus.nn({{unflatten = {1, 28, 28}}}, {1, 784})"},
    {"gradus.nn", "Identity", "gradus.nn.Sequential(...) without that layer"},
    {"gradus.nn", "SpatialConvolution", "gradus.nn.Conv2d(channels_in, channels_out, kernel_size)"},
    {"gradus.nn", "ClassNLLCriterion", "gradus.nn.NLLLoss()"},
    {"gradus.nn", "MSECriterion", "gradus.nn.MSELoss()"},
    {"gradus.nn", "CrossEntropyCriterion", "gradus.nn.CrossEntropyLoss()"},
    {"gradus.nn", "LSTM", "layers of `gradus config schema`"},
    {"gradus.nn", "Transformer", "layers of `gradus config schema`"},
    {"network", "named_parameters", "for name, p in pairs(net:parameters()) do"},
    {"network", "modules", "print(net), which lists what it is made of"},
    {"network", "children", "print(net), which lists what it is made of"},
    {"network", "training", "net:train() and net:eval()"},
    {"network", "to", "gradus script --device cuda:0: a network lies where it was made"},
    {"network", "cuda", "gradus script --device cuda:0: a network lies where it was made"},
    {"network", "backward", "loss:backward()"},
    {"network", "updateParameters",
     "gradus.optim.sgd(net:parameters(), {lr = 0.1}) and its step()"},
    {"optim", "param_groups", "opt.lr, which may be set between steps"},
};

constexpr Word kGlobals[] = {
    {"", "True", "true"},
    {"", "False", "false"},
    {"", "None", "nil"},
    {"", "torch", "gradus, or: local torch = gradus"},
    {"", "nn", "gradus.nn, or: local nn = gradus.nn"},
    {"", "optim", "gradus.optim, or: local optim = gradus.optim"},
    {"", "F", "gradus, or: local F = gradus.nn.functional"},
    {"", "np", "gradus"},
    {"", "numpy", "gradus"},
    {"", "range", "for i = 1, n do ... end"},
    {"", "len", "#x"},
    {"", "f", "(\"loss %.3f\"):format(x) for a text with numbers"},
    {"", "enumerate", "for i, x in ipairs(list) do"},
    {"", "str", "tostring(x)"},
};

// An error's text has the first, and the line it is at the second: the answer is the third.
constexpr Word kSyntax[] = {
    {"<name> expected near 'repeat'", "",
     "repeats, as in x:repeats(2, 3): repeat is a word of Lua"},
    {"near 'end'", "end=", "stop = ... for the attribute: end is a word of Lua"},
    {"<name> expected near 'end'", "", "[\"end\"] or stop: end is a word of Lua"},
    {"near '+'", "+=", "x = x + 1: Lua has no +="},
    {"near '-'", "-=", "x = x - 1: Lua has no -="},
    {"near '*'", "*=", "x = x * 2: Lua has no *="},
    {"near '/'", "/=", "x = x / 2: Lua has no /="},
    {"near '*'", "**", "x ^ 2 for a power"},
    {"near '!'", "!=", "a ~= b for \"not equal\""},
    {"near '!'", "", "not a"},
    {"near '@'", "", "a:matmul(b)"},
    {"near '['", "", "a list as {1, 2, 3}"},
    {"']' expected near ','", "", "x[{1, 2}] or x[\"1,2\"]"},
    {"']' expected near ':'", "", "x[{{1, 2}}] or x[\"1:2\"]"},
    {"')' expected near '='", "", "names in a table: x:sum{dim = 1}"},
    {"near 'is'", "", "x == nil"},
};
// A line of Python, by its first word.
constexpr Word kPython[] = {
    {"", "import", "nothing: gradus is there already; local torch = gradus for the short word"},
    {"", "from", "nothing: gradus is there already"},
    {"", "def", "function f(x) ... end"},
    {"", "class", "a function of tensors, or gradus.nn.Sequential(...)"},
    {"", "with", "gradus.no_grad(function() ... end)"},
    {"", "elif", "elseif"},
    {"", "lambda", "function(x) return x end"},
    {"", "try", "pcall(function() ... end)"},
    {"", "except", "pcall(function() ... end)"},
};

std::string written(std::string_view words) { return "; write " + std::string(words); }

std::string_view line_of(std::string_view text, int64_t n) {
  for (; n > 1; --n) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

std::string without_spaces(std::string_view line) {
  std::string out;
  std::copy_if(line.begin(), line.end(), std::back_inserter(out),
               [](unsigned char c) { return !std::isspace(c); });
  return out;
}

}  // namespace

std::string word_for(std::string_view owner, std::string_view name) {
  for (const Word& w : kWords)
    if (w.owner == owner && w.name == name) return written(w.write);
  return "";
}

std::string word_for_global(std::string_view name) {
  for (const Word& w : kGlobals)
    if (w.name == name) return std::string(w.write);
  return "";
}

std::string word_for_syntax(std::string_view message, std::string_view text) {
  // "NAME:LINE: what", and NAME may hold anything.
  size_t at = message.find(": ");
  while (at != message.npos &&
         (at == 0 || !std::isdigit(static_cast<unsigned char>(message[at - 1]))))
    at = message.find(": ", at + 1);
  if (at == message.npos) return "";
  size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(message[begin - 1]))) --begin;
  const int64_t number = std::atoll(std::string(message.substr(begin, at - begin)).c_str());
  const std::string_view said = message.substr(at);
  const std::string line = without_spaces(line_of(text, number));
  for (const Word& w : kSyntax)
    if (said.find(w.owner) != said.npos && line.find(w.name) != line.npos) return written(w.write);
  // Python's colon makes a method's name of what stands in the next line.
  for (int64_t n = number; n > 0 && n > number - 3; --n) {
    std::string_view first = line_of(text, n);
    while (!first.empty() && std::isspace(static_cast<unsigned char>(first[0])))
      first.remove_prefix(1);
    const auto begins = [&](std::string_view word) {
      return first.starts_with(word) && first.substr(word.size()).starts_with(' ');
    };
    for (const Word& w : kPython)
      if (begins(w.name)) return written(w.write);
    if (begins("for") && first.find(" range(") != first.npos)
      return written("for i = 1, n do ... end");
    while (!first.empty() && std::isspace(static_cast<unsigned char>(first.back())))
      first.remove_suffix(1);
    if (first.ends_with(':') && (begins("if") || begins("for") || begins("while")))
      return written(begins("if") ? "if ... then ... end" : "do ... end behind it, and no colon");
  }
  return "";
}

}  // namespace gradus::lua
