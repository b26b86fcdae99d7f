#include "models/nn/tiled_operand.h"

#include <algorithm>

#include "models/nn/cache_line.h"

namespace trainer::nn {
namespace {

/// A thread's memory for the panels of a step.
float* panel_memory() {
  alignas(64) thread_local float panels[kPanelTerms * kPanelColumns];
  return panels;
}

/// A thread's memory for what is widened.
float* wide_memory() {
  alignas(64) thread_local float wide[kPanelTerms * kPanelColumns];
  return wide;
}

/// Copies terms x columns numbers to panels of `width` columns, one panel after the other.
void copy_to_panels(const float* from, int64_t stride, int64_t terms, int64_t columns, int64_t width, float* to) {
  for (int64_t t = 0; t < terms; ++t, from += stride, to += width)
    for (int64_t column = 0; column < columns; column += width)
      std::copy_n(from + column, std::min(width, columns - column), to + column * kPanelTerms);
}

}  // namespace

TiledOperand::Step TiledOperand::step_of(int64_t term, int64_t column) const {
  column -= column % columns_of_step();
  return {term, column, std::clamp<int64_t>(k_ - term, 0, kPanelTerms), std::min(columns_of_step(), n_ - column)};
}

TiledOperand::Step TiledOperand::step_after(int64_t term, int64_t column) const {
  column += columns_of_step() - column % columns_of_step();
  return column < n_ ? step_of(term, column) : step_of(term + kPanelTerms, 0);
}

Panel TiledOperand::packed(int64_t term, int64_t column) const {
  return {panel_memory() + column % columns_of_step() * kPanelTerms, columns_of_panel(),
          std::min(kPanelTerms, k_ - term), std::min(columns_of_panel(), n_ - column)};
}

Lines TiledOperand::share(int64_t column, const char* data, int64_t stride, int64_t runs, int64_t bytes) const {
  const int64_t shares = columns_of_step() / columns_of_panel(), mine = column % columns_of_step() / columns_of_panel(),
                first = runs * mine / shares;
  return {first_line(data) + first * stride, stride, runs * (mine + 1) / shares - first,
          (bytes + kBytesPerFetch - 1) / kBytesPerFetch};
}

Panel PlainOperand::panel(int64_t term, int64_t column, bool often) const {
  const Panel panel = packed(term, column);
  const Strided<float> part = b_.at(term, column);
  if (transposed_) {
    transpose(*kernels_, part.data, part.columns, panel.columns, panel.terms, panel_memory(), panel.stride);
  } else if (!often) {
    return {part.data, part.rows, panel.terms, panel.columns};
  } else if (const Step step = step_of(term, column); column == step.column) {
    copy_to_panels(part.data, part.rows, step.terms, step.columns, panel.stride, panel_memory());
  }
  return panel;
}

Lines PlainOperand::next(int64_t term, int64_t column) const {
  const Step next = step_after(term, column);
  return share(column, at(next.term, next.column), bytes_of(transposed_ ? b_.columns : b_.rows),
               transposed_ ? next.columns : next.terms, bytes_of(transposed_ ? next.terms : next.columns));
}

Columns PlainOperand::columns(int64_t column, int64_t count, int64_t term, int64_t terms, bool) const {
  const Strided<float> part = b_.at(term, column);
  // Else those of the first terms would push each other out of the cache before the next terms are read.
  if (bytes_of(b_.columns) % kBytesOfWay != 0) return {part.data, b_.columns};
  for (int64_t i = 0; i < count; ++i) std::copy_n(part.data + i * b_.columns, terms, wide_memory() + i * kPanelTerms);
  return {wide_memory(), kPanelTerms};
}

const char* PlainOperand::after(int64_t column) const {
  return b_.columns == k_ && column < n_ ? at(0, column) : nullptr;
}

Panel StoredOperand::panel(int64_t term, int64_t column, bool) const {
  const Panel panel = packed(term, column);
  const Step step = step_of(term, column);
  float* const wide = wide_memory();
  if (transposed_) {
    weight_->widen(column_ + column, term, panel.columns, panel.terms, wide, kPanelTerms);
    transpose(*kernels_, wide, kPanelTerms, panel.columns, panel.terms, panel_memory(), panel.stride);
  } else if (columns_of_panel() == kPanelColumns) {
    weight_->widen(term, column_ + column, panel.terms, panel.columns, panel_memory(), panel.stride);
  } else if (column == step.column) {
    weight_->widen(term, column_ + column, step.terms, step.columns, wide, kPanelColumns);
    copy_to_panels(wide, kPanelColumns, step.terms, step.columns, panel.stride, panel_memory());
  }
  return panel;
}

Lines StoredOperand::next(int64_t term, int64_t column) const {
  const Step next = step_after(term, column);
  return share(column, at(next.term, next.column), weight_->stride, transposed_ ? next.columns : next.terms,
               bytes_of(transposed_ ? next.terms : next.columns));
}

Columns StoredOperand::columns(int64_t column, int64_t count, int64_t term, int64_t terms, bool may_be_bf16) const {
  if (may_be_bf16 && weight_->is_bf16)
    return {reinterpret_cast<const float*>(at(term, column)), weight_->stride / weight_->bytes, true};
  weight_->widen(column_ + column, term, count, terms, wide_memory(), kPanelTerms);
  return {wide_memory(), kPanelTerms};
}

const char* StoredOperand::after(int64_t column) const {
  return weight_->stride == bytes_of(k_) && column < n_ ? at(0, column) : nullptr;
}

}  // namespace trainer::nn
