// libtorch as a peer in a process of its own; the protocol is that of ../peer_python.py, but a work
// has a name and numbers: "op", "backward", "matmul", "mlp", "lenet".
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

namespace {

using Json = nlohmann::json;
using torch::Tensor;

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

std::function<void()> op(const std::string& name, bool recorded) {
  const Tensor a = torch::rand({16}, torch::requires_grad(recorded));
  const Tensor b = torch::rand({16}, torch::requires_grad(recorded));
  if (name == "add") return [=] { a + b; };
  if (name == "mul") return [=] { a* b; };
  if (name == "relu") return [=] { torch::relu(a); };
  if (name == "exp") return [=] { torch::exp(a); };
  if (name == "sum") return [=] { a.sum(); };
  if (name == "dot") return [=] { a.dot(b); };
  throw std::runtime_error("no op " + name);
}

std::function<void()> backward(const std::string& name, int nodes) {
  const Tensor c = torch::full({16}, 1.001), g = torch::ones({16});
  const Tensor x = torch::rand({16}, torch::requires_grad());
  Tensor y = x;
  for (int i = 0; i < nodes; ++i) y = name == "mul" ? y * c : torch::sigmoid(y);
  return [=] { torch::autograd::grad({y}, {x}, {g}, true); };
}

template <class Network, class Loss>
std::function<void()> training(Network network, Tensor x, Loss loss_of) {
  auto adam =
      std::make_shared<torch::optim::Adam>(network->parameters(), torch::optim::AdamOptions(1e-6));
  return [=]() mutable {
    adam->zero_grad();
    loss_of(network->forward(x)).backward();
    adam->step();
  };
}

std::function<void()> mlp(const std::vector<int64_t>& sizes, int64_t batch,
                          const std::string& loss) {
  torch::nn::Sequential network;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (i > 0) network->push_back(torch::nn::ReLU());
    network->push_back(torch::nn::Linear(sizes[i], sizes[i + 1]));
  }
  const Tensor x = torch::rand({batch, sizes.front()});
  if (loss == "mse") {
    const Tensor y = torch::rand({batch, sizes.back()});
    return training(network, x, [y](const Tensor& out) { return torch::mse_loss(out, y); });
  }
  const Tensor y = torch::randint(0, sizes.back(), {batch}, torch::kLong);
  return training(network, x, [y](const Tensor& out) { return torch::cross_entropy_loss(out, y); });
}

std::function<void()> lenet(int64_t batch) {
  using namespace torch::nn;
  Sequential network(Conv2d(Conv2dOptions(1, 6, 5).padding(2)), ReLU(), MaxPool2d(2),
                     Conv2d(Conv2dOptions(6, 16, 5)), ReLU(), MaxPool2d(2), Flatten(),
                     Linear(400, 120), ReLU(), Linear(120, 84), ReLU(), Linear(84, 10));
  const Tensor y = torch::randint(0, 10, {batch}, torch::kLong);
  return training(network, torch::rand({batch, 1, 28, 28}),
                  [y](const Tensor& out) { return torch::cross_entropy_loss(out, y); });
}

std::function<void()> matmul(int64_t m, int64_t n, int64_t k, bool single) {
  const auto dtype = single ? torch::kFloat : torch::kDouble;
  const Tensor a = torch::rand({m, k}, dtype), b = torch::rand({k, n}, dtype);
  return [=] { torch::mm(a, b); };
}

std::function<void()> statement(const std::string& work, const Json& n) {
  if (work == "op") return op(n.at("name"), n.at("recorded"));
  if (work == "backward") return backward(n.at("name"), n.at("nodes"));
  if (work == "mlp") return mlp(n.at("sizes"), n.at("batch"), n.at("loss"));
  if (work == "lenet") return lenet(n.at("batch"));
  if (work == "matmul") return matmul(n.at("m"), n.at("n"), n.at("k"), n.at("f32"));
  throw std::runtime_error("no work " + work);
}

}  // namespace

int main() {
  std::cout << Json{{"torch", TORCH_VERSION}} << std::endl;
  std::string line, kept;
  std::function<void()> call;
  int64_t bunch = 0;  // short calls are timed together
  double one = 0;
  while (std::getline(std::cin, line)) {
    const Json request = Json::parse(line);
    try {
      torch::set_num_threads(request.at("threads"));
      const std::string asked = request.at("work").get<std::string>() +
                                request.at("numbers").dump() + request.at("threads").dump();
      if (asked != kept) {
        call = statement(request.at("work"), request.at("numbers"));
        kept = asked;
        bunch = 0;
      }
      if (bunch == 0 || one < 0.02) call();
      if (bunch == 0) {
        const double start = seconds();
        call();
        one = seconds() - start;
        bunch = std::clamp<int64_t>(int64_t(1e-3 / std::max(one, 1e-9)), 1, 1000000);
      }
      std::vector<double> samples;
      double now = seconds();
      const double end = now + request.at("seconds").get<double>();
      do {
        for (int64_t i = 0; i < bunch; ++i) call();
        const double after = seconds();
        samples.push_back((after - now) / double(bunch) / request.at("calls").get<double>());
        now = after;
      } while (now < end);
      std::cout << Json{{"samples", samples}} << std::endl;
    } catch (const std::exception& e) {
      kept.clear();
      std::cout << Json{{"error", std::string(e.what()).substr(0, 300)}} << std::endl;
    }
  }
}
