// gradus.nn.Linear(784, 128), gradus.nn.ReLU(), gradus.nn.Sequential(...): layers by PyTorch's
// names and in its order of arguments. Each is a network of one layer, as gradus.nn({...}) builds
// them; Sequential puts the layers of networks one after another, and shares them.
#include "bindings/lua/networks/network.hpp"
#include "bindings/lua/options.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::lua {

namespace {

using Json = nlohmann::json;

// What an input must look like for the layer to be built; its parameters depend on no more.
enum class Input { any, features, channels, image1, image2, normalized, tokens };

struct Class {
  const char* name;
  const char* kind;  // the layer's word in configs
  Input input;
  // Names of the arguments in PyTorch's order; "#" is the number of channels that come in. Without
  // any: the attributes of the op, in their order.
  std::vector<std::string_view> arguments;
};
const std::vector<Class>& classes() {
  using enum Input;
  static const std::vector<std::string_view> conv{
      "#", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"};
  static const std::vector<std::string_view> transposed{"#",      "out_channels", "kernel_size",
                                                        "stride", "padding",      "output_padding",
                                                        "groups", "bias",         "dilation"};
  static const std::vector<Class> all{
      {"Linear", "linear", features, {"in", "out", "bias"}},
      {"Conv1d", "conv1d", image1, conv},
      {"Conv2d", "conv2d", image2, conv},
      {"ConvTranspose1d", "conv_transpose1d", image1, transposed},
      {"ConvTranspose2d", "conv_transpose2d", image2, transposed},
      {"BatchNorm1d", "batch_norm", channels, {"#", "eps", "momentum", "affine"}},
      {"BatchNorm2d", "batch_norm", image2, {"#", "eps", "momentum", "affine"}},
      {"GroupNorm", "group_norm", channels, {"num_groups", "#", "eps", "affine"}},
      {"LayerNorm", "layer_norm", normalized, {"normalized_shape", "eps", "affine", "bias"}},
      {"RMSNorm", "rms_norm", normalized, {"normalized_shape", "eps", "affine"}},
      {"Embedding", "embedding", tokens, {"num_embeddings", "embedding_dim"}},
      {"Dropout", "dropout", any, {"p"}},
      {"Softmax", "softmax", any, {"dim"}},
      {"LogSoftmax", "log_softmax", any, {"dim"}},
      {"Flatten", "flatten", any, {}},
      {"ReLU", "relu", any, {}},
      {"Sigmoid", "sigmoid", any, {}},
      {"Tanh", "tanh", any, {}},
      {"GELU", "gelu", any, {}},
      {"SiLU", "silu", any, {}},
      {"Mish", "mish", any, {}},
      {"ELU", "elu", any, {}},
      {"SELU", "selu", any, {}},
      {"CELU", "celu", any, {}},
      {"LeakyReLU", "leaky_relu", any, {}},
      {"ReLU6", "relu6", any, {}},
      {"Softplus", "softplus", any, {}},
      {"Softsign", "softsign", any, {}},
      {"Softshrink", "softshrink", any, {}},
      {"Hardshrink", "hardshrink", any, {}},
      {"Tanhshrink", "tanhshrink", any, {}},
      {"Hardtanh", "hardtanh", any, {}},
      {"Hardsigmoid", "hardsigmoid", any, {}},
      {"Hardswish", "hardswish", any, {}},
      {"LogSigmoid", "logsigmoid", any, {}},
      {"MaxPool1d", "max_pool1d", image1, {}},
      {"MaxPool2d", "max_pool2d", image2, {}},
      {"AvgPool1d", "avg_pool1d", image1, {}},
      {"AvgPool2d", "avg_pool2d", image2, {}},
      {"AdaptiveAvgPool1d", "adaptive_avg_pool1d", image1, {}},
      {"AdaptiveAvgPool2d", "adaptive_avg_pool2d", image2, {}},
  };
  return all;
}

constexpr std::pair<const char*, const char*> kLosses[] = {
    {"MSELoss", "mse_loss"},
    {"L1Loss", "l1_loss"},
    {"SmoothL1Loss", "smooth_l1_loss"},
    {"HuberLoss", "huber_loss"},
    {"CrossEntropyLoss", "cross_entropy"},
    {"NLLLoss", "nll_loss"},
    {"BCELoss", "binary_cross_entropy"},
    {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits"},
    {"KLDivLoss", "kl_div"},
};

std::vector<std::string_view> arguments_of(const Class& c) {
  if (!c.arguments.empty()) return c.arguments;
  std::vector<std::string_view> names;
  if (const OpInfo* const op = find_op(c.kind); op && std::string_view(c.name) != "Flatten")
    for (const AttrSpec& spec : op->attrs) names.push_back(spec.name);
  return names;
}

int64_t largest(const Json& options, const char* key) {
  if (!options.contains(key)) return 0;
  const Json& v = options[key];
  int64_t most = 0;
  for (const Json& n : v.is_array() ? v : Json::array({v}))
    if (n.is_number_integer()) most = std::max(most, n.get<int64_t>());
  return std::min<int64_t>(most, 1 << 20);
}

Tensor probe_of(lua_State* L, const Class& c, const Json& options, int64_t channels) {
  Shape sizes;
  // Large enough for one window, whatever is cut off.
  const int64_t span =
      1 + largest(options, "kernel_size") * std::max<int64_t>(1, largest(options, "dilation")) +
      2 * largest(options, "padding") + largest(options, "output_size");
  switch (c.input) {
    case Input::any:
      sizes = {2, 2, 2, 2};
      break;
    case Input::features:
      sizes = {1, largest(options, "in")};
      break;
    case Input::channels:
      sizes = {1, channels};
      break;
    case Input::image1:
      sizes = {1, channels, span};
      break;
    case Input::image2:
      sizes = {1, channels, span, span};
      break;
    case Input::normalized: {
      sizes = {1};
      const Json& shape = options.value("normalized_shape", Json());
      for (const Json& n : shape.is_array() ? shape : Json::array({shape}))
        sizes.push_back(n.is_number_integer() ? std::max<int64_t>(0, n.get<int64_t>()) : 1);
      break;
    }
    case Input::tokens:
      sizes = {1};
      break;
  }
  return Tensor::zeros(sizes, c.input == Input::tokens ? DType::i64 : DType::f32, device_of(L));
}

// {linear = {in = 784, out = 128}} from the arguments, and how many channels come in.
Json options_at(lua_State* L, const Class& c, int64_t& channels) {
  const std::vector<std::string_view> names = arguments_of(c);
  const int top = lua_gettop(L);
  const int last = top > 0 && is_options(L, top) ? top - 1 : top;
  if (size_t(last) > names.size())
    fail(ErrorKind::value, c.name, "takes ", names.size(),
         names.size() == 1 ? " argument" : " arguments", ", got ", last);
  Json options = Json::object();
  for (int i = 1; i <= last; ++i) {
    const std::string name(names[size_t(i - 1)]);
    if (lua_isnil(L, i)) continue;
    if (name == "#")
      channels = integer_at(L, i, c.name);
    else
      options[name] = json_at(L, i);
  }
  const Json named = last < top ? json_at(L, top) : Json::object();
  for (const auto& [key, value] : named.items()) options[key] = value;
  if (options.contains("dim") && options["dim"].is_number_integer())
    options["dim"] = from_one(options["dim"].get<int64_t>(), c.name);
  const bool counts = std::find(names.begin(), names.end(), "#") != names.end();
  if (counts && channels < 1)
    fail(ErrorKind::value, c.name, "the number of channels that come in: expected 1 or more, got ",
         channels);
  return options;
}

nn::Sequential layer_of(const NetworkBuilder& build, const Class& c, const Json& options,
                        const Tensor& probe) {
  const Json layer = options.empty() ? Json(c.kind) : Json{{c.kind, options}};
  return build(Json::array({layer}).dump(), probe);
}

// "Linear(in, out, bias)", as a script writes it.
std::string call_of(const Class& c) {
  std::string out = join("gradus.nn.", c.name, "(");
  for (const std::string_view name : arguments_of(c))
    out += join(out.back() == '(' ? "" : ", ", name == "#" ? "channels" : name);
  return out + ")";
}
// An error about {"linear": {...}} as one about Linear(...): without the place in a config.
std::string in_its_words(const Class& c, std::string message) {
  if (message.find("needs options") != std::string::npos) return "needs its arguments";
  const std::string place = join("[0].", c.kind);
  if (message.starts_with(place)) message.erase(0, place.size());
  return message.substr(std::min(message.find_first_not_of(".: "), message.size()));
}

const NetworkBuilder& builder(lua_State* L) {
  return *static_cast<const NetworkBuilder*>(lua_touserdata(L, lua_upvalueindex(1)));
}
int make_layer(lua_State* L) {
  const auto& c = *static_cast<const Class*>(lua_touserdata(L, lua_upvalueindex(2)));
  // A network without parameters has one channel.
  int64_t channels = c.arguments.empty() ? 1 : 0;
  const Json options = options_at(L, c, channels);
  try {
    push_network(L, layer_of(builder(L), c, options, probe_of(L, c, options, channels)));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::config) throw;
    fail(ErrorKind::value, c.name, in_its_words(c, e.message()), "; ", call_of(c));
  }
  return 1;
}

// A layer of another network, which lives on.
class Shared : public nn::Module {
 public:
  Shared(std::shared_ptr<nn::Sequential> owner, size_t i)
      : owner_(std::move(owner)), layer_(owner_->layer(i)) {}
  Tensor forward(const Tensor& x) override {
    layer_.set_place(place());
    return layer_.forward(x);
  }
  std::string kind() const override { return layer_.kind(); }
  void collect(const std::string& prefix, nn::NamedTensors& out) const override {
    layer_.collect(prefix, out);
  }
  void set_training(bool on) override { layer_.set_training(on); }
  void set_compute(DType dtype) override { layer_.set_compute(dtype); }

 private:
  std::shared_ptr<nn::Sequential> owner_;
  nn::Module& layer_;
};

// The value on top: a network, or the word for a layer without options.
void add_layers(lua_State* L, nn::Sequential& to, int64_t n) {
  std::shared_ptr<nn::Sequential> from = shared_network(L, -1);
  if (!from && lua_type(L, -1) == LUA_TSTRING) {
    const Class word{"Sequential", lua_tostring(L, -1), Input::any, {}};
    from = std::make_shared<nn::Sequential>(
        layer_of(builder(L), word, Json::object(), probe_of(L, word, Json::object(), 1)));
  }
  if (!from)
    fail(ErrorKind::value, "Sequential", "argument ", n, ": expected a layer such as ",
         "gradus.nn.Linear(2, 3) or the word for one, \"relu\", got ", kind_at(L, -1),
         lua_isfunction(L, -1) ? "; a layer without arguments is made too: gradus.nn.ReLU()" : "");
  for (size_t i = 0; i < from->size(); ++i) to.add(std::make_unique<Shared>(from, i));
}
// gradus.nn.Sequential(a, b, ...) or ({a, b, ...})
int make_sequential(lua_State* L) {
  nn::Sequential all;
  int64_t n = 0;
  if (lua_gettop(L) == 1 && lua_istable(L, 1)) {
    each_of(L, 1, [&] { add_layers(L, all, ++n); });
  } else {
    for (int i = 1, last = lua_gettop(L); i <= last; ++i, lua_pop(L, 1)) {
      lua_pushvalue(L, i);
      add_layers(L, all, ++n);
    }
  }
  if (all.size() == 0) fail(ErrorKind::value, "Sequential", "needs at least one layer");
  push_network(L, std::move(all));
  return 1;
}

// What gradus.nn.MSELoss([options]) gives: the op (upvalue 1) with these options (upvalue 2)
int run_loss(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  if (!lua_isnil(L, lua_upvalueindex(2))) lua_pushvalue(L, lua_upvalueindex(2));
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}
int make_loss(lua_State* L) {
  at_most(L, 1, "loss");
  if (!lua_isnoneornil(L, 1) && !is_options(L, 1))
    fail(ErrorKind::value, "loss", "expected options such as {reduction = \"sum\"}, got ",
         kind_at(L, 1), "; the loss it gives takes outputs and targets: loss(y, target)");
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_pushcclosure(L, run_loss, 2);
  return 1;
}

}  // namespace

void open_layers(lua_State* L, const NetworkBuilder& build) {
  const int at = lua_gettop(L), functions = at - 1;  // gradus.nn, gradus
  auto* const upvalue = const_cast<NetworkBuilder*>(&build);
  for (const Class& c : classes()) {
    lua_pushlightuserdata(L, upvalue);
    lua_pushlightuserdata(L, const_cast<Class*>(&c));
    lua_pushcclosure(L, bind<make_layer>, 2);
    lua_setfield(L, at, c.name);
  }
  lua_pushlightuserdata(L, upvalue);
  lua_pushcclosure(L, bind<make_sequential>, 1);
  lua_setfield(L, at, "Sequential");
  for (const auto& [name, op] : kLosses) {
    lua_getfield(L, functions, op);
    lua_pushcclosure(L, bind<make_loss>, 1);
    lua_setfield(L, at, name);
  }
}

}  // namespace gradus::lua
