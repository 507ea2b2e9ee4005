// Lua: the files that a script may touch: below its own folder, the working one and those that it
// was given, wherever a path leads.
#include "tests/helpers/lua_helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <filesystem>

using namespace gradus;
using gradus::test::check_has;
using gradus::test::ProgramRun;
using gradus::test::TempFolder;

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfig =
    R"({"experiment": "network", "data": {"name": "digits", "train": 8, "test": 8},
    "model": {"layers": [{"linear": 10}]}, "loss": "cross_entropy", "epochs": 1, "report": false})";

// A working folder, and one beside it that is none of the script's business.
struct Home {
  TempFolder work, other;
  std::string beside = "../" + fs::path(other.path()).filename().string();  // as seen from work
  Home() {
    fs::create_directories(work / "inner");
    work.write("net.json", kConfig);
    other.write("net.json", kConfig);
    other.write("mod.lua", "return 1");
    gradus::test::run(other, "script -e 'gradus.save(\"x.npy\", gradus.ones(2))'");
  }
  ProgramRun run(const std::string& arguments) const { return gradus::test::run(work, arguments); }
  ProgramRun script(const std::string& text) const { return run("script -e '" + text + "'"); }
};
bool exists(const std::string& path) { return fs::exists(fs::symlink_status(path)); }

}  // namespace

TEST_CASE("lua paths: every door that takes a path keeps to the folders of the script") {
  const Home home;
  // What lies below the working folder is its own.
  CHECK(home.script("gradus.save(\"inner/../x.npy\", gradus.ones(2)) "
                    "print(gradus.load(\"x.npy\"))")
            .out == "[1, 1]\nf32 (2,)\n");
  const std::string f =
      "local w = gradus.ones(2):requires_grad_() local function f() return (w * w):sum() end ";
  // $ is the folder beside it.
  const auto refused = [&](std::string text, const std::string& path, const char* access) {
    for (size_t at; (at = text.find('$')) != text.npos;) text.replace(at, 1, home.beside);
    CAPTURE(text);
    const ProgramRun r = home.script(text);
    CHECK(r.code == 3);
    check_has(r.err, path + ": is ");
    check_has(r.err, join("a script may ", access, " below ", home.work.path(), " (--allow-",
                          access, " DIR adds a folder"));
  };
  refused("gradus.load(\"$/x.npy\")", home.beside + "/x.npy", "read");
  refused("gradus.load(\"/dev/../dev/zero.npy\")", "/dev/../dev/zero.npy", "read");
  refused("gradus.save(\"$/y.npy\", gradus.ones(1))", "y.npy", "write");
  refused("gradus.save(\"$/y.safetensors\", {a = gradus.ones(1)})", "y.safetensors", "write");
  for (const std::string kind : {"html", "svg", "dot", "json"})
    refused(f + "gradus.audit.graph(f, {" + kind + " = \"$/y." + kind + "\"})", "y." + kind,
            "write");
  refused(f + "gradus.audit.record(f, \"$/y.safetensors\")", "y.safetensors", "write");
  refused("gradus.audit.replay(\"$/y.safetensors\")", "y.safetensors", "read");
  refused("gradus.data{idx = \"$\"}", home.beside, "read");
  refused("gradus.experiment(\"$/net.json\")", "net.json", "read");
  refused("gradus.experiment{config = \"net.json\", out = \"$/run\"}", "run", "write");
  refused("gradus.experiment{config = \"net.json\", set = {\"data.idx=$\"}}", home.beside, "read");
  check_has(home.script("gradus.experiment{config = \"/dev/zero\"}").err,
            "/dev/zero: a script may read below ");
  CHECK(home.script("pcall(gradus.save, \"/y.npy\", gradus.ones(1)) print(1)").out == "1\n");
  for (const char* name : {"y.npy", "y.safetensors", "y.html", "y.svg", "y.dot", "y.json", "run"})
    CHECK_MESSAGE(!exists(home.other / name), name);
  CHECK(!exists(home.work / "runs"));
}

TEST_CASE("lua paths: links are followed, also to what is not there yet") {
  const Home home;
  fs::create_directory_symlink("../" + home.beside, home.work / "inner/link");
  fs::create_symlink(home.other / "new.npy", home.work / "dangling.npy");
  fs::create_symlink("inner/link/chained.npy", home.work / "chained.npy");
  fs::create_symlink("loop.npy", home.work / "loop.npy");
  fs::create_symlink(home.other / "mod.lua", home.work / "mod.lua");
  fs::create_directory_symlink("inner", home.work / "within");
  for (const char* to : {"inner/link/y.npy", "dangling.npy", "chained.npy", "inner/link/a/b.npy",
                         "within/link/../y.npy"}) {
    CAPTURE(to);
    const ProgramRun r = home.script(join("gradus.save(\"", to, "\", gradus.ones(1))"));
    CHECK(r.code == 3);
    check_has(r.err, join(to, ": is ", fs::path(home.other.path()).parent_path().string()));
  }
  check_has(home.script("gradus.load(\"loop.npy\")").err, "links without end");
  check_has(home.script("gradus.load(\"inner/link/x.npy\")").err, "a script may read below");
  check_has(home.script("require(\"mod\")").err, "a script may read below");
  for (const char* name : {"y.npy", "new.npy", "chained.npy"})
    CHECK_MESSAGE(!exists(home.other / name), name);
  // A link that stays within is no way out.
  CHECK(home.script("gradus.save(\"within/z.npy\", gradus.ones(1))").code == 0);
  CHECK(exists(home.work / "inner/z.npy"));
  // Files of a run, and of a data set, may be links.
  fs::create_directories(home.work / "run");
  fs::create_symlink(home.other / "stolen", home.work / "run/metrics.jsonl");
  check_has(home.script("gradus.experiment{config = \"net.json\", out = \"run\"}").err,
            "run/metrics.jsonl: is " + (home.other / "stolen") + "; a script may write below");
  fs::create_directories(home.work / "images");
  fs::create_symlink(home.other / "x.npy", home.work / "images/train-images-idx3-ubyte");
  check_has(home.script("gradus.data{idx = \"images\"}").err, "images-idx3-ubyte: is ");
  CHECK(!exists(home.other / "stolen"));
}

TEST_CASE("lua paths: options widen what a script may touch, and its own folder is its own") {
  const Home home;
  const TempFolder third;
  const std::string load = " -e 'print(#gradus.load(\"" + home.beside + "/x.npy\"))'",
                    save = " -e 'gradus.save(\"" + home.beside + "/y.npy\", gradus.ones(3)) " +
                           "print(#gradus.load(\"" + home.beside + "/y.npy\"))'";
  CHECK(
      home.run("script --allow-read " + third.path() + " --allow-read " + home.beside + load).out ==
      "2\n");
  CHECK(home.run("script --allow-read " + home.beside + save).code == 3);
  CHECK(home.run("script --allow-write " + third.path() + save).code == 3);
  CHECK(home.run("script --allow-write " + home.beside + save).out == "3\n");
  const std::string part = home.beside.substr(0, home.beside.size() - 1);
  CHECK(home.run("script --allow-read " + part + load).code == 3);  // a name, not its beginning
  CHECK(home.run("script --unsafe" + load).out == "2\n");
  // The script's folder, which is not the working one.
  third.write("own.lua",
              "local file = ... gradus.save(file, gradus.ones(4)) "
              "print(#gradus.load(file))");
  CHECK(home.run("script " + (third / "own.lua") + " " + (third / "kept.npy")).out == "4\n");
  // Behind the file an option would be the script's own.
  check_has(home.run("script " + (third / "own.lua") + " --allow-read ..").err, "stand before it");
  // The same for scripts that other commands run.
  home.work.write("step.lua", "local x = gradus.load('" + home.beside +
                                  "/x.npy'):requires_grad_() x:sum():backward()");
  for (const std::string command : {"graph", "audit", "step"}) {
    CAPTURE(command);
    CHECK(home.run(command + " step.lua </dev/null").code == 3);
    CHECK(home.run(command + " --allow-read " + home.beside + " step.lua </dev/null").code == 0);
  }
  check_has(home.run("graph net.json --allow-read .").err, "--allow-read: belongs to scripts");
  check_has(home.run("script --help").out, "--allow-write DIR");
}
