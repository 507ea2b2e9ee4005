// One walk over the commands, written down as roff and in the words of three shells.
#include "cli/manual.hpp"

#include "bindings/cpp/start.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/op_info.hpp"
#include "ops/contract/algebra.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <sstream>
#include <vector>

#include <CLI/CLI.hpp>

namespace gradus::inline v1::cli {

namespace {

struct Described {
  std::string name, doc;  // "--device", "auto, cpu, ..."
  std::string type;       // "FILE"; "" for a flag
};
struct Command {
  std::string name, doc, examples;  // "config show"
  std::vector<Described> arguments, options;
  std::vector<Described> commands;  // that stand behind it
};

Command described(const CLI::App& app, const std::string& name) {
  Command c{name, app.get_description(), app.get_footer(), {}, {}, {}};
  for (const CLI::Option* o : app.get_options()) {
    const std::string type = o->get_type_size() == 0 ? "" : o->get_type_name();
    if (o->get_positional()) {
      c.arguments.push_back({o->get_name(true), o->get_description(), type});
      continue;
    }
    for (const std::string& s : o->get_snames())
      c.options.push_back({"-" + s, o->get_description(), type});
    for (const std::string& l : o->get_lnames())
      c.options.push_back({"--" + l, o->get_description(), type});
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    c.commands.push_back({sub->get_name(), sub->get_description(), ""});
  return c;
}

// The program itself, then each command behind those that it stands in.
std::vector<Command> all_commands(const CLI::App& app) {
  std::vector<Command> out;
  const std::function<void(const CLI::App&, const std::string&)> add =
      [&](const CLI::App& a, const std::string& name) {
        out.push_back(described(a, name));
        for (const CLI::App* sub : a.get_subcommands([](const CLI::App*) { return true; }))
          add(*sub, name.empty() ? sub->get_name() : name + " " + sub->get_name());
      };
  add(app, "");
  return out;
}

std::string page_name(const Command& c) {
  std::string name = c.name.empty() ? "gradus" : "gradus-" + c.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

// Text as roff reads it: no line begins with a command of its own.
std::string roff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = i == 0 || text[i - 1] == '\n';
    if (begins && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\')
      out += "\\e";
    else if (text[i] == '-')
      out += "\\-";
    else
      out += text[i];
  }
  return out;
}

// "-h, --help" is one entry: names that stand in a row and say the same.
void list(std::ostream& out, const char* heading, const std::vector<Described>& items) {
  if (items.empty()) return;
  out << ".SH " << heading << "\n";
  std::string names;
  for (size_t i = 0; i < items.size(); ++i) {
    const Described& d = items[i];
    names += (names.empty() ? "" : ", ") + roff(d.name);
    if (i + 1 < items.size() && items[i + 1].doc == d.doc && d.name.starts_with("-")) continue;
    out << ".TP\n.B " << names
        << (d.type.empty() || d.type == d.name ? "" : "\\fR \\fI" + roff(d.type)) << "\n"
        << roff(d.doc.empty() ? d.type : d.doc) << "\n";
    names.clear();
  }
}

// ---- shells

std::vector<std::string> op_names() {
  start();
  std::vector<std::string> names;
  for (const OpInfo& op : all_ops()) names.push_back(op.name);
  std::sort(names.begin(), names.end());
  return names;
}
const std::vector<std::string> kDevices = {"auto",   "cpu",   "reference", "refmod",
                                           "cuda:0", "hip:0", "emu:0",     "torch"};

// Words that may stand behind an option or as an argument of a command, as far as they are few.
std::vector<std::string> words_for(const std::string& command, const Described& d) {
  if (d.name == "--device" || d.type == "D") return kDevices;
  if (d.name == "--op" || (d.name == "NAME" && (command == "op" || command == "ops")))
    return op_names();
  if (d.name == "--color") return {"auto", "always", "never"};
  if (d.name == "--algebra") return algebra_names();
  if (d.name == "SHELL") return {"bash", "zsh", "fish"};
  return {};
}

std::string spaced(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}
std::string names_of(const std::vector<Described>& items) {
  std::vector<std::string> names;
  for (const Described& d : items) names.push_back(d.name);
  return spaced(names);
}
// In single quotes of a shell.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string for_bash(const std::vector<Command>& commands) {
  std::ostringstream out;
  out << "# Completion of gradus for bash; made by `gradus completion bash`.\n"
         "_gradus() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' "
         "w\n"
         "  local i\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    w=${COMP_WORDS[i]}\n"
         "    [[ $w == -* ]] && continue\n"
         "    case \"${command:+$command }$w\" in\n";
  for (const Command& c : commands)
    if (!c.name.empty())
      out << "      " << in_quotes(c.name) << ") command=" << in_quotes(c.name) << " ;;\n";
  out << "    esac\n"
         "  done\n"
         "  local words=\n"
         "  case \"$command/$before\" in\n";
  for (const Command& c : commands)
    for (const Described& o : c.options)
      if (const auto words = words_for(c.name, o); !words.empty())
        out << "    " << in_quotes(c.name + "/" + o.name) << ") words=" << in_quotes(spaced(words))
            << " ;;\n";
  out << "    *)\n"
         "      case \"$command\" in\n";
  for (const Command& c : commands) {
    std::string words = names_of(c.commands);
    for (const Described& a : c.arguments) words += " " + spaced(words_for(c.name, a));
    out << "        " << in_quotes(c.name) << ")\n"
        << "          if [[ $word == -* ]]; then words=" << in_quotes(names_of(c.options))
        << "; else words=" << in_quotes(words) << "; fi ;;\n";
  }
  out << "      esac ;;\n"
         "  esac\n"
         "  # shellcheck disable=SC2207  # zsh has no mapfile\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o bashdefault -o default -F _gradus gradus\n";
  return out.str();
}

std::string for_zsh() {
  // zsh runs what bash reads; so that the two cannot differ, it is asked for that.
  return "#compdef gradus\n"
         "# Completion of gradus for zsh; made by `gradus completion zsh`.\n"
         "autoload -U +X bashcompinit && bashcompinit\n"
         "source <(gradus completion bash)\n";
}

std::string for_fish(const std::vector<Command>& commands) {
  std::ostringstream out;
  out << "# Completion of gradus for fish; made by `gradus completion fish`.\n";
  for (const Command& c : commands) {
    const size_t space = c.name.rfind(' ');
    const std::string last = space == std::string::npos ? c.name : c.name.substr(space + 1);
    std::string when =
        c.name.empty() ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + last;
    const std::string begin = "complete -c gradus -n " + in_quotes(when);
    for (const Described& s : c.commands)
      out << begin << " -f -a " << s.name << " -d " << in_quotes(s.doc) << "\n";
    for (const Described& o : c.options) {
      const auto words = words_for(c.name, o);
      out << begin
          << (o.name.starts_with("--") ? " -l " + o.name.substr(2) : " -s " + o.name.substr(1))
          << (o.type.empty()  ? ""
              : words.empty() ? " -r"
                              : " -x -a " + in_quotes(spaced(words)))
          << " -d " << in_quotes(o.doc) << "\n";
    }
    for (const Described& a : c.arguments)
      if (const auto words = words_for(c.name, a); !words.empty())
        out << begin << " -f -a " << in_quotes(spaced(words)) << "\n";
  }
  return out.str();
}

}  // namespace

std::string manual_page(const CLI::App& app, const std::string& command) {
  const std::vector<Command> commands = all_commands(app);
  const auto at = std::find_if(commands.begin(), commands.end(),
                               [&](const Command& c) { return c.name == command; });
  if (at == commands.end()) {
    std::vector<std::string> names;
    for (const Command& c : commands) names.push_back(c.name);
    fail(ErrorKind::config, "man", "there is no command \"", command, "\"",
         did_you_mean(command, names));
  }
  const Command& c = *at;
  std::ostringstream out;
  std::string title_of_page = page_name(c);
  std::transform(title_of_page.begin(), title_of_page.end(), title_of_page.begin(),
                 [](unsigned char letter) { return char(std::toupper(letter)); });
  out << ".TH " << title_of_page << " 1 \"\" \"gradus " << version() << "\"\n.SH NAME\n"
      << page_name(c) << " \\- " << roff(c.doc) << "\n.SH SYNOPSIS\n.B gradus"
      << (c.name.empty() ? "" : " " + c.name) << "\n";
  for (const Described& a : c.arguments) out << ".I " << roff(a.name) << "\n";
  out << (c.commands.empty() ? "" : "COMMAND\n") << "[OPTIONS]\n";
  list(out, "COMMANDS", c.commands);
  list(out, "ARGUMENTS", c.arguments);
  list(out, "OPTIONS", c.options);
  const std::string title = "Examples:\n";
  if (c.examples.starts_with(title))
    out << ".SH EXAMPLES\n.nf\n" << roff(c.examples.substr(title.size())) << ".fi\n";
  else if (!c.examples.empty())
    out << ".SH NOTES\n" << roff(c.examples) << "\n";
  return out.str();
}

std::string manual_names(const CLI::App& app) {
  std::string out;
  for (const Command& c : all_commands(app)) out += page_name(c) + "\n";
  return out;
}

std::string completion(const CLI::App& app, const std::string& shell) {
  const std::vector<Command> commands = all_commands(app);
  if (shell == "bash") return for_bash(commands);
  if (shell == "zsh") return for_zsh();
  if (shell == "fish") return for_fish(commands);
  if (shell.empty())
    fail(ErrorKind::config, "completion", "needs the name of a shell: bash, zsh or fish");
  fail(ErrorKind::config, "completion", "there is nothing for \"", shell, "\"",
       did_you_mean(shell, std::vector<std::string>{"bash", "zsh", "fish"}),
       "; write bash, zsh or fish");
}

}  // namespace gradus::cli
