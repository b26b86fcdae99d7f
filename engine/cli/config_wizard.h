// `trainer config`: asks the questions, writes and checks the file and, on request, tries it out.
#pragma once

#include <string>

namespace trainer::cli {

struct WizardOptions {
  std::string file;     // to be written; an existing one supplies the defaults
  std::string answers;  // a file with answers; no questions are asked
  bool yes = false;     // accepts every default; no questions are asked
};

/// Errors: ConfigError when the file or the answers are invalid; the file is left unchanged.
void run_wizard(const WizardOptions& options);

/// Writes `text` to `file`, creating its folder if needed. Errors: MachineError.
void write_configuration(const std::string& file, const std::string& text);

}  // namespace trainer::cli
