// RunFolder: what a training run leaves on disk. config.json (resolved), origins.json (where its
// values came from), data.json (form_file.hpp), metrics.jsonl, the newest two
// checkpoint-STEP.safetensors, and once it is finished model.safetensors, summary.json, curves.svg
// and report.html; of a run that failed, perhaps nan-step-STEP.safetensors (provenance.hpp). Every
// file but metrics.jsonl appears whole or not at all, and what is damaged later is found out:
// checkpoints and models carry checksums, a checkpoint also that of metrics.jsonl so far. Knows
// names and bytes, nothing of training.
#pragma once
#include "engine/files/safetensors.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

// Bytes of metrics.jsonl that are read at once: some ten million lines.
constexpr uint64_t kMaxMetrics = uint64_t(1) << 30;

class RunFolder {
 public:
  // The folder `path`, made if missing. Not empty and `resume` is false: Error(config). Held by
  // another process: Error(io). Both name the folder.
  static RunFolder open(const std::string& path, bool resume);
  // runs/NAME-N: a new one, or with `resume` the one of highest N that exists (else a new one).
  static RunFolder open_numbered(const std::string& name, bool resume);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool has(const std::string& name) const;

  // One line of metrics.jsonl, without its end; the file is opened on the first.
  void append_metrics(const std::string& line);
  // Forces what was appended to disk and returns the file's size.
  int64_t metrics_bytes();
  uint32_t metrics_crc();
  // Drops what was written after that size; false if the file is shorter than that already.
  bool cut_metrics(int64_t bytes);

  // Writes a checkpoint with its format, then removes all but the newest two.
  void save_checkpoint(int64_t step, const NamedTensors& tensors, Metadata metadata);
  struct Checkpoint {
    std::string file;
    Safetensors state;
  };
  // The newest checkpoint that can be read; each that cannot is named in `unreadable` with the
  // reason. Nothing saved: none. Saved, but nothing readable: Error(io).
  std::optional<Checkpoint> newest_checkpoint(Device& device,
                                              std::vector<std::string>* unreadable) const;

 private:
  struct Lock;
  explicit RunFolder(std::string path);
  void take_lock();
  void remove_leftovers();

  std::string path_;
  std::shared_ptr<Lock> lock_;
  std::unique_ptr<FILE, int (*)(FILE*)> metrics_;
  uint32_t metrics_crc_ = 0;  // while the file is open
};

// The same of a folder that is only looked at.
std::optional<RunFolder::Checkpoint> newest_checkpoint(const std::string& folder, Device& device,
                                                       std::vector<std::string>* unreadable);
// Names of checkpoint files, newest first.
// Error(io), with the runs that are near it, unless a path is the folder of a run.
void check_run_folder(const std::string& path);

std::vector<std::string> checkpoints_in(const std::string& folder);
// Error(io) for a file that is damaged, that is no checkpoint, or one of another version: those of
// version 1 carry no checksum, so nobody could tell whether they are whole.
RunFolder::Checkpoint read_checkpoint(const std::string& file, Device& device);

}  // namespace gradus::cli
