// Renders the dialogues of records and finds their learned ranges.
#include <nlohmann/json.hpp>

#include "data/chat/dialogue_renderer.h"
#include "data/chat/play_records.h"
#include "tests/chat/special_tokenizer.h"
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

/// The text with the learned ranges between ⟦ and ⟧.
std::string with_learned(const Rendered& dialogue) {
  std::string out;
  size_t at = 0;
  for (const TextRange& range : dialogue.learned) {
    out += dialogue.text.substr(at, range.begin - at) + "⟦" +
           dialogue.text.substr(range.begin, range.end - range.begin) + "⟧";
    at = range.end;
  }
  return out + dialogue.text.substr(at);
}

std::string shown(const config::DataConfig& config, const Record& given, const Tokenizer& tokenizer = kTokenizer) {
  return with_learned(DialogueRenderer(config, tokenizer).render(given).at(0));
}

const char* const kTwoTurns =
    R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},)"
    R"({"role":"assistant","content":[{"type":"text","text":"d"}]}])";

TEST(Dialogue, BuiltInTemplatesLearnReplies) {
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

TEST(Dialogue, FindsRepliesByPrefixWithoutGenerationBlocks) {
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

TEST(Dialogue, RejectsATemplateThatChangesEarlierTurns) {
  const TempFolder folder;
  const std::string file =
      folder.write("t.jinja", "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string error =
      error_of<InputError>([&] { shown(options(Dialogue::kMessages, file), messages(kTwoTurns)); });
  EXPECT_NE(error.find("f.jsonl:7: " + file + " renders turn 2 differently"), std::string::npos) << error;
  EXPECT_NE(error.find("put {% generation %} … {% endgeneration %}"), std::string::npos) << error;
}

/// `source` for kTwoTurns, with each way to learn.
struct Ways {
  std::string assistant, last_turn, all;
};

Ways ways_of(const std::string& source, std::vector<std::string> specials, const std::string& turns = kTwoTurns) {
  const SpecialTokenizer tokenizer(std::move(specials));
  config::DataConfig config = options(Dialogue::kMessages, source);
  const auto with = [&](config::Learn learn) {
    config.learn = learn;
    try {
      return shown(config, messages(turns), tokenizer);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  return {with(config::Learn::kAssistant), with(config::Learn::kLastTurn), with(config::Learn::kAll)};
}

/// A template as Qwen3's: the last reply has its thoughts, or an empty block of them; earlier replies have none.
const char* const kThinks =
    "{% for m in messages %}{{ '<S>' ~ m.role ~ ':' }}"
    "{% if m.role == 'assistant' and loop.last %}{{ '<think>' ~ (m.thoughts or '') ~ '</think>' }}{% endif %}"
    "{{ m.content ~ '<E>' }}{% endfor %}{% if add_generation_prompt %}<S>assistant:{% endif %}";

std::vector<std::string> each_of(const config::DataConfig& config, const Record& given, const Tokenizer& tokenizer) {
  std::vector<std::string> out;
  for (const Rendered& dialogue : DialogueRenderer(config, tokenizer).render(given))
    out.push_back(with_learned(dialogue));
  return out;
}

TEST(Learn, EachTurnIsASampleAsTheTemplateRendersItLast) {
  const SpecialTokenizer tokenizer({"<E>", "<S>"});
  config::DataConfig config = options(Dialogue::kMessages, kThinks);
  config.learn = config::Learn::kEachTurn;
  const Record three = messages(R"([{"role":"system","content":"s"},{"role":"user","content":"a"},)"
                                R"({"role":"assistant","content":"b","thoughts":"x"},{"role":"user","content":"c"},)"
                                R"({"role":"assistant","content":"d"},{"role":"user","content":"e"}])");
  EXPECT_EQ(each_of(config, three, tokenizer),
            (std::vector<std::string>{
                "<S>system:s<E><S>user:a<E><S>assistant:⟦<think>x</think>b<E>⟧",
                "<S>system:s<E><S>user:a<E><S>assistant:b<E><S>user:c<E><S>assistant:⟦<think></think>d<E>⟧"}));
  // With generation blocks, too.
  config.chat_template = "chatml";
  EXPECT_EQ(each_of(config, messages(kTwoTurns), tokenizer),
            (std::vector<std::string>{"<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n⟦b<|im_end|>⟧\n",
                                      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
                                      "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n⟦d<|im_end|>⟧\n"}));
}

TEST(Learn, AReplyMayHaveSeveralGenerationBlocks) {
  config::DataConfig config =
      options(Dialogue::kMessages,
              "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}({{ m.content }})"
              "{% endgeneration %}<answer>{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content "
              "}}{% endif %}{% endfor %}"
              "{% if add_generation_prompt %}<assistant>{% elif messages[-1].role == 'assistant' %}{% generation %}</s>"
              "{% endgeneration %}{% endif %}");
  const auto prompt_of = [](const config::DataConfig& chosen) {
    const Rendered dialogue = DialogueRenderer(chosen, kTokenizer).render(messages(kTwoTurns)).at(0);
    return dialogue.text.substr(0, dialogue.last_reply);
  };
  EXPECT_EQ(shown(config, messages(kTwoTurns)),
            "<user>a<assistant>⟦(b)⟧<answer>⟦b⟧<user>c<assistant>⟦(d)⟧<answer>⟦d⟧⟦</s>⟧");
  EXPECT_EQ(prompt_of(config), "<user>a<assistant>(b)<answer>b<user>c<assistant>");
  config.learn = config::Learn::kLastTurn;
  EXPECT_EQ(shown(config, messages(kTwoTurns)),
            "<user>a<assistant>(b)<answer>b<user>c<assistant>⟦(d)⟧<answer>⟦d⟧⟦</s>⟧");
  EXPECT_EQ(prompt_of(config), "<user>a<assistant>(b)<answer>b<user>c<assistant>");
}

TEST(Dialogue, ToolCallsOfLlamaFactory) {
  config::DataConfig config =
      options(Dialogue::kShareGpt,
              "{% for t in tools %}{{ t.type ~ ' ' ~ t.function.name }};{% endfor %}"
              "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
              "{% for c in m.tool_calls %}{{ c.function.name ~ (c.function.arguments | tojson) }}{% endfor %}|"
              "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt "
              "%}<assistant>{% endif %}");
  const auto with = [&](const std::string& call) {
    return record({{"conversations", R"([{"from":"human","value":"a"},{"from":"function_call","value":)" +
                                         nlohmann::json(call).dump() +
                                         R"(},{"from":"observation","value":"o"},{"from":"gpt","value":"b"}])"},
                   {"tools", R"([{"name":"f"},{"type":"function","function":{"name":"g"}}])"}});
  };
  EXPECT_EQ(shown(config, with(R"({"name": "f", "arguments": {"x": 1}})")),
            "function f;function g;<user>a<assistant>⟦f{\"x\": 1}|⟧<tool>o<assistant>⟦b|⟧");
  EXPECT_EQ(shown(config, with(R"(<think>t</think>[{"name": "f", "arguments": "s"}, {"name": "g", "arguments": {}}])")),
            "function f;function g;<user>a<assistant>⟦<think>t</think>f\"s\"g{}|⟧<tool>o<assistant>⟦b|⟧");
  for (const char* const bad : {"f(1)", "[]", "7", R"({"name": "f"})", R"([{"name": "f", "arguments": {}}, 7])"})
    EXPECT_EQ(error_of<InputError>([&] { shown(config, with(bad)); }),
              "f.jsonl:7: turn 2 is a function_call, but not an object with `name` and `arguments`, nor a list of such "
              "objects.")
        << bad;
}

TEST(Learn, EachTurnOfACompletion) {
  const SpecialTokenizer tokenizer({"<E>", "<S>"});
  config::DataConfig config = options(Dialogue::kMessages, kThinks);
  config.learn = config::Learn::kEachTurn;
  const auto with = [](const char* completion) {
    return record({{"prompt", R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
                              R"({"role":"user","content":"c"}])"},
                   {"completion", completion}});
  };
  EXPECT_EQ(each_of(config, with(R"([{"role":"assistant","content":"d"}])"), tokenizer),
            (std::vector<std::string>{"<S>user:a<E><S>assistant:b<E><S>user:c<E><S>assistant:⟦<think></think>d<E>⟧"}));
  EXPECT_EQ(error_of<InputError>([&] { each_of(config, with(R"([{"role":"user","content":"d"}])"), tokenizer); }),
            "f.jsonl:7: the completion has no assistant turn.");
}

TEST(Learn, AcceptsAPromptLongerThanTheStartOfTheTurn) {
  const Ways ways = ways_of(
      "{% for m in messages %}{{ ('<U>' if m.role == 'user' else '<A>') ~ m.content }}{{ '<E>' if m.role == "
      "'assistant' }}"
      "{% endfor %}{% if add_generation_prompt %}<A><think>{% endif %}",
      {"<E>", "<U>", "<A>"});
  EXPECT_EQ(ways.assistant, "<U>a<A>⟦b<E>⟧<U>c<A>⟦d<E>⟧");
  EXPECT_EQ(ways.last_turn, "<U>a<A>b<E><U>c<A>⟦d<E>⟧");
  EXPECT_EQ(ways.all, "⟦<U>a<A>b<E><U>c<A>d<E>⟧");
}

TEST(Learn, KeepsAReplyWholeThatBeginsLikeTheRestOfThePrompt) {
  const Ways ways = ways_of(
      "{% for m in messages %}{{ '<U>' if m.role == 'user' else '<A>' }}{{ m.content }}<E>{% endfor %}"
      "{% if add_generation_prompt %}<A><think>{% endif %}",
      {"<E>", "<U>", "<A>"}, R"([{"role":"user","content":"a"},{"role":"assistant","content":"<thanks>"}])");
  EXPECT_EQ(ways.assistant, "<U>a<E><A>⟦<thanks><E>⟧");
}

TEST(Learn, ExcludesATokenAfterTheWholeDialogue) {
  const Ways ways = ways_of(
      "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content ~ '<|end|>\n' }}{% endfor %}"
      "{{ '<|assistant|>' if add_generation_prompt else '<|eos|>' }}",
      {"<|eos|>", "<|end|>", "<|user|>", "<|assistant|>"});
  EXPECT_EQ(ways.assistant,
            "<|user|>a<|end|>\n<|assistant|>⟦b<|end|>⟧\n<|user|>c<|end|>\n<|assistant|>⟦d<|end|>⟧\n<|eos|>");
}

TEST(Learn, AcceptsADifferentTokenAtTheEndOfTheLastTurn) {
  const Ways ways = ways_of(
      "{% for m in messages %}{{ '<|start|>' ~ m.role ~ '<|message|>' ~ m.content }}"
      "{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}{% endfor %}"
      "{{ '<|start|>assistant' if add_generation_prompt }}",
      {"<|return|>", "<|end|>", "<|start|>", "<|message|>"});
  EXPECT_EQ(ways.assistant,
            "<|start|>user<|message|>a<|end|><|start|>assistant⟦<|message|>b<|end|>⟧"
            "<|start|>user<|message|>c<|end|><|start|>assistant⟦<|message|>d<|return|>⟧");
}

TEST(Learn, ExcludesTextAfterTheEndOfATurn) {
  const char* const line_end =
      "{% for m in messages %}{{ '<start>' ~ m.role ~ '\n' ~ m.content ~ '<end>\n' }}{% endfor %}"
      "{{ '<start>assistant\n' if add_generation_prompt }}";
  EXPECT_EQ(ways_of(line_end, {"<eos>", "<start>", "<end>"}).assistant,
            "<start>user\na<end>\n<start>assistant\n⟦b<end>⟧\n<start>user\nc<end>\n<start>assistant\n⟦d<end>⟧\n");
  // A template that always adds a generation prompt.
  const char* const always =
      "{% for m in messages %}{{ '<T><' ~ m.role ~ '>' }}{{ '<R>' ~ m.content ~ '</R>' if m.role == 'assistant' else "
      "m.content }}</T>{% endfor %}<T><assistant><R2>";
  const Ways ways = ways_of(always, {"<eos>", "<T>", "</T>", "<R>", "</R>", "<R2>", "<user>", "<assistant>"});
  EXPECT_EQ(ways.assistant,
            "<T><user>a</T><T><assistant>⟦<R>b</R></T>⟧<T><user>c</T><T><assistant>⟦<R>d</R></T>⟧<T><assistant><R2>");
}

TEST(Learn, LearnsTheLastReplyOfATemplateThatRewritesEarlierOnes) {
  const Ways ways = ways_of(
      "{% for m in messages %}{{ '<S>' ~ m.role ~ ':' }}{{ '<think></think>' if loop.last and m.role == 'assistant' }}"
      "{{ m.content }}<E>{% endfor %}{{ '<S>assistant:' if add_generation_prompt }}",
      {"<E>", "<S>"});
  EXPECT_NE(ways.assistant.find("renders turn 2 differently"), std::string::npos) << ways.assistant;
  EXPECT_EQ(ways.last_turn, "<S>user:a<E><S>assistant:b<E><S>user:c<E><S>assistant:⟦<think></think>d<E>⟧");
  EXPECT_EQ(ways.all, "⟦<S>user:a<E><S>assistant:b<E><S>user:c<E><S>assistant:<think></think>d<E>⟧");
}

TEST(Learn, FindsTheLastTurnWhenItsPromptDiffers) {
  const Ways ways = ways_of(
      "{% for m in messages %}{% if m.role == 'user' %}[I]{{ 'Be kind. ' if loop.last }}{{ m.content }}[/I]"
      "{% else %}{{ m.content }}<E>{% endif %}{% endfor %}",
      {"<E>", "[I]", "[/I]"});
  EXPECT_NE(ways.assistant.find("renders turn 2 differently"), std::string::npos) << ways.assistant;
  EXPECT_EQ(ways.last_turn, "[I]a[/I]b<E>[I]c[/I]⟦d<E>⟧");
  const char* const reasons = R"([{"role":"user","content":"a"},{"role":"assistant","content":"<think>b</think>c"}])";
  EXPECT_EQ(
      ways_of("{% for m in messages %}<S>{{ m.role }}:{{ '<think></think>' if m.role == 'assistant' and '<think>' "
              "not in m.content }}{{ m.content }}<E>{% endfor %}{{ '<S>assistant:<think></think>' if "
              "add_generation_prompt }}",
              {"<E>", "<S>"}, reasons)
          .last_turn,
      "<S>user:a<E><S>assistant:<think>⟦b</think>c<E>⟧");
}

TEST(Learn, LastTurnEndsTheDialogue) {
  const char* const source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<E>{% endfor %}{{ '<assistant>' if add_generation_prompt }}";
  const char* const turns =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}])";
  EXPECT_EQ(ways_of(source, {"<E>"}, turns).last_turn, "<user>a<E><assistant>⟦b<E>⟧");
}

TEST(Tools, ArePassedToTheTemplate) {
  const std::string source =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{{ '<assistant>' if add_generation_prompt }}";
  const auto with = [&](const std::string& tools) {
    return record(
        {{"messages", R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])"}, {"tools", tools}});
  };
  const config::DataConfig config = options(Dialogue::kMessages, source);
  EXPECT_EQ(shown(config, with(R"([{"name": "f", "strict": null}])")),
            R"([{"name": "f", "strict": null}]<user>a<assistant>⟦b⟧)");
  EXPECT_EQ(shown(config, with("")), "<user>a<assistant>⟦b⟧");
  EXPECT_EQ(shown(config, with("[]")), "<user>a<assistant>⟦b⟧");
  const auto error = [&](const std::string& tools, const std::string& chat_template) {
    return error_of<InputError>([&] { shown(options(Dialogue::kMessages, chat_template), with(tools)); });
  };
  EXPECT_EQ(error("{}", source), "f.jsonl:7: `tools` is not a list of tools.");
  EXPECT_EQ(error("[1]", source), "f.jsonl:7: item 1 of `tools` is not an object.");
  EXPECT_EQ(error(R"([{"name": "f"}])", "chatml"),
            "f.jsonl:7: the record has `tools`, which chatml never prints.\n"
            "Set data.chat_template to a template that supports tools, or remove the column.");
}

TEST(Tools, UseTheTokenizersTemplateForTools) {
  const SpecialTokenizer tokenizer({"</s>"}, {{"default", "{{ messages[1].content }}"},
                                              {"tool_use", "{{ tools[0].name }}:{{ messages[1].content }}"}});
  config::DataConfig config = options(Dialogue::kMessages, "");
  config.learn = config::Learn::kAll;
  Record given = messages(kTwoTurns);
  EXPECT_EQ(shown(config, given, tokenizer), "⟦b⟧");
  given.fields.emplace_back("tools", R"([{"name": "f"}])");
  EXPECT_EQ(shown(config, given, tokenizer), "⟦f:b⟧");
}

TEST(Contents, NullAndEmptyContentsFollowTheTemplate) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content if m.content is string else m.content is defined }}</s>"
      "{% endfor %}{{ '<assistant>' if add_generation_prompt }}";
  const auto with = [&](const std::string& first, const std::string& second) {
    return shown(options(Dialogue::kMessages, source),
                 messages(R"([{"role":"user")" + first + R"(},{"role":"assistant")" + second + "}]"));
  };
  EXPECT_EQ(with(R"(,"content":null)", R"(,"content":"b")"), "<user>True</s><assistant>⟦b</s>⟧");
  EXPECT_EQ(with("", R"(,"content":"")"), "<user>False</s><assistant>⟦</s>⟧");
  EXPECT_EQ(with(R"(,"content":" ")", R"(,"content":null)"), "<user> </s><assistant>⟦True</s>⟧");
  const Record null_value =
      record({{"conversations", R"([{"from":"human","value":null},{"from":"gpt","value":"b"}])"}});
  EXPECT_EQ(shown(options(Dialogue::kShareGpt, source), null_value), "<user>True</s><assistant>⟦b</s>⟧");
}

TEST(Contents, PartsArePassedToATemplateThatPrintsThem) {
  const std::string loop =
      "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}"
      "{{ '<assistant>' if add_generation_prompt }}";
  const Record parts = messages(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
                                R"({"role":"assistant","content":"c"}])");
  EXPECT_EQ(shown(options(Dialogue::kMessages, loop), parts), "<user>[a][b]<assistant>⟦c⟧");
  EXPECT_EQ(shown(options(Dialogue::kMessages, "mistral"), parts), "[INST] ab [/INST]⟦ c</s>⟧");
}

TEST(Dialogue, AColumnIsTheSystemMessageOfTurnsWithoutOne) {
  const config::DataConfig config = options(Dialogue::kMessages, "mistral");
  const auto with = [](std::string turns) { return record({{"system", "S"}, {"messages", std::move(turns)}}); };
  EXPECT_EQ(shown(config, with(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])")),
            "[INST] S\n\na [/INST]⟦ b</s>⟧");
  EXPECT_EQ(shown(config, with(R"([{"role":"system","content":"T"},{"role":"user","content":"a"},)"
                               R"({"role":"assistant","content":"b"}])")),
            "[INST] T\n\na [/INST]⟦ b</s>⟧");
}

TEST(Dialogue, AcceptsATemplateInTheConfiguration) {
  const std::string source = "{# " + std::string(300, 'x') + " #}{% for m in messages %}{{ m.content }}{% endfor %}";
  config::DataConfig config = options(Dialogue::kMessages, source);
  config.learn = config::Learn::kAll;
  EXPECT_EQ(shown(config, messages(kTwoTurns)), "⟦abcd⟧");
  EXPECT_EQ(error_of<InputError>([&] { shown(options(Dialogue::kMessages, "\n{{ 1"), messages(kTwoTurns)); }),
            "data.chat_template:2: a tag that begins with {{ has no closing }}.");
}

TEST(Dialogue, ReadsOtherKindsOfRecords) {
  const auto sharegpt = record({{"conversations", R"([{"from":"human","value":"a"},{"from":"gpt","value":"b"}])"}});
  EXPECT_EQ(shown(options(Dialogue::kShareGpt, "mistral"), sharegpt), "[INST] a [/INST]⟦ b</s>⟧");
  const auto alpaca = record({{"instruction", "add"}, {"input", "1 2"}, {"output", "3"}});
  EXPECT_EQ(shown(options(Dialogue::kAlpaca, "mistral"), alpaca), "[INST] add\n\n1 2 [/INST]⟦ 3</s>⟧");
  const auto prompt = record({{"prompt", "p"}, {"completion", "c"}});
  config::DataConfig config = options(Dialogue::kPrompt, "mistral");
  config.source = config::kPromptColumn;
  config.target = config::kCompletionColumn;
  config.system = "S";
  EXPECT_EQ(shown(config, prompt), "[INST] S\n\np [/INST]⟦ c</s>⟧");
  const auto own = record({{"system", "T"}, {"prompt", "p"}, {"completion", "c"}});
  EXPECT_EQ(shown(config, own), "[INST] T\n\np [/INST]⟦ c</s>⟧") << "a record's own, before the configuration's";
  config.source = "{title}: {question}";
  config.target = "answer";
  const auto named = record({{"title", "t"}, {"question", "q"}, {"answer", "a"}});
  EXPECT_EQ(shown(config, named), "[INST] S\n\nt: q [/INST]⟦ a</s>⟧");
  EXPECT_NE(error_of<InputError>([&] { shown(config, prompt); }).find("no column 'title', which `data.source` uses"),
            std::string::npos);
}

TEST(Dialogue, ACompletionRepliesToItsPrompt) {
  const auto given = record({{"prompt", R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
                                        R"({"role":"user","content":"c"}])"},
                             {"completion", R"([{"role":"assistant","content":"d"}])"}});
  config::DataConfig config = options(Dialogue::kMessages, "mistral");
  EXPECT_EQ(shown(config, given), "[INST] a [/INST] b</s>[INST] c [/INST]⟦ d</s>⟧") << "not the prompt's replies";
  config.system = "S";
  EXPECT_EQ(shown(config, given), "[INST] S\n\na [/INST] b</s>[INST] c [/INST]⟦ d</s>⟧");
  config.learn = config::Learn::kAll;
  EXPECT_EQ(shown(config, given), "⟦[INST] S\n\na [/INST] b</s>[INST] c [/INST] d</s>⟧");
  EXPECT_EQ(error_of<InputError>([&] {
              shown(config, record({{"prompt", "a"}, {"completion", R"([{"role":"assistant","content":"d"}])"}}));
            }),
            "f.jsonl:7: `prompt` is not a list of turns.");
}

TEST(Dialogue, AColumnHasVariablesOfTheTemplate) {
  const std::string source =
      "{% for m in messages %}{{ m.role[0] + m.content }}{% if think and m.role == 'assistant' %}!{% endif %}{% endfor "
      "%}";
  const std::string turns = R"([{"role":"user","content":"x"},{"role":"assistant","content":"y"}])";
  config::DataConfig config = options(Dialogue::kMessages, source);
  config.learn = config::Learn::kAll;
  const auto with = [&](const char* variables) {
    return shown(config, record({{"messages", turns}, {"chat_template_kwargs", variables}}));
  };
  EXPECT_EQ(with(R"({"think": true})"), "⟦uxay!⟧");
  EXPECT_EQ(with(R"({"think": false})"), "⟦uxay⟧");
  EXPECT_EQ(with(""), "⟦uxay⟧");
  EXPECT_EQ(error_of<InputError>([&] { with("[1]"); }), "f.jsonl:7: `chat_template_kwargs` is not an object.");
}

TEST(Dialogue, BadRecordsAreReportedWithFileAndLine) {
  const auto error = [](const Record& given) {
    return error_of<InputError>([&] { shown(options(Dialogue::kMessages, "llama2"), given); });
  };
  EXPECT_EQ(error(record({{"text", "a"}})),
            "f.jsonl:7: data.dialogue: messages needs the column `messages`; the record has only: text.");
  EXPECT_EQ(error(messages("{}")), "f.jsonl:7: `messages` is not a list of turns.");
  EXPECT_EQ(error(messages("[]")), "f.jsonl:7: the dialogue has no turns.");
  EXPECT_EQ(error(messages(R"([{"content":"a"}])")), "f.jsonl:7: turn 1 has no `role`.");
  EXPECT_EQ(error(messages(R"([{"role":1,"content":"a"}])")), "f.jsonl:7: `role` of turn 1 is not a string.");
  EXPECT_EQ(error(messages(R"([{"role":"user","content":1}])")), "f.jsonl:7: `content` of turn 1 is not a string.");
  EXPECT_EQ(error(messages(R"([{"role":"user","content":"a"}])")),
            "f.jsonl:7: the dialogue has no assistant turn, so there is nothing to learn.");
  EXPECT_EQ(error(messages(R"([{"role":"bird","content":"a"},{"role":"assistant","content":"b"}])")),
            "f.jsonl:7: the chat template rejects this dialogue: llama2 knows one system message, user and assistant, "
            "not bird (llama2:11)");
  EXPECT_NE(error(messages(std::string(500, '['))).find("f.jsonl:7: JSON nested deeper"), std::string::npos);
}

TEST(Dialogue, RejectsUnknownTemplates) {
  EXPECT_EQ(error_of<ConfigError>([] { DialogueRenderer(options(Dialogue::kMessages, "lama"), kTokenizer); }),
            "data.chat_template: lama is neither a file nor one of chatml, llama2, llama3, mistral, alpaca.");
  EXPECT_EQ(error_of<ConfigError>([] { DialogueRenderer(options(Dialogue::kMessages, ""), kTokenizer); }),
            "data.chat_template: the tokenizer has no chat template; name a file or one of chatml, llama2, llama3, "
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

TEST(Play, RejectsAnUnknownCharacterAndATextWithoutSpeakers) {
  const TempFolder folder;
  config::DataSource source;
  source.path = {folder.write("p.txt", "A:\nx\n\nB:\ny\n")};
  Record scene;
  PlayRecords play(source, "C");
  EXPECT_EQ(error_of<InputError>([&] { play.next(scene); }),
            "data.character: C never answers anyone in " + source.path[0] + ". Spell the name as in the text.");
  source.path = {folder.write("q.txt", "Once upon a time\n")};
  PlayRecords prose(source, "C");
  EXPECT_EQ(error_of<InputError>([&] { prose.next(scene); }),
            source.path[0] + ":1: a play must begin with a speaker on a separate line, like \"HAMLET:\".");
}

}  // namespace
}  // namespace trainer::data
