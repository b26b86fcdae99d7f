#include "engine/config/adapters/adapter_kind.h"

#include <algorithm>

#include "engine/base/listed.h"

namespace trainer::config {

bool AdapterKind::takes(const std::string& option) const {
  return std::find(more.begin(), more.end(), option) != more.end() ||
         std::any_of(options.begin(), options.end(), [&](const Entry& entry) { return entry.name == option; });
}

const std::vector<const AdapterKind*>& adapter_kinds() {
#define TRAINER_LIST_KIND(name) &name##_kind(),
  static const std::vector<const AdapterKind*> all{TRAINER_ADAPTER_KINDS(TRAINER_LIST_KIND)};
#undef TRAINER_LIST_KIND
  return all;
}

const AdapterKind* find_adapter_kind(const std::string& name) {
  for (const AdapterKind* kind : adapter_kinds())
    if (kind->name == name) return kind;
  return nullptr;
}

std::string adapter_title(const std::string& name) {
  const AdapterKind* const kind = find_adapter_kind(name);
  return kind ? kind->title : name;
}

std::string adapter_kinds_that(const std::function<bool(const AdapterKind&)>& property, const char* last) {
  std::vector<std::string> names;
  for (const AdapterKind* kind : adapter_kinds())
    if (property(*kind)) names.push_back(kind->name);
  return listed(names, last);
}

bool takes_lora_plus(const Config& config) {
  const AdapterKind* kind = config.lora ? find_adapter_kind(config.lora->peft_type) : nullptr;
  return kind != nullptr && kind->lora_plus;
}

int64_t virtual_tokens(const LoraConfig& lora) {
  const AdapterKind* kind = find_adapter_kind(lora.peft_type);
  return kind != nullptr && kind->takes("num_virtual_tokens") ? lora.num_virtual_tokens : 0;
}

}  // namespace trainer::config
