#!/usr/bin/env bash
# The programs of the front page, with gradus built as a part of somebody's project from its sources:
# by add_subdirectory and by FetchContent, in a temporary folder. `./dev consumers` runs it.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

# The front page's first block of a language, and what its comments say that it prints.
block() { awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```$/ && on { exit } on' "$source/README.md"; }
promised() { block "$1" | sed -n 's,.*puts(.*// ,,p'; }

# by NAME LINES: a project that begins with these lines of CMake, in the same folder as the one before
# it, so what is compiled already is not compiled again.
by() {
  local language without=() part
  block cpp >"$home/cpp.cpp"
  block c >"$home/c.c"
  cat >"$home/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(somebody C CXX)
$2
add_executable(cpp cpp.cpp)
target_link_libraries(cpp PRIVATE gradus::gradus)
add_executable(c c.c)
target_link_libraries(c PRIVATE gradus::c)
END
  for part in LUA LIBEDIT CSV NPZ PNG CUDA HIP; do without+=("-DGRADUS_$part=OFF"); done
  rm -f "$home"/built/c "$home"/built/cpp
  if ! { cmake --fresh -G Ninja -S "$home" -B "$home/built" "${without[@]}" &&
         cmake --build "$home/built" --target cpp c; } >"$home/log" 2>&1; then
    cat "$home/log"
    return 1
  fi
  for language in cpp c; do
    diff <(cd / && "$home/built/$language") <(promised $language)
    echo "consumers: $1: the program in $language prints what the front page says"
  done
}

by add_subdirectory "add_subdirectory($source gradus)"
by FetchContent "include(FetchContent)
FetchContent_Declare(gradus SOURCE_DIR $source BINARY_DIR \${CMAKE_BINARY_DIR}/gradus)
FetchContent_MakeAvailable(gradus)"
