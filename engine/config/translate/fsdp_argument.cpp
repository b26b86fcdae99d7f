// `training.fsdp` and `training.fsdp_config`, TrainingArguments' way of asking for FSDP.
#include <algorithm>
#include <sstream>

#include "engine/config/plan/files.h"
#include "engine/config/tables.h"
#include "engine/config/translate/translate.h"
#include "engine/config/translate/translation.h"

namespace trainer::config {
namespace {

const std::vector<std::string> kWords{"full_shard",         "shard_grad_op", "no_shard", "hybrid_shard",
                                      "hybrid_shard_zero2", "offload",       "auto_wrap"};

class FsdpArgument {
 public:
  explicit FsdpArgument(Draft& draft) : draft_(draft), translation_(draft) {}

  void translate() {
    GivenKey fsdp = translation_.foreign("training.fsdp");
    GivenKey config = translation_.foreign("training.fsdp_config");
    if (fsdp.value.is_map()) {  // the newest form: the keys of fsdp_config inline
      config = fsdp;
      fsdp.value = Node::scalar("true");
    }
    older_places();
    if (!wanted(fsdp)) {
      if (!config.value.is_null() && !(config.value.is_map() && config.value.members.empty()))
        translation_.no_effect(config, "training.fsdp is not given");
      return;
    }
    translation_.set(fsdp, "distributed_type", encode(DistributedType::kFsdp));
    words(fsdp);
    keys(config);
  }

 private:
  static bool wanted(const GivenKey& fsdp) {
    const Node& value = fsdp.value;
    if (value.is_scalar()) return !value.text.empty() && parse_bool(value.text) != false;
    return value.is_list() && !value.items.empty();
  }

  /// A strategy, "offload" and "auto_wrap", separated by blanks or in a list. auto_wrap is the default here: it only
  /// makes the units that are gathered at once smaller.
  void words(const GivenKey& fsdp) {
    std::vector<std::string> given;
    if (fsdp.value.is_scalar() && parse_bool(fsdp.value.text) == true) return;
    if (const std::string why = decode(fsdp.value, given); !why.empty()) {
      draft_.problems.add(fsdp.mark, fsdp.key, fmt::format("{} {}", fsdp.key, why));
      return;
    }
    for (const std::string& text : given) {
      std::istringstream in(text);
      for (std::string word; in >> word;) one_word(fsdp, lower(word));
    }
  }

  void one_word(const GivenKey& fsdp, const std::string& word) {
    if (std::find(kWords.begin(), kWords.end(), word) == kWords.end()) {
      draft_.problems.add(fsdp.mark, fsdp.key,
                          fmt::format("{} must consist of {}; is '{}'{}", fsdp.key, fmt::join(kWords, ", "),
                                      shown(word), did_you_mean(word, kWords)));
    } else if (word == "offload") {
      translation_.set(fsdp, "fsdp_config.fsdp_offload_params", encode(true));
    } else if (word != "auto_wrap") {
      translation_.set(fsdp, "fsdp_config.fsdp_sharding_strategy", Node::scalar(word));
    }
  }

  void keys(const GivenKey& config) {
    if (config.value.is_null()) return;
    const Node document = config.value.is_scalar() ? file(config) : config.value;
    if (!document.is_map()) {
      draft_.problems.add(
          config.mark, config.key,
          fmt::format("{} must be a group of keys or a JSON file; is {}", config.key, described(config.value)));
      return;
    }
    const auto min_num_params = document.find("min_num_params");
    for (const Member& member : document.members) {
      // transformers writes 0 for a size that is not given.
      if (&member.value == min_num_params && member.value.text == "0") continue;
      key(config.key + ".", member);
    }
  }

  Node file(const GivenKey& config) {
    return read_document(absolute_path(config.value.text, folder_of(config.mark)), draft_.problems);
  }

  void key(const std::string& prefix, const Member& member) {
    const Entries& table = fsdp_table();
    auto entry = std::find_if(table.begin(), table.end(), [&](const Entry& e) { return e.has_key(member.key); });
    const std::string path = entry == table.end() ? "" : "fsdp_config." + entry->name;
    if (path.empty()) {  // reports the nearest known key
      Node unknown = Node::map();
      unknown.members.push_back(member);
      apply(unknown, "", table, &draft_.config.fsdp_config, prefix, draft_);
    } else if (entry->foreign == Foreign::kNot) {
      if (!member.value.is_null())
        translation_.set({prefix + member.key, member.value, member.value.mark}, path, member.value);
    } else {
      draft_.foreign.emplace(path, member.value);  // translated or checked later
    }
  }

  /// The older places of two keys, before transformers had fsdp_config.
  void older_places() {
    for (const std::string key : {"fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap"}) {
      const GivenKey given = translation_.foreign("training." + key);
      if (!given.value.is_null() && given.value.text != "0") translation_.set(given, "fsdp_config." + key, given.value);
    }
  }

  Draft& draft_;
  Translation translation_;
};

}  // namespace

void translate_fsdp_argument(Draft& draft) {
  FsdpArgument(draft).translate();
}

}  // namespace trainer::config
