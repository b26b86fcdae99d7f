// The file that the wizard starts from and the one that it writes.
#include <fstream>

#include "engine/config/pages/file_text.h"
#include "engine/config/wizard/draft.h"
#include "tests/config/answers.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

class WizardFile : public Given {
 protected:
  std::string kept(const std::string& text) {
    WizardDraft draft = read_draft(write("old.yaml", text));
    SilentPrompter silent;
    ask_questions(draft, silent, plain_surroundings());
    return file_text(draft.document, FileFormat::kYaml);
  }

  /// As `trainer config update` rewrites it.
  std::string updated(const std::string& file) {
    WizardDraft draft = read_draft(file);
    add_frame(Frame::kDefaults, draft);
    return file_text(draft.document, FileFormat::kYaml);
  }
};

const std::string kAccelerate = source_dir() + "/tests/config/accelerate/";

std::string content(const std::string& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TEST_F(WizardFile, PreservesSpellingOfKeptValues) {
  setenv("WIZARD_TEST_N", "2", 1);
  const std::string text = kept(
      "distributed_type: MULTI_CPU\n"
      "num_processes: ${WIZARD_TEST_N}\n"
      "rdzv_backend: c10d\n"
      "mixed_precision: no\n"
      "model: {path: '${HOME}/m'}\n"
      "data: {train: {path: a.txt}, max_samples: 9}\n"
      "lora: {r: 4, use_dora: false, target_modules: '.*q'}\n"
      "training: {learning_rate: 3e-4}\n");
  for (const char* const line :
       {"num_processes: ${WIZARD_TEST_N}\n", "rdzv_backend: c10d\n", "mixed_precision: 'no'\n", "  path: ${HOME}/m\n",
        "    path: a.txt\n", "  max_samples: 9\n", "  r: 4\n", "  target_modules: .*q\n", "  use_dora: false\n",
        "  learning_rate: 3e-4\n", "use_cpu: true\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
  const Plan plan = resolve(text);
  EXPECT_EQ(plan.config.lora->target_modules.pattern, ".*q");
  EXPECT_EQ(plan.config.num_processes, 2);
  EXPECT_EQ(kept(text), text);
}

TEST_F(WizardFile, PreservesAliasesUntilValueChanges) {
  const std::string file = write("old.yaml",
                                 "distributed_type: FSDP\nnum_processes: 2\nuse_cpu: true\nfsdp_config:\n"
                                 "  sharding_strategy: 1\n  fsdp_backward_prefetch_policy: BACKWARD_PRE\n");
  WizardDraft draft = read_draft(file);
  Answers answers(Answers::Given{{"What should be your FSDP's backward prefetch policy?", {"BACKWARD_POST"}}});
  ask_questions(draft, answers, plain_surroundings());
  const std::string text = file_text(draft.document, FileFormat::kYaml);
  EXPECT_NE(text.find("  sharding_strategy: 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  fsdp_backward_prefetch: BACKWARD_POST\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("backward_prefetch_policy"), std::string::npos) << text;
}

TEST_F(WizardFile, DetectsComments) {
  EXPECT_FALSE(read_draft(write("a.yaml", "distributed_type: NO\n")).has_comments);
  EXPECT_TRUE(read_draft(write("b.yaml", "distributed_type: NO  # one process\n")).has_comments);
  EXPECT_TRUE(read_draft(write("c.yaml", "  # mine\ndistributed_type: NO\n")).has_comments);
  EXPECT_FALSE(read_draft(write("d.yaml", kept("distributed_type: NO\n"))).has_comments);
}

TEST_F(WizardFile, RefusesInvalidFiles) {
  EXPECT_THROW(read_draft(write("a.yaml", "sed: 1\n")), ConfigError);
  EXPECT_THROW(read_draft(write("b.yaml", "seed: 1\nseed: 2\n")), ConfigError);
  EXPECT_THROW(read_draft(write("c.yaml", "a: [\n")), ConfigError);
  EXPECT_TRUE(read_draft(write("d.yaml", "")).document.members.empty());
}

TEST_F(WizardFile, AppliesAnswersFromFile) {
  setenv("WIZARD_TEST_R", "2", 1);
  WizardDraft draft = read_draft(write("old.yaml", "distributed_type: MULTI_CPU\nnum_processes: 2\nlora: {r: 4}\n"));
  apply_answers(write("a.yaml", "num_processes: 3\nlora: {r: '${WIZARD_TEST_R}'}\nmixed_precision: no\n"), draft);
  EXPECT_EQ(draft.config.num_processes, 3);
  EXPECT_EQ(draft.config.lora->r, 2);
  const std::string text = file_text(draft.document, FileFormat::kYaml);
  for (const char* const line : {"num_processes: 3\n", "  r: ${WIZARD_TEST_R}\n", "mixed_precision: 'no'\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  EXPECT_THROW(apply_answers(write("b.yaml", "num_procs: 3\n"), draft), ConfigError);
}

TEST_F(WizardFile, UpdateMatchesAccelerate) {
  for (const char* const name : {"fp16_flag", "dynamo_backend_inductor", "fsdp_codes", "deepspeed_nulls"}) {
    EXPECT_EQ(updated(kAccelerate + "old/" + name + ".yaml"), content(kAccelerate + "updated_" + name + ".yaml"))
        << name;
  }
}

TEST_F(WizardFile, UpdateKeepsOurSections) {
  const std::string text =
      updated(write("a.yaml", "model: {path: m}\nfp16: true\ndistributed_type: NO\nseed: ${X:-3}\n"));
  EXPECT_NE(text.find("mixed_precision: fp16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("seed: ${X:-3}\nmodel:\n  path: m\n"), std::string::npos) << text;
}

TEST_F(WizardFile, TruncatedFilesAreRefused) {
  const std::string text = kept(kLeast + "lora: {r: 4}\ntraining: {max_steps: 120}\n");
  ASSERT_TRUE(text.starts_with(first_comment("`trainer config`") + "\n")) << text;
  ASSERT_TRUE(text.ends_with(std::string(kLastComment) + "\n")) << text;
  const std::string whole = to_text(resolve(text));
  for (std::size_t size = 0; size + 1 < text.size(); ++size) EXPECT_NE(problems(text.substr(0, size)), "") << size;
  EXPECT_EQ(to_text(resolve(text.substr(0, text.size() - 1))), whole) << "an editor may strip the final newline";
  const std::size_t at = text.find("max_steps: 120");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(
      problems(text.substr(0, at + 12)),
      fmt::format("f.yaml:{}:15: the file is truncated: according to its first line it must contain the line '{}', "
                  "which is missing\n  copy or write it again (or remove the first line, if the file is complete)",
                  std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1, kLastComment));
}

TEST_F(WizardFile, EditedFilesStayReadable) {
  const std::string text = kept(kLeast);
  const std::string whole = to_text(resolve(text));
  EXPECT_EQ(resolve(text + "seed: 77\n").config.seed, 77) << "after the last line";
  std::string windows;
  for (const char c : text) windows += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(to_text(resolve(windows)), whole);
  EXPECT_EQ(to_text(resolve("\xEF\xBB\xBF" + text)), whole);
  EXPECT_EQ(kept(text), text);
  EXPECT_FALSE(read_draft(write("a.yaml", text)).has_comments);
}

TEST_F(WizardFile, JsonHasTheSameValues) {
  WizardDraft draft = read_draft(write("a.json", R"({"distributed_type": "NO", "seed": 3, "model": {"path": "ä"}})"));
  SilentPrompter silent;
  ask_questions(draft, silent, plain_surroundings());
  EXPECT_EQ(format_of("a.json"), FileFormat::kJson);
  const std::string text = file_text(draft.document, FileFormat::kJson);
  EXPECT_EQ(text.find("{\n  \"checkpoint\": {\n    \"save_steps\": 500"), 0u) << text;
  EXPECT_NE(text.find("\"path\": \"\\u00e4\"\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n}\n"));
  const std::string file = write("b.json", text);
  EXPECT_EQ(read_draft(file).config.seed, 3);
}

}  // namespace
}  // namespace trainer::config
