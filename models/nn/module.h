// The tree of layers. Deliberately small: names, parameters, children, and hooks around forward for sharding and
// activation checkpointing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/nn/parameter.h"
#include "models/nn/pass.h"
#include "models/nn/rows.h"

namespace trainer::nn {

class Module {
 public:
  using Forward = std::function<RowsList(const RowsList&, const Pass&)>;
  /// Runs instead of forward; `next` is the wrapped call.
  using Wrapper = std::function<RowsList(const RowsList&, const Pass&, const Forward& next)>;
  struct Child {
    std::string name;
    std::shared_ptr<Module> module;
  };

  explicit Module(std::string class_name) : class_name_(std::move(class_name)) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Calls forward through this module's wrappers; the last wrapper is the outermost.
  RowsList operator()(const RowsList& inputs, const Pass& pass);
  /// Calls `work` instead of forward, through this module's wrappers.
  RowsList run(const RowsList& inputs, const Pass& pass, Forward work);

  /// Hugging Face's class name ("T5Block"), as in `fsdp_transformer_layer_cls_to_wrap`.
  const std::string& class_name() const { return class_name_; }
  /// Dotted path from the root ("encoder.block.0"); set by name_tree().
  const std::string& path() const { return path_; }
  std::vector<Child>& children() { return children_; }
  const std::vector<std::pair<std::string, ParameterPtr>>& parameters() const { return parameters_; }

  void wrap(Wrapper wrapper) { wrappers_.push_back(std::move(wrapper)); }
  bool wrapped() const { return !wrappers_.empty(); }

  /// Visits this module and all its descendants, parents first.
  void visit(const std::function<void(Module&)>& visitor);
  /// Gives every module its path and every parameter its name and aliases. Call it again after changing the tree.
  void name_tree();
  /// All parameters of this tree, each once, in tree order.
  std::vector<ParameterPtr> all_parameters();

  /// Replaces this module's own parameter `name` (to untie it, or to share another's).
  void set_parameter(const std::string& name, ParameterPtr parameter);

 protected:
  virtual RowsList forward(const RowsList& inputs, const Pass& pass) = 0;

  ParameterPtr add_parameter(std::string name, Shape shape, Init init, Axes axes = {});
  void share_parameter(std::string name, ParameterPtr parameter);

 private:
  template <class>
  friend class Slot;
  void name_below(const std::string& path);

  std::string class_name_, path_;
  std::vector<Child> children_;
  std::vector<std::pair<std::string, ParameterPtr>> parameters_;
  std::vector<Wrapper> wrappers_;
};

/// A child referenced by its index in the parent, so that adapters can swap the module.
template <class T>
class Slot {
 public:
  template <class... Args>
  Slot(Module& parent, std::string name, Args&&... args) : parent_(parent), index_(parent.children_.size()) {
    parent.children_.push_back({std::move(name), std::make_shared<T>(std::forward<Args>(args)...)});
  }
  T& operator*() const { return static_cast<T&>(*parent_.children_[index_].module); }
  T* operator->() const { return &**this; }

 private:
  Module& parent_;
  size_t index_;
};

/// A numbered list of children ("block.0", "block.1", …).
template <class T>
class List : public Module {
 public:
  List() : Module("ModuleList") {}
  template <class... Args>
  T& add(Args&&... args) {
    auto item = std::make_shared<T>(std::forward<Args>(args)...);
    T& added = *item;
    children().push_back({std::to_string(children().size()), std::move(item)});
    return added;
  }
  int64_t size() { return static_cast<int64_t>(children().size()); }
  T& operator[](int64_t i) { return static_cast<T&>(*children()[i].module); }

 protected:
  RowsList forward(const RowsList&, const Pass&) override;
};

[[noreturn]] void refuse_list_call();
template <class T>
RowsList List<T>::forward(const RowsList&, const Pass&) {
  refuse_list_call();
}

}  // namespace trainer::nn
