// Records to dialogues to text, and which of it is learnt.
#include "data/chat/dialogue_renderer.h"
#include "data/chat/play_records.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

using config::Dialogue;

class EndTokenizer : public ByteTokenizer {
 public:
  std::string piece_of(int32_t id) const override { return id == 1 ? "</s>" : "<unk>"; }
};

const EndTokenizer kTokenizer;

Record record(std::vector<std::pair<std::string, std::string>> fields) {
  return Record{std::move(fields), "f.jsonl", 7};
}

Record messages(const std::string& turns) {
  return record({{"messages", turns}});
}

config::DataConfig options(Dialogue dialogue, const std::string& chat_template) {
  config::DataConfig config;
  config.dialogue = dialogue;
  config.chat_template = chat_template;
  return config;
}

/// The text with what is learnt between ⟦ and ⟧.
std::string shown(const config::DataConfig& config, const Record& given) {
  const Rendered dialogue = DialogueRenderer(config, kTokenizer).render(given).at(0);
  std::string out;
  size_t at = 0;
  for (const TextRange& range : dialogue.learnt) {
    out += dialogue.text.substr(at, range.begin - at) + "⟦" +
           dialogue.text.substr(range.begin, range.end - range.begin) + "⟧";
    at = range.end;
  }
  return out + dialogue.text.substr(at);
}

const char* const kTwoTurns =
    R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},)"
    R"({"role":"assistant","content":[{"type":"text","text":"d"}]}])";

TEST(Dialogue, BuiltInTemplatesLearnTheReplies) {
  const auto with = [&](const char* name) { return shown(options(Dialogue::kMessages, name), messages(kTwoTurns)); };
  EXPECT_EQ(with("chatml"),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n⟦b<|im_end|>⟧\n"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n⟦d<|im_end|>⟧\n");
  EXPECT_EQ(with("llama2"), "[INST] a [/INST]⟦ b </s>⟧[INST] c [/INST]⟦ d </s>⟧");
  EXPECT_EQ(with("mistral"), "[INST] a [/INST]⟦ b</s>⟧[INST] c [/INST]⟦ d</s>⟧");
  EXPECT_EQ(with("llama3"),
            "<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
            "⟦b<|eot_id|>⟧<|start_header_id|>user<|end_header_id|>\n\nc<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n⟦d<|eot_id|>⟧");
  EXPECT_EQ(with("alpaca"),
            "### Instruction:\na\n\n### Response:\n⟦b</s>⟧\n\n### Instruction:\nc\n\n### Response:\n⟦d</s>⟧");
}

TEST(Dialogue, WithoutGenerationBlocksThePrefixesTell) {
  const TempFolder folder;
  const std::string file =
      folder.write("t.jinja",
                   "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}\n{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}");
  config::DataConfig config = options(Dialogue::kMessages, file);
  EXPECT_EQ(shown(config, messages(kTwoTurns)), "<user>a</s>\n<assistant>⟦b</s>⟧\n<user>c</s>\n<assistant>⟦d</s>⟧\n");
  config.learn = config::Learn::kLastTurn;
  EXPECT_EQ(shown(config, messages(kTwoTurns)), "<user>a</s>\n<assistant>b</s>\n<user>c</s>\n<assistant>⟦d</s>⟧\n");
  config.learn = config::Learn::kAll;
  EXPECT_EQ(shown(config, messages(kTwoTurns)), "⟦<user>a</s>\n<assistant>b</s>\n<user>c</s>\n<assistant>d</s>\n⟧");
}

TEST(Dialogue, ATemplateThatChangesEarlierTurnsIsRefused) {
  const TempFolder folder;
  const std::string file =
      folder.write("t.jinja", "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string error =
      error_of<InputError>([&] { shown(options(Dialogue::kMessages, file), messages(kTwoTurns)); });
  EXPECT_NE(error.find("f.jsonl:7: with "), std::string::npos) << error;
  EXPECT_NE(error.find("Put {% generation %} … {% endgeneration %}"), std::string::npos) << error;
}

TEST(Dialogue, OtherKindsOfRecords) {
  const auto sharegpt = record({{"conversations", R"([{"from":"human","value":"a"},{"from":"gpt","value":"b"}])"}});
  EXPECT_EQ(shown(options(Dialogue::kShareGpt, "mistral"), sharegpt), "[INST] a [/INST]⟦ b</s>⟧");
  const auto alpaca = record({{"instruction", "add"}, {"input", "1 2"}, {"output", "3"}});
  EXPECT_EQ(shown(options(Dialogue::kAlpaca, "mistral"), alpaca), "[INST] add\n\n1 2 [/INST]⟦ 3</s>⟧");
  const auto prompt = record({{"prompt", "p"}, {"completion", "c"}});
  config::DataConfig config = options(Dialogue::kPrompt, "mistral");
  config.system = "S";
  EXPECT_EQ(shown(config, prompt), "[INST] S\n\np [/INST]⟦ c</s>⟧");
}

TEST(Dialogue, BadRecordsSayWhere) {
  const auto error = [](const Record& given) {
    return error_of<InputError>([&] { shown(options(Dialogue::kMessages, "llama2"), given); });
  };
  EXPECT_EQ(error(record({{"text", "a"}})),
            "f.jsonl:7: data.dialogue messages needs the column `messages`; there is only: text.");
  EXPECT_EQ(error(messages("{}")), "f.jsonl:7: `messages` is no list of turns.");
  EXPECT_EQ(error(messages("[]")), "f.jsonl:7: the dialogue has no turns.");
  EXPECT_EQ(error(messages(R"([{"role":"user"}])")), "f.jsonl:7: turn 1 has no `content`.");
  EXPECT_EQ(error(messages(R"([{"role":1,"content":"a"}])")), "f.jsonl:7: `role` of turn 1 is no text.");
  EXPECT_EQ(error(messages(R"([{"role":"user","content":" \n"}])")), "f.jsonl:7: turn 1 (user) is empty.");
  EXPECT_EQ(error(messages(R"([{"role":"user","content":"a"}])")),
            "f.jsonl:7: the dialogue has no turn of the assistant, so there is nothing to learn.");
  EXPECT_EQ(error(messages(R"([{"role":"bird","content":"a"},{"role":"assistant","content":"b"}])")),
            "f.jsonl:7: the chat template refuses this dialogue: llama2 knows one system message, user and assistant, "
            "not bird (llama2:11)");
  EXPECT_NE(error(messages(std::string(500, '['))).find("f.jsonl:7: JSON nested deeper"), std::string::npos);
}

TEST(Dialogue, UnknownTemplates) {
  EXPECT_EQ(error_of<ConfigError>([] { DialogueRenderer(options(Dialogue::kMessages, "lama"), kTokenizer); }),
            "data.chat_template: lama is neither a file nor one of chatml, llama2, llama3, mistral, alpaca.");
  EXPECT_EQ(error_of<ConfigError>([] { DialogueRenderer(options(Dialogue::kMessages, ""), kTokenizer); }),
            "data.chat_template: the tokenizer brings no template; name a file or one of chatml, llama2, llama3, "
            "mistral, alpaca.");
}

TEST(Play, ScenesEndWithTheCharacter) {
  const TempFolder folder;
  config::DataSource source;
  source.path = {
      folder.write("p.txt", "ROMEO:\nalone\n\nNURSE:\none\ntwo:\n\nPETER:\nthree\n\nROMEO:\nfour\n\nNURSE:\nend\n")};
  PlayRecords play(source, "ROMEO");
  Record scene;
  ASSERT_TRUE(play.next(scene));
  EXPECT_EQ(scene.where(), source.path[0] + ":4");
  config::DataConfig config = options(Dialogue::kPlay, "mistral");
  config.character = "ROMEO";
  EXPECT_EQ(shown(config, scene), "[INST] NURSE: one\ntwo:\nPETER: three [/INST]⟦ four</s>⟧");
  EXPECT_FALSE(play.next(scene));
}

TEST(Play, NobodyOfThatNameAndNoSpeaker) {
  const TempFolder folder;
  config::DataSource source;
  source.path = {folder.write("p.txt", "A:\nx\n\nB:\ny\n")};
  Record scene;
  PlayRecords play(source, "C");
  EXPECT_EQ(error_of<InputError>([&] { play.next(scene); }),
            "data.character: C never answers anyone in " + source.path[0] + ". Speakers are written as in the text.");
  source.path = {folder.write("q.txt", "Once upon a time\n")};
  PlayRecords prose(source, "C");
  EXPECT_EQ(error_of<InputError>([&] { prose.next(scene); }),
            source.path[0] + ":1: a play begins with a speaker on a line of its own, like \"HAMLET:\".");
}

}  // namespace
}  // namespace trainer::data
