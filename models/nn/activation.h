#pragma once

namespace trainer::nn {

enum class Activation { kRelu, kGelu, kGeluNew, kSilu, kQuickGelu, kTanh };

}  // namespace trainer::nn
