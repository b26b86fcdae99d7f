#include "engine/base/errors.h"
#include "engine/cli/flags.h"
#include "engine/cli/worker.h"

namespace trainer::cli {

int run_export(const Arguments& arguments) {
  CLI::App app(
      "Write a model or adapter for other programs: a Hugging Face folder (transformers, PEFT, vLLM), or a GGUF file "
      "(llama.cpp, Ollama, LM Studio). The source is the output folder of a run, one of its checkpoints, or any model "
      "or adapter folder.",
      "export");
  app.footer(
      "Examples:\n  trainer export runs/chat chat.gguf --type q8_0 --merge   one file for Ollama\n"
      "  trainer export runs/chat lora.gguf   for llama.cpp's --lora\n"
      "  trainer export runs/qwen/checkpoint-300 qwen-300   a folder for transformers\n"
      "\nGGUF is supported for LLaMA, Mistral, Qwen 2, Qwen 3, Gemma 1 to 3 and GPT-2.\n");
  std::string source, output, format, type = "f16", base, dtype = "auto";
  bool merge = false, json = false, cpu = false;
  app.add_option("SOURCE", source, "a run's folder, a checkpoint, a model or an adapter")->required();
  app.add_option("OUTPUT", output, "the folder, or the GGUF file, to write; must not exist")->required();
  app.add_option("--format", format, "huggingface or gguf; default: gguf if OUTPUT ends with .gguf, else huggingface")
      ->check(CLI::IsMember({"huggingface", "gguf"}));
  const auto* const of_gguf =
      app.add_option("--type", type, "gguf: how matrices are stored: f32, f16 (default), bf16 or q8_0; the rest is f32")
          ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}));
  app.add_flag("--merge", merge, "merge an adapter into its base model");
  app.add_option(kBaseFlag, base, "the adapter's base model, a folder or Hub name; default: as the adapter names it");
  const auto* const of_merge =
      app.add_option("--dtype", dtype, "huggingface with --merge: the dtype of the merged weights; auto: the base's")
          ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}));
  app.add_flag("--json", json, "print one JSON object to standard output, for scripts");
  app.add_flag(kCpuFlag, cpu, "accepted: this command computes on the CPU");
  if (!parse(app, arguments)) return 0;
  if (format.empty()) format = output.ends_with(".gguf") ? "gguf" : "huggingface";
  if (of_gguf->count() > 0 && format != "gguf")
    throw ConfigError("--type {} is a type of GGUF tensors: add --format gguf, or end OUTPUT with .gguf.", type);
  if (of_merge->count() > 0 && (format != "huggingface" || !merge))
    throw ConfigError("--dtype {} needs --format huggingface and --merge; GGUF has --type.", dtype);
  Arguments words{"export", source, output};
  if (format == "gguf") words.insert(words.end(), {"--gguf", type});
  if (merge) words.emplace_back("--merge");
  if (json) words.emplace_back("--json");
  if (!base.empty()) words.insert(words.end(), {"--base", base});
  if (dtype != "auto") words.insert(words.end(), {"--dtype", dtype});
  become_worker(words);
}

}  // namespace trainer::cli
