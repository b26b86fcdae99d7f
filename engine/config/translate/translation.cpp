#include "engine/config/translate/translation.h"

#include "engine/config/plan/override.h"

namespace trainer::config {

std::filesystem::path folder_of(const Mark& mark) {
  if (layer_of(mark) != Layer::kFile) return std::filesystem::current_path();
  return std::filesystem::absolute(*mark.source).parent_path();
}

void Translation::set(const GivenKey& from, const std::string& to, const Node& value) {
  const Place place = find_option(draft_.config, to);
  require(place.entry && place.entry->write, "{} translates to {}, which is not an option", from.key, to);
  const Node before = place.entry->write(place.section);
  const Mark mark_before = draft_.mark(to);
  const Layer layer = layer_of(from.mark), layer_before = layer_of(mark_before);
  if (layer_before > layer) return;
  const std::size_t problems_before = draft_.problems.size();
  apply(document_of(to, value, from.mark), "", draft_);
  if (draft_.problems.size() > problems_before) return;
  const Node after = place.entry->write(place.section);
  if (layer_before == layer && layer != Layer::kDefault && !same(before, after)) {
    draft_.problems.add(from.mark, to,
                        fmt::format("{} is {}, but {} is {} ({}): give one of them, or both the same value", from.key,
                                    text_of(from.value), to, text_of(before), to_string(mark_before)),
                        "one-value");
    return;
  }
  if (layer == Layer::kDefault) {
    draft_.origins.erase(to);  // still a default
    return;
  }
  draft_.translated.push_back(translated_note(from.key, text_of(from.value), to_string(from.mark), to, text_of(after)));
}

void Translation::set_if_true(const std::string& path, const std::string& to) {
  const GivenKey given = foreign(path);
  if (parse_bool(given.value.text) == true) set(given, to, encode(true));
}

void Translation::refuse(const GivenKey& from, const std::string& reason) {
  if (draft_.lists_unsupported) return no_effect(from, reason);
  draft_.problems.add(from.mark, from.key,
                      fmt::format("{}: {} is not supported: {}", from.key, text_of(from.value), reason));
}

void Translation::no_effect(const GivenKey& from, const std::string& reason) {
  if (!from.mark.source) return;
  draft_.without_effect.push_back({from.key, text_of(from.value), to_string(from.mark), reason});
}

GivenKey Translation::foreign(const std::string& path) const {
  auto it = draft_.foreign.find(path);
  return it == draft_.foreign.end() ? GivenKey{path, Node(), Mark()} : GivenKey{path, it->second, it->second.mark};
}

GivenKey Translation::option(const std::string& path) const {
  const Place place = find_option(draft_.config, path);
  require(place.entry && place.entry->write, "{} is not an option", path);
  return {path, place.entry->write(place.section), draft_.mark(path)};
}

}  // namespace trainer::config
