// Each kind of file by its own reader, each failure a line.
#include "cli/verify.hpp"

#include "cli/frame/events.hpp"
#include "cli/runs/form_file.hpp"
#include "cli/frame/terminal.hpp"
#include "cli/runs/run_folder.hpp"
#include "cli/runs/run_files.hpp"
#include "engine/device/device.hpp"
#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"
#include "engine/base/text.hpp"
#include "engine/config/tuning.hpp"
#include "ops/audit/step/trace.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <ostream>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kDamaged = 3;

std::string counted(size_t n, const char* what) { return join(n, " ", what, n == 1 ? "" : "s"); }

class Verifier {
 public:
  Verifier(bool json, std::ostream& out) : json_(json), out_(out), device_(open_device("cpu")) {}

  // `look` gives words for a file that is whole, and throws for one that is not.
  void file(const std::string& path, const char* kind, const std::function<std::string()>& look) {
    ++files_;
    std::string text;
    bool whole = true;
    try {
      if (fs::exists(path) && !fs::is_regular_file(path))
        fail(ErrorKind::io, path, "is no regular file");
      text = path + ": " + look();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io) throw;
      whole = false;
      ++damaged_;
      text = e.what();
    }
    if (json_)
      emit(out_,
           {{"event", "file"}, {"file", path}, {"kind", kind}, {"whole", whole}, {"text", text}});
    else
      out_ << verdict(whole, whole ? "whole" : "DAMAGED") << (whole ? "    " : "  ")
           << printable(text, "") << "\n";
  }

  int end(const std::string& path) {
    if (json_)
      emit(out_, {{"event", "result"},
                  {"path", path},
                  {"whole", damaged_ == 0},
                  {"files", files_},
                  {"damaged", damaged_}});
    else if (files_ > 1)
      out_ << verdict(damaged_ == 0,
                      damaged_ == 0 ? join(counted(files_, "file"), ", all whole")
                                    : join(damaged_, " of ", counted(files_, "file"), " damaged"))
           << "\n";
    return damaged_ == 0 ? 0 : kDamaged;
  }

  void tensors(const std::string& path) {
    file(path, "safetensors", [&] {
      const std::string format = read_safetensors_metadata(path)["format"];
      if (format.starts_with("gradus.checkpoint/")) return checkpoint(path);
      const Safetensors all = read_safetensors(path, device_);
      if (format == kModelFormat && !all.checked)
        fail(ErrorKind::io, path, "damaged: it lacks its checksum");
      const std::string steps =
          format.starts_with("gradus.trace/")
              ? ", " + counted(audit::read_trace(path, device_).nodes.size(), "node")
              : "";
      return join(format.empty() ? "" : format + ", ", counted(all.tensors.size(), "tensor"), steps,
                  all.checked ? "; its checksum is right"
                              : "; it carries no checksum, only its structure is known");
    });
  }

  void array(const std::string& path) {
    file(path, "npy", [&] {
      const Tensor t = read_npy(path, device_);
      return join(t.dtype(), " ", t.sizes(),
                  "; the format has no checksum, only its structure is known");
    });
  }

  void run(const std::string& folder) {
    const auto has = [&](const char* name) { return fs::exists(path_in(folder, name)); };
    file(path_in(folder, "config.json"), "config", [&] { return config(folder); });
    if (has(kFormFile))
      file(path_in(folder, kFormFile), "data", [&] {
        const auto kept = read_form(folder);
        return join(kept->form.name, ", ", kept->train.samples, " training and ",
                    kept->test.samples, " test samples; its checksum is right");
      });
    for (const std::string& name : checkpoints_in(folder))
      file(path_in(folder, name), "checkpoint", [&] { return checkpoint(path_in(folder, name)); });
    file(path_in(folder, "metrics.jsonl"), "metrics", [&] { return metrics(folder); });
    const bool ended = has("summary.json");
    if (ended)
      file(path_in(folder, "summary.json"), "summary", [&] {
        const Json summary = read_summary(folder);
        if (!summary.contains("crc32"))
          fail(ErrorKind::io, path_in(folder, "summary.json"), "damaged: it lacks its checksum");
        return join("finished after ", summary["result"]["steps"].get<int64_t>(),
                    " steps; its checksum is right");
      });
    if (ended || has("model.safetensors"))
      file(path_in(folder, "model.safetensors"), "safetensors", [&] {
        const Safetensors model = read_model(path_in(folder, "model.safetensors"), device_);
        return join(counted(model.tensors.size(), "tensor"),
                    model.checked ? "; its checksum is right"
                                  : "; it carries no checksum, only its structure is known");
      });
    if (has("tuning.json"))
      file(path_in(folder, "tuning.json"), "tuning", [&] {
        read_tuning(path_in(folder, "tuning.json"), "");
        return std::string("ways of contracting");
      });
    std::vector<std::string> traces;
    for (const auto& entry : fs::directory_iterator(folder))
      if (const std::string name = entry.path().filename(); name.starts_with("nan-step-"))
        traces.push_back(entry.path());
    std::sort(traces.begin(), traces.end());
    for (const std::string& path : traces) tensors(path);
  }

 private:
  std::string checkpoint(const std::string& path) {
    RunFolder::Checkpoint c = read_checkpoint(path, device_);
    const std::string& step = c.state.metadata["step"];
    const std::string name = fs::path(path).stem();
    if (const size_t digits = name.find_first_not_of("0", std::string_view("checkpoint-").size());
        name.starts_with("checkpoint-") &&
        (digits == std::string::npos ? step != "0" : name.substr(digits) != step))
      fail(ErrorKind::io, path, "is of step ", shown(step), ", its name says another");
    if (newest_.empty()) newest_ = c.state.metadata;
    return join("checkpoint of step ", step, ", ", counted(c.state.tensors.size(), "tensor"),
                "; its checksum is right");
  }

  // Its values stand in origins.json too, but for the device, which is the one that was opened.
  std::string config(const std::string& folder) {
    const auto leaves = leaves_of(read_run_config(folder));
    std::map<std::string, std::string> others;
    for (const Layered::Leaf& l : read_origins(folder)) others[l.path] = l.value;
    for (const auto& [path, value] : leaves)
      if (path != "device" && others[path] != value)
        fail(ErrorKind::io, path_in(folder, "config.json"), path, ": is ", value,
             ", in origins.json it is ", others[path].empty() ? "nothing" : others[path]);
    return join(leaves.size(), " values, the same as in origins.json");
  }

  // As far as a checkpoint knows it, by checksum; the rest as JSON, line by line.
  std::string metrics(const std::string& folder) {
    const std::string path = path_in(folder, "metrics.jsonl");
    const bool any = fs::exists(path);
    if (!any && !newest_.contains("metrics_bytes")) return "nothing was written yet";
    const std::string text = read_file(path, kMaxMetrics);
    if (const std::string& before = newest_["metrics_damaged"]; !before.empty())
      fail(ErrorKind::io, path, "damaged before the run went on at step ", before);
    if (newest_.contains("metrics_bytes")) {
      const size_t known = std::strtoull(newest_["metrics_bytes"].c_str(), nullptr, 10);
      if (text.size() < known)
        fail(ErrorKind::io, path, "has ", text.size(), " bytes, the checkpoint of step ",
             newest_["step"], " knows ", known);
      const std::string sum = crc32_text(crc32_of(std::string_view(text).substr(0, known)));
      if (sum != newest_["metrics_crc32"])
        fail(ErrorKind::io, path, "damaged: the CRC-32 of its first ", known, " bytes is ", sum,
             ", the checkpoint of step ", newest_["step"], " says ", newest_["metrics_crc32"]);
    }
    const size_t end = text.rfind('\n') + 1;  // of whole lines: 0 if there is none
    std::istringstream lines(text.substr(0, end));
    size_t n = 0;
    for (std::string line; std::getline(lines, line);) {
      const Json e = parse_json(line, join(path, ": line ", ++n), false, ErrorKind::io);
      if (!e.is_object() || !e.contains("event"))
        fail(ErrorKind::io, path, "line ", n, ": expected an event, got ", shown(e));
    }
    return join(counted(n, "line"),
                end < text.size() ? ", and one that a process did not finish" : "");
  }

  bool json_;
  std::ostream& out_;
  Device& device_;
  Metadata newest_;  // of the newest checkpoint that is whole
  size_t files_ = 0, damaged_ = 0;
};

bool is_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char head[6] = {};
  return in.read(head, 6) && std::string_view(head, 6) == "\x93NUMPY";
}

}  // namespace

int run_verify(const VerifyOptions& o, std::ostream& out, std::ostream&) {
  Verifier verifier(o.json, out);
  if (fs::is_directory(o.path)) {
    check_run_folder(o.path);
    verifier.run(o.path);
  } else if (o.path.ends_with(".npy") || is_npy(o.path)) {
    verifier.array(o.path);
  } else if (o.path.ends_with(".safetensors") || audit::is_trace(o.path)) {
    verifier.tensors(o.path);
  } else {
    fail(ErrorKind::io, o.path,
         fs::exists(o.path) ? "is no .safetensors or .npy file, nor a run folder"
                            : "there is no such file");
  }
  return verifier.end(o.path);
}

}  // namespace gradus::cli
