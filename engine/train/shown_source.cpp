#include "engine/train/shown_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/human.h"

namespace trainer::train {

ShownSource::ShownSource(const parallel::WeightSource& source, models::Model& model) : source_(source) {
  for (const nn::ParameterPtr& p : model.all_parameters()) all_ += source_.storage(*p).bytes(p->numel());
}

void ShownSource::show(const nn::Parameter& parameter) const {
  if (&parameter != last_) begun_ += source_.storage(parameter).bytes(parameter.numel());
  last_ = &parameter;
  if (line_.is_due()) line_.show(loading_line(std::min(begun_, all_), all_));
}

void ShownSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  show(parameter);
  source_.read(parameter, begin, end, out);
}

parallel::WeightSource::InPlace ShownSource::in_place(const nn::Parameter& parameter) const {
  show(parameter);
  return source_.in_place(parameter);
}

std::string loading_line(int64_t bytes, int64_t all) {
  return fmt::format("loading the weights {:3.0f} %  {} of {}",
                     100.0 * static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, all)),
                     human_bytes(bytes), human_bytes(all));
}

}  // namespace trainer::train
