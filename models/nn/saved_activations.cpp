#include "models/nn/saved_activations.h"

#include <atomic>
#include <deque>
#include <memory>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "models/nn/eight_bit_rows.h"

namespace trainer::nn {
namespace {

constexpr int64_t kLeastWidth = 16;  // of what is packed

std::atomic<SavedAs> chosen = SavedAs::kAsComputed;

/// Whether it is a weight, or follows from one only: a cast, a transpose.
bool is_of_weight(const at::Tensor& x) {
  if (x.is_leaf()) return true;
  const torch::autograd::Node* node = x.grad_fn().get();
  while (node->num_outputs() == 1) {
    node = node->next_edge(0).function.get();
    if (node == nullptr) return false;
  }
  return node->num_outputs() == 0;  // it adds to a leaf's gradient
}

bool is_packed(const at::Tensor& x, SavedAs how) {
  if (x.dim() < 2 || x.size(-1) < kLeastWidth || x.numel() == 0) return false;
  if (!x.is_floating_point() || is_of_weight(x)) return false;
  return how == SavedAs::kInt8 || (how == SavedAs::kBFloat16 && x.element_size() > 2);
}

/// A tensor that waits for backward.
class Waiting {
 public:
  Waiting(const at::Tensor& x, SavedAs how) : dtype_(x.scalar_type()) {
    const at::Tensor values = x.detach();
    if (how == SavedAs::kBFloat16)
      narrow_ = values.to(at::kBFloat16);
    else
      rows_ = to_eight_bits(values);
  }
  at::Tensor values() const { return narrow_.defined() ? narrow_.to(dtype_) : from_eight_bits(rows_, dtype_); }

 private:
  at::ScalarType dtype_;
  at::Tensor narrow_;  // or:
  EightBitRows rows_;
};
using WaitingPtr = std::shared_ptr<const Waiting>;

/// What this thread packed last, which the next layers may save too.
class Latest {
 public:
  WaitingPtr pack(const at::Tensor& x, SavedAs how) {
    const auto version = static_cast<int64_t>(x._version());
    for (const Entry& entry : entries_)
      if (WaitingPtr waiting = entry.waiting.lock();
          waiting && entry.version == version && entry.of.lock().get() == x.unsafeGetTensorImpl())
        return waiting;
    auto waiting = std::make_shared<const Waiting>(x, how);
    if (entries_.size() == kEntries) entries_.pop_front();
    entries_.push_back({TensorRef(x.getIntrusivePtr()), version, waiting});
    return waiting;
  }

 private:
  static constexpr size_t kEntries = 4;
  using TensorRef = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Entry {
    TensorRef of;
    int64_t version;
    std::weak_ptr<const Waiting> waiting;
  };
  std::deque<Entry> entries_;
};

struct Hooks : torch::autograd::SavedVariableHooks {
  explicit Hooks(SavedAs given) : how(given) {}
  void call_pack_hook(const at::Tensor& x) override {
    static thread_local Latest latest;
    if (is_packed(x, how))
      waiting = latest.pack(x, how);
    else
      plain = x.detach();  // a function's output would hold the function, which holds this
  }
  at::Tensor call_unpack_hook() override { return waiting ? waiting->values() : plain; }

  SavedAs how;
  WaitingPtr waiting;
  at::Tensor plain;
};

class PackingEngine : public torch::autograd::Engine {
 public:
  ~PackingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    const SavedAs how = chosen;
    return how == SavedAs::kAsComputed ? nullptr : std::make_unique<Hooks>(how);
  }
  static torch::autograd::Engine& only() {
    static auto* const engine = new PackingEngine;  // never destroyed, as libtorch's isn't while its threads run
    return *engine;
  }
};

}  // namespace

void save_activations_as(SavedAs how) {
  if (chosen.exchange(how) == SavedAs::kAsComputed && how != SavedAs::kAsComputed)
    torch::autograd::set_default_engine_stub(&PackingEngine::only);
}

}  // namespace trainer::nn
