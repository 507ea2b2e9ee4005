# For a machine without the packages: what find_package asks for, out of one folder of headers.
#   cmake -DCMAKE_PROJECT_TOP_LEVEL_INCLUDES=benches/gpu/headers.cmake -DGRADUS_HEADERS=DIR ...
# `benches/gpu/run --pack DIR` fills such a folder where the packages are. What is not in it is
# looked for as ever.
get_filename_component(GRADUS_HEADERS "${GRADUS_HEADERS}" ABSOLUTE BASE_DIR "${CMAKE_SOURCE_DIR}")
if(NOT IS_DIRECTORY "${GRADUS_HEADERS}")
  message(FATAL_ERROR "GRADUS_HEADERS is no folder: \"${GRADUS_HEADERS}\"")
endif()
include_directories(SYSTEM "${GRADUS_HEADERS}")
# Debian 12's headers get <cstdint> by way of others, which compilers newer than its own don't do.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include cstdint>")

# For each package, a header that says it is there, and its target.
set(GRADUS_HEADERS_nlohmann_json nlohmann/json.hpp nlohmann_json::nlohmann_json)
set(GRADUS_HEADERS_xtensor xtensor/xadapt.hpp xtensor)
set(GRADUS_HEADERS_xsimd xsimd/xsimd.hpp xsimd)
set(GRADUS_HEADERS_CLI11 CLI/CLI.hpp CLI11::CLI11)
set(GRADUS_HEADERS_fmt fmt/core.h fmt::fmt)
set(GRADUS_HEADERS_ZLIB zlib.h ZLIB::ZLIB)

function(gradus_package target)
  if(TARGET ${target})
    return()
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  if(target STREQUAL "fmt::fmt")
    target_compile_definitions(${target} INTERFACE FMT_HEADER_ONLY)
  elseif(target STREQUAL "ZLIB::ZLIB")
    # The library itself is on every Linux, often without the name that its -dev package adds.
    find_library(GRADUS_ZLIB NAMES z libz.so.1 REQUIRED)
    target_link_libraries(${target} INTERFACE "${GRADUS_ZLIB}")
  endif()
endfunction()

macro(gradus_packages method package)
  if(DEFINED GRADUS_HEADERS_${package})
    list(GET GRADUS_HEADERS_${package} 0 gradus_header)
    list(GET GRADUS_HEADERS_${package} 1 gradus_target)
    if(EXISTS "${GRADUS_HEADERS}/${gradus_header}")
      gradus_package(${gradus_target})
      set(${package}_FOUND TRUE)
    endif()
  endif()
endmacro()
cmake_language(SET_DEPENDENCY_PROVIDER gradus_packages SUPPORTED_METHODS FIND_PACKAGE)
