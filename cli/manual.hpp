// Manual pages and the completion of shells, both made from the commands as they are declared.
#pragma once
#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace gradus::inline v1::cli {

// The page of the program ("") or of a command ("train", "config show"), as man reads it
// (man-pages(7)). Error(config) for a command that is not there.
std::string manual_page(const CLI::App& app, const std::string& command);
// The names of all pages: "gradus", "gradus-train", ...
std::string manual_names(const CLI::App& app);

// What a shell reads to complete `gradus ...`: commands, options, names of ops and devices, files.
// `shell` is bash, zsh or fish; Error(config) for another.
std::string completion(const CLI::App& app, const std::string& shell);

}  // namespace gradus::cli
