#pragma once

#include <string>

namespace trainer {

/// The folder of the sources: data that tests read is below it. A function and not a macro, so that the compiled tests
/// of all checkouts are equal and ccache shares them.
std::string source_dir();

}  // namespace trainer
