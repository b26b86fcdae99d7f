#include <unistd.h>

#include "engine/base/errors.h"
#include "engine/cli/flags.h"
#include "engine/cli/rank_devices.h"
#include "engine/cli/worker.h"
#include "engine/config/generate_request.h"

namespace trainer::cli {
namespace {

void check(const config::GenerateRequest& request, bool has_terminal) {
  if (request.has_prompt && !request.input.empty())
    throw ConfigError("--prompt and --input exclude each other: one text, or a file of them.");
  if (!request.output.empty() && request.input.empty())
    throw ConfigError("--output is for the replies to a file: it needs --input.");
  if (!request.source.empty() && request.input.empty())
    throw ConfigError("--source makes prompts from the columns of a file: it needs --input.");
  if (request.num_beams.value_or(1) > 1 && request.temperature.value_or(0) > 0)
    throw ConfigError(
        "--num_beams {} searches for the likeliest text, and --temperature {} draws one: give one of them.",
        *request.num_beams, *request.temperature);
  if (request.json && !request.has_prompt && request.input.empty())
    throw ConfigError("--json is for the replies to --prompt or --input; a chat is not JSON.");
  if (request.num_return_sequences > 1 && !request.has_prompt && request.input.empty())
    throw ConfigError("--num_return_sequences {}: a chat continues one reply; give --prompt or --input.",
                      request.num_return_sequences);
  if (!request.has_prompt && request.input.empty() && !request.chat && !has_terminal)
    throw ConfigError("standard input is not a terminal to chat on: give --prompt TEXT, --input FILE or --chat.");
}

}  // namespace

int run_generate(const Arguments& arguments) {
  CLI::App app(
      "Generate text with a model, an adapter on its base model, or the output folder of a run: the answer to one "
      "prompt, to each record of a file, or a chat on the terminal. Runs on the CPU, or on a GPU with --device cuda.",
      "generate");
  app.footer(
      "Examples:\n  trainer generate runs/t5 --prompt 'Sales rose by 5 %.'\n"
      "  trainer generate models/qwen --adapter runs/qwen      a chat, with the model's template\n"
      "  trainer generate runs/llama --input questions.jsonl --output answers.jsonl\n"
      "  trainer generate models/gpt2 --prompt 'Once' --temperature 0.8 --top_p 0.95\n"
      "\nA file has records as data.train.path: JSONL, CSV, text … Its prompts are the column messages (a dialogue), "
      "prompt or text, or what --source makes of its columns. Flags without a value here follow the model's "
      "generation_config.json.\n");
  config::GenerateRequest request;
  app.add_option(std::string("MODEL,") + kModelFlag, request.model,
                 "a model folder or Hub name, an adapter's folder, or a run's output folder")
      ->required();
  app.add_option(kAdapterFlag, request.adapter, "the folder of an adapter for MODEL");
  const auto* const prompt = app.add_option("--prompt", request.prompt, "a text to answer, or to continue");
  app.add_option(kDataFlag, request.input, "a file of prompts");
  app.add_option("--source", request.source, "a column of the file, or a text with columns: 'Translate: {text}'");
  app.add_option("--output", request.output, "a JSONL file for the replies; default: standard output");
  app.add_flag("--chat", request.chat, "render prompts with the model's chat template, as a user's message");
  app.add_option("--system", request.system, "the system message of a chat");
  app.add_option("--chat_template", request.chat_template, "a template instead of the tokenizer's: a name or a file");
  app.add_option("--max_new_tokens", request.max_new_tokens, "the most tokens of a reply; otherwise 256")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--temperature", request.temperature, "0: the most likely token; higher: more varied")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--top_k", request.top_k, "draw among the k most likely tokens; 0: all")
      ->check(CLI::Range(0, 1'000'000'000));
  app.add_option("--top_p", request.top_p, "draw among the fewest tokens with this probability together")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--min_p", request.min_p, "draw among tokens with this part of the largest probability")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--repetition_penalty", request.repetition_penalty, "above 1: tokens that occurred become less likely")
      ->check(CLI::Range(1e-3, 1e3));
  app.add_option("--num_beams", request.num_beams,
                 "beam search: follow the n best texts, and print the best one, or --num_return_sequences")
      ->check(CLI::Range(1, 1000));
  app.add_option("--length_penalty", request.length_penalty,
                 "of beam search: above 0 favors long texts, below 0 short ones; otherwise 1")
      ->check(CLI::Range(-100.0, 100.0));
  app.add_option("--early_stopping", request.early_stopping,
                 "of beam search: true ends it with n texts; never: when no longer text can be better")
      ->check(CLI::IsMember({"true", "false", "never"}));
  app.add_option("--stop", request.stop, "a text that ends the reply, which doesn't include it; repeatable");
  app.add_option("--seed", request.seed, "of the draws; default: 42");
  app.add_option("--batch_size", request.batch_size, "prompts of a file at a time; default: 8")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--num_return_sequences", request.num_return_sequences,
                 "replies to each prompt: drawn with --temperature, or the best of --num_beams; default: 1")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", request.json, "print replies as JSON objects, one a line, for scripts");
  bool cpu = false;
  auto* const device = app.add_option("--device", request.device,
                                      "where to compute: cpu (the default), or cuda, the first visible GPU, in the "
                                      "model's own 16 bits (docs/gpu.md)")
                           ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag(kCpuFlag, cpu, "as --device cpu")->excludes(device);
  if (!parse(app, arguments)) return 0;
  request.has_prompt = prompt->count() > 0;
  std::erase(request.stop, "");
  check(request, isatty(STDIN_FILENO) != 0);
  request.chat = request.chat || (!request.has_prompt && request.input.empty());
  if (request.device == "cuda") check_first_gpu();
  become_worker({"generate", config::to_json(request)});
}

}  // namespace trainer::cli
