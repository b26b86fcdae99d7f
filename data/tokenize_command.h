// `trainer tokenize`: train a tokenizer, or show the ids of a text.
#pragma once

#include <string>
#include <vector>

namespace trainer::data {

/// Runs `trainer tokenize` with the arguments that follow the command's name and returns the exit code of the usage
/// (0, or 2 after printing what is wrong with them). Results go to standard output.
/// Errors: InputError, MachineError.
int tokenize_command(const std::vector<std::string>& args);

}  // namespace trainer::data
