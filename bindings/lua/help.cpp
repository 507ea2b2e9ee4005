// What `:help NAME` says of names that are no op: one line for each function of `gradus` and each
// method of a tensor. Of what gradus.func and gradus.audit hold, bindings/lua/manual.md tells.
#include "bindings/lua/script.hpp"

#include <string_view>

namespace gradus::inline v1::lua {

namespace {

struct Line {
  std::string_view name, text;
};
constexpr Line kLines[] = {
    {"tensor", "gradus.tensor({{1, 2}, {3, 4.5}}, {dtype = \"f64\", requires_grad = true})"},
    {"empty", "gradus.empty(2, 3): as gradus.zeros"},
    {"empty_like", "gradus.empty_like(x): as gradus.zeros_like"},
    {"rand", "gradus.rand(2, 3 [, options]): numbers from 0 to below 1"},
    {"randn", "gradus.randn(2, 3 [, options]): normally distributed, variance 1"},
    {"rand_like", "gradus.rand_like(x [, options]): of x's shape and dtype"},
    {"randn_like", "gradus.randn_like(x [, options]): of x's shape and dtype"},
    {"randint", "gradus.randint([low,] high, {2, 3}): whole numbers from low to below high"},
    {"randperm", "gradus.randperm(n): 0 to n - 1 in random order"},
    {"complex", "gradus.complex(re, im): re + i im"},
    {"seed", "gradus.seed(n): random numbers begin again"},
    {"manual_seed", "gradus.manual_seed(n): as gradus.seed"},
    {"load", "gradus.load(\"x.npy\") or (\"m.safetensors\"), which gives a table"},
    {"save", "gradus.save(\"x.npy\", x) or (\"m.safetensors\", {name = x})"},
    {"is_tensor", "gradus.is_tensor(v): true of a tensor"},
    {"as_tensor", "gradus.as_tensor(v): v if it is a tensor, else gradus.tensor(v)"},
    {"device", "gradus.device(): the name of this session's device"},
    {"devices", "gradus.devices(): a table for each device, as gradus devices --json prints"},
    {"available", "gradus.available(\"cuda\"): true, or false and why not"},
    {"synchronize", "gradus.synchronize([name or tensor]): waits for devices"},
    {"grad", "gradus.grad(outputs, inputs [, seeds] [, {create_graph = true}]); x.grad is a sum"},
    {"no_grad", "gradus.no_grad(f, ...): f(...), of which nothing is recorded"},
    {"enable_grad", "gradus.enable_grad(f, ...): f(...) recorded, within no_grad too"},
    {"is_grad_enabled", "gradus.is_grad_enabled(): is anything recorded here?"},
    {"detect_anomaly", "gradus.detect_anomaly(f, ...): f(...); errors of its nodes say their line"},
    {"checkpoint", "gradus.checkpoint(f, x, ...): f(x, ...), which backward runs once more"},
    {"capture", "gradus.capture(f [, {required = true}]): f as a step, recorded and replayed"},
    {"einsum_plan", "gradus.einsum_plan(\"ij,jk->ik\", a, b): order and cost; plan(a, b) runs it"},
    {"blocks", "gradus.blocks.leg zeros rand randn from_dense plan is: tensors with a symmetry"},
    {"diagonal_tensor",
     "gradus.diagonal_tensor(payload [, {1, 1}]): 0 but where axes run together"},
    {"copy_tensor",
     "gradus.copy_tensor(n, order [, {dtype = \"f64\"}]): 1 where all indices are equal"},
    {"identity",
     "gradus.identity(n [, {dtype = \"f64\"}]): the copy tensor of order 2; x:to_dense()"},
    {"permutation", "gradus.permutation(index [, {dtype = \"f64\"}]): P with P x = x[index]"},
    {"op", "gradus.op{name = n, value = f, slope = g}: an op of your own"},
    {"nn", "gradus.nn({{linear = 8}, \"relu\"}, {1, 4}), gradus.nn.Linear(4, 8), nn.Sequential"},
    {"optim", "gradus.optim.adam(parameters, {lr = 1e-3}), adamw, sgd: step(), zero_grad(), lr"},
    {"func", "gradus.func.grad value_and_grad jacobian hessian vmap jvp vjp hvp gradcheck"},
    {"audit", "gradus.audit.check birth graph ...: see bindings/lua/manual.md"},
    {"data", "gradus.data{name = \"digits\", train = 600} or {idx = DIR}: inputs and labels"},
    {"experiment", "gradus.experiment{config = FILE, set = {\"epochs=1\"}}: as gradus train"},
    {"progress", "for i in gradus.progress(100) do: a bar"},
    {"backward", "y:backward([seed] [, {retain_graph = true}]): adds to .grad of leaves"},
    {"detach", "x:detach(): the same numbers without history"},
    {"requires_grad_", "x:requires_grad_([false]): derivatives by x will be asked for"},
    {"retain_grad", "x:retain_grad(): .grad is kept though x is no leaf"},
    {"zero_grad", "x:zero_grad(): forgets x.grad"},
    {"register_hook", "x:register_hook(f): f(g) is called with x's gradient"},
    {"item", "x:item(): the one number of x"},
    {"totable", "x:totable(): nested tables of numbers"},
    {"tolist", "x:tolist(): as x:totable"},
    {"size", "x:size() is x.shape, x:size(2) one of them"},
    {"numel", "x:numel(): how many numbers"},
    {"nelement", "x:nelement(): as x:numel"},
    {"dim", "x:dim(): how many axes, as x.rank"},
    {"rows", "for i, row in x:rows() do"},
    {"equal", "x:equal(y): the same shape and numbers? One boolean"},
    {"view", "x:view(3, -1): another shape of the same memory; x:reshape copies if it must"},
    {"view_as", "x:view_as(y): x:view(y.shape)"},
    {"reshape_as", "x:reshape_as(y): x:reshape(y.shape)"},
    {"expand_as", "x:expand_as(y): x:expand(y.shape)"},
    {"type_as", "x:type_as(y): x in y's dtype"},
    {"t", "x:t(): a matrix transposed, as x.T"},
    {"to", "x:to(\"f64\"), x:to(\"cuda:0\"), x:to(y): another dtype or device"},
    {"cpu", "x:cpu(): on the cpu"},
    {"cuda", "x:cuda([n]): on a GPU of that kind"},
    {"type", "x:type() is x.dtype; x:type(\"f64\") casts"},
    {"element_size", "x:element_size(): bytes of a number"},
    {"is_contiguous", "x:is_contiguous(): row by row, without gaps?"},
    {"is_complex", "x:is_complex()"},
    {"is_floating_point", "x:is_floating_point()"},
    {"fill_", "x:fill_(v): writes v everywhere"},
    {"zero_", "x:zero_(): writes 0 everywhere"},
    {"copy_", "x:copy_(y): writes y"},
    {"normal_", "x:normal_([mean, std]): writes random numbers"},
    {"uniform_", "x:uniform_([low, high]): writes random numbers"},
};
constexpr std::string_view kCasts[] = {"float", "double", "half", "bfloat16", "int",
                                       "long",  "byte",   "bool", "cfloat",   "cdouble"};

}  // namespace

std::string help_line(const std::string& name) {
  for (const Line& line : kLines)
    if (line.name == name) return std::string(line.text);
  for (const std::string_view cast : kCasts)
    if (cast == name) return "x:" + name + "(): x in another dtype";
  if (name == "repeats") return "x:repeats(2, 3): the op repeat, whose name is a word of Lua";
  const bool in_place = name.size() > 1 && name.back() == '_';
  if (in_place && find_op(name.substr(0, name.size() - 1)))
    return "x:" + name + "(...): the op " + name.substr(0, name.size() - 1) + ", written to x";
  return "";
}

}  // namespace gradus::lua
