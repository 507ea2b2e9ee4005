// The program gradus. Everything is in app.cpp.
#include "cli/app.hpp"

#include <iostream>

int main(int argc, char** argv) { return gradus::cli::run_app(argc, argv, std::cout, std::cerr); }
