#include "ops/train/data/npz.hpp"

#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"

#include <fstream>
#include <memory>

#ifdef GRADUS_NPZ
#include <minizip/unzip.h>
#endif

namespace gradus::inline v1::training {

#ifdef GRADUS_NPZ
namespace {

constexpr size_t kChunk = size_t(1) << 18;
constexpr std::string_view kEnd = ".npy";

using Zip = std::unique_ptr<void, int (*)(unzFile)>;

Zip open_zip(const std::string& path) {
  if (!std::ifstream(path, std::ios::binary)) read_file(path);  // says why
  Zip zip(unzOpen64(path.c_str()), unzClose);
  if (!zip) fail(ErrorKind::io, path, "is no .npz: it is no ZIP, or a truncated one");
  return zip;
}

// The member that the archive stands at, whole and with the right checksum.
std::string read_member(unzFile zip, const std::string& name) {
  unz_file_info64 info{};
  if (unzGetCurrentFileInfo64(zip, &info, nullptr, 0, nullptr, 0, nullptr, 0) != UNZ_OK)
    fail(ErrorKind::io, name, "damaged: the ZIP's list of members can't be read");
  if (info.flag & 1) fail(ErrorKind::io, name, "is encrypted");
  if (unzOpenCurrentFile(zip) != UNZ_OK)
    fail(ErrorKind::io, name, "damaged, or compressed in a way other than NumPy's (method ",
         info.compression_method, ")");
  std::string out, chunk(kChunk, '\0');
  int got = 0;
  // No more than the list says: memory is taken as the data comes.
  while ((got = unzReadCurrentFile(zip, chunk.data(), unsigned(kChunk))) > 0) {
    out.append(chunk.data(), size_t(got));
    if (out.size() > info.uncompressed_size) break;
  }
  const int closed = unzCloseCurrentFile(zip);
  if (got < 0 || out.size() != info.uncompressed_size)
    fail(ErrorKind::io, name, "damaged: the ZIP says ", uint64_t(info.uncompressed_size),
         " bytes, ", out.size(), " can be unpacked");
  if (closed == UNZ_CRCERROR) fail(ErrorKind::io, name, "damaged: its CRC-32 is not the ZIP's");
  return out;
}

}  // namespace

std::vector<std::string> arrays_in_npz(const std::string& path) {
  const Zip zip = open_zip(path);
  std::vector<std::string> out;
  for (int at = unzGoToFirstFile(zip.get()); at == UNZ_OK; at = unzGoToNextFile(zip.get())) {
    char name[1024] = {};
    unz_file_info64 info{};
    if (unzGetCurrentFileInfo64(zip.get(), &info, name, sizeof name - 1, nullptr, 0, nullptr, 0) !=
        UNZ_OK)
      fail(ErrorKind::io, path, "damaged: the ZIP's list of members can't be read");
    std::string text = name;
    if (text.ends_with(kEnd)) text.resize(text.size() - kEnd.size());
    out.push_back(std::move(text));
  }
  return out;
}

Tensor read_npz(const std::string& path, const std::string& array, Device& device) {
  const Zip zip = open_zip(path);
  if (unzLocateFile(zip.get(), (array + std::string(kEnd)).c_str(), 1) != UNZ_OK) {
    const std::vector<std::string> names = arrays_in_npz(path);
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    fail(ErrorKind::io, path, "holds no array \"", array, "\"", did_you_mean(array, names),
         names.empty() ? "; it holds none" : "; it holds ", all);
  }
  const std::string name = path + ": " + array;
  return parse_npy(read_member(zip.get(), name), name, device);
}

#else
namespace {
[[noreturn]] void cannot(const std::string& path) {
  fail(ErrorKind::config, path,
       "this gradus was built without minizip and reads no .npz; install libminizip-dev and build "
       "it again, or unpack the file and name its arrays: \"npy\": [X.npy, Y.npy]");
}
}  // namespace

std::vector<std::string> arrays_in_npz(const std::string& path) { cannot(path); }
Tensor read_npz(const std::string& path, const std::string&, Device&) { cannot(path); }
#endif

}  // namespace gradus::training
