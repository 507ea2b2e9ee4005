// Headless Chromium for pages: a script runs at the end of the page and says what it saw.
#pragma once
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::test {

inline bool have(const char* program) {
  const bool found =
      std::system(("command -v " + std::string(program) + " >/dev/null 2>&1").c_str()) == 0;
  if (!found) MESSAGE(std::string(program), " is not installed: skipped");
  return found;
}

inline std::string from_base64(const std::string& code) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  unsigned bits = 0, n = 0;
  for (const char c : code) {
    const char* d = std::strchr(kDigits, c);
    if (!d) break;
    bits = bits << 6 | unsigned(d - kDigits);
    if ((n += 6) >= 8) text += char(bits >> (n -= 8) & 255);
  }
  return text;
}

// What `script` left in R; R.ms is when it began. With R.pending it calls report() itself, later.
// $$(selector) is a list, press(key) and set(id, value) are a user's hands. At "#n=1".
inline nlohmann::json browse(const TempFolder& folder, std::string page,
                             const std::string& script) {
  const std::string test =
      "<script>const R = {ms: performance.now()}; const $$ = q => "
      "[...document.querySelectorAll(q)]; const press = k => document.body.dispatchEvent(new "
      "KeyboardEvent('keydown', {key: k, bubbles: true})); const set = (id, v) => { $(id).value "
      "= v; $(id).dispatchEvent(new Event('input')); }; const report = () => { "
      "document.body.dataset.result = "
      "btoa(unescape(encodeURIComponent(JSON.stringify(R)))); };\n" +
      script + "\nif (!R.pending) report();</script></body>";
  page.replace(page.rfind("</body>"), 7, test);
  folder.write("page.html", page);
  // Virtual time waits for what is pending, and tells no real time.
  const std::string wait =
      script.find("R.pending") == std::string::npos ? "" : "--virtual-time-budget=5000 ";
  const std::string command = "cd '" + folder.path() +
                              "' && timeout 60 chromium --headless --no-sandbox --disable-gpu "
                              "--user-data-dir='" +
                              (folder / "profile") + "' " + wait + "--dump-dom 'file://" +
                              (folder / "page.html") + "#n=1' > dom.txt 2> err.txt";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string dom = slurp(folder / "dom.txt");
  const size_t at = dom.find("data-result=\"");
  REQUIRE_MESSAGE(at != std::string::npos, "the script of the page failed");
  return nlohmann::json::parse(from_base64(dom.substr(at + 13, dom.find('"', at + 13) - at - 13)));
}

}  // namespace gradus::test
