// The table of layers.
#include "ops/train/layers.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/nn/attention.hpp"
#include "ops/nn/conv.hpp"
#include "ops/nn/layers.hpp"
#include "ops/nn/normalization.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::training {

namespace {

using Made = std::unique_ptr<nn::Module>;

struct LayerKind {
  std::string name;
  Spec options;      // an object
  std::string main;  // the option that a value which is no object stands for; "" for none
  std::function<Made(const Json& options, const Tensor& probe, const std::string& place)> make;
};

// ---- ops

Spec ints_spec(const std::string& doc) {
  return Spec::any_of(
      {Spec::integer(doc), Spec::array(Spec::integer("one of them"), "one for each axis")}, doc);
}

Ints ints(const Json& v) {
  if (!v.is_array()) return {v.get<int64_t>()};
  Ints out;
  for (const Json& n : v) out.push_back(n.get<int64_t>());
  return out;
}

Spec attribute_spec(const AttrSpec& attr) {
  switch (attr.type) {
    case AttrValue::Type::integer:
      return Spec::integer(attr.doc);
    case AttrValue::Type::integers:
      return ints_spec(attr.doc);
    case AttrValue::Type::boolean:
      return Spec::boolean(attr.doc);
    case AttrValue::Type::text:
    case AttrValue::Type::dtype:
      return Spec::string(attr.doc);
    default:
      return Spec::number(attr.doc);
  }
}

AttrValue attribute_value(const AttrSpec& attr, const Json& v) {
  switch (attr.type) {
    case AttrValue::Type::integer:
      return v.get<int64_t>();
    case AttrValue::Type::integers:
      return ints(v);
    case AttrValue::Type::boolean:
      return v.get<bool>();
    case AttrValue::Type::text:
      return std::string_view(v.get_ref<const std::string&>());
    case AttrValue::Type::dtype:
      return parse_dtype(v.get<std::string>());
    default:
      return v.get<double>();
  }
}

LayerKind op_kind(const OpInfo& op) {
  Spec options = Spec::object(op.doc);
  for (const AttrSpec& a : op.attrs) {
    const bool needed = a.default_value.is_none() && !a.optional;
    options =
        needed ? options.with(a.name, attribute_spec(a)) : options.maybe(a.name, attribute_spec(a));
  }
  const auto make = [&op](const Json& o, const Tensor&, const std::string&) -> Made {
    Attrs attrs;
    for (const AttrSpec& a : op.attrs)
      attrs.push_back(o.contains(a.name) ? attribute_value(a, o[a.name]) : a.default_value);
    return std::make_unique<nn::OpLayer>(op.name, attrs);
  };
  return {op.name, options, op.attrs.empty() ? "" : op.attrs[0].name, make};
}

// ---- layers with parameters, or with a state

Spec count_spec(const std::string& doc) { return Spec::integer(doc).at_least(1).at_most(1 << 24); }
Spec eps_spec() {
  return Spec::number("added to the variance, or to the mean square").at_least(0).otherwise("1e-5");
}
Spec bool_spec(const std::string& doc) { return Spec::boolean(doc).otherwise("true"); }
Spec list_spec(const std::string& doc) {
  return Spec::array(Spec::reference("layer", layer_spec), doc).length(1);
}

int64_t axis_size(const Tensor& probe, int64_t axis, const char* who) {
  if (probe.rank() <= (axis < 0 ? -axis : axis))
    fail(ErrorKind::shape, who, "its input ", probe.sizes(), " has too few axes");
  return probe.size(axis);
}

LayerKind linear_kind() {
  return {"linear",
          Spec::object("y = x W^T + b over the last axis")
              .with("out", count_spec("features out"))
              .maybe("in", count_spec("features in; by default what comes in"))
              .maybe("bias", bool_spec("adds a bias")),
          "out", [](const Json& o, const Tensor& probe, const std::string&) -> Made {
            return std::make_unique<nn::Linear>(
                o.contains("in") ? o["in"].get<int64_t>() : axis_size(probe, -1, "linear"),
                o["out"].get<int64_t>(), o["bias"].get<bool>(), DType::f32, probe.device());
          }};
}

LayerKind conv_kind(int64_t axes, bool transposed) {
  const std::string name = join(transposed ? "conv_transpose" : "conv", axes, "d");
  Spec options =
      Spec::object(transposed ? "transpose of a convolution, which makes its input larger"
                              : "convolution")
          .with("out_channels", count_spec("channels out"))
          .with("kernel_size", ints_spec("sizes of the kernel"))
          .maybe("stride", ints_spec("steps between windows").otherwise("1"))
          .maybe("padding", ints_spec("zeros on both sides").otherwise("0"))
          .maybe("dilation", ints_spec("steps within a window").otherwise("1"))
          .maybe("groups", count_spec("groups of channels that do not mix").otherwise("1"))
          .maybe("bias", bool_spec("adds a bias"));
  if (transposed)
    options = options.maybe("output_padding", ints_spec("added to one side").otherwise("0"));
  return {name, options, "", [=](const Json& o, const Tensor& probe, const std::string&) -> Made {
            nn::ConvOptions c;
            c.axes = axes;
            c.in_channels = axis_size(probe, 1, name.c_str());
            c.out_channels = o["out_channels"].get<int64_t>();
            c.kernel_size = ints(o["kernel_size"]);
            c.stride = ints(o["stride"]);
            c.padding = ints(o["padding"]);
            c.dilation = ints(o["dilation"]);
            c.groups = o["groups"].get<int64_t>();
            c.bias = o["bias"].get<bool>();
            c.transposed = transposed;
            if (transposed) c.output_padding = ints(o["output_padding"]);
            return std::make_unique<nn::Conv>(c, DType::f32, probe.device());
          }};
}

void add_norms(std::vector<LayerKind>& kinds) {
  const Spec affine = bool_spec("learns a scale and a shift");
  kinds.push_back(
      {"batch_norm",
       Spec::object("each channel by the batch's mean and variance; running ones in evaluation")
           .maybe("eps", eps_spec())
           .maybe("momentum", Spec::number("share of a batch in the running statistics")
                                  .at_least(0)
                                  .at_most(1)
                                  .otherwise("0.1"))
           .maybe("affine", affine),
       "", [](const Json& o, const Tensor& probe, const std::string&) -> Made {
         return std::make_unique<nn::BatchNorm>(
             axis_size(probe, 1, "batch_norm"), o["eps"].get<double>(), o["momentum"].get<double>(),
             o["affine"].get<bool>(), DType::f32, probe.device());
       }});
  // By default the last axis.
  const auto sizes = [](const Json& o, const Tensor& probe, const char* who) {
    return o.contains("normalized_shape") ? ints(o["normalized_shape"])
                                          : Ints{axis_size(probe, -1, who)};
  };
  const Spec shape = ints_spec("sizes of the axes taken together; by default the last one");
  kinds.push_back(
      {"layer_norm",
       Spec::object("by mean and variance of the last axes of each sample")
           .maybe("normalized_shape", shape)
           .maybe("eps", eps_spec())
           .maybe("affine", affine)
           .maybe("bias", bool_spec("with a shift")),
       "normalized_shape", [=](const Json& o, const Tensor& probe, const std::string&) -> Made {
         return std::make_unique<nn::LayerNorm>(sizes(o, probe, "layer_norm"),
                                                o["eps"].get<double>(), o["affine"].get<bool>(),
                                                o["bias"].get<bool>(), DType::f32, probe.device());
       }});
  kinds.push_back(
      {"rms_norm",
       Spec::object("by the root mean square of the last axes of each sample")
           .maybe("normalized_shape", shape)
           .maybe("eps", eps_spec())
           .maybe("affine", bool_spec("learns a scale")),
       "normalized_shape", [=](const Json& o, const Tensor& probe, const std::string&) -> Made {
         return std::make_unique<nn::RmsNorm>(sizes(o, probe, "rms_norm"), o["eps"].get<double>(),
                                              o["affine"].get<bool>(), DType::f32, probe.device());
       }});
  kinds.push_back(
      {"group_norm",
       Spec::object("by mean and variance of groups of channels of each sample")
           .with("num_groups", count_spec("groups"))
           .maybe("eps", eps_spec())
           .maybe("affine", affine),
       "num_groups", [](const Json& o, const Tensor& probe, const std::string&) -> Made {
         return std::make_unique<nn::GroupNorm>(
             o["num_groups"].get<int64_t>(), axis_size(probe, 1, "group_norm"),
             o["eps"].get<double>(), o["affine"].get<bool>(), DType::f32, probe.device());
       }});
}

void add_sequence_layers(std::vector<LayerKind>& kinds) {
  kinds.push_back({"embedding",
                   Spec::object("a learned row for each token")
                       .with("num_embeddings", count_spec("tokens that there are"))
                       .with("embedding_dim", count_spec("features of a token")),
                   "", [](const Json& o, const Tensor& probe, const std::string&) -> Made {
                     return std::make_unique<nn::Embedding>(o["num_embeddings"].get<int64_t>(),
                                                            o["embedding_dim"].get<int64_t>(),
                                                            DType::f32, probe.device());
                   }});
  kinds.push_back(
      {"positional_embedding",
       Spec::object("adds a learned row for each place of a sequence")
           .maybe("max_length", count_spec("places that there are; by default what comes in")),
       "max_length", [](const Json& o, const Tensor& probe, const std::string&) -> Made {
         return std::make_unique<nn::PositionalEmbedding>(
             o.contains("max_length") ? o["max_length"].get<int64_t>()
                                      : axis_size(probe, -2, "positional_embedding"),
             axis_size(probe, -1, "positional_embedding"), DType::f32, probe.device());
       }});
  kinds.push_back(
      {"multi_head_attention",
       Spec::object("self-attention over the places of a sequence")
           .with("num_heads", count_spec("heads"))
           .maybe("causal", Spec::boolean("a place does not look at later ones").otherwise("false"))
           .maybe("bias", bool_spec("with biases")),
       "num_heads", [](const Json& o, const Tensor& probe, const std::string&) -> Made {
         return std::make_unique<nn::MultiHeadAttention>(
             axis_size(probe, -1, "multi_head_attention"), o["num_heads"].get<int64_t>(),
             o["causal"].get<bool>(), o["bias"].get<bool>(), DType::f32, probe.device());
       }});
}

// ---- layers made of layers

void add_containers(std::vector<LayerKind>& kinds) {
  kinds.push_back({"residual",
                   Spec::object("adds to its input what its layers make of it")
                       .with("layers", list_spec("layers that keep the shape")),
                   "layers", [](const Json& o, const Tensor& probe, const std::string& place) {
                     Tensor x = probe;
                     return Made(new nn::Residual(
                         build_layers(read_layers(o["layers"]), x, place + ".residual")));
                   }});
  kinds.push_back({"checkpoint",
                   Spec::object("layers that run again in backward instead of keeping what they "
                                "computed: less memory, more time, the same numbers")
                       .with("layers", list_spec("layers without running statistics")),
                   "layers", [](const Json& o, const Tensor& probe, const std::string& place) {
                     Tensor x = probe;
                     return Made(new nn::Checkpoint(
                         build_layers(read_layers(o["layers"]), x, place + ".checkpoint")));
                   }});
  kinds.push_back({"repeat",
                   Spec::object("the same layers several times, each time with its own parameters")
                       .with("times", count_spec("how often").at_most(1000))
                       .with("layers", list_spec("what is repeated")),
                   "", [](const Json& o, const Tensor& probe, const std::string& place) {
                     std::vector<LayerMaker> makers;
                     for (int64_t n = o["times"].get<int64_t>(); n > 0; --n)
                       for (LayerMaker& m : read_layers(o["layers"]))
                         makers.push_back(std::move(m));
                     Tensor x = probe;
                     return Made(new nn::Sequential(build_layers(makers, x, place + ".repeat")));
                   }});
}

void add_simple_layers(std::vector<LayerKind>& kinds) {
  kinds.push_back(
      {"dropout",
       Spec::object("zeroes numbers at random while training")
           .maybe("p", Spec::number("probability of a zero").at_least(0).below(1).otherwise("0.5")),
       "p", [](const Json& o, const Tensor&, const std::string&) -> Made {
         return std::make_unique<nn::Dropout>(o["p"].get<double>());
       }});
  kinds.push_back({"flatten", Spec::object("all axes of a sample as one"), "",
                   [](const Json&, const Tensor&, const std::string&) -> Made {
                     return std::make_unique<nn::Flatten>();
                   }});
  kinds.push_back({"unflatten",
                   Spec::object("the first axis of a sample as several: images are [1, rows, cols]")
                       .with("sizes", Spec::array(count_spec("one of them"), "sizes of the axes")),
                   "sizes", [](const Json& o, const Tensor&, const std::string&) -> Made {
                     return std::make_unique<nn::Unflatten>(ints(o["sizes"]));
                   }});
  for (const char* name : {"softmax", "log_softmax"})
    kinds.push_back(
        {name, Spec::object(get_op(name).doc).maybe("dim", Spec::integer("axis").otherwise("-1")),
         "dim", [name](const Json& o, const Tensor&, const std::string&) -> Made {
           return std::make_unique<nn::OpLayer>(name, Attrs{o["dim"].get<int64_t>()});
         }});
}

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> out{linear_kind()};
    for (const bool transposed : {false, true})
      for (const int64_t axes : {1, 2}) out.push_back(conv_kind(axes, transposed));
    add_norms(out);
    add_sequence_layers(out);
    add_containers(out);
    add_simple_layers(out);
    for (const OpInfo& op : all_ops())
      if (nn::OpLayer::accepts(op) && std::none_of(out.begin(), out.end(), [&](const LayerKind& k) {
            return k.name == op.name;
          }))
        out.push_back(op_kind(op));
    return out;
  }();
  return kinds;
}

// The value of {"name": value}: the options, or the main one alone.
Spec value_spec(const LayerKind& kind) {
  if (kind.main.empty()) return kind.options;
  Spec main = *kind.options.member(kind.main);
  main.key.clear();
  main.required = false;
  main.fallback.clear();
  const Spec both = Spec::any_of({main, kind.options}, kind.options.doc);
  return main.type == Spec::Type::array ? both : both.short_for(kind.main);
}

// How a layer is written that has to have options.
std::string form_of(const LayerKind& kind) {
  if (!kind.main.empty()) return "{\"" + kind.name + "\": ...}";
  std::string options;
  for (const Spec& option : kind.options.parts)
    if (option.required) options += (options.empty() ? "\"" : ", \"") + option.key + "\": ...";
  return "{\"" + kind.name + "\": {" + options + "}}";
}

// What is wrong with a name that stands for a layer, or "".
std::string complaint_of(const std::string& name, const std::vector<std::string>& bare) {
  if (std::find(bare.begin(), bare.end(), name) != bare.end()) return "";
  std::vector<std::string> names;
  for (const LayerKind& kind : layer_kinds()) names.push_back(kind.name);
  const std::string meant = nearest(name, names);
  for (const LayerKind& kind : layer_kinds())
    if (kind.name == name) return "the layer \"" + name + "\" needs options: " + form_of(kind);
  return "there is no layer \"" + name + "\"" + did_you_mean(name, names) +
         (meant.empty() ? "; `gradus config schema network` lists them" : "");
}

}  // namespace

const Spec& layer_spec() {
  static const Spec spec = [] {
    std::vector<std::string> bare;
    std::vector<Spec> forms(1);
    for (const LayerKind& kind : layer_kinds()) {
      if (std::none_of(kind.options.parts.begin(), kind.options.parts.end(),
                       [](const Spec& option) { return option.required; }))
        bare.push_back(kind.name);
      if (!kind.options.parts.empty())
        forms.push_back(Spec::object(kind.options.doc).with(kind.name, value_spec(kind)));
    }
    forms[0] = Spec::string("a layer that needs no options, by name").one_of(bare);
    forms[0].complaint = [bare](const std::string& name) { return complaint_of(name, bare); };
    return Spec::any_of(forms, "a layer, by name or as {\"name\": options}");
  }();
  return spec;
}

LayerMaker read_layer(const Json& layer) {
  const std::string name = layer.is_string() ? layer.get<std::string>() : layer.begin().key();
  const auto& kinds = layer_kinds();
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& k) { return k.name == name; });
  Json options = Json::object();
  if (layer.is_object()) {
    const Json& value = layer.begin().value();
    if (value.is_object())
      options = value;
    else
      options[kind->main] = value;
  }
  options = check(kind->options, options, "model.layers");
  return [kind, options](const Tensor& probe, const std::string& place) {
    return kind->make(options, probe, place);
  };
}

std::vector<LayerMaker> read_layers(const Json& layers) {
  std::vector<LayerMaker> out;
  for (const Json& layer : layers) out.push_back(read_layer(layer));
  return out;
}

}  // namespace gradus::training
