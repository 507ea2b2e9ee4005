// A LAPACK for the slot linalg.
#pragma once
#include "kernels/cpu/library.hpp"
#include "kernels/linalg/lapack_functions.hpp"

namespace gradus::inline v1::cpu {

struct LapackLibrary {
  Library library;
  linalg::Lapack functions{};

  // What is wrong: it lacks a function, or has integers of 64 bits.
  std::string get();
  std::string text() const;

 private:
  template <class T>
  std::string get_functions_of(char letter);
  std::string try_integers() const;
};

}  // namespace gradus::cpu
