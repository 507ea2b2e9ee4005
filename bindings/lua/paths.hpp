// Which files a script may touch. Whatever takes a path from a script asks here, and nowhere else
// is it decided. Links are followed to what they name, also where the end of a path does not exist
// yet. A link that another process makes between this look and the opening is not seen; scripts
// themselves can make none.
#pragma once
#include <string>
#include <vector>

namespace gradus::inline v1::lua {

enum class Access { read, write };

class Paths {
 public:
  Paths() = default;  // everything is allowed
  // What stands below these folders, which may be written, and, below others, read alone.
  Paths(const std::vector<std::string>& written, const std::vector<std::string>& read);

  // Error(io) that names the path, what is allowed and the option that widens it.
  void check(const std::string& path, Access access) const;
  // The same for a folder and the files in it, of which any may be a link.
  void check_folder(const std::string& path, Access access) const;

 private:
  bool all_ = true;
  std::vector<std::string> written_{}, read_{};  // without links
};

}  // namespace gradus::lua
