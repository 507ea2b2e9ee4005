// Manual pages and the completion of shells.
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <sstream>

using gradus::test::run;
using gradus::test::TempFolder;

TEST_CASE("man: each command has a page with its options and examples, in roff") {
  const TempFolder folder;
  std::istringstream names(run(folder, "man --list").out);
  int pages = 0;
  for (std::string name; std::getline(names, name); ++pages) {
    std::string command = name == "gradus" ? "" : name.substr(7);
    for (char& c : command) c = c == '-' ? ' ' : c;
    const std::string page = run(folder, "man " + command).out,
                      help = run(folder, command + " --help").out;
    CHECK_MESSAGE(page.starts_with(".TH GRADUS"), name);
    CHECK_MESSAGE(page.find("\n.SH NAME\n" + name) != std::string::npos, name);
    CHECK_MESSAGE((command.empty() || page.find("\n.SH EXAMPLES\n.nf\n") != std::string::npos),
                  name);
    const std::regex option("--[a-z-]+");
    for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it) {
      const std::string inside = std::regex_replace(it->str(), std::regex("-"), "\\-");
      CHECK_MESSAGE(page.find(inside) != std::string::npos, name, " lacks ", it->str());
    }
  }
  CHECK(pages > 20);
  CHECK(run(folder, "man tran").err ==
        "gradus: man: there is no command \"tran\"; did you mean \"train\"?\n");
  CHECK(run(folder, "man tran").code == 2);
}

TEST_CASE("completion: bash completes commands, options, ops and devices") {
  const TempFolder folder;
  folder.write("gradus.bash", run(folder, "completion bash").out);
  folder.write("try.bash", R"(source ./gradus.bash
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _gradus; echo "${COMPREPLY[*]}"; }
try gradus tr
try gradus train --res
try gradus op softm
try gradus config ""
try gradus config show --se
try gradus train --device cu
)");
  const std::string said = folder / "said";
  CHECK(std::system(("cd '" + folder.path() + "' && bash try.bash >said 2>&1").c_str()) == 0);
  CHECK(gradus::test::slurp(said) ==
        "train\n--resume\nsoftmax softmin\nshow schema validate\n--set\ncuda:0\n");
  CHECK(run(folder, "completion zsh").out.starts_with("#compdef gradus\n"));
  CHECK(run(folder, "completion fish")
            .out.find("complete -c gradus -n '__fish_seen_subcommand_from train' -l resume") !=
        std::string::npos);
  CHECK(run(folder, "completion powershell").code == 2);
  CHECK(run(folder, "completion").err ==
        "gradus: completion: needs the name of a shell: bash, zsh or fish\n");
}
