// `trainer tokenize`: trains a tokenizer, writes a corpus of token ids, or shows the ids of a text.
#pragma once

#include <string>
#include <vector>

namespace trainer::prepare {

/// Runs `trainer tokenize` with the arguments after the command's name and returns the exit code: 0, or 2 after
/// printing a usage error. Results go to standard output.
/// Errors: InputError, MachineError.
int tokenize_command(const std::vector<std::string>& args);

}  // namespace trainer::prepare
