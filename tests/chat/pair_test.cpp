// Pairs of replies: which part of each text is the reply, and which records are refused.
#include "data/chat/pair.h"
#include "data/chat/dialogue_renderer.h"
#include "tests/chat/special_tokenizer.h"
#include "tests/data/support.h"

namespace trainer::data::pair_test {
namespace {

using config::Dialogue;

class EndTokenizer : public ByteTokenizer {
 public:
  std::string piece_of(int32_t id) const override { return id == 1 ? "</s>" : "<unk>"; }
};

Record record(std::vector<std::pair<std::string, std::string>> fields) {
  Record made{std::move(fields), "f.jsonl", 7};
  for (const auto& field : made.fields) made.json.push_back(field.second.starts_with('['));
  return made;
}

config::DataConfig options(Dialogue dialogue) {
  config::DataConfig config;
  config.task = config::Task::kCausalLm;
  config.dialogue = dialogue;
  config.chat_template = "mistral";
  config.source = config::kPromptColumn;
  config.target = config::kChosenColumn;
  config.rejected = config::kRejectedColumn;
  return config;
}

std::string marked(const Rendered& text) {
  const TextRange learned = text.learned.at(0);
  return text.text.substr(0, learned.begin) + "⟦" + text.text.substr(learned.begin, learned.end - learned.begin) + "⟧" +
         text.text.substr(learned.end);
}

/// Both texts, with their replies between ⟦ and ⟧.
std::string shown(const config::DataConfig& config, const Record& given) {
  const RenderedPair pair = DialogueRenderer(config, EndTokenizer()).render_pair(given);
  return marked(pair.chosen) + " > " + marked(pair.rejected);
}

std::string failure(const config::DataConfig& config, const Record& given) {
  try {
    shown(config, given);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

const std::string kUser = R"({"role":"user","content":"a"})", kGood = R"({"role":"assistant","content":"b"})",
                  kBad = R"({"role":"assistant","content":"c"})";
const char* const kBoth = "[INST] a [/INST]⟦ b</s>⟧ > [INST] a [/INST]⟦ c</s>⟧";

std::string list(const std::vector<std::string>& turns) {
  std::string all;
  for (const std::string& turn : turns) all += (all.empty() ? "[" : ",") + turn;
  return all + "]";
}

TEST(Pair, DialoguesBeginWithTheirPrompt) {
  EXPECT_EQ(shown(options(Dialogue::kMessages),
                  record({{"chosen", list({kUser, kGood})}, {"rejected", list({kUser, kBad})}})),
            kBoth);
}

TEST(Pair, APromptHasAColumnOfItsOwn) {
  for (const auto& [good, bad] : {std::pair(list({kGood}), list({kBad})), std::pair(kGood, kBad)})
    EXPECT_EQ(
        shown(options(Dialogue::kMessages), record({{"prompt", list({kUser})}, {"chosen", good}, {"rejected", bad}})),
        kBoth);
}

TEST(Pair, LastTurnsFollowTheColumnOfMessages) {
  EXPECT_EQ(
      shown(options(Dialogue::kMessages), record({{"messages", list({kUser})}, {"chosen", kGood}, {"rejected", kBad}})),
      kBoth);
  EXPECT_EQ(shown(options(Dialogue::kShareGpt), record({{"conversations", R"([{"from":"human","value":"a"}])"},
                                                        {"chosen", R"({"from":"gpt","value":"b"})"},
                                                        {"rejected", R"({"from":"gpt","value":"c"})"}})),
            kBoth);
}

TEST(Pair, TheFormatOfOpenAiIsRead) {
  config::DataConfig config = options(Dialogue::kMessages);
  config.messages = "input";
  config.target = "preferred_output";
  config.rejected = "non_preferred_output";
  EXPECT_EQ(shown(config, record({{"input", R"({"messages": )" + list({kUser}) + R"(, "tools": []})"},
                                  {"preferred_output", list({kGood})},
                                  {"non_preferred_output", list({kBad})}})),
            kBoth);
}

TEST(Pair, APromptThatIsTextRepeatsTheFirstTurnOrPrecedesTheReplies) {
  const config::DataConfig config = options(Dialogue::kMessages);
  EXPECT_EQ(
      shown(config, record({{"prompt", "a"}, {"chosen", list({kUser, kGood})}, {"rejected", list({kUser, kBad})}})),
      kBoth);
  EXPECT_EQ(shown(config, record({{"prompt", "a"}, {"chosen", list({kGood})}, {"rejected", list({kBad})}})), kBoth);
}

TEST(Pair, AListWithItsPromptDoesNotGetItTwice) {
  EXPECT_EQ(
      shown(options(Dialogue::kMessages),
            record({{"prompt", list({kUser})}, {"chosen", list({kUser, kGood})}, {"rejected", list({kUser, kBad})}})),
      kBoth);
}

TEST(Pair, QuestionsAndRepliesAreTexts) {
  EXPECT_EQ(shown(options(Dialogue::kPrompt), record({{"prompt", "a"}, {"chosen", "b"}, {"rejected", "c"}})), kBoth);
  EXPECT_EQ(shown(options(Dialogue::kAlpaca),
                  record({{"instruction", "a"}, {"input", ""}, {"chosen", "b"}, {"rejected", "c"}})),
            kBoth);
}

TEST(Pair, ASystemMessageIsPartOfThePrompt) {
  config::DataConfig config = options(Dialogue::kPrompt);
  config.chat_template = "chatml";
  const std::string begin = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n";
  const std::string both = begin + "⟦b<|im_end|>\n⟧ > " + begin + "⟦c<|im_end|>\n⟧";
  EXPECT_EQ(shown(config, record({{"system", "s"}, {"prompt", "a"}, {"chosen", "b"}, {"rejected", "c"}})), both);
  config.system = "s";
  EXPECT_EQ(shown(config, record({{"system", ""}, {"prompt", "a"}, {"chosen", "b"}, {"rejected", "c"}})), both);
  config.system = "of the configuration";
  for (const config::Dialogue dialogue : {config::Dialogue::kMessages, config::Dialogue::kAlpaca}) {
    config.dialogue = dialogue;
    const bool turns = dialogue == config::Dialogue::kMessages;
    EXPECT_EQ(shown(config, record({{"system", "s"},
                                    {"instruction", "a"},
                                    {"chosen", turns ? list({kUser, kGood}) : "b"},
                                    {"rejected", turns ? list({kUser, kBad}) : "c"}})),
              both);
  }
}

TEST(Pair, AllTurnsAfterThePromptAreTheReply) {
  const std::string more = R"({"role":"user","content":"d"})";
  EXPECT_EQ(shown(options(Dialogue::kMessages),
                  record({{"chosen", list({kUser, kGood, more, kGood})}, {"rejected", list({kUser, kBad})}})),
            "[INST] a [/INST]⟦ b</s>[INST] d [/INST] b</s>⟧ > [INST] a [/INST]⟦ c</s>⟧");
}

TEST(Pair, EqualRepliesAreNoPreference) {
  const RenderedPair pair =
      DialogueRenderer(options(Dialogue::kMessages), EndTokenizer())
          .render_pair(record({{"chosen", list({kUser, kGood})}, {"rejected", list({kUser, kGood})}}));
  EXPECT_TRUE(pair.same);
}

TEST(Pair, UnusableDialoguesAreNamed) {
  const config::DataConfig config = options(Dialogue::kMessages);
  const auto error = [&](const std::string& chosen, const std::string& rejected) {
    return failure(config, record({{"chosen", chosen}, {"rejected", rejected}}));
  };
  EXPECT_EQ(error(list({kUser, kGood}), list({kUser})),
            "f.jsonl:7: `rejected` has no reply: all of its turns are in the other reply too.");
  EXPECT_EQ(error(list({kUser, kGood}), list({kUser, R"({"role":"assistant","content":" "})"})),
            "f.jsonl:7: the reply in `rejected` is empty.");
  EXPECT_EQ(error(list({kUser, kGood}), list({kUser, kUser})),
            "f.jsonl:7: in `rejected`, the turn after the prompt is of the role 'user'; a reply is the assistant's.");
  EXPECT_NE(error(list({kGood}), list({kBad})).find("has no prompt"), std::string::npos);
  EXPECT_EQ(error("b", list({kUser, kBad})), "f.jsonl:7: `chosen` is not a list of turns.");
  EXPECT_NE(failure(config, record({{"chosen", list({kUser, kGood})}})).find("needs the column `rejected`"),
            std::string::npos);
}

std::string texts(const Record& given, config::DataConfig config = options(Dialogue::kNone)) {
  const PairOfTexts pair = texts_of_pair(given, config);
  return pair.prompt + "|" + pair.chosen + "|" + pair.rejected;
}

TEST(PairOfTexts, HasItsPromptInAColumnOrAtItsBeginning) {
  EXPECT_EQ(texts(record({{"prompt", "a"}, {"chosen", " b"}, {"rejected", " c"}})), "a| b| c");
  // A space before the first difference belongs to the replies.
  EXPECT_EQ(texts(record({{"chosen", "H: a A: b"}, {"rejected", "H: a A: c"}})), "H: a A:| b| c");
  EXPECT_EQ(texts(record({{"chosen", "xé"}, {"rejected", "xè"}})), "x|é|è");  // not in the middle of a character
  config::DataConfig config = options(Dialogue::kNone);
  config.source = "Q: {q}\n";
  config.target = "good";
  config.rejected = "{bad}!";
  EXPECT_EQ(texts(record({{"q", "a"}, {"good", "b"}, {"bad", "c"}}), config), "Q: a\n|b|c!");
}

TEST(PairOfTexts, NamesWhatItCannotUse) {
  const auto error = [](const Record& given, config::DataConfig config = options(Dialogue::kNone)) -> std::string {
    try {
      texts_of_pair(given, config);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error(record({{"prompt", "a"}, {"chosen", ""}, {"rejected", "c"}})),
            "f.jsonl:7: the text for `data.target` is empty.");
  EXPECT_NE(error(record({{"chosen", list({kUser, kGood})}, {"rejected", list({kUser, kBad})}}))
                .find("`chosen` holds turns: set data.dialogue to messages"),
            std::string::npos);
  EXPECT_EQ(error(record({{"chosen", "a b"}, {"rejected", "a"}})),
            "f.jsonl:7: the reply in `rejected` is empty: the other one begins with it.");
}

}  // namespace
}  // namespace trainer::data::pair_test
