// `gradus verify RUN_DIR|FILE`: is what was written still as it was written? Of a run folder every
// file that somebody may read again, of a file what its kind allows: checksums where it carries
// one, its structure in any case. Nothing is changed, and nothing that a file names is opened.
#pragma once
#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct VerifyOptions {
  std::string path;
  bool json = false;
};
// 0 if all is whole, 3 if something is damaged. Error(io) for what is neither a run folder nor a
// file of a kind that can be verified.
int run_verify(const VerifyOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
