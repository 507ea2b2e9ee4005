// What a shell does to an equation that is typed without quotes: of ij,jk->ik the program sees
// "ij,jk-", and what it prints goes into a new file "ik".
#pragma once
#include <string>

namespace gradus::inline v1::cli {

// Error(config) that says what to type instead, if the equation ends as one that a shell has cut.
void refuse_cut_equation(const std::string& equation);

}  // namespace gradus::cli
