// README.md: the model card that the Hugging Face Hub shows for a model or adapter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "engine/report/run_folder.h"

namespace trainer::report {

/// What a card says that metrics and options don't.
struct CardSubject {
  std::string title;
  std::string base;          // "org/name" on the Hub, or the name of a folder; "": trained from scratch
  bool base_on_hub = false;  // `base` is a name there
  std::string license;       // of the base model; "": unknown
  std::string adapter;       // PEFT's type ("LORA"); "": a whole model
  std::string architecture;  // "LlamaForCausalLM"; "": unknown
};

/// The card of a run's result after update `step`: front matter with the Hub's keys, then the data, options and
/// results. Nothing in it tells of the machine or the user: paths are cut to their last part.
std::string model_card(const CardSubject& subject, const RunFolder& run,
                       int64_t step = std::numeric_limits<int64_t>::max());

/// Writes README.md for the model or adapter in `folder`, which the run in `output_dir` (the same folder, or another)
/// made, as of update `step`. Does nothing if `folder` has neither, or a README.md that somebody else wrote or changed;
/// returns whether it wrote. Errors: InputError when `output_dir` is no run; MachineError.
bool write_model_card(const std::filesystem::path& output_dir, const std::filesystem::path& folder,
                      int64_t step = std::numeric_limits<int64_t>::max());

}  // namespace trainer::report
