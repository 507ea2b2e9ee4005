// Loads every module that can be found, asks each registered table, and keeps the loader's reasons.
#include "cli/frame/devices.hpp"
#include "cli/frame/events.hpp"
#include "cli/frame/terminal.hpp"

#include "engine/config/device_config.hpp"
#include "engine/config/tuning.hpp"
#include "engine/device/device.hpp"
#include "engine/base/error.hpp"
#include "engine/config/loader.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

using Json = nlohmann::json;

// Kinds that people may ask for, whether or not a module for them is installed.
const std::vector<std::string> kExpected{"cpu", "reference", "refmod", "cuda",
                                         "hip", "emu",       "torch"};

std::string bytes_text(int64_t bytes) {
  if (bytes < 0) return "unknown";
  return join(double((bytes * 10) >> 30) / 10, " GiB");
}

std::string several(int64_t n, const char* what) { return join(n, " ", what, n == 1 ? "" : "s"); }

Json missing(const std::string& kind, const std::string& why) {
  return {{"event", "device"}, {"name", kind}, {"kind", kind}, {"present", false}, {"why", why}};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

Json present(Device& device, const KnownKind& kind) {
  const gd_info info = device.info();
  return {{"event", "device"},
          {"name", device.name()},
          {"kind", kind.kind},
          {"present", true},
          {"hardware", info.name},
          {"isa", info.arch},
          {"threads", info.units},
          {"lanes", info.wave},
          {"memory_bytes", info.total_bytes},
          {"free_bytes", info.free_bytes},
          {"libraries", lines(device.libraries())},
          {"source", kind.source},
          {"build", kind.build},
          {"score", kind.score}};
}

// What a run without --device would take; the default where that is wrong, of which search() tells.
DeviceConfig found_config() {
  try {
    return resolve_device_config("");
  } catch (const Error&) {
    return {};
  }
}

// What names a library in its config is opened as a run opens it, to say which library that is.
Device& open_listed(const std::string& name, DeviceConfig config) {
  const bool named = name == "cpu" ? config.lapack_library != "off" || config.blas_library != "off"
                     : name == "torch" ? config.torch_library != "auto"
                                       : false;
  if (!named) return open_device(name);
  config.device = name;
  config.fallback = DeviceConfig::Fallback::error;
  return *open_configured(config).device;
}

// Where a run's device would come from, which files were found on the way, and where modules are
// looked for. A config that is wrong is told as what is wrong with it.
Json search() {
  Json said{{"event", "search"}, {"modules", module_folders()}};
  const char* environment = std::getenv("GRADUS_DEVICE");
  said["GRADUS_DEVICE"] = environment ? Json(environment) : Json();
  try {
    const DeviceConfig config = resolve_device_config("");
    said["device"] = config.device;
    said["from"] = config.origin;
  } catch (const Error& e) {
    said["wrong"] = e.what();
  }
  for (const auto& [key, path] : {std::pair("gradus.json", std::string("gradus.json")),
                                  std::pair("tuning.json", default_tuning_file())})
    said["files"].push_back(
        {{"name", key}, {"path", path}, {"found", ::access(path.c_str(), R_OK) == 0}});
  return said;
}

void write(std::ostream& out, const Json& said) {
  const auto title = [&](const char* text) -> std::ostream& {
    return out << heading(text) << "  ";
  };
  if (said.contains("wrong"))
    title("a run without --device would end") << bad(said["wrong"].get<std::string>()) << "\n";
  else
    title("a run without --device takes")
        << said["device"].get<std::string>() << " (" << said["from"].get<std::string>() << ")\n";
  for (const Json& file : said["files"])
    title(file["name"].get<std::string>().c_str())
        << (file["found"].get<bool>() ? "" : "not there: ") << file["path"].get<std::string>()
        << "\n";
  std::string folders;
  for (const Json& folder : said["modules"])
    folders += (folders.empty() ? "" : ", ") + folder.get<std::string>();
  title("modules are looked for in") << folders << "\n";
}

}  // namespace

std::string libraries_of(Device& device) {
  std::string out;
  if (device.kind() == "cpu")
    for (const std::string& line : lines(device.libraries())) out += ", " + line;
  return out;
}

std::vector<Json> survey_devices() {
  std::vector<std::string> modules;
  for (const std::vector<std::string>& more : {kExpected, module_kinds()})
    for (const std::string& kind : more)
      if (std::find(modules.begin(), modules.end(), kind) == modules.end()) modules.push_back(kind);
  const std::vector<LoadReport> reports = load_modules(modules);
  const DeviceConfig own = found_config();
  const std::vector<KnownKind> known = known_kinds();
  std::vector<Json> found;
  for (const KnownKind& kind : known) {
    if (kind.devices == 0) found.push_back(missing(kind.kind, kind.missing));
    for (int i = 0; i < kind.devices; ++i) {
      const std::string name = i == 0 ? kind.kind : join(kind.kind, ":", i);
      try {
        found.push_back(present(open_listed(name, own), kind));
      } catch (const Error& e) {
        found.push_back(missing(name, e.what()));
      }
    }
  }
  for (const LoadReport& report : reports)
    if (!report.loaded) found.push_back(missing(report.kind, report.message));
  return found;
}

int run_devices(const DevicesOptions& options, std::ostream& out, std::ostream&) {
  for (const Json& d : survey_devices()) {
    if (options.json) {
      emit(out, d);
      continue;
    }
    const auto text = [&](const char* key) { return d.at(key).get<std::string>(); };
    const std::string name = text("name");
    out << heading(name) << std::string(name.size() < 12 ? 12 - name.size() : 1, ' ');
    if (!d.at("present").get<bool>()) {
      out << warning("missing:") << " " << text("why") << "\n";
      continue;
    }
    const int64_t total = d.at("memory_bytes").get<int64_t>();
    const int64_t free = d.at("free_bytes").get<int64_t>();
    out << text("hardware") << "\n"
        << std::string(12, ' ') << text("isa") << ", " << several(d.at("threads"), "unit") << " of "
        << several(d.at("lanes"), "lane")
        << (total < 0 ? std::string()
                      : join(", memory ", bytes_text(total), " (", bytes_text(free), " free)"))
        << "\n"
        << std::string(12, ' ') << text("source") << "; " << text("build") << "\n";
    for (const Json& line : d.at("libraries"))
      out << std::string(12, ' ') << line.get<std::string>() << "\n";
  }
  if (options.json)
    emit(out, search());
  else
    write(out, search());
  return 0;
}

}  // namespace gradus::cli
