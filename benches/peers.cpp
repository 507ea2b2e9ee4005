// Starts the processes of peers when they are first asked for, and talks to them over pipes.
#include "benches/peers.hpp"
#include "engine/base/error.hpp"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

using Json = nlohmann::json;

// A child process and its two pipes. It ends when its input does. Libraries under a peer (OpenMP,
// OpenBLAS, MKL) take their number of threads from the environment alone, each its own variable.
class Process {
 public:
  Process(const std::vector<std::string>& command, int threads) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
      fail(ErrorKind::io, "bench", "no pipe");
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const std::string count = std::to_string(threads);
    pid_ = fork();
    if (pid_ == 0) {
      for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
        setenv(name, count.c_str(), 1);
      dup2(in[0], 0);
      dup2(out[1], 1);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
  }
  ~Process() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line as JSON; null if the process has ended.
  Json read() {
    std::string line;
    for (int c; (c = std::fgetc(from_)) != EOF && c != '\n';) line += char(c);
    return line.empty() ? Json() : Json::parse(line, nullptr, false);
  }
  Json ask(const Json& request) {
    const std::string line = request.dump() + "\n";
    std::fwrite(line.data(), 1, line.size(), to_);
    std::fflush(to_);
    return read();
  }

 private:
  pid_t pid_ = -1;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

struct Found {
  std::unique_ptr<Process> process;
  std::string torch, numpy;  // versions
  bool pypi = false;         // 2.x
};

std::string folder() {
  const char* set = std::getenv("GRADUS_BENCHES_DIR");
  return set ? set : GRADUS_BENCHES_DIR;
}

// python3 of the system, and the one that GRADUS_BENCH_PYTHON names or an open venv has.
std::vector<std::string> python_names() {
  std::vector<std::string> names{"/usr/bin/python3"};
  if (const char* other = std::getenv("GRADUS_BENCH_PYTHON"))
    names.emplace_back(other);
  else if (const char* venv = std::getenv("VIRTUAL_ENV"))
    names.push_back(std::string(venv) + "/bin/python");
  return names;
}

// For each number of threads their own processes.
std::vector<Found>& pythons(int threads) {
  static std::map<int, std::vector<Found>> all;
  const bool first = all.empty();
  const auto [place, fresh] = all.try_emplace(threads);
  std::vector<Found>& out = place->second;
  if (!fresh) return out;
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> names = python_names();
  for (const std::string& name : names) {
    auto process = std::make_unique<Process>(
        std::vector<std::string>{name, folder() + "/peer_python.py"}, threads);
    const Json hello = process->read();
    if (!hello.is_object()) {
      if (first) std::printf("peer missing: %s has no numpy\n", name.c_str());
      continue;
    }
    Found f{std::move(process), hello["torch"], hello["numpy"], false};
    f.pypi = !f.torch.empty() && f.torch[0] != '1';
    if (first)
      std::printf("peer: %s, numpy %s, PyTorch %s %s\n", name.c_str(), f.numpy.c_str(),
                  f.torch.empty() ? "missing" : f.torch.c_str(),
                  hello["kernels"].get<std::string>().c_str());
    out.push_back(std::move(f));
  }
  if (first && names.size() == 1)
    std::puts("peer missing: PyPI's PyTorch (GRADUS_BENCH_PYTHON=PYTHON names one that has it)");
  std::fflush(stdout);
  return out;
}

// Those that have a planner.
std::vector<std::unique_ptr<Process>>& planners() {
  static std::vector<std::unique_ptr<Process>> all;
  static bool first = true;
  if (!std::exchange(first, false)) return all;
  std::signal(SIGPIPE, SIG_IGN);
  for (const std::string& name : python_names()) {
    auto process = std::make_unique<Process>(std::vector{name, folder() + "/peer_orders.py"}, 2);
    const Json hello = process->read();
    if (!hello.is_object() || hello["peers"].empty()) continue;
    std::printf("peer: %s, %s\n", name.c_str(), hello["peers"].dump().c_str());
    all.push_back(std::move(process));
  }
  if (all.empty())
    std::puts(
        "peer missing: cotengra, opt_einsum (GRADUS_BENCH_PYTHON=PYTHON names one that has them)");
  std::fflush(stdout);
  return all;
}

Process* libtorch(int threads) {
  static std::map<int, std::unique_ptr<Process>> all;
  const bool first = all.empty();
  const auto [place, fresh] = all.try_emplace(threads);
  if (!fresh) return place->second.get();
  std::signal(SIGPIPE, SIG_IGN);
  const std::string file = GRADUS_BENCH_LIBTORCH;
  if (access(file.c_str(), X_OK) != 0) {
    if (first) std::puts("peer missing: libtorch (libtorch-dev, then target bench_peer_libtorch)");
    return nullptr;
  }
  auto process = std::make_unique<Process>(std::vector{file}, threads);
  const Json hello = process->read();
  if (!hello.is_object()) {
    if (first) std::puts("peer missing: bench_peer_libtorch does not start");
    return nullptr;
  }
  if (first) std::printf("peer: libtorch %s\n", hello["torch"].get<std::string>().c_str());
  place->second = std::move(process);
  return place->second.get();
}

// Says why a peer drops out; nothing if it answers.
bool answers(Process& process, const std::string& name, Json request) {
  request["seconds"] = 0;
  const Json answer = process.ask(request);
  if (answer.is_object() && answer.contains("samples")) return true;
  const std::string why =
      answer.is_object() && answer.contains("error") ? answer["error"] : "it ended";
  std::printf("peer %s left out: %s\n", name.c_str(), why.c_str());
  return false;
}

void add_peer(std::vector<Peer>& peers, Process& process, const std::string& name,
              const Json& request, const Target& target) {
  if (!answers(process, name, request)) return;
  const auto sample = [&process, request](double seconds) {
    Json timed = request;
    timed["seconds"] = seconds;
    const Json answer = process.ask(timed);
    const bool answered = answer.is_object() && answer.contains("samples");
    return answered ? answer["samples"].get<std::vector<double>>() : std::vector<double>();
  };
  peers.push_back({name, sample, target});
}

Json python_request(int threads, const std::string& setup, const std::string& call, double calls) {
  return {{"setup", setup}, {"call", call}, {"threads", threads}, {"calls", calls}};
}

}  // namespace

std::vector<Peer> torch_peers(int threads, const std::string& setup, const std::string& call,
                              const TorchTargets& targets, double calls) {
  std::vector<Peer> peers;
  for (Found& f : pythons(threads))
    if (!f.torch.empty())
      add_peer(peers, *f.process, "PyTorch " + f.torch, python_request(threads, setup, call, calls),
               f.pypi ? targets.pypi : targets.debian);
  return peers;
}

std::vector<Peer> torch_compile_peers(int threads, const std::string& setup,
                                      const std::string& call, Target target, double calls) {
  std::vector<Peer> peers;
  for (Found& f : pythons(threads))
    if (f.pypi)
      add_peer(peers, *f.process, "torch.compile " + f.torch,
               python_request(threads, setup, call, calls), target);
  return peers;
}

std::vector<Peer> numpy_peers(const std::string& setup, const std::string& call, Target target,
                              double calls) {
  std::vector<Peer> peers;
  for (Found& f : pythons(1)) {
    add_peer(peers, *f.process, "numpy " + f.numpy, python_request(1, setup, call, calls), target);
    break;
  }
  return peers;
}

std::vector<Peer> libtorch_peers(int threads, const std::string& work, const Json& numbers,
                                 Target target, double calls) {
  std::vector<Peer> peers;
  if (Process* process = libtorch(threads))
    add_peer(peers, *process, "libtorch C++",
             {{"work", work}, {"numbers", numbers}, {"threads", threads}, {"calls", calls}},
             target);
  return peers;
}

std::vector<PeakBytes> torch_peak_bytes(const std::string& setup, const std::string& call) {
  std::vector<PeakBytes> out;
  for (Found& f : pythons(1)) {
    if (f.torch.empty()) continue;
    Json request = python_request(1, setup, call, 1);
    request["peak"] = true;
    const Json answer = f.process->ask(request);
    if (answer.is_object() && answer.contains("bytes"))
      out.push_back({"PyTorch " + f.torch, answer["bytes"].get<double>()});
    else
      std::printf("peer PyTorch %s left out: %s\n", f.torch.c_str(), answer.dump().c_str());
  }
  return out;
}

std::vector<PeerOrder> peer_orders(const Json& network, double seconds) {
  std::vector<PeerOrder> out;
  for (auto& process : planners()) {
    const Json answer = process->ask({{"inputs", network["inputs"]},
                                      {"output", network["output"]},
                                      {"sizes", network["sizes"]},
                                      {"seconds", seconds}});
    if (!answer.is_object()) {
      std::puts("a peer of orders has ended");
      continue;
    }
    for (const Json& order : answer["orders"])
      if (order.contains("log2_mults"))
        out.push_back({order["peer"], order["log2_mults"], order["seconds"]});
      else
        std::printf("peer %s left out: %s\n", order["peer"].get<std::string>().c_str(),
                    order["error"].get<std::string>().c_str());
  }
  return out;
}

}  // namespace gradus::bench
