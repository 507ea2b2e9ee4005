// Layers put in a row, each made for the shape that comes out of the one before it.
#include "ops/train/layers.hpp"

#include <cmath>

namespace gradus::inline v1::training {

namespace {
// Images come in as one row of pixels; what works on rows and columns says how to get them.
std::string unflatten_hint(const Error& e, const Tensor& probe) {
  if (e.kind() != ErrorKind::shape || !e.op().ends_with("2d") || probe.rank() != 2) return "";
  for (const int64_t channels : {1, 3}) {
    const int64_t pixels = probe.size(1) / channels, side = std::llround(std::sqrt(double(pixels)));
    if (side * side * channels == probe.size(1))
      return join("; put {\"unflatten\": [", channels, ", ", side, ", ", side, "]} before it");
  }
  return join("; put {\"unflatten\": [channels, rows, cols]}, whose product is ", probe.size(1),
              ", before it");
}
}  // namespace

nn::Sequential build_layers(const std::vector<LayerMaker>& makers, Tensor& probe,
                            const std::string& place) {
  const NoGrad no_grad;
  nn::Sequential network(place);
  for (size_t i = 0; i < makers.size(); ++i) {
    const std::string here = join(place, "[", i, "]");
    try {
      network.add(makers[i](probe, here));
      nn::Module& layer = network.layer(i);
      // Evaluation draws no random numbers and moves no statistics.
      layer.set_training(false);
      probe = layer.forward(probe);
      layer.set_training(true);
    } catch (const Error& e) {
      const std::string hint = unflatten_hint(e, probe);
      const bool placed = e.message().find("layers[") != std::string::npos;
      if (placed && hint.empty()) throw;
      fail(e.kind(), e.op(), e.message(), placed ? "" : "; in " + here, hint);
    }
  }
  return network;
}

}  // namespace gradus::training
