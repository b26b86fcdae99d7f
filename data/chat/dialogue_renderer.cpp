#include "data/chat/dialogue_renderer.h"

#include "engine/base/errors.h"

namespace trainer::data {

struct DialogueRenderer::Parts {};

DialogueRenderer::DialogueRenderer(const config::DataConfig&, const Tokenizer&) {
  throw ConfigError("data.dialogue: not in this build yet");
}
DialogueRenderer::~DialogueRenderer() = default;

std::vector<Rendered> DialogueRenderer::render(const Record&) const {
  return {};
}

}  // namespace trainer::data
