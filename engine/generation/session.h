#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "engine/config/generate_request.h"
#include "engine/dist/comm.h"
#include "engine/evaluation/generate.h"
#include "engine/generation/prompts.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::generation {

/// A model that is loaded to reply to prompts, in one process on the CPU.
class Session {
 public:
  /// Errors: InputError when a folder is missing or isn't a model's; ConfigError for a model that doesn't generate.
  explicit Session(const config::GenerateRequest& request);

  const Prompts& prompts() const { return *prompts_; }

  /// Called with what a reply gained, of the prompt with that index; false ends the reply.
  using OnText = std::function<bool(size_t prompt, const std::string& added)>;
  /// The replies to a batch of prompts, of which the first is number `first` of the job: draws depend on the number,
  /// not on the batch. `on_text` may be null. Errors: InputError for a prompt that leaves no room for a reply.
  std::vector<std::string> reply(const std::vector<Prompt>& prompts, int64_t first, const OnText& on_text = nullptr);

 private:
  int64_t room_after(const Prompt& prompt) const;

  const config::GenerateRequest& request_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::unique_ptr<dist::Comm> comm_;
  std::unique_ptr<parallel::ParallelModel> model_;
  std::unique_ptr<Prompts> prompts_;
  evaluation::Generation options_;
};

}  // namespace trainer::generation
