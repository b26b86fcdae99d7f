// Files that are part of the program.
#pragma once

#include <string_view>

namespace trainer::report {

/// Chart.js, as one script; "" if the program was built without it (tools/setup.sh installs it).
std::string_view chart_library();
/// This folder's page.css and page.js.
std::string_view page_style();
std::string_view page_script();

}  // namespace trainer::report
