// Files, limits and the process around a script; the prompt.
#include "cli/script.hpp"

#include "bindings/lua/script.hpp"
#include "cli/batches.hpp"
#include "cli/experiment.hpp"
#include "cli/lines.hpp"
#include "cli/ops_list.hpp"
#include "cli/session.hpp"
#include "cli/train.hpp"
#include "engine/io/file.hpp"
#include "engine/io/options.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace gradus::cli {

namespace {

constexpr size_t kMemory = size_t(2) << 30;  // in the sandbox, unless --max-memory says another
constexpr double kGrace = 1;                 // seconds for a script to end itself

// Ctrl-C stops a script at its next instruction.
std::atomic<lua::Script*> running = nullptr;
class Interruptible {
 public:
  explicit Interruptible(lua::Script& script) {
    running = &script;
    struct sigaction action {};
    action.sa_flags = SA_RESETHAND;  // a second one ends the process, whatever it is in
    action.sa_handler = [](int) {
      if (lua::Script* const s = running) s->interrupt();
    };
    ::sigaction(SIGINT, &action, &before_);
  }
  ~Interruptible() {
    ::sigaction(SIGINT, &before_, nullptr);
    running = nullptr;
  }

 private:
  struct sigaction before_ {};
};

// A script's error: the traceback on lines of its own, the error itself as every other.
template <class F>
void with_traceback(std::ostream& err, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    const size_t end = e.message().find("\nstack traceback:");
    if (end == std::string::npos) throw;
    err << e.message().substr(end + 1) << "\n";
    fail(e.kind(), e.op(), e.message().substr(0, end));
  }
}

// gradus.data{name = "digits", train = 600, test = 100} or {idx = DIR}: inputs (pixels in [0, 1],
// or tokens) and labels, from 0, of both parts.
lua::Answer data_door(const std::string& json, Device& device) {
  Json config{
      {"experiment", "network"}, {"data", Json::parse(json)}, {"model", {{"layers", {"relu"}}}}};
  const Dataset data =
      load_data(read_experiment(check(network_spec(), config, "gradus.data"), "gradus.data"));
  lua::Answer out;
  const auto add = [&](const std::string& name, const Samples& set) {
    std::vector<int64_t> all(static_cast<size_t>(set.count));
    std::iota(all.begin(), all.end(), int64_t(0));
    const Batches::Batch batch = Batches(data, set, device).fill(all);
    out.tensors.emplace_back(name + "_inputs", batch.inputs);
    out.tensors.emplace_back(name + "_labels", batch.labels);
  };
  add("train", data.train);
  add("test", data.test);
  out.json =
      Json{{"name", data.name}, {"classes", data.classes}, {"rows", data.rows}, {"cols", data.cols}}
          .dump();
  return out;
}

// A device of an experiment may name code to load, or another limit of memory: not in the sandbox.
void check_harmless(const TrainOptions& o) {
  const Json config = layered_network(o.config, o.set).resolve();
  const auto plain = [](const std::string& s) {
    return s.find_first_of("{/.") == std::string::npos;
  };
  const Json device = config.value("device", Json(""));
  if (!plain(o.device) ||
      !(device.is_number() || (device.is_string() && plain(device.get<std::string>()))))
    fail(ErrorKind::value, "experiment",
         "in the sandbox a device is a name such as cuda:0; run the script with --unsafe");
}

// gradus.experiment(FILE) or gradus.experiment{config = FILE, set = {"epochs=1"}, out = DIR}:
// trains as `gradus train` does, and gives its result.
lua::Answer experiment_door(const std::string& json, bool sandboxed, std::ostream& err) {
  const Json given = Json::parse(json);
  TrainOptions o;
  o.json = true;
  if (given.is_string())
    o.config = given.get<std::string>();
  else
    for (const auto& [key, value] : given.items())
      if (key == "config" && value.is_string())
        o.config = value.get<std::string>();
      else if (key == "out" && value.is_string())
        o.out = value.get<std::string>();
      else if (key == "device" && value.is_string())
        o.device = value.get<std::string>();
      else if (key == "set" && value.is_array())
        o.set = value.get<std::vector<std::string>>();
      else
        fail(ErrorKind::value, "experiment", "there is no option \"", key,
             "\" of that kind; config, out, device (texts) and set (texts)");
  if (o.config.empty()) fail(ErrorKind::value, "experiment", "expected the file of a config");
  if (sandboxed) check_harmless(o);
  std::ostringstream lines;
  run_train(o, lines, err);
  lua::Answer out;
  std::istringstream in(lines.str());
  for (std::string line; std::getline(in, line);)
    if (Json event = Json::parse(line); event["event"] == "result") out.json = line;
  return out;
}

void add_doors(lua::ScriptOptions& options, std::ostream& err) {
  const bool sandboxed = !options.unsafe;
  Device& device = *options.device;
  options.doors["data"] = [&device](const std::string& json) { return data_door(json, device); };
  options.network = [](const std::string& layers, Tensor probe) {
    const Json checked =
        check(Spec::array(layer_spec(), "layers"), Json::parse(layers), "gradus.nn");
    return build_layers(read_layers(checked), probe, "layers");
  };
  options.doors["experiment"] = [&err, sandboxed](const std::string& json) {
    return experiment_door(json, sandboxed, err);
  };
}

lua::ScriptOptions options_of(const ScriptRun& o) {
  lua::ScriptOptions s;
  s.unsafe = o.unsafe;
  s.limits = {o.memory.empty() ? (o.unsafe ? 0 : kMemory) : byte_size(Json(o.memory)), o.seconds,
              uint64_t(o.instructions)};
  return s;
}

// Runs `work` in a child process, which is killed some time after `seconds`. The child's code.
template <class F>
int in_process(double seconds, const std::string& name, std::ostream& out, std::ostream& err,
               F&& work) {
  out.flush();
  err.flush();
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would leave no exit code to wait for
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail(ErrorKind::io, "script", "no process for it: ", std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a limit must not outlive who enforces it
    if (::getppid() != parent) ::_exit(1);
    return work();
  }
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;  // the child says what an interrupt means
  ::sigaction(SIGINT, &ignore, &before);
  const auto begin = std::chrono::steady_clock::now();
  int status = 0;
  bool killed = false;
  pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, WNOHANG)) == 0) {
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - begin;
    if (!killed && past.count() > seconds + kGrace) {
      ::kill(child, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(past.count() < 0.05 ? 1 : 10));
  }
  ::sigaction(SIGINT, &before, nullptr);
  if (ended < 0) fail(ErrorKind::io, "script", "its process is lost: ", std::strerror(errno));
  if (killed)
    fail(ErrorKind::numeric, "", name, ": ended after ", seconds,
         " seconds (--max-seconds), within a function that does not return");
  if (WIFSIGNALED(status))
    fail(ErrorKind::internal, "script", "its process died of signal ", WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace

int run_script(const ScriptRun& o, std::ostream& out, std::ostream& err) {
  if (!o.code && o.arguments.empty())
    fail(ErrorKind::config, "script",
         "needs a FILE.lua (- for standard input) or -e CODE; see gradus script --help");
  if (!(o.seconds >= 0) || o.instructions < 0) fail(ErrorKind::config, "script", "a limit below 0");
  const std::string file = o.code ? "" : o.arguments[0];
  const std::string name = o.code ? "-e" : file == "-" ? "stdin" : file;
  const std::string text = o.code        ? *o.code
                           : file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                         : read_file(file);
  lua::ScriptOptions options = options_of(o);
  options.arguments.assign(o.arguments.begin() + (o.code ? 0 : 1), o.arguments.end());
  options.folder = o.code || file == "-" ? "." : folder_of(file);
  options.out = &out;
  const auto work = [&] {
    const Session session(o.device, false, err);
    options.device = &session.device();
    add_doors(options, err);
    lua::Script script(options);
    const Interruptible interruptible(script);
    with_traceback(err, [&] { o.check ? script.check(text, name) : script.run(text, name); });
    return 0;
  };
  return o.seconds > 0 && !o.check ? in_process(o.seconds, name, out, err, work) : work();
}

// ---- the prompt

int run_repl(const ReplOptions& o, std::ostream& out, std::ostream& err) {
  const Session session(o.device, false, err);
  lua::ScriptOptions options;
  options.unsafe = o.unsafe;
  options.limits.memory = o.unsafe ? 0 : kMemory;
  options.device = &session.device();
  options.out = &out;
  add_doors(options, err);
  lua::Script script(options);
  Lines lines("history", [&](const std::string& begun) { return script.complete(begun); });
  if (lines.person())
    out << "gradus on " << session.device().name()
        << "; x = gradus.randn(2, 3), x:sum(), :help NAME, :quit" << std::endl;
  std::string text, line;
  while (lines.next(text.empty() ? "> " : ".. ", line)) {
    if (text.empty() && line == ":quit") break;
    if (text.empty() && line.compare(0, 5, ":help") == 0) {
      try {
        OpsOptions ops;
        ops.name = line.size() > 6 ? line.substr(6) : "";
        run_ops(ops, out, err);
      } catch (const Error& e) {
        err << e.what() << "\n";
      }
      continue;
    }
    text += (text.empty() ? "" : "\n") + line;
    try {
      const Interruptible interruptible(script);
      with_traceback(err, [&] {
        if (script.run_line(text)) text.clear();
      });
    } catch (const Error& e) {
      err << e.what() << "\n";
      text.clear();
    }
  }
  if (!text.empty()) fail(ErrorKind::config, "repl", "the last input is unfinished: ", text);
  return 0;
}

}  // namespace gradus::cli
