// Plans as JSON, "gradus.plan/1", so that an order that took long to find is found once:
//
//   {"format": "gradus.plan/1", "expression": "ij,jk->ik",
//    "labels": [[0, 1], [1, 2]], "sizes": [2, 3, 4], "output": [0, 2],
//    "shapes": [[2, 3], [3, 4]], "path": [[0, 1]], "sliced": [], "family": "optimal", "units": 0}
//
// Labels are numbered by their first place in the operands; "expression" is there if they are
// letters. It is a network of labels as well (`gradus contract --network`).
#pragma once
#include "engine/files/json_text.hpp"
#include "ops/contract/plan.hpp"

#include <functional>

namespace gradus::inline v1 {

// One line for each key.
std::string plan_text(const EinsumPlan& plan);
// The plan of a text, its order checked; labels are letters again where they were. Of `options`,
// `sum_alone` and `step_time` count. Error(config), with `file`, for what is no plan, has another
// version or does not fit together.
EinsumPlan parse_plan(const std::string& text, const std::string& file, PathOptions options = {});

// What `plan` makes by `options`, its order kept in a folder by what was asked: the expression but
// for the names of its labels, the shapes, and of the options kind, budget, seed and sum_alone. An
// order that is there is taken (kind fixed) without a search. A file that is damaged, or of another
// question, is written anew. Error(io) where the folder can't be written. Safe between processes: a
// file appears whole.
EinsumPlan kept_plan(const std::string& folder, const BoundEquation& asked,
                     const std::vector<Shape>& shapes, PathOptions options,
                     const std::function<EinsumPlan(const PathOptions&)>& plan);

// Are two plans of the same expression, but for the names of labels, and for the same shapes?
bool same_expression(const EinsumPlan& a, const EinsumPlan& b);

}  // namespace gradus
