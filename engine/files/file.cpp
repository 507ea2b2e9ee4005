// Files by POSIX calls, gzip by zlib. What is not said by errno is said by the message.
#include "engine/files/file.hpp"

#include "engine/base/error.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <zlib.h>

namespace gradus::inline v1 {
namespace {

constexpr size_t kChunk = size_t(1) << 18, kHead = size_t(1) << 16;

// "; did you mean ...?" with the file of the same folder whose name is like this one's but for a
// slip.
std::string near_file(const std::string& path) {
  const std::string folder = folder_of(path), name = path.substr(path.rfind('/') + 1);
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
  std::string found;
  size_t best = name.size() / 8 + 2;
  for (int seen = 0; dir && seen < 1000; ++seen) {
    const dirent* entry = ::readdir(dir.get());
    if (!entry) break;
    const size_t d = edit_distance(name, entry->d_name);
    if (d == 0 || d >= best || entry->d_name[0] == '.') continue;
    best = d;
    found = entry->d_name;
  }
  return found.empty() ? "" : "; did you mean \"" + path_in(folder, found) + "\"?";
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

int open_again(const char* path, int flags, mode_t mode = 0) {
  int fd;
  do fd = ::open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), size_t(1) << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path, "write", errno);
    bytes.remove_prefix(size_t(n));
  }
}

// Removes a temporary file unless it was renamed into place.
struct Temporary {
  std::string path;
  bool kept = false;
  ~Temporary() {
    if (!kept) ::unlink(path.c_str());
  }
};

void sync_folder(const std::string& folder, const std::string& path) {
  const Fd fd(open_again(folder.c_str(), O_RDONLY | O_DIRECTORY));
  if (fd.get() < 0) return;  // a folder may be writable but not readable; the file itself is synced
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
    fail_errno(path, "sync the folder", errno);
}

std::string follow_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? std::string(real.get()) : path;
}

void write_new(const std::string& target, std::string_view bytes, const std::string& path,
               const struct stat* old) {
  static std::atomic<unsigned> counter{0};
  Temporary temporary{target + ".tmp." + std::to_string(::getpid()) + "." +
                      std::to_string(counter.fetch_add(1))};
  Fd fd(open_again(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
  if (fd.get() < 0) {
    const int code = errno;
    temporary.kept = true;  // nothing was made, and nothing of somebody else's is removed
    if (code == ENOENT)
      fail(ErrorKind::io, path, "cannot create a file beside it: ", std::strerror(code),
           "; make its folder first: mkdir -p ", folder_of(path));
    fail_errno(path, "create a file beside it", code);
  }
  if (old) (void)!::fchmod(fd.get(), old->st_mode & 07777);
  write_all(fd.get(), bytes, path);
  if (::fsync(fd.get()) != 0) fail_errno(path, "sync", errno);
  if (::close(fd.release()) != 0) fail_errno(path, "close", errno);
  if (::rename(temporary.path.c_str(), target.c_str()) != 0) fail_errno(path, "replace", errno);
  temporary.kept = true;
}

struct Inflater {
  z_stream z{};
  Inflater() {
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&z); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && uint8_t(bytes[0]) == 0x1f && uint8_t(bytes[1]) == 0x8b;
}

}  // namespace

void fail_errno(const std::string& path, const char* what, int code) {
  fail(ErrorKind::io, path, "cannot ", what, ": ", std::strerror(code));
}

std::string read_file(const std::string& path, uint64_t limit, const Look& look) {
  const Fd fd(open_again(path.c_str(), O_RDONLY));
  if (fd.get() < 0 && errno == ENOENT)
    fail(ErrorKind::io, path, "cannot open: ", std::strerror(ENOENT), near_file(path));
  if (fd.get() < 0) fail_errno(path, "open", errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) fail_errno(path, "read", errno);
  if (S_ISDIR(info.st_mode)) fail(ErrorKind::io, path, "is a folder, expected a file");
  const bool regular = S_ISREG(info.st_mode);
  // A pipe or device says no size, and may have no end.
  if (!regular) limit = std::min(limit, uint64_t(1) << 30);
  if (regular && uint64_t(info.st_size) > limit)
    fail(ErrorKind::io, path, "has ", std::to_string(info.st_size), " bytes, at most ",
         std::to_string(limit), " expected");
  const uint64_t size = regular ? uint64_t(info.st_size) : UINT64_MAX;
  std::string out;
  size_t filled = 0;
  bool seen = !look;
  const auto show = [&] {
    if (!std::exchange(seen, true)) look(std::string_view(out).substr(0, filled), size);
  };
  // One byte more than the size, so that the end shows in the same read.
  const size_t whole = regular ? size_t(size) + 1 : kChunk;
  out.resize(look ? std::min(whole, kHead) : whole);
  for (;;) {
    if (filled == out.size()) {
      show();
      out.resize(std::max(whole, 2 * out.size()));
    }
    const ssize_t n =
        ::read(fd.get(), out.data() + filled, std::min(out.size() - filled, size_t(1) << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path, "read", errno);
    if (n == 0) break;
    filled += size_t(n);
    if (filled > limit)
      fail(ErrorKind::io, path, "has more than ", std::to_string(limit), " bytes");
  }
  show();
  out.resize(filled);
  return out;
}

std::string read_text(const std::string& path) {
  const auto check = [&](std::string_view text, uint64_t) {
    if (const size_t at = text.find('\0'); at != std::string_view::npos)
      fail(ErrorKind::io, path, "is no text: byte ", at, " is 0");
  };
  std::string text = read_file(path, kMaxText, check);
  check(text, text.size());
  return text;
}

uint32_t crc32_of(std::string_view bytes, uint32_t before) {
  // Of no bytes at all, zlib gives the CRC of nothing, whatever came before.
  return bytes.empty() ? before
                       : uint32_t(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()),
                                          bytes.size()));
}

std::string crc32_text(uint32_t crc) {
  char text[9];
  snprintf(text, sizeof text, "%08x", crc);
  return text;
}

std::string unpack_gz(std::string_view bytes, const std::string& name, uint64_t limit,
                      const Look& look) {
  Inflater inflater;
  z_stream& z = inflater.z;
  std::string out, chunk(kChunk, '\0');
  size_t used = 0;
  bool seen = !look;
  for (;;) {
    // zlib counts input in 32 bits.
    const size_t offered = std::min(bytes.size() - used, size_t(1) << 30);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + used));
    z.avail_in = uInt(offered);
    z.next_out = reinterpret_cast<Bytef*>(chunk.data());
    z.avail_out = uInt(chunk.size());
    const int code = inflate(&z, Z_NO_FLUSH);
    used += offered - z.avail_in;
    const size_t got = chunk.size() - z.avail_out;
    if (got > limit - out.size())
      fail(ErrorKind::io, name, "unpacks to more than the expected ", std::to_string(limit),
           " bytes");
    out.append(chunk.data(), got);
    if (!seen && (out.size() >= kHead || code == Z_STREAM_END)) {
      seen = true;
      look(out, code == Z_STREAM_END && used == bytes.size() ? out.size() : UINT64_MAX);
    }
    if (code == Z_STREAM_END) {
      const std::string_view rest = bytes.substr(used);
      if (rest.empty()) return out;
      if (!is_gzip(rest))
        fail(ErrorKind::io, name, std::to_string(rest.size()),
             " bytes of something else follow the end of the gzip data");
      inflateReset(&z);
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code == Z_BUF_ERROR || (code == Z_OK && used == bytes.size() && z.avail_out > 0)) {
      fail(ErrorKind::io, name, "truncated gzip: the data ends after ",
           std::to_string(bytes.size()), " bytes (", std::to_string(out.size()),
           " unpacked), before the end of the stream");
    } else if (code != Z_OK) {
      fail(ErrorKind::io, name, "corrupt gzip at byte ", std::to_string(used), " of ",
           std::to_string(bytes.size()), ": ", z.msg ? z.msg : "bad data");
    }
  }
}

std::string read_gz(const std::string& path, uint64_t limit, const Look& look) {
  // Deflate may add a little to incompressible data.
  const uint64_t packed_limit = limit > UINT64_MAX / 2 ? limit : limit + limit / 1000 + 4096;
  const Look plain = [&](std::string_view head, uint64_t size) {
    if (look && !is_gzip(head)) look(head, size);
  };
  std::string bytes = read_file(path, packed_limit, plain);
  if (is_gzip(bytes)) return unpack_gz(bytes, path, limit, look);
  if (bytes.size() > limit)
    fail(ErrorKind::io, path, "has ", std::to_string(bytes.size()), " bytes, at most ",
         std::to_string(limit), " expected");
  return bytes;
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  const std::string target = follow_links(path);
  struct stat old;
  const bool exists = ::stat(target.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) fail(ErrorKind::io, path, "is a folder, expected a file");
  if (exists && !S_ISREG(old.st_mode)) {
    const Fd fd(open_again(target.c_str(), O_WRONLY));
    if (fd.get() < 0) fail_errno(path, "open", errno);
    write_all(fd.get(), bytes, path);
    return;
  }
  write_new(target, bytes, path, exists ? &old : nullptr);
  sync_folder(folder_of(target), path);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string path_in(const std::string& folder, const std::string& path) {
  if (path.empty() || path[0] == '/' || folder == "." || folder.empty()) return path;
  return folder.back() == '/' ? folder + path : folder + "/" + path;
}

}  // namespace gradus
