#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "engine/config/generate_request.h"
#include "engine/dist/comm.h"
#include "engine/evaluation/generate.h"
#include "engine/generation/prompts.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::generation {

/// A model that is loaded to reply to prompts, in one process, on the CPU or a GPU.
class Session {
 public:
  /// Errors: InputError when a folder is missing or isn't a model's; ConfigError for a model that doesn't generate, or
  /// not that many replies; MachineError when there is no GPU to use.
  explicit Session(const config::GenerateRequest& request);

  const Prompts& prompts() const { return *prompts_; }

  /// Called with what the reply with that index gained; false ends it.
  using OnText = std::function<bool(size_t reply, const std::string& added)>;
  struct Reply {
    std::string text;
    std::optional<double> score;  // of a beam search: the sum of the log-probabilities, by the length
  };
  /// num_return_sequences replies to each of a batch of prompts, in a row, of which the first is number `first` of the
  /// job: draws depend on the number, not on the batch. `on_text`, which gets a reply's index, may be null. Errors:
  /// InputError for a prompt that leaves no room for a reply.
  std::vector<Reply> reply(const std::vector<Prompt>& prompts, int64_t first, const OnText& on_text = nullptr);

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
