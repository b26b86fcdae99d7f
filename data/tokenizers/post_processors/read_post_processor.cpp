#include "data/tokenizers/post_processors/post_processor.h"
#include "data/tokenizers/post_processors/trim_offsets.h"

namespace trainer::data {
namespace {

class ByteLevelOffsets : public PostProcessor {
 public:
  explicit ByteLevelOffsets(const JsonView& view)
      : trim_offsets_(view.at("trim_offsets").flag(true)), add_prefix_space_(view.at("add_prefix_space").flag(true)) {}
  void apply(std::vector<PlacedToken>& tokens, std::string_view original, bool) const override {
    if (trim_offsets_) trim_offsets(tokens, original, add_prefix_space_);
  }

 private:
  bool trim_offsets_, add_prefix_space_;
};

/// Adds tokens before and after those of the text.
class Surround : public PostProcessor {
 public:
  Surround(std::vector<int32_t> front, std::vector<int32_t> behind)
      : front_(std::move(front)), behind_(std::move(behind)) {}

  void apply(std::vector<PlacedToken>& tokens, std::string_view, bool add_special) const override {
    if (!add_special) return;
    std::vector<PlacedToken> front;
    for (int32_t id : front_) front.push_back({id, 0, 0});
    tokens.insert(tokens.begin(), front.begin(), front.end());
    for (int32_t id : behind_) tokens.push_back({id, 0, 0});
  }

 private:
  std::vector<int32_t> front_, behind_;
};

class PostProcessorSequence : public PostProcessor {
 public:
  void add(std::unique_ptr<PostProcessor> stage) {
    if (stage) stages_.push_back(std::move(stage));
  }
  void apply(std::vector<PlacedToken>& tokens, std::string_view original, bool add_special) const override {
    for (const auto& stage : stages_) stage->apply(tokens, original, add_special);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> stages_;
};

int32_t token_id(const JsonView& view) {
  return static_cast<int32_t>(view.integer(0, INT32_MAX - 1));
}

/// `single` of TemplateProcessing: the sequence A with special tokens around it. (`pair` is for two texts at once.)
std::unique_ptr<PostProcessor> read_template(const JsonView& view) {
  std::vector<int32_t> front, behind;
  bool seen = false;
  for (const JsonView& item : view.at("single").items()) {
    if (!item.at("Sequence").is_null()) {
      if (seen || item.at("Sequence").at("id").text() != "A") item.problem("expected exactly one sequence A");
      seen = true;
      continue;
    }
    std::string name = item.at("SpecialToken").at("id").text();
    JsonView ids = view.at("special_tokens").at(name).at("ids");
    if (ids.is_null()) item.problem("\"" + name + "\" is not among the special_tokens of this template");
    for (const JsonView& id : ids.items()) (seen ? behind : front).push_back(token_id(id));
  }
  if (!seen) view.at("single").problem("no sequence A: the text would be lost");
  return surround(std::move(front), std::move(behind));
}

/// BertProcessing and RobertaProcessing: `cls` before and `sep` after the text, each as [text, id].
std::unique_ptr<PostProcessor> read_cls_sep(const JsonView& view) {
  auto id = [&](const char* key) -> std::vector<int32_t> {
    std::vector<JsonView> pair = view.at(key).items();
    if (pair.size() == 2) return {token_id(pair[1])};
    view.at(key).problem("expected a list of a token and its id");
    return {};
  };
  return surround(id("cls"), id("sep"));
}

std::unique_ptr<PostProcessor> read_roberta(const JsonView& view) {
  auto sequence = std::make_unique<PostProcessorSequence>();
  sequence->add(std::make_unique<ByteLevelOffsets>(view));
  sequence->add(read_cls_sep(view));
  return sequence;
}

std::unique_ptr<PostProcessor> read_post_processor_sequence(const JsonView& view) {
  auto sequence = std::make_unique<PostProcessorSequence>();
  for (const JsonView& item : view.at("processors").items()) sequence->add(read_post_processor(item));
  return sequence;
}

std::unique_ptr<PostProcessor> read_byte_level(const JsonView& view) {
  return std::make_unique<ByteLevelOffsets>(view);
}

using PostProcessorReader = std::unique_ptr<PostProcessor> (*)(const JsonView&);

}  // namespace

std::unique_ptr<PostProcessor> read_post_processor(const JsonView& view) {
  if (view.is_null()) return nullptr;
  auto read = view.at("type").choice<PostProcessorReader>({{"TemplateProcessing", read_template},
                                                           {"ByteLevel", read_byte_level},
                                                           {"BertProcessing", read_cls_sep},
                                                           {"RobertaProcessing", read_roberta},
                                                           {"Sequence", read_post_processor_sequence}});
  return read ? (*read)(view) : nullptr;
}

std::unique_ptr<PostProcessor> surround(std::vector<int32_t> front, std::vector<int32_t> behind) {
  return std::make_unique<Surround>(std::move(front), std::move(behind));
}

}  // namespace trainer::data
