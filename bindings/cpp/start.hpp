// Start-up, the choice of a device, and a program's own libraries, for whoever stands on the
// library: users' programs through gradus.hpp, which calls start() by itself, the C door, and the
// program gradus.
#pragma once
#include "engine/device/device.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1 {

// The version of these headers; version() tells that of the library they are linked to.
#define GRADUS_VERSION "0.1.0"
const char* version();

// Fills the op list and registers the devices "cpu" and "reference". Calling it again does nothing.
// Threads: any.
void start();

// The device for new tensors of all threads from now on: a name ("cpu", "cuda:1", "auto"), a path
// that ends in .json, or a JSON object as configs/devices.md describes it. `notice`, if given, gets
// one line where another device was opened than the one that was asked for, else "". Error(config)
// for a name that makes no sense, Error(io) for a file that can't be read, Error(device) with
// "fallback": "error".
Device& use_device(const std::string& name, std::string* notice = nullptr);

// As the program chooses it: GRADUS_DEVICE, then gradus.json in the working folder, then "auto".
// `notices`, if given, gets a line for each thing that was ignored or replaced.
Device& use_device_from_environment(std::vector<std::string>* notices = nullptr);

// Functions of a LAPACK or a BLAS that this program has, to do what such a library does that a
// device config names ("libraries" in configs/devices.md), where it names none; `text` says in
// `gradus devices` and in records of runs who made them. Before the device "cpu" is opened, which
// the first tensor does; none at all takes them back. They stay for as long as the program, are
// called by several threads at once, and should begin none.
//
//   gradus::give_library("blas", {{"cblas_sgemm", gradus::library_function(cblas_sgemm)}, ...});
//
// "blas": cblas_sgemm, cblas_dgemm, cblas_cgemm, cblas_zgemm and cblas_dscal, with integers of 32
// bits. "lapack", by Fortran's interface, integers of 32 bits and lengths of texts at the end: of
// s, d, c and z each potrf_, getrf_, getrs_, trtrs_, geqrf_, orgqr_, syevd_, gesdd_ and geev_, the
// first of them spotrf_, where c and z call two of them ungqr_ and heevd_. Either may bring
// openblas_set_num_threads, which is told 1, openblas_get_config and ilaver_. Error(value) if one
// is missing or they compute something else, Error(device) if "cpu" is open.
using LibraryFunctions = std::vector<std::pair<std::string, void (*)()>>;
void give_library(const std::string& key, const LibraryFunctions& functions,
                  const std::string& text = "");
template <class R, class... A>
auto library_function(R (*f)(A...)) {
  return reinterpret_cast<void (*)()>(f);
}

}  // namespace gradus
