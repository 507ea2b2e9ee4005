// Whole files in and out, with every failure an Error(io) that names the file and the reason. Plain
// or gzipped input; output that appears whole or not at all. Knows bytes only, no format.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gradus::inline v1 {

// Error(io) "PATH: cannot open: No such file or directory"; `what` is what failed, `code` why.
[[noreturn]] void fail_errno(const std::string& path, const char* what, int code);

// Sees the beginning of a file, 64 KiB if it has as much, and the file's size (UINT64_MAX if it
// says none, as a pipe does) before the rest is read, and throws if it is not what was expected:
// no gigabytes are read for a magic that is wrong.
using Look = std::function<void(std::string_view head, uint64_t size)>;

// All bytes of a file. More than `limit` bytes is an error, and so is 1 GiB of a pipe or device.
std::string read_file(const std::string& path, uint64_t limit = UINT64_MAX, const Look& look = {});

// What a person or gradus wrote as text: at most kMaxText bytes and no NUL, or an Error(io).
constexpr uint64_t kMaxText = uint64_t(1) << 24;
std::string read_text(const std::string& path);

// The CRC-32 of zlib, gzip and PNG, of bytes that follow others whose CRC-32 is `before`.
uint32_t crc32_of(std::string_view bytes, uint32_t before = 0);
std::string crc32_text(uint32_t crc);  // eight hexadecimal digits

// The bytes of a file, unpacked if it starts with gzip's magic (RFC 1952; several members are
// joined). A truncated, corrupt or trailed gzip is an error, and so is one that unpacks to more
// than `limit` bytes: memory is taken as the data comes, never by a size that the file claims.
// `look` sees what was unpacked.
std::string read_gz(const std::string& path, uint64_t limit, const Look& look = {});

// The same on bytes in memory; `name` stands for the file in messages.
std::string unpack_gz(std::string_view bytes, const std::string& name, uint64_t limit,
                      const Look& look = {});

// Replaces a file: temporary file in the same folder, fsync, rename, fsync of the folder. Until the
// rename the old file stays as it was; on failure the temporary file is removed. A link is
// followed; a pipe or device is written to directly.
void write_file_atomically(const std::string& path, std::string_view bytes);

// The folder of a path ("." if it has none), for paths that are relative to a file.
std::string folder_of(const std::string& path);
// `path` as seen from `folder`: itself if absolute.
std::string path_in(const std::string& folder, const std::string& path);

}  // namespace gradus
