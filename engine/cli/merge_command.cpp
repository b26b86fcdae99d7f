#include "engine/cli/flags.h"
#include "engine/cli/worker.h"

namespace trainer::cli {

int run_merge(const Arguments& arguments) {
  CLI::App app(
      "Merge an adapter into its base model: write a model folder that computes the same without the adapter, as fast "
      "as "
      "the base model, and that transformers, vLLM and others load. Weights are merged in fp32, one at a time.",
      "merge");
  app.footer(
      "Examples:\n  trainer merge runs/t5 models/t5-reports        the adapter that a run left\n"
      "  trainer merge runs/t5/checkpoint-300 merged      of one of its checkpoints\n"
      "  trainer merge adapter merged --base ~/models/t5  a base model that has moved\n"
      "\nAdapters of the types LORA (also rsLoRA, DoRA, PiSSA, OLoRA), IA3, LOHA and VERA can be merged.\n");
  std::string adapter, output, base, dtype = "auto";
  bool verify = false;
  app.add_option("ADAPTER", adapter, "an adapter folder of PEFT or of a run, or a checkpoint")->required();
  app.add_option("FOLDER", output, "the folder to write; must be missing or empty")->required();
  app.add_option("--base", base, "the base model's folder or Hub name; default: as the adapter names it");
  app.add_option("--dtype", dtype, "the dtype of the merged weights; auto: as in the base model")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}));
  app.add_flag("--verify", verify,
               "then compute logits with the adapter and with the merged model, and print how much they differ; both "
               "models must fit in memory, one at a time");
  if (!parse(app, arguments)) return 0;
  Arguments words{"merge", adapter, output};
  if (!base.empty()) words.insert(words.end(), {"--base", base});
  if (dtype != "auto") words.insert(words.end(), {"--dtype", dtype});
  if (verify) words.emplace_back("--verify");
  become_worker(words);
}

}  // namespace trainer::cli
