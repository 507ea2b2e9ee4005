// Parts of the page that its files share.
#pragma once
#include "ops/audit/show/graph_layout.hpp"

namespace gradus::inline v1::audit {

std::string escaped(const std::string& text);  // for HTML and SVG; control characters become "?"
const char* kind_of(const Source& source);     // "node", "leaf", "constant"
// SVG of all groups in a column; `style` is an element that comes first, or "".
std::string picture(const GraphView& view, const Layout& layout, const std::string& style);
// What an audit found, ops, nodes, and what checkpoints would save: what the page says without a
// script.
std::string page_tables(const GraphView& view);

}  // namespace gradus::audit
