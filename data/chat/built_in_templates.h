// The built-in chat templates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

/// The template called `name`; null when there is none.
const char* built_in_template(std::string_view name);
std::vector<std::string> built_in_template_names();

}  // namespace trainer::data
