// The questions of `trainer config`: Accelerate's in its words and order, then what to train and how.
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

/// What the wizard knows in addition to the answers.
struct Surroundings {
  Machine machine;
  // Empty: not available.
  /// Describes a model folder, or the text of a config.json.
  std::function<std::optional<ModelDescription>(const std::string& model, const std::string& task)> describe_model;
  /// Describes `data.train`, with paths as they can be opened from the working folder.
  std::function<std::optional<DataDescription>(const DataConfig& data)> describe_data;
  /// Describes a tokenizer's folder or file.
  std::function<std::optional<TokenizerDescription>(const std::string& path)> describe_tokenizer;
  /// Describes the first samples of `config`, with paths as they can be opened from the working folder.
  std::function<std::optional<SamplesDescription>(const Config& config)> describe_samples;
  std::filesystem::path here;    // the working folder: typed paths are relative to it
  std::filesystem::path folder;  // the file's folder: paths in the file are relative to it
};

/// Asks all questions, and leaves the document to be written in `draft`. At the end of the input the rest is kept.
void ask_questions(WizardDraft& draft, Prompter& prompter, const Surroundings& around);

}  // namespace trainer::config
