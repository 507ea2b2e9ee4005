// The option table of a device JSON, the layering of its sources, and opening with fallback.
#include "engine/config/device_config.hpp"

#include "engine/device/device.hpp"
#include "engine/files/file.hpp"
#include "engine/config/layered.hpp"
#include "engine/config/loader.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace gradus::inline v1 {
namespace {

constexpr int kMaxFiles = 8;  // device JSONs that name one another

// Words that are device kinds even where their module is not installed.
constexpr const char* kKinds[] = {"cpu", "reference", "refmod", "cuda", "hip", "emu", "torch"};
// Libraries of a CPU device.
constexpr const char* kOfCpu[] = {"lapack", "blas"};

bool ends_with_json(const std::string& s) {
  return s.size() > 5 && s.compare(s.size() - 5, 5, ".json") == 0;
}

bool whole_number(const std::string& s, int64_t& n) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  return error == std::errc() && end == s.data() + s.size() && !s.empty();
}

std::string absolute(const std::string& path) {
  if (!path.empty() && path[0] == '/') return path;
  char* here = ::getcwd(nullptr, 0);
  const std::string folder = here ? here : "";
  std::free(here);
  return path_in(folder, path);
}

// Where a device value was found, and what that source is allowed to do.
struct Source {
  std::string origin;   // for messages
  std::string folder;   // paths are relative to it
  bool trusted = true;  // named by the user, so that its modules may be loaded
};

class Expander {
 public:
  explicit Expander(std::vector<std::string>* warnings) : warnings_(warnings) {}

  // Any way to write a device value as an object of the keys that are given: files are read in,
  // paths made absolute, names left as they are.
  Json object(const Json& value, const Source& source, int depth = 0) const {
    if (depth > kMaxFiles)
      fail(ErrorKind::config, source.origin, "device files name one another in a circle");
    Json own = check(device_spec(), value, source.origin);
    if (own.is_string()) return text(own.get<std::string>(), source, depth);
    if (own.is_number()) return {{"device", own.dump()}};
    modules(own, source);
    if (own.contains("tuning") && own["tuning"].is_string())
      own["tuning"] = absolute(path_in(source.folder, own["tuning"].get<std::string>()));
    libraries(own, source);
    if (!own.contains("device")) return own;
    Json base = object(own["device"], source, depth + 1);
    own.erase("device");
    base.update(own);
    return base;
  }

 private:
  Json text(const std::string& typed, const Source& source, int depth) const {
    const size_t start = typed.find_first_not_of(" \t");
    if (start != std::string::npos && typed[start] == '{')
      return object(parse_json(typed, source.origin), source, depth + 1);
    if (!ends_with_json(typed)) return {{"device", typed}};
    const std::string path = path_in(source.folder, typed);
    return object(read_config(path), {path, folder_of(path), source.trusted}, depth + 1);
  }
  void ignore(const std::string& key, Json& object, const char* name, const Source& source) const {
    object.erase(name);
    if (warnings_)
      warnings_->push_back("gradus: " + source.origin + ": \"" + key +
                           "\" is ignored in a file that was merely found; name the "
                           "file with --device to load code from it");
  }
  void modules(Json& own, const Source& source) const {
    if (!own.contains("modules")) return;
    if (!source.trusted) return ignore("modules", own, "modules", source);
    for (Json& m : own["modules"]) m = absolute(path_in(source.folder, m.get<std::string>()));
  }
  void libraries(Json& own, const Source& source) const {
    if (!own.contains("libraries")) return;
    Json& all = own["libraries"];
    for (const char* name : {"gemm", "tensor", "solver"})
      if (all.contains(name) && all[name] != "auto")
        library(all, name, source, "\"auto\", \"off\"");
    for (const char* name : kOfCpu)
      if (all.contains(name)) library(all, name, source, "\"off\"");
    if (all.contains("torch") && all["torch"] != "auto") {
      if (all["torch"] == "off")
        fail(ErrorKind::config, source.origin,
             "libraries.torch: a device torch is nothing without it; write \"auto\" or a path");
      library(all, "torch", source, "\"auto\"");
    }
  }
  void library(Json& all, const char* name, const Source& source, const char* words) const {
    if (all[name] == "off") return;
    const std::string key = std::string("libraries.") + name, path = all[name];
    const bool has_folder = path.find('/') != std::string::npos;
    if (!has_folder && path.find(".so") == std::string::npos)
      fail(ErrorKind::config, source.origin, key, ": \"", path, "\" is no path; write ", words,
           " or the path of a shared library");
    if (!source.trusted) return ignore(key, all, name, source);
    // The system's loader finds those of a CPU by their names alone.
    if (has_folder ||
        std::find(std::begin(kOfCpu), std::end(kOfCpu), std::string(name)) == std::end(kOfCpu))
      all[name] = absolute(path_in(source.folder, path));
  }

  std::vector<std::string>* warnings_;
};

// Every kind that can be meant: the usual words, what is loaded, what lies in the module folders.
std::vector<std::string> possible_kinds(const std::vector<std::string>& modules) {
  std::vector<std::string> out(std::begin(kKinds), std::end(kKinds));
  for (const KnownKind& k : known_kinds()) out.push_back(k.kind);
  for (const std::string& k : module_kinds()) out.push_back(k);
  for (const std::string& m : modules)
    if (!module_kind(m).empty()) out.push_back(module_kind(m));
  return out;
}

void check_name(const DeviceConfig& config) {
  const std::string& name = config.device;
  int64_t number = 0;
  if (name == "auto" || whole_number(name, number)) return;
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  std::vector<std::string> kinds = possible_kinds(config.modules);
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    kinds.push_back("auto");
    fail(ErrorKind::config, config.origin, "device: unknown device \"", name, "\"",
         nearest(kind, kinds).empty()
             ? "; write auto, cpu, reference, cuda:N, hip:N, emu:N, a number, or a .json file"
             : did_you_mean(kind, kinds));
  }
  const std::string index = colon == std::string::npos ? "0" : name.substr(colon + 1);
  if (!whole_number(index, number) || number < 0 || number > 9999 || index[0] == '-')
    fail(ErrorKind::config, config.origin, "device: \"", index, "\" in \"", name,
         "\" is not a device number; write \"", kind, "\" or \"", kind, ":0\"");
}

void check_sizes(const DeviceConfig& c, const std::string& origin) {
  const auto at_most = [&](const char* key, size_t most) {
    if (c.memory_initial > most)
      fail(ErrorKind::config, origin, "memory_initial (", uint64_t(c.memory_initial),
           " bytes) is more than ", key, " (", uint64_t(most), ")");
  };
  if (c.memory_limit > 0) at_most("memory_limit", c.memory_limit);
  if (c.memory_cache) at_most("memory_cache", *c.memory_cache);
}

DeviceConfig from_layers(const Layered& layers) {
  const Json j = layers.resolve();
  DeviceConfig c;
  if (j.contains("device")) {
    c.device = j["device"].get<std::string>();
    c.origin = layers.origin("device");
  }
  if (j.contains("fallback"))
    c.fallback =
        j["fallback"] == "cpu" ? DeviceConfig::Fallback::cpu : DeviceConfig::Fallback::error;
  if (j.contains("modules")) c.modules = j["modules"].get<std::vector<std::string>>();
  c.threads = j.value("threads", c.threads);
  c.isa = j.value("isa", c.isa);
  if (j.contains("memory_limit")) c.memory_limit = byte_size(j["memory_limit"]);
  if (j.contains("memory_cache")) c.memory_cache = byte_size(j["memory_cache"]);
  if (j.contains("memory_initial")) c.memory_initial = byte_size(j["memory_initial"]);
  if (j.contains("precision")) c.tf32 = j["precision"].value("tf32", c.tf32);
  c.sync = j.value("sync", c.sync);
  if (j.contains("libraries")) {
    c.gemm_library = j["libraries"].value("gemm", c.gemm_library);
    c.tensor_library = j["libraries"].value("tensor", c.tensor_library);
    c.solver_library = j["libraries"].value("solver", c.solver_library);
    c.lapack_library = j["libraries"].value("lapack", c.lapack_library);
    c.blas_library = j["libraries"].value("blas", c.blas_library);
    c.torch_library = j["libraries"].value("torch", c.torch_library);
  }
  using Graph = DeviceConfig::Graph;
  if (j.contains("graph"))
    c.graph = j["graph"] == "force" ? Graph::force : j["graph"] == true ? Graph::on : Graph::off;
  if (j.contains("tuning")) {
    c.tuning = j["tuning"] != false;
    if (j["tuning"].is_string()) c.tuning_file = j["tuning"].get<std::string>();
  }
  check_name(c);
  if (!c.isa.empty() && c.device == "reference")
    fail(ErrorKind::config, layers.origin("isa"),
         "isa: the device reference has no instruction sets; \"device\": \"cpu\" has");
  if (c.device == "reference")
    for (const auto& [key, file] :
         {std::pair("lapack", c.lapack_library), std::pair("blas", c.blas_library)})
      if (file != "off")
        fail(ErrorKind::config, layers.origin(join("libraries.", key)), "libraries.", key,
             ": the device reference has its own algorithms alone; \"device\": \"cpu\" takes a ",
             std::string(key) == "lapack" ? "LAPACK" : "BLAS");
  if (c.memory_initial > 0) check_sizes(c, layers.origin("memory_initial"));
  return c;
}

std::string open_options(const DeviceConfig& config) {
  Json j = Json::object();
  if (config.threads > 0) j["threads"] = config.threads;
  if (!config.isa.empty()) j["isa"] = config.isa;
  if (config.tf32) j["tf32"] = true;
  if (config.sync) j["sync"] = true;
  if (config.graph == DeviceConfig::Graph::off) j["graph"] = false;
  if (config.graph == DeviceConfig::Graph::force) j["graph"] = "force";
  if (config.gemm_library != "auto") j["libraries"]["gemm"] = config.gemm_library;
  if (config.tensor_library != "auto") j["libraries"]["tensor"] = config.tensor_library;
  if (config.solver_library != "auto") j["libraries"]["solver"] = config.solver_library;
  if (config.lapack_library != "off") j["libraries"]["lapack"] = config.lapack_library;
  if (config.blas_library != "off") j["libraries"]["blas"] = config.blas_library;
  if (config.torch_library != "auto") j["libraries"]["torch"] = config.torch_library;
  return j.dump();
}

bool is_known(const std::string& kind) {
  const auto kinds = known_kinds();
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const KnownKind& k) { return k.kind == kind; });
}

// Opens what the config names, or throws.
Device& open_named(const DeviceConfig& config, std::string& notice) {
  const std::string options = open_options(config);
  std::vector<LoadReport> reports = load_modules({}, config.modules);
  std::string refused;
  for (const LoadReport& r : reports)
    if (!r.loaded) refused += (refused.empty() ? "" : "; ") + r.message;
  if (!refused.empty()) notice = "gradus: a module was not loaded: " + refused;

  int64_t number = 0;
  if (config.device == "auto") {
    load_modules(module_kinds());
    return open_best_device(options);
  }
  const bool numbered = whole_number(config.device, number);
  if (numbered && number >= 0) load_modules(module_kinds());
  const std::string name = numbered ? device_of_number(number, known_kinds()) : config.device;
  const std::string kind = name.substr(0, name.find(':'));
  if (!is_known(kind)) {
    for (const LoadReport& r : reports)
      if (!r.loaded && r.kind == kind) fail(ErrorKind::device, "", r.message);
    for (const LoadReport& r : load_modules({kind}, {}))
      if (!r.loaded) fail(ErrorKind::device, "", r.message);
  }
  return open_device(name, options);
}

}  // namespace

std::string device_of_number(int64_t n, std::vector<KnownKind> kinds) {
  if (n < 0) return "cpu";
  int cpu_score = 0;
  for (const KnownKind& k : kinds)
    if (k.kind == "cpu") cpu_score = k.score;
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const KnownKind& a, const KnownKind& b) { return a.score > b.score; });
  std::string found;
  int64_t left = n;
  for (const KnownKind& k : kinds) {
    if (k.score <= cpu_score) continue;
    if (left < k.devices) return join(k.kind, ":", left);
    left -= k.devices;
    found += join(found.empty() ? "" : ", ", k.kind, ": ",
                  k.devices > 0 ? join(k.devices, " found") : k.missing);
  }
  fail(ErrorKind::device, "", "no GPU number ", n, " here (",
       found.empty() ? "no GPU module was found" : found, ")");
}

Spec device_object_spec() {
  return Spec::object("a device and how it is used")
      .maybe("device",
             Spec::any_of({Spec::string("name or .json file"), Spec::integer("number")},
                          "auto (the default), cpu, reference, refmod, cuda:N, hip:N, "
                          "emu:N, torch, a number (below 0 the CPU, N the N-th GPU), or a "
                          ".json file with this object"))
      .maybe("fallback",
             Spec::string("what happens when the device is not there: cpu (say so and "
                          "go on, the default) or error; check, tune and audit --against "
                          "judge a device, and always take error")
                 .one_of({"cpu", "error"}))
      .maybe("modules", Spec::array(Spec::string("module file"),
                                    "device modules to load, relative to this file"))
      .maybe("threads", Spec::integer("threads of a CPU device, by default one per core")
                            .at_least(1)
                            .at_most(4096))
      .maybe("isa", Spec::string("instruction set of a CPU device: sse2, avx2 or avx512 (on ARM "
                                 "neon64); by default GRADUS_ISA, else the best that the processor "
                                 "has"))
      .maybe("memory_limit",
             byte_size_spec("hard limit of the device's memory; 0 (the default) is none"))
      .maybe("memory_cache",
             byte_size_spec("how much freed memory is kept for reuse, at most; by default so much "
                            "that a quarter more is held than was in use at once lately"))
      .maybe("memory_initial",
             byte_size_spec("memory that is asked of the device when it is opened, "
                            "and kept; 0 by default"))
      .maybe("precision", Spec::object("how exactly a GPU multiplies")
                              .maybe("tf32", Spec::boolean("f32 products in tf32; false by "
                                                           "default")))
      .maybe(
          "libraries",
          Spec::object("a GPU vendor's libraries, for large contractions and for linalg: auto "
                       "(the default, where it is found), off, or the path of one, relative to "
                       "this file; and a LAPACK, a BLAS and libtorch")
              .maybe("gemm", Spec::string("of matrix products: cuBLASLt"))
              .maybe("tensor", Spec::string("of contractions: cuTENSOR 2 or hipTensor 2"))
              .maybe("solver", Spec::string("of linalg on a GPU, but for small matrices: cuSOLVER "
                                            "or hipSOLVER"))
              .maybe("blas",
                     Spec::string("by which a CPU device does large products of matrices: off "
                                  "(the default), a path, relative to this file, or a name that "
                                  "the system's loader finds, such as libblas.so.3"))
              .maybe("lapack",
                     Spec::string("by which a CPU device does linalg of matrices above 32: off "
                                  "(the default), a path, relative to this file, or a name that "
                                  "the system's loader finds, such as liblapack.so.3"))
              .maybe("torch",
                     Spec::string("where the device torch has libtorch from, 2.11 or newer: auto "
                                  "(the default: the one that the process has already, else "
                                  "LIBTORCH), or its file or folder, relative to this file")))
      .maybe("graph", Spec::any_of({Spec::boolean(""), Spec::string("").one_of({"force"})},
                                   "repeat captured steps as a graph of the GPU's own; true by "
                                   "default, which HIP takes for false unless it says \"force\""))
      .maybe("sync", Spec::boolean("wait after each call of a GPU, so that an error is said where "
                                   "it happened; false by default"))
      .maybe("tuning",
             Spec::any_of({Spec::boolean(""), Spec::string("tuning file")},
                          "a GPU contracts in the ways that `gradus tune` found to be the "
                          "fastest; true by default, a file instead of the default one, "
                          "or false"));
}

Spec device_spec() {
  return Spec::any_of(
             {Spec::string("name or .json file"), Spec::integer("number"), device_object_spec()},
             "the device: a name, a number, a .json file, or the object itself")
      .short_for("device");
}

DeviceConfig parse_device_config(const std::string& text, const std::string& origin) {
  Layered layers(device_object_spec());
  layers.add_value(Expander(nullptr).object(text, {origin, "."}), origin);
  return from_layers(layers);
}

DeviceConfig parse_device_config(const Json& value, const std::string& file) {
  Layered layers(device_object_spec());
  layers.add_value(Expander(nullptr).object(value, {file, folder_of(file)}), file);
  return from_layers(layers);
}

void check_found_device(const Json& value, const std::string& file) {
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == ':';
  });
  if (name.empty() || !plain)
    fail(ErrorKind::io, file, "device: expected a name such as cpu or cuda:1, got ", shown(value),
         "; what loads code stands in a file that is named with --device");
  try {
    DeviceConfig config;
    config.device = name;
    config.origin = file;
    check_name(config);
  } catch (const Error& e) {
    fail(ErrorKind::io, e.op(), e.message());
  }
}

DeviceConfig resolve_device_config(const DeviceSources& sources,
                                   std::vector<std::string>* warnings) {
  const Expander expander(warnings);
  Layered layers(device_object_spec());
  const std::string found = path_in(sources.folder, "gradus.json");
  struct stat info;
  if (::stat(found.c_str(), &info) == 0)
    layers.add_value(expander.object(read_config(found), {found, folder_of(found), false}), found);
  if (sources.experiment) {
    const std::string& file = sources.experiment_file;
    layers.add_value(expander.object(*sources.experiment, {file, folder_of(file)}), file);
  }
  if (!sources.environment.empty())
    layers.add_value(expander.object(sources.environment, {"GRADUS_DEVICE", "."}), "GRADUS_DEVICE");
  if (!sources.option.empty())
    layers.add_value(expander.object(sources.option, {"--device", "."}), "--device");
  return from_layers(layers);
}

DeviceConfig resolve_device_config(const std::string& option, const Json* experiment,
                                   const std::string& experiment_file,
                                   std::vector<std::string>* warnings) {
  const char* environment = std::getenv("GRADUS_DEVICE");
  return resolve_device_config(
      {option, environment ? environment : "", experiment, experiment_file, "."}, warnings);
}

OpenedDevice open_configured(const DeviceConfig& config) {
  OpenedDevice out{nullptr, ""};
  try {
    out.device = &open_named(config, out.notice);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::device) throw;
    std::string reason = e.op() == "device" ? e.message() : e.what();
    const std::string kind = config.device.substr(0, config.device.find(':'));
    for (const std::string& name : {kind + ": ", config.device + ": "})
      if (e.op() == "device" && reason.compare(0, name.size(), name) == 0)
        reason.erase(0, name.size());
    const std::string said = join("device \"", config.device, "\" is not available: ", reason);
    if (config.fallback == DeviceConfig::Fallback::error || config.device == "cpu")
      fail(ErrorKind::device, "", said, said.back() == '.' ? " " : "; ",
           "`gradus devices` lists what is there");
    DeviceConfig cpu = config;
    cpu.tf32 = false;
    out.device = &open_device("cpu", open_options(cpu));
    out.notice = join("gradus: ", said, said.back() == '.' ? "" : ".",
                      " Using cpu. Set \"fallback\": \"error\" to fail instead.");
  }
  const auto named = [](const std::string& library) { return library.starts_with('/'); };
  const bool names =
      named(config.gemm_library) || named(config.tensor_library) || named(config.solver_library);
  if (names && !out.device->lacks().empty()) {
    const std::string said = join(out.device->name(), ": ", out.device->lacks());
    if (config.fallback == DeviceConfig::Fallback::error) fail(ErrorKind::device, "", said);
    out.notice +=
        join(out.notice.empty() ? "" : "\n", "gradus: ", said,
             ". The device goes on without it. Set \"fallback\": \"error\" to fail instead.");
  }
  Pool& pool = out.device->pool();
  if (config.memory_limit > 0) pool.set_limit(config.memory_limit);
  if (config.memory_cache) pool.set_cache_limit(*config.memory_cache);
  const CurrentOp now("memory_initial");
  pool.reserve(config.memory_initial);
  return out;
}

}  // namespace gradus
