// The questions of `trainer config`: Accelerate's in its words and its order, then what to train and how.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/config/wizard/descriptions.h"
#include "engine/config/wizard/draft.h"
#include "engine/config/wizard/machine.h"
#include "engine/config/wizard/model.h"
#include "engine/config/wizard/prompter.h"

namespace trainer::config {

/// What the wizard knows beside the answers.
struct Surroundings {
  Machine machine;
  // Empty: nobody can tell.
  /// Of a model folder, or the text of a config.json.
  std::function<std::optional<ModelDescription>(const std::string& model, const std::string& task)> describe_model;
  /// Of `data.train`, its paths as they can be opened from here.
  std::function<std::optional<DataDescription>(const DataConfig& data)> describe_data;
  /// Of a folder or a file.
  std::function<std::optional<TokenizerDescription>(const std::string& path)> describe_tokenizer;
  std::filesystem::path here;    // typed paths are relative to it
  std::filesystem::path folder;  // paths in the file are relative to it: where the file is
};

/// Asks everything, and leaves in `draft` the document to be written. When the input ends, the rest stays as it is.
void ask_questions(WizardDraft& draft, Prompter& prompter, const Surroundings& around);

}  // namespace trainer::config
