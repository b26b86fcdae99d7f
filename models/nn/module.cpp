#include "models/nn/module.h"

#include <algorithm>
#include <string_view>

#include <ATen/record_function.h>

#include "engine/base/errors.h"

namespace trainer::nn {

RowsList Module::operator()(const RowsList& inputs, const Pass& pass) {
  at::RecordFunction scope(at::RecordScope::USER_SCOPE);  // for profilers; nothing happens without one
  if (scope.isActive()) scope.before(std::string_view(class_name_));
  return run(inputs, pass, [this](const RowsList& x, const Pass& p) { return forward(x, p); });
}

RowsList Module::run(const RowsList& inputs, const Pass& pass, Forward work) {
  for (const Wrapper& wrapper : wrappers_)
    work = [&wrapper, next = std::move(work)](const RowsList& x, const Pass& p) { return wrapper(x, p, next); };
  return work(inputs, pass);
}

void Module::visit(const std::function<void(Module&)>& visitor) {
  visitor(*this);
  for (Child& child : children_) child.module->visit(visitor);
}

void Module::name_tree() {
  for (const ParameterPtr& parameter : all_parameters()) parameter->name.clear(), parameter->aliases.clear();
  name_below("");
}

void Module::name_below(const std::string& path) {
  path_ = path;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (auto& [name, parameter] : parameters_) {
    if (parameter->name.empty())
      parameter->name = prefix + name;
    else
      parameter->aliases.push_back(prefix + name);
  }
  for (Child& child : children_) child.module->name_below(prefix + child.name);
}

std::vector<ParameterPtr> Module::all_parameters() {
  std::vector<ParameterPtr> all;
  visit([&](Module& module) {
    for (auto& [name, parameter] : module.parameters_)
      if (std::find(all.begin(), all.end(), parameter) == all.end()) all.push_back(parameter);
  });
  return all;
}

void Module::set_parameter(const std::string& name, ParameterPtr parameter) {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.first == name; });
  require(found != parameters_.end(), "{} has no parameter {}", path_, name);
  found->second = std::move(parameter);
}

ParameterPtr Module::add_parameter(std::string name, Shape shape, Init init, Axes axes) {
  auto parameter = std::make_shared<Parameter>();
  parameter->shape = std::move(shape);
  parameter->init = init;
  parameter->axes = axes;
  parameters_.emplace_back(std::move(name), parameter);
  return parameter;
}

void Module::share_parameter(std::string name, ParameterPtr parameter) {
  parameters_.emplace_back(std::move(name), std::move(parameter));
}

void refuse_list_call() {
  throw InternalError("a module list has no forward");
}

}  // namespace trainer::nn
